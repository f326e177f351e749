"""What answers about events hold: how often they came of clicks, the sums of their values, and rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, field

from clickcurve.answers.breakdowns import KeptSince
from clickcurve.answers.counts import AtLeast, AtMost, Key, Time
from clickcurve.answers.written import Tabular


class Within(Struct, frozen=True, gc=False):
    """A number that lies between the two."""

    at_least: int
    at_most: int


class RateBounds(Struct, frozen=True, gc=False):
    """Events by click, between the two."""

    at_least: float
    at_most: float


Rate: TypeAlias = Annotated[RateBounds | None, Meta(description="events by click; null where there may be no click")]


class EventAnswer(Struct, frozen=True, gc=False):
    """How often an event came, the sum of its values in the smallest unit, and its rate."""

    event: str
    at_least: AtLeast
    at_most: AtMost
    value: Within
    rate: Rate

    def cells(self) -> Sequence[object]:
        """Returns its columns of CSV."""
        rate = ("", "") if self.rate is None else (self.rate.at_least, self.rate.at_most)
        return self.event, self.at_least, self.at_most, self.value.at_least, self.value.at_most, *rate


_EVENT_COLUMNS = ("event", "at_least", "at_most", "value_at_least", "value_at_most", "rate_at_least", "rate_at_most")


class EventsAnswer(Tabular, frozen=True):
    """What came of the clicks of [start, end), null for all time: all of one moment."""

    COLUMNS = _EVENT_COLUMNS
    LIST = "events"

    key: Key
    start: Time | None = field(name="from")
    end: Time | None = field(name="to")
    clicks: Within
    events: list[EventAnswer]
    exact: Annotated[bool, Meta(description="all bounds meet")]

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields an event a line."""
        yield from (each.cells() for each in self.events)


class EventCount(Struct, frozen=True, gc=False):
    """How often an event certainly came, and the sum of its values."""

    event: str
    count: int
    value: int


class EventsOfValue(Struct, frozen=True, gc=False):
    """What came of the clicks that have one value of a dimension, empty for those that gave none."""

    value: str
    clicks: Within
    events: list[EventAnswer]


class HiddenEvents(Struct, frozen=True, gc=False):
    """How many values an answer does not list, their clicks, and what came of these."""

    values: int
    clicks: int
    events: list[EventCount]


class OtherEvents(Struct, frozen=True, gc=False):
    """Clicks whose value is not known, and events whose value is not known."""

    clicks: int
    events: list[EventCount]


class EventsByAnswer(Tabular, frozen=True):
    """What came of clicks, by the values of a dimension: all of one moment.

    The law: the `at_least` of the values + not_shown + other == the first, for clicks, each event and its values.
    """

    COLUMNS = ("value", "clicks_at_least", "clicks_at_most", *_EVENT_COLUMNS)
    LIST = "values"

    key: Key
    dimension: str
    start: Annotated[Time | None, Meta(description="start of the kept buckets of the range; null: all time")] = field(
        name="from"
    )
    end: Annotated[Time | None, Meta(description="where they end")] = field(name="to")
    clicks: Within
    events: list[EventAnswer]
    values: Annotated[list[EventsOfValue], Meta(description="most clicks first, ties by name")]
    not_shown: HiddenEvents
    other: OtherEvents
    exact: Annotated[bool, Meta(description="all bounds meet, and all hits of [from, to) are in the asked range")]
    kept_since: KeptSince = UNSET

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields an event of a value a line."""
        for each in self.values:
            yield from ((each.value, *msgspec.structs.astuple(each.clicks), *of.cells()) for of in each.events)
