"""What answers about counts hold: totals, curves, summaries, lists, now and the hours of a week.

Times are epoch seconds, ranges half-open; a `key` of None is all links together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from clickcurve.answers.written import Tabular

Time: TypeAlias = Annotated[int, Meta(description="epoch seconds")]
Key: TypeAlias = Annotated[str | None, Meta(description="null for all links together")]
AtLeast: TypeAlias = Annotated[int, Meta(description="hits that are certain")]
AtMost: TypeAlias = Annotated[int, Meta(description="at_least, and the hits that may belong to it")]
FirstHit: TypeAlias = Annotated[
    Time | None, Meta(description="start of the minute of the first hit; before it a zero means: not counted yet")
]
After: TypeAlias = Annotated[
    str | UnsetType | None, Meta(description="with `sort=key`: the key to go on after, null at the end")
]
ExactList: TypeAlias = Annotated[
    bool, Meta(description="false: a kept bucket that the range cuts may count whole in some of the counts")
]
Wide: TypeAlias = Annotated[bool, Meta(description="true: longer than its step, because no finer buckets are kept")]


# Whether a point's count is final, and wholly of the requested range. complete: it lies in the range, and in the past.
# partial: the range has only a part of it. open: it has not ended yet. Plain text: an enum takes five times as long to
# encode.
PointState: TypeAlias = Literal["complete", "partial", "open"]


class ErasedAnswer(Struct, frozen=True):
    """What a deletion of links by prefix has done."""

    deleted: Annotated[int, Meta(description="links that were deleted by this request")]
    more: Annotated[bool, Meta(description="there are more: send the request again")]


# --- totals and curves ------------------------------------------------------------------------------------------------
class TotalAnswer(Struct, frozen=True):
    """A total of [start, end); start and end are None for all time, imported counts without dates included."""

    key: Key
    start: Time | None = field(name="from")
    end: Time | None = field(name="to")
    total: Annotated[int | None, Meta(description="null unless exact")]
    at_least: AtLeast
    at_most: AtMost
    exact: Annotated[bool, Meta(description="at_least is at_most")]
    before: Annotated[TotalBefore | UnsetType, Meta(description="with `compare`: the same of the range before")] = UNSET


class TotalBefore(Struct, frozen=True):
    """The total of the range that another one is compared with."""

    start: Time = field(name="from")
    end: Time = field(name="to")
    total: Annotated[int | None, Meta(description="null unless exact")]
    at_least: AtLeast
    at_most: AtMost
    exact: Annotated[bool, Meta(description="at_least is at_most")]


class PointAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """One point of a curve, and its whole count."""

    start: Time
    end: Time
    count: int
    state: PointState
    wide: Wide = False


class CurveAnswer(Tabular, frozen=True):
    """The points of a range, which tile it: each end is the next start. Their counts are the total."""

    COLUMNS = ("start", "end", "count", "state")
    LIST = "points"

    key: Key
    start: Time = field(name="from")
    end: Time = field(name="to")
    step: str
    tz: str
    first_hit: FirstHit
    total: Annotated[int, Meta(description="sum of the points")]
    at_least: AtLeast
    at_most: AtMost
    exact: Annotated[bool, Meta(description="at_least is at_most")]
    points: list[PointAnswer]
    before: Annotated[CurveBefore | UnsetType, Meta(description="with `compare`: the same of the range before")] = UNSET
    notes: Annotated[list[NoteAnswer] | UnsetType, Meta(description="with `notes=true`: oldest first")] = UNSET

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns; with `compare` the last one tells the ranges apart."""
        return self.COLUMNS if self.before is UNSET else (*self.COLUMNS, "range")

    def lines(self) -> Iterable[Sequence[object]]:
        """Returns the points; those of the range before come first."""
        own = map(attrgetter(*self.COLUMNS), self.points)
        if self.before is UNSET:
            return own
        before = map(attrgetter(*self.COLUMNS), self.before.points)
        return (*((*line, "before") for line in before), *((*line, "asked") for line in own))

    def rows(self) -> list[RowAnswer]:
        """Returns the points for tables."""
        return [RowAnswer(_moment(each.start), _moment(each.end), each.count, each.state) for each in self.points]


class CurveBefore(Struct, frozen=True):
    """The points of the range that another one is compared with, at the same step."""

    start: Time = field(name="from")
    end: Time = field(name="to")
    total: Annotated[int, Meta(description="sum of the points")]
    at_least: AtLeast
    at_most: AtMost
    exact: Annotated[bool, Meta(description="at_least is at_most")]
    points: list[PointAnswer]


class RowAnswer(Struct, frozen=True, gc=False):
    """A point of a curve with its times as text: what tables read without being told how."""

    time: datetime
    end: datetime
    count: int
    state: PointState


def _moment(t: int) -> datetime:
    return datetime.fromtimestamp(t, UTC)


