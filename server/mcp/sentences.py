"""Answers in words: one sentence that can be quoted, with its bounds and its zone, then a table.

Keys and values are strangers' text: they stand in quotes, as JSON writes them, on one line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

from clickcurve.answers.breakdowns import ValuesAnswer, VisitorsAnswer, WhyAnswer
from clickcurve.answers.counts import CurveAnswer, LinksAnswer, TotalAnswer
from clickcurve.answers.events import EventAnswer, EventsAnswer, EventsByAnswer
from clickcurve.visible import json_line
from server.events.shown import count_text, rate_text
from server.settings.events import NO_UNIT, Unit

MOST_LINES = 50
_EVENT_COLUMNS = ("event", "times", "sum of values", "by click")


def quoted(text: str) -> str:
    """Returns strangers' text in quotes, with all that is not printable by its number."""
    return json_line(text)


def of_total(answer: TotalAnswer, subject: str, zone: str, whose: str) -> str:
    """Says a total."""
    when = _span(answer.start, answer.end, zone)
    return f"{subject}: {_bounded(answer.at_least, answer.at_most, whose)}, {when}; {_certainty(answer.exact)}."


def of_curve(answer: CurveAnswer, subject: str, whose: str, finer: str) -> str:
    """Says a curve. finer: the step that would have had too many points; empty: it is the one asked for."""
    count = _bounded(answer.at_least, answer.at_most, whose)
    when = _span(answer.start, answer.end, answer.tz)
    lines = [f"{subject}: {count}, {when}, by {answer.step}; {_certainty(answer.exact)}."]
    if finer:
        lines.append(f"By {finer} there are too many points to list: ask for a shorter range to see them.")
    if answer.first_hit is None:
        lines.append("It was never hit.")
    elif answer.first_hit > answer.start:
        lines.append(f"Nothing was counted before {_moment(answer.first_hit, answer.tz)}.")
    if any(point.state == "open" for point in answer.points):
        lines.append("The last point is still counting.")
    rows = ((_moment(each.start, answer.tz), f"{each.count:,}", each.state) for each in answer.points)
    return _with_table(lines, ("from", "count", "state"), rows, len(answer.points))


def of_links(answer: LinksAnswer, zone: str, whose: str) -> str:
    """Says a list of links."""
    when = _span(answer.start, answer.end, zone)
    lines = [f"{len(answer.links)} links by {whose}, {when}; {_certainty(answer.exact)}."]
    if isinstance(answer.after, str):
        lines.append(f"There are more: go on with after={quoted(answer.after)}.")
    if any(isinstance(each.value, int) for each in answer.links):
        by_value = ((quoted(each.key), f"{each.count:,}", f"{each.value:,}") for each in answer.links)
        return _with_table(lines, ("link", "times", "sum of values"), by_value, len(answer.links))
    rows = ((quoted(each.key), f"{each.count:,}") for each in answer.links)
    return _with_table(lines, ("link", "count"), rows, len(answer.links))


def of_events(answer: EventsAnswer, subject: str, zone: str, units: Mapping[str, Unit]) -> str:
    """Says what came of clicks."""
    clicks = _bounded(answer.clicks.at_least, answer.clicks.at_most, "hits of people")
    head = f"{subject}: {clicks}, {_span(answer.start, answer.end, zone)}; {_certainty(answer.exact)}."
    rows = (_event_cells(each, units) for each in answer.events)
    return _with_table([head], _EVENT_COLUMNS, rows, len(answer.events))


def of_events_by(answer: EventsByAnswer, subject: str, zone: str, units: Mapping[str, Unit]) -> str:
    """Says what came of the clicks with each value of a dimension."""
    clicks = _bounded(answer.clicks.at_least, answer.clicks.at_most, "hits of people")
    when = _span(answer.start, answer.end, zone)
    lines = [f"{subject}: {clicks} by {answer.dimension}, {when}; {_certainty(answer.exact)}."]
    if hidden := answer.not_shown.values:
        lines.append(f"{answer.not_shown.clicks:,} hits are of {hidden:,} values that are not listed.")
    rows = [
        (_value(each.value), count_text(each.clicks.at_least, each.clicks.at_most), *_event_cells(event, units))
        for each in answer.values
        for event in each.events
    ]
    return _with_table(lines, ("value", "hits", *_EVENT_COLUMNS), rows, len(rows))


