"""What answers about who and from where hold: values, visitors, and why a total changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from clickcurve.answers.counts import AtLeast, AtMost, FirstHit, Key, PointState, Time, Wide
from clickcurve.answers.written import Tabular


# --- breakdowns -------------------------------------------------------------------------------------------------------
class ValueAnswer(Struct, frozen=True, gc=False):
    """One value of a dimension, empty for the hits that gave none."""

    value: str
    at_least: AtLeast
    at_most: AtMost


class SumOfValues(Struct, frozen=True, gc=False):
    """The hits of several values together, or of all but some."""

    at_least: AtLeast
    at_most: AtMost


class NotShown(Struct, frozen=True, gc=False):
    """How many values an answer does not list, and their hits."""

    values: int
    count: int


KeptSince: TypeAlias = Annotated[
    Time | UnsetType, Meta(description="values from before it are not kept: they are `other`; left out: all are kept")
]


LeftOut: TypeAlias = Annotated[list[str] | UnsetType, Meta(description="values whose hits are not meant")]


class ValuesAnswer(Tabular, frozen=True):
    """The hits of [start, end) by the values of a dimension.

    The law: the `at_least` of the values + not_shown.count + other + unrecorded == total.
    """

    COLUMNS = ("value", "at_least", "at_most")
    LIST = "values"

    key: Key
    dimension: str
    start: Annotated[Time | None, Meta(description="start of the kept buckets of the range; null: all time")] = field(
        name="from"
    )
    end: Annotated[Time | None, Meta(description="where they end")] = field(name="to")
    total: Annotated[int, Meta(description="hits of [from, to)")]
    values: Annotated[list[ValueAnswer], Meta(description="greatest at_least first, ties by name")]
    shown: Annotated[int, Meta(description="how many values are listed")]
    not_shown: NotShown
    other: Annotated[int, Meta(description="hits of values that a full bucket could not keep, or are kept no more")]
    unrecorded: Annotated[int, Meta(description="hits from before the dimension was switched on")]
    exact: Annotated[bool, Meta(description="all bounds meet, and all hits of [from, to) are in the asked range")]
    kept_since: KeptSince = UNSET
    sum: Annotated[
        SumOfValues | UnsetType, Meta(description="of the asked values together, where several or `not` are asked for")
    ] = UNSET
    left_out: LeftOut = field(default=UNSET, name="not")

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields the values for CSV, and at the end two lines for the hits that have no value."""
        yield from super().lines()
        yield "(other)", self.other, self.other
        yield "(unrecorded)", self.unrecorded, self.unrecorded


class ValuePointAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """One point of the curve of a value."""

    start: Time
    end: Time
    at_least: AtLeast
    at_most: AtMost
    state: PointState
    wide: Wide = False


class ValueCurveAnswer(Tabular, frozen=True):
    """Values of a dimension along time; at_least and at_most are those of the asked range."""

    COLUMNS = ("start", "end", "at_least", "at_most", "state")
    LIST = "points"

    key: Key
    dimension: str
    value: Annotated[str | None, Meta(description="null: several together, or all but some")]
    start: Time = field(name="from")
    end: Time = field(name="to")
    step: str
    tz: str
    first_hit: FirstHit
    at_least: AtLeast
    at_most: AtMost
    exact: Annotated[bool, Meta(description="at_least is at_most")]
    points: list[ValuePointAnswer]
    kept_since: KeptSince = UNSET
    values: Annotated[list[str] | UnsetType, Meta(description="those whose hits are added up")] = UNSET
    left_out: LeftOut = field(default=UNSET, name="not")


Visitors: TypeAlias = Annotated[
    int | None, Meta(description="counted, or estimated; null: only bounds are known of how many are the same")
]
StandardError: TypeAlias = Annotated[
    int, Meta(description="of estimated visitors: the standard error, at most; left out if they were not estimated")
]
Counted: TypeAlias = Annotated[
    bool, Meta(description="counted; false: estimated, or only bounds are known of how many are the same")
]


class VisitorDay(Struct, frozen=True, gc=False, omit_defaults=True):
    """The visitors of one UTC day, or the visitor-days of the days that are kept together."""

    start: Time
    end: Time
    visitors: Visitors
    at_least: AtLeast
    at_most: AtMost
    exact: Counted
    error: StandardError = 0


class VisitorsAnswer(Tabular, frozen=True, omit_defaults=True):
    """Visitors by day."""

    COLUMNS = ("start", "end", "visitors", "at_least", "at_most")
    LIST = "days"

    key: Key
    visitor_days: Annotated[
        int | None, Meta(description="the visitors of each day, added up: a visitor of two days is two")
    ]
    at_least: AtLeast
    at_most: AtMost
    exact: Counted
    days: Annotated[list[VisitorDay], Meta(description="UTC days; older ones by week and month")]
    unknown: Annotated[int, Meta(description="people's hits of these days that do not tell whose they are")]
    error: StandardError = 0


# --- why a total changed ----------------------------------------------------------------------------------------------
Change: TypeAlias = Annotated[int, Meta(description="after - before")]


class TimeRange(Struct, frozen=True, gc=False):
    """A span of time."""

    start: Time = field(name="from")
    end: Time = field(name="to")


class TotalChange(Struct, frozen=True, gc=False):
    """The totals of two spans."""

    before: int
    after: int
    change: Change


class CauseAnswer(Struct, frozen=True, gc=False):
    """A value whose change is certain, and greater than if all values had changed by the same factor."""

    value: str
    change: Annotated[int, Meta(description="after - before, by hits that are certain")]
    at_least: Annotated[int, Meta(description="the least that the true change can be")]
    at_most: Annotated[int, Meta(description="the most that it can be")]
    before: Annotated[int, Meta(description="hits that are certain")]
    after: Annotated[int, Meta(description="hits that are certain")]


class HiddenChange(Struct, frozen=True, gc=False):
    """How many values an answer does not list, and their change."""

    values: int
    change: Change


class DimensionAnswer(Struct, frozen=True):
    """The change of the total, by the values of a dimension.

    The law: the changes of the causes + not_shown.change + other + unrecorded == the change of the total.
    """

    dimension: str
    explains: Annotated[float, Meta(description="the part of the change, 0 to 1, that is certainly of three causes")]
    causes: Annotated[list[CauseAnswer], Meta(description="the greatest first; none where nothing is certain")]
    not_shown: HiddenChange
    other: Annotated[
        int, Meta(description="change of hits of values that a full bucket could not keep, or are kept no more")
    ]
    unrecorded: Annotated[int, Meta(description="change of hits from before the dimension was switched on")]
    kept_since: KeptSince = UNSET


class LinkChange(Struct, frozen=True, gc=False):
    """A link whose count changed."""

    key: str
    before: int
    after: int
    change: Change


class WhyAnswer(Tabular, frozen=True):
    """Why the total of a span differs from that of a span before, both of whole kept buckets."""

    COLUMNS = ("dimension", "value", "change", "at_least", "at_most", "before", "after")

    key: Key
    start: Time = field(name="from")
    end: Time = field(name="to")
    before: TimeRange
    total: TotalChange
    same_length: Annotated[bool, Meta(description="both spans are equally long")]
    dimensions: Annotated[list[DimensionAnswer], Meta(description="what explains most comes first")]
    by_link: Annotated[list[LinkChange], Meta(description="the links that changed most; of all links together only")]
    exact: Annotated[bool, Meta(description="the spans are the asked ones, and all bounds meet")]

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields the causes for CSV."""
        for dimension in self.dimensions:
            for cause in dimension.causes:
                yield dimension.dimension, *msgspec.structs.astuple(cause)
