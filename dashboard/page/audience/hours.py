"""The hours of a week: hits by weekday and hour as shaded cells, beside a table of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import HourOfWeek, HoursAnswer
from clickcurve.buckets.ladder import HOUR_S
from dashboard.page.shown import Shown
from dashboard.pictures.axes import WEEKDAYS, range_words, with_commas
from dashboard.questions import Questions

SHADES = 5
_FEWEST_HOURS = 48  # so many hours are two days: of less, no week is told
_NOT_KEPT = "These days are kept as days or longer, so their hours are not known."


@dataclass(frozen=True, slots=True)
class HourCell:
    """An hour of a weekday. shade: 0 for no hits to SHADES by the average of such hours; -1 where none was summed."""

    shade: int
    count: str
    title: str


@dataclass(frozen=True, slots=True)
class WeekHours:
    """Seven rows by the names of weekdays, Monday first, of 24 cells each; none where the hours are not kept.

    when: of which days they are; sentence: the hour with the most hits; note: what to know of a zone; query: what to
    ask for them.
    """

    rows: dict[str, Sequence[HourCell]]
    when: str
    sentence: str
    note: str
    query: str

    @property
    def by_hour(self) -> list[tuple[HourCell, ...]]:
        """The same cells by the hours of a day, each of them for the seven weekdays."""
        return list(zip(*self.rows.values(), strict=True))


async def week_hours(questions: Questions, shown: Shown) -> WeekHours | None:
    """Asks for the hours of a page; None in a whole list of values, and of short ranges."""
    curve, view = shown.curve, shown.view
    if view.list or min(curve.end, shown.now) - curve.start < _FEWEST_HOURS * HOUR_S or not curve.at_most:
        return None
    query = view.count_query()
    return hours_of(await questions.hours(shown.subject, query), query)


def hours_of(answer: HoursAnswer, query: bytes) -> WeekHours | None:
    """Makes the cells; None where none of these hours was hit."""
    if sum(cell.hours for cell in answer.cells) < _FEWEST_HOURS:
        return WeekHours({}, "", _NOT_KEPT, "", query.decode())
    if not answer.total:
        return None
    # A weekday may come once more than others: an hour is as dark as its average.
    averages = [cell.count / cell.hours if cell.hours else -1.0 for cell in answer.cells]
    highest = max(averages)
    cells = [_cell(each, average, highest) for each, average in zip(answer.cells, averages, strict=True)]
    most = answer.cells[averages.index(highest)]
    return WeekHours(
        {name: cells[place * 24 : place * 24 + 24] for place, name in enumerate(WEEKDAYS)},
        f"{range_words(answer.start, answer.end, ZoneInfo(answer.tz))}, {answer.tz}",
        f"Most hits in an hour: {_hour_words(most)}, {_average_words(highest)} on average",
        _note(answer),
        query.decode(),
    )


def _cell(cell: HourOfWeek, average: float, highest: float) -> HourCell:
    when, count = _hour_words(cell), with_commas(cell.count)
    if not cell.hours:
        return HourCell(-1, "", f"{when}: not in this range")
    hits = f"{count} {'hit' if cell.count == 1 else 'hits'}"
    of = "" if cell.hours == 1 else f" in {cell.hours} such hours"
    return HourCell(min(SHADES, ceil(SHADES * average / highest)), count, f"{when}: {hits}{of}")


def _hour_words(cell: HourOfWeek) -> str:
    return f"{WEEKDAYS[cell.weekday - 1]} {cell.hour}:00 - {cell.hour + 1}:00"


def _average_words(average: float) -> str:
    return f"{average:.1f}" if average < 10 and average != int(average) else with_commas(round(average))


def _note(answer: HoursAnswer) -> str:
    if not answer.straddling:
        return ""
    hits = f"{with_commas(answer.straddling)} {'hit is' if answer.straddling == 1 else 'hits are'}"
    return f"{hits} kept by hours that two of this zone share, and count in the earlier one."
