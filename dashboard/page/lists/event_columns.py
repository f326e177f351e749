"""What came of the clicks of each line of a list, as columns: how often each event came, and the sum of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clickcurve.answers.events import EventAnswer, EventsByAnswer, Within
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import Subject
from dashboard.page.audience.values import LISTED, NOT_LISTED, OTHER, ValueRow, ValueTable
from dashboard.page.changes import Count, about
from dashboard.page.event_cards import event_name, shows_of
from dashboard.page.view import EVENT, VALUE, PageView
from dashboard.pictures.curve_picture import Unit, amount_words
from dashboard.questions import CountedEvents, asked_of_each

BESIDE = 2  # events of a list that stands beside others
Counts = Mapping[str, EventAnswer]  # by event, of one line


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A column. sort: what an address sorts by for it."""

    name: str
    sort: str

    def style(self, order: str) -> str:
        """Returns its classes, each after a blank: a narrow table has only the one that it is sorted by."""
        return "" if order == self.sort else " amount" if self.sort.startswith(VALUE) else " event"


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns of a list, and a cell of each for each of its lines."""

    heads: Sequence[EventColumn] = ()
    cells: Sequence[Sequence[Count]] = ()

    def of_line(self, place: int) -> Sequence[Count]:
        """Returns the cells of a line, by its place in the list."""
        return self.cells[place] if self.heads else ()


NO_COLUMNS = EventColumns()


def sorted_by(name: str) -> str:
    """Names what an address sorts by for people: `sales`, `value of sales`."""
    kind, _, event = name.partition(":")
    events = event_name(event, plural=True).lower()
    return events if kind + ":" == EVENT else f"value of {events}"


async def columns_of_each(
    events: CountedEvents | None, subjects: Sequence[Subject], view: PageView, is_whole: bool
) -> EventColumns:
    """Asks what came of the clicks of each subject in the view's range; is_whole: the list stands alone."""
    if events is None or not subjects:
        return NO_COLUMNS
    answers = await asked_of_each(events.questions.of, subjects, view.count_query())
    return event_columns(events.units, [_by_event(each.events) for each in answers], is_whole)


async def with_events(
    table: ValueTable, events: CountedEvents | None, subject: Subject, view: PageView
) -> tuple[ValueTable, EventColumns]:
    """Asks what came of the clicks of each value of a list. Returns it as the view sorts it, and its columns.

    Raises ParameterInvalid for an event that is not known, and what the question raises.
    """
    by_event = view.sort.startswith((EVENT, VALUE))
    if by_event and view.sort not in shows_of(events):
        rule = f"key, change, -change{''.join(f', {each}' for each in shows_of(events))}, or left out for hits"
        raise ParameterInvalid(f"sort {view.sort!r} is not known", field="sort", value=view.sort, rule=rule)
    if events is None:
        return table, NO_COLUMNS
    answer = await events.questions.by(subject, table.dimension, view.total_query + b"&limit=%d" % LISTED)
    of_value = {each.value: _by_event(each.events) for each in answer.values}
    rows, lines = table.rows, [_of_row(row, of_value, answer) for row in table.rows]
    if by_event:
        both = sorted(zip(rows, lines, strict=True), key=lambda each: _sort_key(each[0], each[1], view.sort))
        rows, lines = [row for row, _ in both], [line for _, line in both]
    return replace(table, rows=rows), event_columns(events.units, lines)


def _by_event(found: Iterable[EventAnswer]) -> Counts:
    return {each.event: each for each in found}


def _of_row(row: ValueRow, of_value: Mapping[str, Counts], answer: EventsByAnswer) -> Counts:
    """Returns what came of the clicks of a row: also of those that are not listed, and of those of no known value."""
    if not row.rest:
        return of_value.get(row.value, {})
    found = {NOT_LISTED: answer.not_shown.events, OTHER: answer.other.events}.get(row.value, [])
    return _by_event(
        EventAnswer(each.event, each.count, each.count, Within(each.value, each.value), None) for each in found
    )


def _sort_key(row: ValueRow, line: Counts, sort: str) -> tuple[bool, int]:
    """Sorts the most first, and what is of no value last."""
    kind, _, event = sort.partition(":")
    found = line.get(event)
    most = 0 if found is None else found.value.at_least if kind + ":" == VALUE else found.at_least
    return row.rest, -most


def event_columns(units: Mapping[str, Unit], lines: Sequence[Counts], is_whole: bool = True) -> EventColumns:
    """Makes the columns of events that came in any line; beside other lists the first BESIDE, and no values."""
    heads: list[EventColumn] = []
    columns: list[list[Count]] = []
    came = [name for name in units if any(name in line and line[name].at_most for line in lines)]
    for name in came if is_whole else came[:BESIDE]:
        plural, found = event_name(name, plural=True), [line.get(name) for line in lines]
        heads.append(EventColumn(plural, EVENT + name))
        columns.append([Count("") if each is None else about(each.at_least, each.at_most) for each in found])
        if is_whole and any(each is not None and each.value.at_most for each in found):
            heads.append(EventColumn(f"Value of {plural.lower()}", VALUE + name))
            columns.append([_amount(each, units[name]) for each in found])
    return EventColumns(heads, list(zip(*columns, strict=True)))


def _amount(answer: EventAnswer | None, unit: Unit) -> Count:
    if answer is None or not answer.value.at_most:
        return Count("")
    return Count(amount_words(answer.value.at_least, answer.value.at_most, unit))
