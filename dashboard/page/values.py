"""What hits said, as tables for a page: values with their bounds, and the rest, so that parts are the total."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from clickcurve.answers import CurveAnswer, PointAnswer, ValuesAnswer
from clickcurve.visible import visible
from dashboard.page.changes import Count, about, count_of
from dashboard.page.chart import LOW, Chart, make_chart
from dashboard.page.subject import PageSubject
from dashboard.page.view import PageView
from dashboard.pictures.axes import PERCENT, with_commas
from dashboard.questions import BrokenDown

SHOWN = 10
_DAY_S = 86_400
_TITLES = {
    "ref": "Referrers",
    "country": "Countries",
    "device": "Devices",
    "source": "Sources",
    "browser": "Browsers",
    "os": "Operating systems",
    "lang": "Languages",
    "utm_source": "Campaign sources",
    "utm_medium": "Campaign media",
    "utm_campaign": "Campaigns",
    "bot": "Bots",
}
_NOT_GIVEN = {"ref": "Direct or unknown"}


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One line: a value or, with `rest`, what is of none. part: of the greatest line, 0 to 100; share: of all hits."""

    text: str
    count: Count
    part: float
    share: str
    rest: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True)
class ValueTable:
    """One dimension. total: hits of the kept buckets that the range touches; spoken: whether any said anything."""

    dimension: str
    title: str
    total: str
    rows: list[ValueRow]
    spoken: bool


@dataclass(frozen=True, slots=True)
class Visits:
    """Visitor-days of the range, and their days as a chart if there are several."""

    count: Count
    unknown: str
    chart: Chart | None


async def value_tables(broken_down: BrokenDown, subject: PageSubject, view: PageView) -> list[ValueTable]:
    """Asks for each dimension, in the order of the settings. Raises what the questions raise."""
    query = view.total_query + b"&limit=%d" % SHOWN
    asked = (broken_down.questions.by(subject.asked, each, query) for each in broken_down.dimensions)
    return [value_table(answer) for answer in await asyncio.gather(*asked)]


def value_table(answer: ValuesAnswer) -> ValueTable:
    """Makes a table of values, greatest first, and of the rest."""
    most = max((each.at_most for each in answer.values), default=1) or 1
    not_given = _NOT_GIVEN.get(answer.dimension, "(not given)")
    rows = [
        ValueRow(
            visible(each.value) or not_given,
            count_of(each.at_least, each.at_most),
            each.at_least * 100 / most,
            _share_text(each.at_least, answer.total) if each.at_least == each.at_most else "",
            value=each.value,
        )
        for each in answer.values
    ]
    rest = (
        (f"{answer.not_shown.values:,} more", answer.not_shown.count),
        ("other", answer.other),
        ("before this was recorded", answer.unrecorded),
    )
    rows += [
        ValueRow(text, count_of(count, count), 0, _share_text(count, answer.total), rest=True)
        for text, count in rest
        if count
    ]
    title = _TITLES.get(answer.dimension, answer.dimension.removeprefix("tag."))
    return ValueTable(
        answer.dimension,
        title,
        with_commas(answer.total),
        rows,
        any(each.value for each in answer.values) or bool(answer.other),
    )


async def visits(broken_down: BrokenDown, subject: PageSubject, view: PageView, now: int) -> Visits:
    """Asks for the visitors of the view's range."""
    answer = await broken_down.questions.visitors(subject.asked, view.total_query)
    points = [
        PointAnswer(
            day.start, day.end, day.at_least, "open" if day.end > now else "complete", day.end - day.start > _DAY_S
        )
        for day in answer.days
    ]
    chart = None
    if len(points) > 1:
        start, end, least, most = points[0].start, points[-1].end, answer.at_least, answer.at_most
        days = CurveAnswer(None, start, end, "1d", "UTC", start, least, least, most, least == most, points)
        chart = make_chart(days, view, now, LOW, "visitor-day")
    count = about(answer.at_least, answer.at_most)
    return Visits(count, with_commas(answer.unknown) if answer.unknown else "", chart)


def _share_text(count: int, total: int) -> str:
    """Writes a part of a total in percent, without claiming all or nothing of what is only nearly so."""
    part = count * 100 / total if total else 0
    if 0 < part < 1:
        return f"<1{PERCENT}"
    return f"{min(int(part + 0.5), 99) if part < 100 else 100}{PERCENT}"
