"""The tables `[[alerts]]` of the settings file, read once and checked before anything starts."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid
from clickcurve.buckets.measures import EVENT_RULE, Measure, is_event_name, measured
from clickcurve.keys import ALL_LINKS, GROUP_BYTES, GROUP_RULE, group_key, link_key, require_key
from query.parameters import MEASURES
from server.settings.values import Broken, mail_addresses, parts_of_url

MOST_ALERTS = 1_000
SECRET_RULE = "whsec_ and 24 to 64 bytes in base64"
NEW_SECRET = "echo whsec_$(openssl rand -base64 32)"
_NAMES = ("name", "link", "group", "event", "measure", "when", "url", "secret", "shape", "mail")

WHEN_RULE = '"over 1000 in 1h", "under 10 in 24h", "3x of before in 24h" or "silent for 48h"; lengths in m, h, d or w'
_LONGEST_S = 366 * 86_400
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LENGTH = r"([0-9]{1,6})(m|h|d|w)"
_LIMIT = re.compile(rf"(over|under) ([0-9]{{1,15}}) in {_LENGTH}")
_TIMES = re.compile(rf"([0-9]{{1,6}}(?:\.[0-9]{{1,3}})?)x of before in {_LENGTH}")
_SILENT = re.compile(rf"silent for {_LENGTH}")


class ConditionKind(StrEnum):
    over = "over"
    under = "under"
    times = "times"
    silent = "silent"


class Shape(StrEnum):
    """What a webhook gets. standard: a signed event; the others: what incoming webhooks of these chats take."""

    standard = "standard"
    slack = "slack"
    discord = "discord"


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit on the hits of the last `length_s` seconds: a number, or a multiple of those before."""

    kind: ConditionKind
    length_s: int
    limit: int = 0
    factor: Fraction = Fraction(0)

    @property
    def compares(self) -> bool:
        """Whether it needs the span before."""
        return self.kind is ConditionKind.times

    @property
    def rises(self) -> bool:
        """Whether it is met by many hits, not by few."""
        return self.kind is ConditionKind.over or self.factor > 1


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. stored: the stored key of what is watched; subject: what that is called."""

    name: str
    subject: str
    stored: str
    when: str
    condition: Condition
    url: str = ""
    secret: bytes = field(default=b"", repr=False)
    shape: Shape = Shape.standard
    mail: tuple[str, ...] = ()

    @property
    def ways(self) -> tuple[str, ...]:
        """On which it is said: `url`, `mail` or both."""
        return (*(("url",) if self.url else ()), *(("mail",) if self.mail else ()))

    @property
    def source(self) -> str:
        """The name of its ledger. Another condition or subject is another alert."""
        identity = f"{self.stored}\n{' '.join(self.when.split())}\n{self.name}"
        return f"alert-{blake2b(identity.encode(), digest_size=16).hexdigest()}"


def parse_alerts(tables: object) -> tuple[Alert, ...]:
    """Reads all tables; raises SettingInvalid with the number of the one that is wrong."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingInvalid("alerts must be tables: [[alerts]]", field="alerts")
    if len(tables) > MOST_ALERTS:
        raise SettingInvalid(f"{len(tables):,} alerts, {MOST_ALERTS:,} at most", field="alerts")
    alerts: dict[str, Alert] = {}
    for number, table in enumerate(tables, 1):
        try:
            alert = _parse_alert(table)
            if alert.name in alerts:
                raise SettingInvalid(f"two alerts have the name {alert.name!r}", field="name", value=alert.name)
        except ClickcurveError as error:
            detail = f"alert {number}: {error.detail}"
            raise SettingInvalid(detail, field=error.field, value=error.value, rule=error.rule) from None
        alerts[alert.name] = alert
    return tuple(alerts.values())


def require_smtp(alerts: Iterable[Alert], weekly_report: Sequence[str], reports: int, smtp: str) -> None:
    """Raises SettingInvalid if a mail could never go out, since no mail server is named. reports: how many."""
    senders = [f"the alert {alert.name!r}" for alert in alerts if alert.mail] + ["weekly_report"] * bool(weekly_report)
    senders += ["a report"] * reports
    if senders and not smtp:
        detail = f"{senders[0]} goes by mail, and the setting smtp names no server: smtp://clickcurve@host:587"
        raise SettingInvalid(detail, field="smtp")


def _parse_alert(table: Mapping[str, Any]) -> Alert:
    for name in table:
        if name not in _NAMES:
            raise SettingInvalid(f"an alert has no field {name}", field=name, rule=", ".join(_NAMES))
    if "when" not in table:
        raise SettingInvalid("when is missing", field="when")
    when = text_in(table, "when")
    subject, stored = watched_subject(table, "an alert")
    measure = _measure(table)
    subject, stored = f"{measure} of {subject}" if measure.event else subject, measure.row(stored)
    url, secret = text_in(table, "url"), text_in(table, "secret")
    addresses, shape = addresses_in(table), _shape_in(table)
    if secret and shape is not Shape.standard:
        detail = f"a webhook of shape {shape} is not signed: leave secret out, its address is the secret"
        raise SettingInvalid(detail, field="secret", rule="with shape standard")
    if not url and not addresses:
        raise SettingInvalid("an alert needs a url, a mail address or both", field="url")
    name = text_in(table, "name") or f"{subject}: {' '.join(when.split())}"
    if len(name) > 100 or not name.isprintable():
        raise SettingInvalid("name is too long, or cannot be printed", field="name", value=name, rule="100 characters")
    return Alert(
        name=name,
        subject=subject,
        stored=stored,
        when=" ".join(when.split()),
        condition=parse_condition(when),
        url=_checked_url(url),
        secret=_secret_bytes(secret) if url and shape is Shape.standard else b"",
        shape=shape,
        mail=addresses,
    )


