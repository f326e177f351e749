"""What an alert says: JSON for a webhook, text for a mail. Nothing but words, numbers and the names in the settings."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from clickcurve.buckets.ladder import MINUTE_S
from dashboard.page.audience.values import dimension_name, value_text
from query.zones import UTC_ZONE, Zone, iso
from server.alerts.cause import AlertCause
from server.alerts.chat import chat_body
from server.alerts.mail import Mail
from server.settings.alerts import Alert, Shape

FIRED, OVER, TEST = "alert.fired", "alert.over", "alert.test"


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One message. counted: bounds of the hits in the span, and of those in the span before if it compares.

    cause: the value that brought most of them, None where none stands out.

    id stays the same when it is sent again.
    """

    id: str
    type: str
    at: int
    alert: Alert
    counted: tuple[int, ...]
    cause: AlertCause | None = None

    def body(self, zone: Zone = UTC_ZONE) -> bytes:
        """Returns the JSON, the same bytes each time. zone: of times in texts for chats."""
        if self.alert.shape is not Shape.standard:
            return chat_body(self.alert.shape, f"{self.subject_line()}\n{self.text(zone)}".rstrip())
        length_s = self.alert.condition.length_s
        data: dict[str, object] = {
            "alert": self.alert.name,
            "of": self.alert.subject,
            "when": self.alert.when,
            "firing": self.type == FIRED,
            "from": span_end(self.at) - length_s,
            "to": span_end(self.at),
        }
        data |= dict(zip(("at_least", "at_most", "before_at_least", "before_at_most"), self.counted, strict=False))
        if self.cause is not None:
            data["cause"] = msgspec.to_builtins(self.cause)
        event = {"type": self.type, "timestamp": iso(self.at), "data": data}
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()

    def subject_line(self) -> str:
        word = {FIRED: "fires", OVER: "is over", TEST: "is tested"}[self.type]
        return f"Clickcurve: {self.alert.name} {word}"

    def text(self, zone: Zone = UTC_ZONE) -> str:
        """Returns the text of a mail, with its time in a zone."""
        word = {FIRED: "It fires", OVER: "It is over", TEST: "This is a test: nothing happened"}[self.type]
        since = iso(self.at) if zone.is_utc else f"{datetime.fromtimestamp(self.at, zone.info):%Y-%m-%d %H:%M:%S %Z}"
        lines = [f"{self.alert.subject}, {self.alert.when}", f"{word} since {since}."]
        names = (("Hits in this span", self.counted[:2]), ("Hits in the span before", self.counted[2:4]))
        lines += [f"{name}: {bounds_text(*bounds)}" for name, bounds in names if len(bounds) == 2]
        if self.cause is not None:
            lines.insert(2, f"{self.alert.when}: {_cause_text(self.cause)}")
        return "\n".join(lines) + "\n"


class Ways(NamedTuple):
    """The ways on which messages are sent. Both raise NotDelivered.

    post: takes an address, the key to sign with, empty for none, the message's id and its JSON. zone: of times in mails
    and chats.
    """

    post: Callable[[str, bytes, str, bytes], Awaitable[None]]
    mail: Callable[[Mail], Awaitable[None]]
    zone: Zone = UTC_ZONE

    async def send(self, message: AlertMessage, way: str) -> None:
        """Sends a message by one of the ways of its alert."""
        alert = message.alert
        if way == "url":
            await self.post(alert.url, alert.secret, message.id, message.body(self.zone))
        else:
            await self.mail(Mail(message.id, alert.mail, message.subject_line(), message.text(self.zone), message.at))


def bounds_text(at_least: int, at_most: int) -> str:
    """Writes bounds for people."""
    return f"{at_least:,}" if at_least == at_most else f"{at_least:,} to {at_most:,}"


def _cause_text(cause: AlertCause) -> str:
    """Says where hits come from: `940 of them from x.com (referrer)`."""
    bounds, value = bounds_text(cause.at_least, cause.at_most), value_text(cause.dimension, cause.value)
    return f"{bounds} of them from {value} ({dimension_name(cause.dimension).lower()})"


def span_end(now: int) -> int:
    """Returns the end of the span that is judged at a moment: that of the minute that holds it, so that none is cut."""
    return now - now % MINUTE_S + MINUTE_S
