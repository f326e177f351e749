"""What each answer holds, stated once: JSON, CSV, rows for tables, the schemas of /openapi.json and the page use it.

A field's name, place and type are those of the JSON. Times are epoch seconds, ranges half-open; a `key` of None is all
links together. CSV has a line for each of an answer's `lines()`, under the names in its COLUMNS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from operator import attrgetter
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

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


class Tabular(Struct, frozen=True):
    """An answer that can be CSV: a line for each item of its LIST, under the names of the item's fields."""

    COLUMNS: ClassVar[Sequence[str]]
    LIST: ClassVar[str]

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns."""
        return self.COLUMNS

    def lines(self) -> Iterable[Sequence[object]]:
        """Returns the values of each line."""
        return map(attrgetter(*self.columns()), getattr(self, self.LIST))


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
    """What somebody, or the server itself, wrote beside the hits of a moment; of all links without key and group."""

    id: str
    at: Time
    kind: Annotated[str, Meta(description="note, alert, disavow, erase, delete or import")]
    text: str
    key: str | None = None
    group: str | None = None


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


# --- what came of clicks ----------------------------------------------------------------------------------------------
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

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields an event of a value a line."""
        for each in self.values:
            yield from ((each.value, *msgspec.structs.astuple(each.clicks), *of.cells()) for of in each.events)


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


# --- refusals ---------------------------------------------------------------------------------------------------------
class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request is refused; clickcurve.problem writes it."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="what is wrong, in a sentence")]
    field: Annotated[str | UnsetType, Meta(description="what is to blame, where it is one thing")] = UNSET
    value: Annotated[object, Meta(description="what was given for it")] = UNSET
    rule: Annotated[str | UnsetType, Meta(description="the rule that it breaks")] = UNSET


# --- as bytes ---------------------------------------------------------------------------------------------------------
JSON, CSV = "application/json", "text/csv; charset=utf-8"

as_json = msgspec.json.Encoder().encode  # of an answer, or a list of rows


class CsvForm(NamedTuple):
    """How CSV is written. times_in: times are ISO 8601 in this zone, else epoch seconds.

    raw: texts stay as they are, for programs. bom: a byte order mark, by which Excel knows UTF-8.
    """

    times_in: tzinfo | None = None
    raw: bool = False
    bom: bool = False


PLAIN_CSV: Final = CsvForm()


def as_csv(answer: Tabular, form: CsvForm = PLAIN_CSV) -> bytes:
    """Returns a line of names, and one for each line of the answer."""
    zone = form.times_in
    lines = answer.lines()
    times = [place for place, name in enumerate(answer.columns()) if name in _TIMES]
    if zone is not None and times:
        lines = (_with_moments(line, times, zone) for line in lines)
    quoted = partial(_csv_field, form.raw)
    written = [",".join(map(quoted, line)) for line in (answer.columns(), *lines)]
    return (BOM if form.bom else b"") + ("\n".join(written) + "\n").encode()


def _with_moments(line: Sequence[object], times: Sequence[int], zone: tzinfo) -> Sequence[object]:
    values = list(line)
    for place in times:
        t = values[place]
        assert isinstance(t, int)
        values[place] = datetime.fromtimestamp(t, zone).isoformat()
    return values


_TIMES = ("start", "end")  # columns that are times
_TO_QUOTE = re.compile(r'[,"\r\n]')


BOM = b"\xef\xbb\xbf"
# With these signs begins what spreadsheets run as a formula (OWASP, "CSV Injection").
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def without_formula(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula: a stranger may have written it."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv_field(raw: bool, value: object) -> str:
    """Quotes one field as RFC 4180 says. raw: a text that begins as a formula stays as it is."""
    if isinstance(value, int):
        return str(value)
    text = "" if value is None else str(value)
    if not raw:
        text = without_formula(text)
    return '"' + text.replace('"', '""') + '"' if _TO_QUOTE.search(text) else text
