"""A link's or group's past in one line of JSON, from another product or an export of this one.

    {"key", "total", "bots", "first_hit", "last_hit", "opening", "buckets": [[start, end, people, bots], ...],
     "by": {"ref": [[start, end, {"news.example": 3}, other, slack], ...]}}

`key` is required, of the others at least one that counts something. `total` is people, and must be the opening plus
the buckets; the opening may be left out and is then what the total has beyond the buckets, so `{"key", "total"}` alone
is an opening: a count without dates. `bots` must be what the buckets hold of them, for bots have no opening.

A bucket lands exactly when it nests in the bucket that is kept at its time, which every bucket of an export does,
unless rows were folded by a clock that was ahead. A wider one would have to be placed somewhere by guess, so the line
is refused, unless the caller asks that it count at its start (`places`). A line counts whole or not at all.

`by` has the breakdown: buckets as `clickcurve.buckets.breakdowns` has them, each of which lands where it was. No
dimension may hold more hits than the line's buckets.

`"grouped": true` says that a line of the group of the key's host has these hits too: they are not added to it again.

`{"group": NAME, ...}` instead of a key is the past of a group. It has no opening, for a group counts hits as they are
accepted; and nothing of it is in links, which have lines of their own.

`"events": {NAME: {...}}` has what came of the clicks: of each event of the settings the same fields but an opening, and
`values`, the sums of amounts, with these fields again. Values count only in buckets in which the events do.

The row's first and last hit bound when its hits were. So where a line does not say its own, the first hit is taken to
be in the first minute of the first bucket, and the last hit in the last minute of the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, CUT_OFF, CUT_SLACK
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import HitRejected, SettingInvalid, shown
from clickcurve.buckets.ladder import END_OF_TIME, HOUR_S, Ladder, fold_day
from clickcurve.buckets.measures import VALUE_MAX, Measure, measures_of
from clickcurve.keys import GROUP_RULE, require_key
from clickcurve.times import iso_seconds
from ingest.attributes.dimensions import DIMENSION_RULE, dimensions_of
from ingest.attributes.text import VALUE_BYTES, cut, text_of
from ingest.hit import Moment, hour_start, minute_start, require_group, ts_of
from ingest.hit_sums import PAST_MAX, Past
from ingest.imports.places import AS_IT_WAS, Ahead, Places, Placing, Wide

_STEP_BUCKETS = 512
BY_RULE = "lists of [start of an hour, end, {value: count}, other, slack], slack no more than other"
BUCKETS_RULE = "a list of [start, end, people, bots], in order, without overlap"
SUBJECT_RULE = "a key, or a group"

_When = int | float | str


class PastLine(msgspec.Struct):
    """What was counted of one thing, as it is written. Times are epoch seconds or ISO 8601."""

    total: int | None = None
    bots: int | None = None
    first_hit: _When | None = None
    last_hit: _When | None = None
    opening: int | None = None
    buckets: list[tuple[_When, _When, int, int]] | None = None
    by: dict[str, list[tuple[_When, _When, dict[str, int], int, int]]] | None = None


class EventLine(PastLine):
    """An event in a line, with the sums of its values."""

    values: PastLine | None = None


class HistoryLine(PastLine):
    """A line as it is written."""

    key: str | None = None
    group: str | None = None
    grouped: bool | None = None
    events: dict[str, EventLine] | None = None


@dataclass(slots=True)
class History(Past):
    """What a line adds to the row of clicks, and the opening; events: to the rows beside it.

    key: that of a link, or the name of a group. is_grouped: the group of the link's host has a line of its own.
    """

    key: str = ""
    opening: int = 0
    is_group: bool = False
    is_grouped: bool = False
    events: dict[Measure, Past] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads lines. placing: what becomes of buckets that cannot count where they were. events: those that count."""

    ladder: Ladder
    placing: Placing = AS_IT_WAS
    events: Collection[str] = ()

    def steps(self, line: bytes, moment: Moment) -> Generator[None, None, History]:
        """Returns the past in a line; raises HitRejected if any part of it cannot be kept as it is.

        A line of 1 MiB has 45,000 buckets and takes 0.2 s: it yields now and then, for others to run.
        """
        try:
            values = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HitRejected(f"not a line of history: {error}", field="history", value=line) from None
        history = History(key=_name_of(values), is_group=values.group is not None, is_grouped=bool(values.grouped))
        places = yield from self._place_steps(values, moment)
        if not (values.events and _says_nothing(values)):
            history.opening = yield from self._past_steps(history, values, places, history.key)
        if history.is_group:
            _require_dated(history.opening, "a group", "groups count hits as they are accepted")
        for event, part in (values.events or {}).items():
            yield from self._event_steps(history, event, part, places)
        return history

    def _place_steps(self, values: HistoryLine, moment: Moment) -> Generator[None, None, Places]:
        """Returns where buckets of a line count; raises HitRejected for the first that cannot be kept."""
        read_at = replace(moment, latest=END_OF_TIME - 1) if self.placing.ahead is Ahead.now else moment
        day, wide, number = fold_day(moment.now), [], 0
        for ladder, raw_start, raw_end in _all_buckets(values, self.ladder):
            number += 1
            if number % _STEP_BUCKETS == 0:
                yield
            start, end = ts_of(raw_start, read_at), _when("buckets", raw_end)
            kept = ladder.kept(start, day)
            if end is None or end <= kept[1]:
                continue
            if self.placing.wide is Wide.refuse:
                detail = "a bucket reaches over an edge of those that are kept at its time"
                rule = f"within [{kept[0]}, {kept[1]}]; counting it at its start has to be asked for"
                raise HitRejected(detail, field="buckets", value=_shown_bucket(raw_start, raw_end), rule=rule)
            wide.append((start, end))
        return Places.among(wide, moment, read_at)

    def _past_steps(self, past: Past, values: PastLine, places: Places, name: str) -> Generator[None, None, int]:
        """Adds what was counted of one thing to `past`; returns its opening. name: for refusals."""
        buckets = yield from _bucket_steps(values, places, self.ladder)
        opening = _opening(values, buckets, name)
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
                past.add(until, person, 1 - person)
                people, bots = people - person, bots - (1 - person)
            past.add(at, people, bots)
        yield from _value_steps(past, values.by or {}, places)
        return opening

    def _event_steps(
        self, history: History, event: str, part: EventLine, places: Places
    ) -> Generator[None, None, None]:
        """Adds what came of the clicks; raises HitRejected for an event that is not counted here."""
        if event not in self.events:
            names = ", ".join(self.events)
            detail = f"the event is not counted here; events: {names or 'none'}"
            raise HitRejected(detail, field="events", value=event, rule=names or "no event")
        counts, values = measures_of(event)
        for measure, line in ((counts, part), (values, part.values)):
            if line is not None:
                history.events[measure] = past = Past()
                try:
                    opening = yield from self._past_steps(past, line, places, event)
                    _require_dated(opening, "an event", "events count as they are accepted")
                except HitRejected as error:
                    detail = f"{error.detail}, of {measure}"
                    raise HitRejected(detail, field=error.field, value=error.value, rule=error.rule) from None
        if values in history.events:
            self._check_amounts(event, history.events[counts], history.events[values], fold_day(places.moment.now))

    def _check_amounts(self, event: str, counts: Past, amounts: Past, day: int) -> None:
        """Raises HitRejected for values of no event, or of events that would have to be too large."""
        for counted, valued in ((counts.people, amounts.people), (counts.bots, amounts.bots)):
            known = {self.ladder.kept(minute, day) for minute in counted}
            if odd := next((minute for minute in valued if self.ladder.kept(minute, day) not in known), None):
                detail = f"there are values of {event} in a bucket without events"
                raise HitRejected(detail, field="values", value=odd, rule="in buckets in which events are")
            if sum(valued.values()) > VALUE_MAX * sum(counted.values()):
                detail = f"the values of {event} are too large"
                raise HitRejected(
                    detail, field="values", value=sum(valued.values()), rule=f"at most {VALUE_MAX:,} for each event"
                )


