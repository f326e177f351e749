"""What came of clicks, from counts of one moment: each event with its values and its rate, pure.

A rate is events by click. Its bounds follow from those of both: fewest events by most clicks, most by fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from clickcurve.answers.events import (
    EventAnswer,
    EventCount,
    EventsByAnswer,
    EventsOfValue,
    HiddenEvents,
    OtherEvents,
    RateBounds,
    Within,
)
from clickcurve.buckets.breakdowns.answers import Bounds
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN
from query.breakdowns.values import ValueCounts


@dataclass(frozen=True, slots=True)
class EventCounts:
    """How often an event came, and the sum of its values."""

    event: str
    count: Bounds
    value: Bounds

    def answer(self, clicks: Bounds) -> EventAnswer:
        """Returns what an answer says of it beside these clicks."""
        return EventAnswer(self.event, *self.count, Within(*self.value), rate(self.count, clicks))

    @property
    def is_exact(self) -> bool:
        return is_exact(self.count) and is_exact(self.value)


def is_exact(bounds: Bounds) -> bool:
    """Tells whether bounds meet."""
    return bounds.at_least == bounds.at_most


def rate(events: Bounds, clicks: Bounds) -> RateBounds | None:
    """Returns events by click; None where there may be no click."""
    if not clicks.at_least:
        return None
    return RateBounds(events.at_least / clicks.at_most, events.at_most / clicks.at_least)


@dataclass(frozen=True, slots=True)
class EventValues:
    """The values of a dimension among the hits of an event: how often each came, and the sum of its amounts."""

    event: str
    counts: ValueCounts
    amounts: ValueCounts

    def of(self, value: str) -> EventCounts:
        """Returns the event of hits with this value of the dimension."""
        return EventCounts(self.event, self.counts.bounds(value), self.amounts.bounds(value))

    def of_all(self) -> EventCounts:
        """Returns the event of all hits."""
        count, amount = self.counts.total, self.amounts.total
        return EventCounts(self.event, Bounds(count, count), Bounds(amount, amount))

    def beside(self, shown: Sequence[str]) -> EventCount:
        """Returns the event of hits whose values are known and not shown."""
        counts, amounts = (sum(each.counts.values()) - _sum_of(each, shown) for each in (self.counts, self.amounts))
        return EventCount(self.event, counts, amounts)

    def other(self) -> EventCount:
        """Returns the event of hits whose values are not known."""
        counts, amounts = (each.other + each.unrecorded for each in (self.counts, self.amounts))
        return EventCount(self.event, counts, amounts)


def _sum_of(counts: ValueCounts, values: Sequence[str]) -> int:
    return sum([counts.counts.get(value, 0) for value in values])


def events_by(
    name: str | None, clicks: ValueCounts, events: Sequence[EventValues], limit: int, is_sure: bool
) -> EventsByAnswer:
    """Returns the events of a subject by the values of a dimension, those with the most clicks first.

    All are of one span. is_sure: they are of one moment too, and all hits of the span are in the range that was asked
    for. Values that clicks lack and events have come after those with clicks, by their names.
    """
    most: Mapping[str, int] = {value: 0 for each in events for value in each.counts.counts} | clicks.counts
    order = sorted(most, key=lambda value: (-most[value], value))
    shown = order[:limit] + [NOT_GIVEN] * (NOT_GIVEN in order[limit:])
    whole = Bounds(clicks.total, clicks.total)
    bounds = {value: clicks.bounds(value) for value in shown}
    counted = [each for event in events for each in (event.counts, event.amounts)]
    kept_since = max((each.kept_since for each in [clicks, *counted] if each.kept_since is not None), default=UNSET)
    return EventsByAnswer(
        key=name,
        dimension=clicks.dimension,
        start=None if clicks.span is None else clicks.span[0],
        end=None if clicks.span is None else clicks.span[1],
        clicks=Within(*whole),
        events=[each.of_all().answer(whole) for each in events],
        values=[
            EventsOfValue(value, Within(*bounds[value]), [each.of(value).answer(bounds[value]) for each in events])
            for value in shown
        ],
        not_shown=HiddenEvents(
            len(order) - len(shown),
            sum(clicks.counts.values()) - _sum_of(clicks, shown),
            [each.beside(shown) for each in events],
        ),
        other=OtherEvents(clicks.other + clicks.unrecorded, [each.other() for each in events]),
        exact=is_sure and clicks.exact and all(each.exact for each in counted),
        kept_since=kept_since,
    )
