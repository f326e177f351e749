"""Totals of now, today, a week, a month and a year, each beside the same span before it.

A span that is not over is compared with the same part of the one before: today until noon with yesterday until noon.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from clickcurve.answers import TotalAnswer
from dashboard.page.view import PageView
from dashboard.pictures.axes import PERCENT, SPACE, wall, with_commas
from dashboard.questions import AskTotal

# What is asked, what it is called, and the days, months or hours from it to the span before.
_SPANS = (
    ("60m", "Now", "the last 60 minutes", "the 60 before", ("hours", 1)),
    ("1d", "Today", "since midnight", "yesterday by now", ("days", 1)),
    ("7d", "7 days", "today and six days", "the 7 before", ("days", 7)),
    ("30d", "30 days", "today and 29 days", "the 30 before", ("days", 30)),
    ("12mo", "12 months", "this month and eleven", "a year before", ("years", 1)),
)


@dataclass(frozen=True, slots=True)
class Card:
    """One number and what it was before. change is a text such as `+12 %`, empty where nothing was before."""

    name: str
    note: str
    span: str
    count: str
    before: str
    before_note: str
    change: str


async def cards(ask: AskTotal, view: PageView, now: int) -> list[Card]:
    """Asks for totals. Raises what the questions raise."""
    spans = await asyncio.gather(*(ask(view.total_of(last=span)) for span, *_ in _SPANS))
    zone = ZoneInfo(view.tz or "UTC")  # the questions have judged it
    asked = []
    for (_, _, _, _, back), found in zip(_SPANS, spans, strict=True):
        assert found.start is not None
        start, end = moved(found.start, back, zone), moved(now, back, zone)
        asked.append(ask(view.total_of(from_=max(0, start), to=max(1, end))))
    befores = await asyncio.gather(*asked)
    return [
        Card(name, note, span, bounds(found), bounds(before), said, change(found, before))
        for (span, name, note, said, _), found, before in zip(_SPANS, spans, befores, strict=True)
    ]


def moved(t: int, back: tuple[str, int], zone: ZoneInfo) -> int:
    """Returns the moment so many hours before t; or when the zone's clocks showed the same, days or years ago."""
    unit, n = back
    if unit == "hours":
        return t - 3_600 * n
    local = wall(t, zone)
    local = local - timedelta(days=n) if unit == "days" else _years_before(local, n)
    return int(local.replace(tzinfo=zone).timestamp())


def _years_before(local: datetime, n: int) -> datetime:
    try:
        return local.replace(year=local.year - n)
    except ValueError:  # 29 February
        return local.replace(year=local.year - n, day=28)


def bounds(total: TotalAnswer) -> str:
    """Writes a total, with both its bounds where they do not meet."""
    if total.exact:
        return with_commas(total.at_most)
    return f"{with_commas(total.at_least)} to {with_commas(total.at_most)}"


def change(now: TotalAnswer, before: TotalAnswer) -> str:
    """Says by what part a total has changed: of uncertain totals from the least to the most."""
    if before.at_least == 0:
        return ""
    least, most = _change(now.at_least, before.at_most), _change(now.at_most, before.at_least)
    if least == most:
        return "".join(least)
    return f"{least[0] if least[1] == most[1] else ''.join(least)} to {''.join(most)}"


def _change(now: int, before: int) -> tuple[str, str]:
    """Returns a number and its unit: percent, or where it is more than tenfold how many times."""
    if now > 10 * before:
        return f"{round(now / before):,}", f"{SPACE}times"
    return f"{round((now - before) * 100 / before):+,}".replace("-", "\N{MINUS SIGN}"), PERCENT