def _event_cells(event: EventAnswer, units: Mapping[str, Unit]) -> tuple[str, ...]:
    unit, value, rate = units.get(event.event, NO_UNIT), event.value, event.rate
    shown = "-" if rate is None else rate_text(rate.at_least, rate.at_most)
    count = count_text(event.at_least, event.at_most)
    return event.event, count, unit.between(value.at_least, value.at_most), shown


def of_values(answer: ValuesAnswer, subject: str, zone: str, noun: str) -> str:
    """Says a breakdown; its parts add up to the total."""
    when = _span(answer.start, answer.end, zone)
    head = f"{subject}: {answer.total:,} {noun} of people by {answer.dimension}, {when}; {_certainty(answer.exact)}."
    rest = [
        f"{answer.not_shown.count:,} are of {answer.not_shown.values:,} values that are not listed."
        if answer.not_shown.values
        else "",
        f"{answer.other:,} are of values that were not kept." if answer.other else "",
        f"{answer.unrecorded:,} are from before this was recorded." if answer.unrecorded else "",
    ]
    rows = ((_value(each.value), *_bounds(each.at_least, each.at_most)) for each in answer.values)
    lines = [head, *filter(None, rest)]
    return _with_table(lines, ("value", "at least", "at most"), rows, len(answer.values))


def of_why(answer: WhyAnswer, subject: str, zone: str, noun: str) -> str:
    """Says a change and its causes."""
    total = answer.total
    head = (
        f"{subject}: {total.after:,} {noun} of people, {_span(answer.start, answer.end, zone)}, after {total.before:,}"
    )
    before = _span(answer.before.start, answer.before.end, zone)
    lines = [f"{head}, {before}: {total.change:+,}; {_certainty(answer.exact)}."]
    if not answer.same_length:
        lines.append("The two spans are not equally long.")
    rows = [
        (
            each.dimension,
            _value(cause.value),
            f"{cause.change:+,}",
            f"{cause.before:,}",
            f"{cause.after:,}",
        )
        for each in answer.dimensions
        for cause in each.causes
    ]
    rows += [
        ("link", quoted(each.key), f"{each.change:+,}", f"{each.before:,}", f"{each.after:,}")
        for each in answer.by_link
    ]
    if not rows:
        lines.append("No value explains it for certain.")
    return _with_table(lines, ("by", "value", "change", "before", "after"), rows, len(rows))


def of_visitors(answer: VisitorsAnswer, subject: str, zone: str) -> str:
    """Says visitors by day, and that they are no persons."""
    days = (
        f"{answer.visitor_days:,}" if answer.visitor_days is not None else f"{answer.at_least:,} to {answer.at_most:,}"
    )
    lines = [f"{subject}: {days} visitor-days; {'counted' if answer.exact else 'in part estimated'}."]
    lines.append("A visitor of two days counts twice; how many persons there were is not known.")
    if answer.unknown:
        lines.append(f"{answer.unknown:,} hits said too little to tell whose they are.")
    rows = (
        (
            _moment(each.start, zone),
            f"{each.visitors:,}" if each.visitors is not None else "?",
            *_bounds(each.at_least, each.at_most),
        )
        for each in answer.days
    )
    return _with_table(lines, ("day", "visitors", "at least", "at most"), rows, len(answer.days))


def _value(text: str) -> str:
    return quoted(text) if text else "(none)"


def _bounded(at_least: int, at_most: int, whose: str) -> str:
    return f"{at_least:,} {whose}" if at_least == at_most else f"between {at_least:,} and {at_most:,} {whose}"


def _bounds(at_least: int, at_most: int) -> tuple[str, str]:
    return f"{at_least:,}", f"{at_most:,}"


def _certainty(exact: bool) -> str:
    return "exact" if exact else "not exact at the edges of the range"


def _span(start: int | None, end: int | None, zone: str) -> str:
    if start is None or end is None:
        return "in all time"
    return f"{_moment(start, zone)} to {_moment(end, zone)} ({zone})"


def _moment(t: int, zone: str) -> str:
    return datetime.fromtimestamp(t, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


def _with_table(lines: Sequence[str], names: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    return "\n".join([*lines, *(_table(names, rows, count) if count else ())])


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> Iterator[str]:
    yield ""
    yield " | ".join(names)
    for row in islice(rows, MOST_LINES):
        yield " | ".join(row)
    if count > MOST_LINES:
        yield f"... and {count - MOST_LINES} more in the structured answer"
