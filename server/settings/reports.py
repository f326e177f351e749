"""The tables `[[reports]]` of the settings file, read once and checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from clickcurve.access import PREFIX_BYTES, PREFIX_RULE
from clickcurve.buckets.errors import ClickcurveError, SettingInvalid
from clickcurve.keys import ALL_LINKS
from server.settings.alerts import addresses_in, text_in, watched_subject

MOST_REPORTS = 100
_NAMES = ("every", "link", "group", "prefix", "mail")
_WEEKLY = "weekly-report"  # of the setting weekly_report, as earlier versions noted it


class Every(StrEnum):
    """How long the time is that a report is of."""

    week = "week"
    month = "month"


@dataclass(frozen=True, slots=True)
class Report:
    """A report by mail. stored: the stored key of what it is of; subject: what that is called.

    prefix: it is of the links whose keys begin so, and `stored` is not used. source: the name of its ledger.
    """

    every: Every
    mail: tuple[str, ...]
    stored: str = ALL_LINKS
    subject: str = "all links"
    prefix: str = ""
    source: str = _WEEKLY


def weekly_report(mail: tuple[str, ...]) -> tuple[Report, ...]:
    """Returns the report that the setting of that name asks for; none without addresses."""
    return (Report(Every.week, mail),) if mail else ()


def parse_reports(tables: object) -> tuple[Report, ...]:
    """Reads all tables; raises SettingInvalid with the number of the one that is wrong."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingInvalid("reports must be tables: [[reports]]", field="reports")
    if len(tables) > MOST_REPORTS:
        raise SettingInvalid(f"{len(tables):,} reports, {MOST_REPORTS} at most", field="reports")
    reports: dict[str, Report] = {}
    for number, table in enumerate(tables, 1):
        try:
            report = _parse_report(table)
            if report.source in reports:
                detail = f"two reports are of {report.subject} each {report.every}: give one of them all addresses"
                raise SettingInvalid(detail, field="mail")
        except ClickcurveError as error:
            detail = f"report {number}: {error.detail}"
            raise SettingInvalid(detail, field=error.field, value=error.value, rule=error.rule) from None
        reports[report.source] = report
    return tuple(reports.values())


def _parse_report(table: Mapping[str, Any]) -> Report:
    for name in table:
        if name not in _NAMES:
            raise SettingInvalid(f"a report has no field {name}", field=name, rule=", ".join(_NAMES))
    every = text_in(table, "every")
    if every not in tuple(Every):
        what = f"every is {every!r}" if every else "every is missing"
        raise SettingInvalid(what, field="every", value=every, rule=" or ".join(Every))
    mail = addresses_in(table)
    if not mail:
        raise SettingInvalid("a report needs a mail address", field="mail")
    prefix = text_in(table, "prefix")
    stored, subject = ALL_LINKS, f"links that begin with {prefix}"
    if not prefix:
        if "prefix" in table:
            raise SettingInvalid("prefix is empty", field="prefix", value="", rule=PREFIX_RULE)
        subject, stored = watched_subject(table, "a report")
    elif "link" in table or "group" in table:
        raise SettingInvalid("a report takes a link, a group or a prefix", field="prefix", value=prefix)
    elif len(prefix.encode()) > PREFIX_BYTES:
        raise SettingInvalid("prefix is too long", field="prefix", value=prefix, rule=PREFIX_RULE)
    digest = blake2b(f"{every}\n{stored}\n{prefix}".encode(), digest_size=16).hexdigest()
    return Report(Every(every), mail, stored, subject, prefix, f"report-{digest}")