def _says_nothing(values: PastLine) -> bool:
    return values.total is None and values.opening is None and values.buckets is None


def _require_dated(opening: int, what: str, rule: str) -> None:
    if opening:
        detail = f"{what} has no counts without dates, and this one has {opening}"
        raise HitRejected(detail, field="opening", value=opening, rule=rule)


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
    past: Past, by: Mapping[str, Sequence[tuple[_When, _When, dict[str, int], int, int]]], places: Places
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
            start = ts_of(raw_start, places.read_at)
            if start % HOUR_S or not 0 <= slack <= other or (other and not slack):
                raise HitRejected(f"a bucket of {name} is not valid", field="by", value=raw_start, rule=BY_RULE)
            if (placed := places.of(start)) is not None:
                start = hour_start(placed)
            for value, count in (*values.items(), (CUT_OFF, other), (CUT_SLACK, slack)):
                if value not in (CUT_OFF, CUT_SLACK) and cut(text_of(value, "by", BY_RULE, VALUE_BYTES)) != value:
                    raise HitRejected("a value is too long", field="by", value=value, rule=BY_RULE)
                if _count("by", count):
                    past.values.append((name, start, value, count))
                    recorded += count if value != CUT_SLACK else 0
        counted = sum((past.bots if name in OF_BOTS else past.people).values())
        if recorded > counted:
            detail = f"{name} divides {recorded} hits, the buckets hold {counted}"
            raise HitRejected(detail, field="by", value=recorded, rule="no more than the buckets have")


