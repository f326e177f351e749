"""A link's or group's past in one line of JSON, from another product or an export of this one.

    {"key", "total", "bots", "first_hit", "last_hit", "opening", "buckets": [[start, end, people, bots], ...],
     "by": {"ref": [[start, end, {"news.example": 3}, other, slack], ...]}}

`key` is required, of the others at least one that counts something. `total` is people, and must be the opening plus
the buckets; the opening may be left out and is then what the total has beyond the buckets, so `{"key", "total"}` alone
is an opening: a count without dates. `bots` must be what the buckets hold of them, for bots have no opening.

A bucket lands exactly when it nests in the bucket that is kept at its time, which every bucket of an export does. A
wider one would have to be placed somewhere by guess, so the line is refused, unless the caller asks that it count at
its start. A line counts whole or not at all.

`by` has the breakdown: buckets as `clickcurve.buckets.breakdowns` has them, each of which lands where it was. No
dimension may hold more hits than the line's buckets.

`"grouped": true` says that a line of the group of the key's host has these hits too: they are not added to it again.

`{"group": NAME, ...}` instead of a key is the past of a group. It has no opening, for a group counts hits as they are
accepted; and nothing of it is in links, which have lines of their own.

The row's first and last hit bound when its hits were. So where a line does not say its own, the first hit is taken to
be in the first minute of the first bucket, and the last hit in the last minute of the last one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from clickcurve.buckets.breakdowns.breakdown import CUT_OFF, CUT_SLACK
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import HitRejected, SettingInvalid, shown
from clickcurve.buckets.ladder import HOUR_S, Ladder, fold_day
from clickcurve.keys import GROUP_RULE, require_key
from clickcurve.times import iso_seconds
from ingest.attributes.dimensions import DIMENSION_RULE, dimensions_of
from ingest.attributes.text import VALUE_BYTES, cut, text_of
from ingest.hit import Moment, minute_start, require_group, ts_of

MAX_COUNT = 10**15  # of one number in a line
_STEP_BUCKETS = 512
BY_RULE = "lists of [start of an hour, end, {value: count}, other, slack], slack no more than other"
BUCKETS_RULE = "a list of [start, end, people, bots], in order, without overlap"
SUBJECT_RULE = "a key, or a group"

_When = int | float | str


class Wide(StrEnum):
    """What becomes of a bucket that is wider than what is kept at its time."""

    refuse = "refuse"
    start = "start"  # all of it counts at its start


class HistoryLine(msgspec.Struct):
    """A line as it is written. Times are epoch seconds or ISO 8601."""

    key: str | None = None
    group: str | None = None
    total: int | None = None
    bots: int | None = None
    first_hit: _When | None = None
    last_hit: _When | None = None
    opening: int | None = None
    buckets: list[tuple[_When, _When, int, int]] | None = None
    by: dict[str, list[tuple[_When, _When, dict[str, int], int, int]]] | None = None
    grouped: bool | None = None


@dataclass(slots=True)
class History:
    """What a line adds: minute start -> count (> 0) of people and of bots, and the opening.

    key: that of a link, or the name of a group. values: (dimension, start of an hour, value, count) of the breakdown,
    as BreakdownDelta has them. is_grouped: the group of the link's host has a line of its own.
    """

    key: str
    opening: int = 0
    people: dict[int, int] = field(default_factory=dict)
    bots: dict[int, int] = field(default_factory=dict)
    values: list[tuple[str, int, str, int]] = field(default_factory=list)
    is_group: bool = False
    is_grouped: bool = False

    def add(self, minute: int, people: int, bots: int) -> None:
        if people:
            self.people[minute] = self.people.get(minute, 0) + people
        if bots:
            self.bots[minute] = self.bots.get(minute, 0) + bots


@dataclass(frozen=True, slots=True)
class _Bucket:
    start: int
    end: int
    people: int
    bots: int
    is_wide: bool  # all of it counts at its start

    def within(self, t: int | None) -> int | None:
        """Returns a time if it is in this bucket, else None."""
        return t if t is not None and self.start <= t < self.end else None


_decoder = msgspec.json.Decoder(HistoryLine)


def history_steps(line: bytes, moment: Moment, ladder: Ladder, wide: Wide) -> Generator[None, None, History]:
    """Returns the past in a line; raises HitRejected if any part of it cannot be kept as it is.

    A line of 1 MiB has 45,000 buckets and takes 0.2 s: it yields now and then, for others to run.
    """
    try:
        values = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HitRejected(f"not a line of history: {error}", field="history", value=line) from None
    key = _name_of(values)
    buckets = yield from _bucket_steps(values, moment, ladder, wide)
    history = History(
        key, _opening(values, buckets), is_group=values.group is not None, is_grouped=bool(values.grouped)
    )
    if history.is_group and history.opening:
        detail = f"a group has no counts without dates, and this one has {history.opening}"
        raise HitRejected(detail, field="opening", value=history.opening, rule="groups count hits as they are accepted")
    seen = [bucket for bucket in buckets if bucket.people or bucket.bots]
    first, last = _when("first_hit", values.first_hit), _when("last_hit", values.last_hit)
    for number, bucket in enumerate(seen, 1):
        if number % _STEP_BUCKETS == 0:
            yield
        first_here, last_here = bucket.within(first), bucket.within(last)
        at = until = minute_start(bucket.start if bucket is not seen[0] or first_here is None else first_here)
        if bucket is seen[-1]:
            end = bucket.start if bucket.is_wide else bucket.end - 1
            until = minute_start(end if last_here is None else last_here)
        people, bots = bucket.people, bucket.bots
        if people + bots == 1:  # one hit has one minute
            at = until if bucket is not seen[0] or (last_here is not None and first_here is None) else at
        elif until > at:
            person = min(people, 1)
            history.add(until, person, 1 - person)
            people, bots = people - person, bots - (1 - person)
        history.add(at, people, bots)
    yield from _value_steps(history, values.by or {}, moment)
    return history


def _name_of(values: HistoryLine) -> str:
    """Returns the key of a line's link, or its group; raises HitRejected unless it is about just one."""
    if values.group is None:
        return require_key(values.key, HitRejected)
    if values.key is not None:
        detail = "a line is about a link or about a group, not both"
        raise HitRejected(detail, field="group", value=values.group, rule=SUBJECT_RULE)
    require_group(values.group, "group", GROUP_RULE)
    return values.group


