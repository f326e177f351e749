"""Hits summed into a batch: counts by minute, and attributes by hour, of links and of groups; many hits in columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, repeat

from msgspec.structs import replace

from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.times import YEARS
from ingest.attributes.profile import NumberedProfiles, Profile
from ingest.batch import (
    AttributeCounts,
    Batch,
    BatchAttributes,
    Counts,
    GroupCounts,
    HourProfiles,
    Identified,
    encode_batch,
    encode_singles,
)
from ingest.hit import NO_TIME, Hit, Moment, PlainHit, minute_start
from ingest.journal.group_commit import Group
from ingest.reading.judge import GoodHits

_AFTER_YEARS = YEARS.stop + MINUTE_S  # the minute before holds seconds that may be years
COUNTED_BY_C = 24  # hits of one minute from which on a Counter is faster: the dictionary that C adds to
# Of one number of a past, and of all pasts of one request together: the journal's numbers have 64 bits, and this leaves
# room for the hits of the same request.
PAST_MAX = 2**63 - 1
PastValue = tuple[str, int, str, int]  # dimension, start of an hour, value, count: what is known of a past
PastValues = Iterable[PastValue]


@dataclass(slots=True)
class Past:
    """What was counted of one thing: minute start -> count (> 0) of people and of bots.

    values: (dimension, start of an hour, value, count) of the breakdown, as BreakdownDelta has them.
    """

    people: dict[int, int] = field(default_factory=dict)
    bots: dict[int, int] = field(default_factory=dict)
    values: list[PastValue] = field(default_factory=list)

    def hits(self) -> int:
        """Returns how many hits there are, of people and of bots."""
        return sum(self.people.values()) + sum(self.bots.values())

    def add(self, minute: int, people: int, bots: int) -> None:
        if people:
            self.people[minute] = self.people.get(minute, 0) + people
        if bots:
            self.bots[minute] = self.bots.get(minute, 0) + bots


_no_visitors: Callable[[], defaultdict[str, list[int]]] = partial(defaultdict, list)


def count_hits(by_minute: Counts, keys: Sequence[str], times: Sequence[int], counts: Collection[int] = ()) -> None:
    """Adds hits by the minute of their times; counts: none where each is 1."""
    start = end = 0
    cell: dict[str, int] = {}
    if not counts and len(times) >= COUNTED_BY_C:
        start = minute_start(times[0])
        if start <= times[-1] < start + MINUTE_S and start <= min(times) and max(times) < start + MINUTE_S:
            _counter_of(by_minute, start).update(keys)
            return
        start = 0
    for key, t, count in zip(keys, times, counts or repeat(1), strict=False):
        if not start <= t < end:
            start = t - t % MINUTE_S
            end = start + MINUTE_S
            cell = by_minute[start]
        cell[key] = cell.get(key, 0) + count


def _counter_of(by_minute: Counts, minute: int) -> Counter[str]:
    """Returns the counts of a minute as a Counter, which counts in C."""
    cell = by_minute.get(minute)
    if not isinstance(cell, Counter):
        cell = by_minute[minute] = Counter(cell)
    return cell


def _different(values: Iterable[object]) -> int:
    return len(set(values))


class KeyedSums:
    """Hits of links, or of groups by their stored keys: counts by minute, attributes by hour, visitors by day."""

    def __init__(self, profiles: NumberedProfiles) -> None:
        self.profiles = profiles
        self.people: Counts = defaultdict(dict)
        self.bots: Counts = defaultdict(dict)
        self.hours: defaultdict[int, HourProfiles] = defaultdict(HourProfiles)
        self.visitors: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(_no_visitors)

    def __bool__(self) -> bool:
        return bool(self.people or self.bots or self.hours)

    def add(self, key: str, hit: Hit, place: int = 0) -> None:
        """Adds a hit to this key; place: that of the hash of the hit's visitor for it, if its visitor is known."""
        minute, profile, visitors = hit.minute, hit.profile, hit.visitors
        cell = (self.bots if hit.bot else self.people)[minute]
        cell[key] = cell.get(key, 0) + hit.count
        if profile is not None:
            self.add_profile(minute - minute % HOUR_S, key, profile, hit.count)
            if place < len(visitors):
                self.visitors[minute - minute % DAY_S][key].append(visitors[place])

    def add_profile(self, hour: int, key: str, profile: Profile, count: int) -> None:
        """Adds hits of one hour that have the same profile."""
        of_hour, number = self.hours[hour], self.profiles.number(profile)
        if count == 1 and not of_hour.counts:
            of_hour.keys.append(key)
            of_hour.profiles.append(number)
        else:
            of_hour.extend([key], [number], [count])

    def add_columns(self, hits: GoodHits) -> None:
        """Adds many hits."""
        keys, times, counts = hits.keys, hits.times, hits.counts
        if not hits.are_bots:
            count_hits(self.people, keys, times, counts)
        else:
            are_people = [not bot for bot in hits.are_bots]
            for chosen, by_minute in ((are_people, self.people), (hits.are_bots, self.bots)):
                count_hits(by_minute, *_chosen(chosen, keys, times, counts))
        for key, t, visitor in zip(keys, times, hits.visitors, strict=False):
            if visitor is not None:
                self.visitors[t - t % DAY_S][key].append(visitor)
        if not hits.kinds:
            return
        rows = hits.rows
        if hits.has_profile:
            keys, times, counts = _chosen(hits.has_profile, keys, times, counts)
            rows = list(compress(rows, hits.has_profile))
        numbers = self.profiles.numbers_of(hits.kinds, rows)
        hours = {min(times) // HOUR_S, max(times) // HOUR_S} if times else ()
        if len(hours) == 1:
            self.hours[hours.pop() * HOUR_S].extend(keys, numbers, counts)
            return
        of_hour: defaultdict[int, list[int]] = defaultdict(list)
        for place, t in enumerate(times):
            of_hour[t - t % HOUR_S].append(place)
        for hour, places in of_hour.items():
            some_keys, some_numbers = [keys[place] for place in places], [numbers[place] for place in places]
            self.hours[hour].extend(some_keys, some_numbers, [counts[place] for place in places] if counts else ())

    def add_past(self, key: str, people: Mapping[int, int], bots: Mapping[int, int], values: PastValues) -> None:
        """Adds a link's history: minute start -> count, and the values of its breakdown."""
        for counts, past in ((self.people, people), (self.bots, bots)):
            count_hits(counts, [key] * len(past), [*past], past.values())
        for dimension, hour, value, count in values:
            self.add_profile(hour, key, Profile((dimension,), (value,)), count)

    def counts(self, repeated: bool) -> int:
        """Returns how many counts a buffer makes of these hits; repeated: some may be told several times.

        A count is a key in a minute, with one profile in an hour, or one visitor of it in a day.
        """
        size = len if repeated else _different
        minutes = sum(map(len, chain(self.people.values(), self.bots.values())))
        profiles = sum(
            len(each.keys) if repeated else _different(zip(each.keys, each.profiles, strict=True))
            for each in self.hours.values()
        )
        return minutes + profiles + sum(map(size, chain.from_iterable(map(dict.values, self.visitors.values()))))

    def attributes(self) -> AttributeCounts:
        """Returns the attributes, for a batch with these profiles."""
        visitors = {day: dict(by_key) for day, by_key in self.visitors.items() if by_key}
        return AttributeCounts(dict(self.hours), visitors)

    def group_counts(self) -> GroupCounts:
        """Returns all of it, where the keys are those of groups."""
        return GroupCounts(self.people, self.bots, self.attributes())


def _chosen(
    chosen: Sequence[bool], keys: Sequence[str], times: Sequence[int], counts: Sequence[int]
) -> tuple[list[str], list[int], list[int]]:
    return list(compress(keys, chosen)), list(compress(times, chosen)), list(compress(counts, chosen))


class HitSums:
    """Hits on their way into one batch.

    keys: the start of a minute -> the link of each hit that counts one person and says nothing else. They are not
    summed, because the buffer sums what comes to it in any case: here it would cost a quarter of what it takes to read
    and count a hit.
    """

    def __init__(self, profiles: NumberedProfiles | None = None) -> None:
        """Begins with nothing; profiles: those that other hits of the same batch have."""
        profiles = NumberedProfiles() if profiles is None else profiles
        self.links = KeyedSums(profiles)
        self.groups = KeyedSums(profiles)
        self.keys: defaultdict[int, list[str]] = defaultdict(list)
        self.events: Counter[int] = Counter()  # minute start -> events without an id of their own
        self.openings: dict[str, int] = {}
        self.with_id: list[Hit] = []

    def add(self, hit: Hit) -> None:
        """Adds a hit, under its id if it has one."""
        if hit.id is not None:
            self.with_id.append(hit)
            return
        if hit.event:
            self._add_event(hit)
            return
        self.links.add(hit.key, hit)
        if hit.groups:
            for place, group in enumerate(hit.groups, 1):
                self.groups.add(group, hit, place)

    def _add_event(self, hit: Hit) -> None:
        """Adds an event to rows beside those of clicks, which a batch keeps with groups: it is in no link."""
        events, values = measures_of(hit.event)
        self.events[hit.minute] += hit.count
        for row in hit.rows:
            self.groups.add(events.row(row), hit)
        if hit.value:
            amount = replace(hit, count=hit.count * hit.value)
            for row in hit.rows:
                self.groups.add(values.row(row), amount)

    def add_past_events(self, rows: Sequence[str], events: Mapping[Measure, Past]) -> None:
        """Adds what came of clicks in the past to the rows beside these, that are of clicks (stored keys)."""
        for measure, past in events.items():
            for row in rows:
                self.groups.add_past(measure.row(row), past.people, past.bots, past.values)

    def add_plain(self, hits: Sequence[PlainHit], moment: Moment) -> list[PlainHit]:
        """Adds hits of people; returns those whose time no hit may have, which are left out."""
        # Short, for most hits pass here: the decoder has checked them, but for the time, which is looked at with a new
        # minute. The minute that the last tolerated second lies in ends there: later hits of it are judged again.
        limit, refused, has_count = moment.latest + 1, list[PlainHit](), "count" in hits[0].__struct_fields__
        minute = start = end = 0
        keys, people = self.keys, self.links.people
        append = list[str]().append
        cell: dict[str, int] | None = None
        for hit in hits:
            ts = hit.ts
            if not start <= ts < end:
                minute = start = ts - ts % MINUTE_S
                end = start + MINUTE_S
                if not _AFTER_YEARS < end <= limit:
                    if ts == NO_TIME:
                        minute, start, end = minute_start(moment.now), NO_TIME, NO_TIME + 1
                    elif ts >= limit or ts in YEARS:
                        refused.append(hit)
                        end = 0  # the next one of this minute may lie before the limit
                        continue
                    elif end <= _AFTER_YEARS:
                        start, end = ts, ts + 1
                    else:
                        end = limit
                append, cell = keys[minute].append, None
            if has_count and hit.count:
                if cell is None:
                    cell = people[minute]
                cell[hit.key] = cell.get(hit.key, 0) + hit.count
            else:
                append(hit.key)
        return refused

    def sum_keys(self) -> None:
        """Sums the hits that are not summed yet."""
        for minute, keys in self.keys.items():
            if keys:  # of a minute whose hits all say a count there are none
                _counter_of(self.links.people, minute).update(keys)
        self.keys.clear()

    def counts(self, repeated: bool) -> int:
        """Returns how many counts a buffer makes of these hits, as KeyedSums does."""
        plain = sum(len(keys) if repeated or len(keys) == 1 else _different(keys) for keys in self.keys.values())
        kept = sum(each.counts(repeated) for each in (self.links, self.groups))
        return plain + kept + len(self.openings) + len(self.with_id)

    def sums_without_id(self, late_before: int) -> tuple[int, int]:
        """Returns the number of all hits that have no id of their own, and of those before this minute."""
        total, late = sum(self.openings.values()), 0
        for minute, cell in chain(self.links.people.items(), self.links.bots.items()):
            count = sum(cell.values())
            total += count
            late += count if minute < late_before else 0
        for minute, count in chain(((minute, len(keys)) for minute, keys in self.keys.items()), self.events.items()):
            total += count
            late += count if minute < late_before else 0
        return total, late

    def batch(self, name: str | None = None) -> Batch:
        """Returns the batch; hits without an id of their own count under this name, if there is one."""
        links, groups = self.links, self.groups
        if self.keys and not (links or groups or self.with_id or self.openings or name):
            return Batch(keys=self.keys)
        self.sum_keys()
        if not (links.hours or groups or self.with_id or name):  # nearly always
            return Batch(links.people, links.bots, openings=self.openings)
        identified = [self._identified(hit) for hit in self.with_id]
        part = BatchAttributes(links=links.attributes(), groups=groups.group_counts())
        if name is None:
            batch = Batch(links.people, links.bots, identified, self.openings)
        else:
            named = Identified(str(name), links.people, links.bots, part.links or None, part.groups or None)
            batch, part = Batch(identified=[named, *identified]), BatchAttributes()
        if links.profiles or groups or any(one.groups for one in identified):
            part.kinds, part.profiles = list(links.profiles.kinds), list(links.profiles.numbers)
            batch.attributes = part
        return batch

    def _identified(self, hit: Hit) -> Identified:
        """Returns a hit with an id, whose profile is numbered beside those of all others."""
        if hit.profile is None and not (hit.groups or hit.event):
            counts: Counts = {hit.minute: {hit.key: hit.count}}
            return Identified(str(hit.id), {} if hit.bot else counts, counts if hit.bot else {})
        alone = HitSums(self.links.profiles)
        alone.add(replace(hit, id=None))
        links, groups = alone.links, alone.groups.group_counts()
        return Identified(str(hit.id), links.people, links.bots, links.attributes() or None, groups or None)


def batch_of_hits(hits: Iterable[Hit]) -> Batch:
    """Returns the batch of some hits."""
    sums = HitSums()
    for hit in hits:
        sums.add(hit)
    return sums.batch()


def close_group(group: Group, minute: int) -> list[bytes]:
    """Returns the payload of a group's single hits of this minute, and makes one batch of its other hits.

    A batch of its own for each hit took twice as long.
    """
    if group.hits:
        batch = batch_of_hits(group.hits)
        group.add_payload(batch, encode_batch(batch), False, None)
    return [encode_singles(minute, group.keys)] if group.keys else []