class SummaryAnswer(Struct, frozen=True):
    """A link or a group at a glance: its life, and the whole days of its last month, today included."""

    key: str
    lifetime: int
    today: int
    yesterday: int
    last_7d: int
    last_30d: int
    bots: Annotated[int, Meta(description="bots of all time, whatever the parameter `bots` says")]
    first_hit: FirstHit
    last_hit: Time | None
    opening: Annotated[int, Meta(description="imported without dates: part of the lifetime, of no curve")]
    exact: Annotated[bool, Meta(description="false where a day begins inside a kept bucket, which then counts whole")]


class NoteAnswer(Struct, frozen=True):
    """What somebody, or the server itself, wrote beside the hits of a moment; of all links without key and group.

    start, end: the range that it is of, if it is of one: in which an alert counted, or hits were called bots.
    """

    id: str
    at: Time
    kind: Annotated[str, Meta(description="note, alert, disavow, erase, delete or import")]
    text: str
    key: str | None = None
    group: str | None = None
    start: Time | UnsetType = field(name="from", default=UNSET)
    end: Time | UnsetType = field(name="to", default=UNSET)


# --- lists of links and groups ----------------------------------------------------------------------------------------
class KeyCount(Struct, frozen=True, gc=False):
    """A link or a group of a list, and its count; value: the sum of the values of events, in lists by value."""

    key: str
    count: int
    value: int | UnsetType = UNSET
    before: Annotated[int | UnsetType, Meta(description="with `compare`: its count in the range before")] = UNSET


class ListBefore(Struct, frozen=True):
    """The range that a list is compared with. exact: as of the list, of the counts `before`."""

    start: Time = field(name="from")
    end: Time = field(name="to")
    exact: ExactList


Before: TypeAlias = Annotated[ListBefore | UnsetType, Meta(description="with `compare`: the range before")]


class LinksAnswer(Tabular, frozen=True):
    """Links by their hits, or in the order of their keys."""

    COLUMNS: ClassVar[Sequence[str]] = ("key", "count")
    LIST = "links"

    start: Time | None = field(name="from")
    end: Time | None = field(name="to")
    links: list[KeyCount]
    exact: ExactList
    after: After = UNSET
    before: Before = UNSET

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns."""
        return self.COLUMNS if self.before is UNSET else (*self.COLUMNS, "before")


class GroupsAnswer(Tabular, frozen=True):
    """Groups by their hits, or in the order of their names."""

    COLUMNS: ClassVar[Sequence[str]] = ("key", "count")
    LIST = "groups"

    start: Time | None = field(name="from")
    end: Time | None = field(name="to")
    groups: list[KeyCount]
    exact: ExactList
    after: After = UNSET
    before: Before = UNSET

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns."""
        return self.COLUMNS if self.before is UNSET else (*self.COLUMNS, "before")


class LinksByValueAnswer(LinksAnswer, frozen=True):
    """Links by the sum of the values of an event."""

    COLUMNS = ("key", "count", "value")


class GroupsByValueAnswer(GroupsAnswer, frozen=True):
    """Groups by the sum of the values of an event."""

    COLUMNS = ("key", "count", "value")


# --- now, and the hours of a week ---------------------------------------------------------------------------------
class NowAnswer(Struct, frozen=True):
    """The hits of the last minutes, the one that holds now among them."""

    key: Key
    at: Annotated[Time, Meta(description="the moment that the answer is of")]
    last_5m: int
    last_30m: int
    exact: Annotated[bool, Meta(description="false where the store keeps no minutes: wider buckets then count whole")]
    minutes: Annotated[list[int], Meta(description="the hits of each of the last 30 minutes, the oldest first")]


class HourOfWeek(Struct, frozen=True, gc=False):
    """An hour of a weekday, and all hits in such hours."""

    weekday: Annotated[int, Meta(description="1 is Monday, 7 Sunday")]
    hour: Annotated[int, Meta(description="0 to 23, on the clock of the zone")]
    count: int
    hours: Annotated[int, Meta(description="how many such hours were summed")]


class HoursAnswer(Tabular, frozen=True):
    """Hits by weekday and hour: 7 x 24 cells, Monday 0:00 first."""

    COLUMNS = ("weekday", "hour", "count", "hours")
    LIST = "cells"

    key: Key
    start: Annotated[Time, Meta(description="start of the first hour that was summed")] = field(name="from")
    end: Annotated[Time, Meta(description="end of the last one: an hour under way is not summed")] = field(name="to")
    tz: str
    first_hit: FirstHit
    total: Annotated[int, Meta(description="sum of the cells")]
    straddling: Annotated[
        int, Meta(description="hits of kept buckets that two hours of the zone share: counted in the earlier hour")
    ]
    exact: Annotated[bool, Meta(description="each hit is in its own cell, and none of these days were called bots")]
    cells: list[HourOfWeek]