def _measure(table: Mapping[str, Any]) -> Measure:
    event, measure = text_in(table, "event"), text_in(table, "measure") or MEASURES[0]
    if measure not in MEASURES:
        raise SettingInvalid(f"measure is {measure!r}", field="measure", value=measure, rule=" or ".join(MEASURES))
    if event and not is_event_name(event):
        raise SettingInvalid(f"event is {event!r}", field="event", value=event, rule=EVENT_RULE)
    if measure == MEASURES[1] and not event:
        raise SettingInvalid("values are those of an event, and none is named", field="measure", value=measure)
    return Measure(event, measure == MEASURES[1])


def require_events(alerts: Iterable[Alert], names: Sequence[str]) -> None:
    """Raises SettingInvalid for an alert about an event that is not counted."""
    for alert in alerts:
        event = measured(alert.stored)[0].event
        if event and event not in names:
            rule = ", ".join(names) or "none"
            detail = f"the alert {alert.name!r} is about the event {event!r}, which is not counted; events: {rule}"
            raise SettingInvalid(detail, field="event", value=event, rule=rule)


def _shape_in(table: Mapping[str, Any]) -> Shape:
    shape = text_in(table, "shape") or Shape.standard
    if shape not in tuple(Shape):
        rule = f"one of {', '.join(Shape)}"
        raise SettingInvalid(f"shape {shape!r} is not known", field="shape", value=shape, rule=rule)
    if "shape" in table and not text_in(table, "url"):
        raise SettingInvalid("shape is that of a webhook: url is missing", field="shape", value=shape, rule="with url")
    return Shape(shape)


def text_in(table: Mapping[str, Any], name: str) -> str:
    """Returns a text of a table, empty where it has none; raises SettingInvalid for anything else."""
    value = table.get(name, "")
    if not isinstance(value, str):
        raise SettingInvalid(f"{name} must be a text", field=name, value=value)
    return value


def addresses_in(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the mail addresses of a table; raises SettingInvalid."""
    mail = table.get("mail", "")
    parts = mail if isinstance(mail, list) else [mail]
    try:
        if not all(isinstance(part, str) for part in parts):
            raise Broken("must be a text or a list of texts")
        return mail_addresses(",".join(parts))
    except Broken as broken:
        raise SettingInvalid(f"mail is {mail!r}: it {broken}", field="mail", value=mail, rule=str(broken)) from None


def watched_subject(table: Mapping[str, Any], what: str) -> tuple[str, str]:
    """Returns what a table is about, and its stored key; raises SettingInvalid. what: the table, for sentences."""
    if "link" in table and "group" in table:
        raise SettingInvalid(
            f"{what} takes a link or a group, not both; without either it is about all links", field="group"
        )
    if "link" in table:
        key = require_key(table["link"], SettingInvalid)
        return f"link {key}", link_key(key)
    if "group" in table:
        name = require_key(table["group"], SettingInvalid)
        if len(name.encode()) > GROUP_BYTES:
            raise SettingInvalid("the name of the group is too long", field="group", value=name, rule=GROUP_RULE)
        return f"group {name}", group_key(name)
    return "all links", ALL_LINKS


def _checked_url(url: str) -> str:
    parts = parts_of_url(url)
    if url and (parts is None or parts.scheme not in ("http", "https")):
        raise SettingInvalid("url must begin with http:// or https:// and name a host", field="url", value=url)
    return url


def _secret_bytes(secret: str) -> bytes:
    """Returns the key that a secret stands for, as the Standard Webhooks specification writes it."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True) if secret.startswith("whsec_") else b""
    except binascii.Error:
        key = b""
    if not 24 <= len(key) <= 64:
        what = f"secret is missing or is none (it is not shown): it must be {SECRET_RULE}"
        raise SettingInvalid(f"{what}; this makes one: {NEW_SECRET}", field="secret", rule=SECRET_RULE)
    return key


def parse_condition(text: str) -> Condition:
    """Reads a condition; raises SettingInvalid."""
    condition = " ".join(text.split())
    if match := _LIMIT.fullmatch(condition):
        return Condition(ConditionKind(match[1]), _asked_length_s(text, match[3], match[4]), limit=int(match[2]))
    if match := _TIMES.fullmatch(condition):
        factor = Fraction(match[1])
        if factor in (0, 1):
            raise SettingInvalid(f"when {text!r}: {match[1]}x is no change", field="when", value=text, rule=WHEN_RULE)
        return Condition(ConditionKind.times, _asked_length_s(text, match[2], match[3]), factor=factor)
    if match := _SILENT.fullmatch(condition):
        return Condition(ConditionKind.silent, _asked_length_s(text, match[1], match[2]))
    raise SettingInvalid(f"when {text!r} is not a condition", field="when", value=text, rule=WHEN_RULE)


def _asked_length_s(text: str, number: str, unit: str) -> int:
    length_s = int(number) * _SECONDS[unit]
    if not 60 <= length_s <= _LONGEST_S:
        raise SettingInvalid(
            f"when {text!r}: the length of time must be from 1m to 366d", field="when", value=text, rule=WHEN_RULE
        )
    return length_s