def _value_steps(
    history: History, by: Mapping[str, Sequence[tuple[_When, _When, dict[str, int], int, int]]], moment: Moment
) -> Generator[None, None, None]:
    """Adds a breakdown; raises HitRejected for one that cannot be."""
    try:
        dimensions_of(list(by))
    except SettingInvalid as error:
        raise HitRejected(error.detail, field="by", value=error.value, rule=DIMENSION_RULE) from None
    for name, buckets in by.items():
        recorded = 0
        for number, (raw_start, _, values, other, slack) in enumerate(buckets, 1):
            if number % _STEP_BUCKETS == 0:
                yield
            start = ts_of(raw_start, moment)
            if start % HOUR_S or not 0 <= slack <= other or (other and not slack):
                raise HitRejected(f"a bucket of {name} is not valid", field="by", value=raw_start, rule=BY_RULE)
            for value, count in (*values.items(), (CUT_OFF, other), (CUT_SLACK, slack)):
                if value not in (CUT_OFF, CUT_SLACK) and cut(text_of(value, "by", BY_RULE, VALUE_BYTES)) != value:
                    raise HitRejected("a value is too long", field="by", value=value, rule=BY_RULE)
                if _count("by", count):
                    history.values.append((name, start, value, count))
                    recorded += count if value != CUT_SLACK else 0
        counted = sum((history.bots if name in OF_BOTS else history.people).values())
        if recorded > counted:
            detail = f"{name} divides {recorded} hits, the buckets hold {counted}"
            raise HitRejected(detail, field="by", value=recorded, rule="no more than the buckets have")


def _bucket_steps(
    values: HistoryLine, moment: Moment, ladder: Ladder, wide: Wide
) -> Generator[None, None, Sequence[_Bucket]]:
    """Returns the buckets of a line; raises HitRejected for the first that cannot be kept."""
    day = fold_day(moment.now)
    buckets = []
    before = 0
    for number, (raw_start, raw_end, people, bots) in enumerate(values.buckets or (), 1):
        if number % _STEP_BUCKETS == 0:
            yield
        start, end = ts_of(raw_start, moment), _when("buckets", raw_end)
        if end is None or not before <= start < end:
            raise HitRejected(
                "buckets overlap or end before they start",
                field="buckets",
                value=_shown_bucket(raw_start, raw_end),
                rule=BUCKETS_RULE,
            )
        kept = ladder.kept(start, day)
        if end > kept[1] and wide is Wide.refuse:
            detail = "a bucket reaches over an edge of those that are kept at its time"
            rule = f"within [{kept[0]}, {kept[1]}]; counting it at its start has to be asked for"
            raise HitRejected(detail, field="buckets", value=_shown_bucket(raw_start, raw_end), rule=rule)
        buckets.append(_Bucket(start, min(end, kept[1]), _count("people", people), _count("bots", bots), end > kept[1]))
        before = end
    return buckets


def _shown_bucket(start: _When, end: _When) -> str:
    return f"[{shown(start)}, {shown(end)}]"


def _opening(values: HistoryLine, buckets: Sequence[_Bucket]) -> int:
    """Returns the count without dates; raises HitRejected if the line's sums disagree."""
    people, bots = sum(bucket.people for bucket in buckets), sum(bucket.bots for bucket in buckets)
    if values.total is None and values.opening is None and values.buckets is None:
        raise HitRejected(
            "nothing to count", field="history", value=values.key or values.group, rule="a total, an opening or buckets"
        )
    if values.bots is not None and _count("bots", values.bots) != bots:
        raise HitRejected(
            f"bots is {values.bots}, its buckets hold {bots}",
            field="bots",
            value=values.bots,
            rule="as the buckets have it",
        )
    if values.total is None:
        return _count("opening", values.opening or 0)
    total = _count("total", values.total)
    opening = total - people if values.opening is None else _count("opening", values.opening)
    if opening < 0 or opening + people != total:
        parts = f"{people} in buckets" if values.opening is None else f"{opening} opening and {people} in buckets"
        raise HitRejected(
            f"total is {total}, but there are {parts}", field="total", value=total, rule="opening plus buckets"
        )
    return opening


def _count(name: str, value: int) -> int:
    if not 0 <= value <= MAX_COUNT:
        raise HitRejected(f"{name} is out of range", field=name, value=value, rule=f"an integer from 0 to {MAX_COUNT}")
    return value


def _when(name: str, value: _When | None) -> int | None:
    if isinstance(value, str):
        seconds = iso_seconds(value)
        if seconds is None:
            raise HitRejected(f"{name} is not a time", field=name, value=value, rule="epoch seconds or ISO 8601")
        return seconds
    return None if value is None else int(value // 1)