def _all_buckets(line: HistoryLine, ladder: Ladder) -> Iterator[tuple[Ladder, _When, _When]]:
    """Yields the ladder, the start and the end of each bucket in a line. ladder: that of rows of counts."""
    for event in (line, *(line.events or {}).values()):
        for part in (event, event.values) if isinstance(event, EventLine) else (event,):
            if part is not None:
                yield from ((ladder, start, end) for start, end, _, _ in part.buckets or ())
                divided = chain.from_iterable((part.by or {}).values())
                yield from ((BREAKDOWN.ladder, start, end) for start, end, _, _, _ in divided)


def _bucket_steps(values: PastLine, places: Places, ladder: Ladder) -> Generator[None, None, Sequence[_Bucket]]:
    """Returns the buckets of a line; raises HitRejected for the first that cannot be kept."""
    day = fold_day(places.moment.now)
    buckets: list[_Bucket] = []
    before = 0
    for number, (raw_start, raw_end, people, bots) in enumerate(values.buckets or (), 1):
        if number % _STEP_BUCKETS == 0:
            yield
        start, end = ts_of(raw_start, places.read_at), _when("buckets", raw_end)
        if end is None or not before <= start < end:
            raise HitRejected(
                "buckets overlap or end before they start",
                field="buckets",
                value=_shown_bucket(raw_start, raw_end),
                rule=BUCKETS_RULE,
            )
        before, placed = end, places.of(start)
        bucket = _Bucket(start, end, _count("people", people), _count("bots", bots), is_wide=False)
        if placed is not None:
            people, bots = bucket.people, bucket.bots
            if buckets and buckets[-1].start == placed:
                people, bots = people + buckets[-1].people, bots + buckets.pop().bots
            bucket = _Bucket(placed, ladder.kept(placed, day)[1], people, bots, is_wide=True)
        buckets.append(bucket)
    return buckets


def _shown_bucket(start: _When, end: _When) -> str:
    return f"[{shown(start)}, {shown(end)}]"


def _opening(values: PastLine, buckets: Sequence[_Bucket], name: str) -> int:
    """Returns the count without dates; raises HitRejected if the line's sums disagree. name: for refusals."""
    people, bots = sum(bucket.people for bucket in buckets), sum(bucket.bots for bucket in buckets)
    if _says_nothing(values):
        raise HitRejected("nothing to count", field="history", value=name, rule="a total, an opening or buckets")
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
    if not 0 <= value <= PAST_MAX:
        raise HitRejected(f"{name} is out of range", field=name, value=value, rule=f"an integer from 0 to {PAST_MAX:,}")
    return value


def _when(name: str, value: _When | None) -> int | None:
    if isinstance(value, str):
        seconds = iso_seconds(value)
        if seconds is None:
            raise HitRejected(f"{name} is not a time", field=name, value=value, rule="epoch seconds or ISO 8601")
        return seconds
    return None if value is None else int(value // 1)
