"""How a CSV answer is written for people: its times in a zone, and the name of the file that a browser saves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote
from zoneinfo import ZoneInfo

from clickcurve.answers.breakdowns import ValueCurveAnswer, ValuesAnswer, VisitorsAnswer, WhyAnswer
from clickcurve.answers.counts import CurveAnswer, GroupsAnswer, HoursAnswer
from clickcurve.answers.written import CsvForm, Tabular

_NAME_CHARS = 60  # of a key or a value in a name
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_NOT_ASCII = re.compile(r"[^ -~]+")


def csv_form_of(query: bytes) -> tuple[CsvForm, bytes]:
    """Returns how a raw query string wants CSV to be written (`raw=1`, `bom=1`), and the query string without that."""
    parts = query.split(b"&")
    return CsvForm(None, b"raw=1" in parts, b"bom=1" in parts), b"&".join(
        part for part in parts if not part.startswith((b"raw=", b"bom="))
    )


def disposition(answer: Tabular, zone: ZoneInfo) -> str:
    """Returns the Content-Disposition of an answer: a file named by what it holds, and by its first and last day."""
    name = "_".join(filter(None, (_safe(part) for part in (*_parts(answer), *_days(answer, zone))))) + ".csv"
    plain = f'attachment; filename="{_NOT_ASCII.sub("-", name)}"'
    return plain if name.isascii() else f"{plain}; filename*=UTF-8''{quote(name)}"


def _parts(answer: Tabular) -> Iterator[str]:
    match answer:
        case CurveAnswer():
            yield from (answer.key or "all-links", "hits")
        case ValueCurveAnswer():
            several = "selected" if answer.value is None else "none"
            yield from (answer.key or "all-links", answer.dimension, answer.value or several)
        case ValuesAnswer():
            yield from (answer.key or "all-links", answer.dimension)
        case VisitorsAnswer():
            yield from (answer.key or "all-links", "visitors")
        case HoursAnswer():
            yield from (answer.key or "all-links", "hours")
        case WhyAnswer():
            yield from (answer.key or "all-links", "why")
        case GroupsAnswer():
            yield "groups"
        case _:
            yield "links"


def _days(answer: Tabular, zone: ZoneInfo) -> Iterator[str]:
    """Yields the first and the last day of an answer's range; none of all time, one of a single day."""
    if isinstance(answer, VisitorsAnswer):
        start, end = (answer.days[0].start, answer.days[-1].end) if answer.days else (None, None)
    else:
        start, end = getattr(answer, "start", None), getattr(answer, "end", None)
    if start is not None and end is not None:
        yield from dict.fromkeys(f"{datetime.fromtimestamp(t, zone):%Y-%m-%d}" for t in (start, max(start, end - 1)))


def _safe(part: str) -> str:
    return _NOT_IN_NAMES.sub("-", part).strip(".-")[:_NAME_CHARS]
