"""Counts on their way to a row, as a buffer holds them: by minute, and by profile and hour.

Minutes of today are kept as a dict of keys for each, late ones by key, so that reading one key does not walk the
million minutes of an imported history of a thousand days.

A profile of a batch gets the number that it has in the buffer, where it stands once, however many batches bring it.
Counts by profile are kept by key, as a flush asks for them: it needs no copy. By profile, as they come, a hit took five
times the memory, since most profiles of a quarter of a minute are met once. A visitor is counted, though only that it
was there is flushed: hits of an id that others claimed can be taken back.

What is held is counted as it grows, in bytes, together with the copy by key that a flush will make. Hits of keys that a
slot knows already cost nothing, to hold and to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from sys import getsizeof
from typing import NamedTuple, TypeVar

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from ingest.attributes.profile import NumberedProfiles, ProfileRow, texts_of
from ingest.batch import AttributeCounts, BatchAttributes, Counts, HourProfiles

K = TypeVar("K")
V = TypeVar("V")
SlotT = TypeVar("SlotT")
PartT = TypeVar("PartT", Sequence[str], Mapping[str, int])
# What CPython takes, beside the bytes of each key: measured as growth of a process, with the flush's copy.
PAIR_BYTES = 100  # a key in a minute: its place in two tables
KEY_BYTES = 320  # more for a key that the minute before did not know: its dict in the copy, and its stored key
LATE_KEY_BYTES = 200  # more for a key that is kept with its late minutes
PROFILE_BYTES = 200  # a profile, beside its values
PROFILE_HOUR_BYTES = 60  # an hour of a profile
KEY_PROFILE_BYTES = 120  # an hour of a profile at a key: dictionaries have room for what may come
PROFILED_KEY_BYTES = 250  # a key whose hits have profiles
VISITOR_BYTES = 150

ENTRIES_PER_PAUSE = 200
COUNTS_AT_ONCE = 2_000  # that are added without leaving the event loop: up to 2 us each

NO_DELTA = BreakdownDelta({})

# An hour and the number of a profile as one integer: a tuple of both takes twice the memory.
_NUMBER_BITS = 32
_NUMBER = (1 << _NUMBER_BITS) - 1


class RowCounts(NamedTuple):
    """What a buffer holds of one key.

    people, bots: by minute. profiles: hits by hour and number of a profile. visitors: hits by day and hash. Where there
    are visitors there are profiles.
    """

    people: Mapping[int, int] = {}
    bots: Mapping[int, int] = {}
    opening: int = 0
    profiles: Mapping[int, int] = {}
    visitors: Mapping[tuple[int, int], int] = {}

    def plus(self, other: RowCounts, sign: int = 1) -> RowCounts:
        """Returns both together, with sign -1 this without the other."""
        return RowCounts(
            sum_of_slots(self.people, other.people, sign),
            sum_of_slots(self.bots, other.bots, sign),
            self.opening + sign * other.opening,
            sum_of_slots(self.profiles, other.profiles, sign),
            sum_of_slots(self.visitors, other.visitors, sign),
        )


def counts_of(key: str, people: Counts, bots: Counts, attributes: AttributeCounts, numbers: Sequence[int]) -> RowCounts:
    """Returns what a batch holds of one key; numbers: those that its profiles have in the buffer."""
    profiles: Counter[int] = Counter()
    for hour, of_hour in attributes.hours.items():
        slots = _slots_of(hour, of_hour, numbers)
        for of, place, count in of_hour.cells():
            if of == key:
                profiles[slots[place]] += count
    visitors = Counter((day, visitor) for day, by_key in attributes.visitors.items() for visitor in by_key.get(key, ()))
    return RowCounts(of_key(people, key), of_key(bots, key), 0, profiles, visitors)


# --- by minute --------------------------------------------------------------------------------------------------------
class MinuteCounts:
    """Counts of many keys by minute in one series: people, bots, or rows that belong to no link."""

    __slots__ = ("bytes_held", "entries", "late", "slots", "sums")

    def __init__(self) -> None:
        self.slots: dict[int, Counter[str]] = {}
        self.late: dict[str, dict[int, int]] = {}
        self.sums: Counter[int] = Counter()  # slot -> all keys together
        self.entries = 0  # (key, slot) pairs
        self.bytes_held = 0

    def add_singles(self, slot: int, keys: Sequence[str]) -> bool:
        """Counts a hit of each key; returns whether more is held than before, since a key is new."""
        by_key = self.slots.get(slot)
        if by_key is None:
            by_key = self.slots[slot] = Counter()
        before = len(by_key)
        by_key.update(keys)
        self.sums[slot] += len(keys)
        growth = len(by_key) - before
        if growth:
            self._grown(slot, by_key, growth)
        return growth > 0

    def add_keys(self, keys: Mapping[int, Sequence[str]], late_before: int) -> None:
        """Counts a hit of each key, by minute."""
        for slot, of_slot in keys.items():
            if slot < late_before and len(of_slot) == 1:  # of an old log: a Counter for each minute takes twice as long
                self.sums[slot] += 1
                self._add_late(slot, {of_slot[0]: 1}, 1)
            elif slot < late_before:
                self.add({slot: Counter(of_slot)}, late_before)
            else:
                self.add_singles(slot, of_slot)

    def _grown(self, slot: int, by_key: Counter[str], growth: int) -> None:
        """Counts the last `growth` keys of a slot, which are new to it: a dict keeps the order of their coming."""
        self.entries += growth
        self.bytes_held += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(by_key), growth)))
        before = self.slots.get(slot - MINUTE_S)  # whose keys the flush's copy has already
        copied = 0 if before is None else sum(map(before.__contains__, islice(reversed(by_key), growth)))
        self.bytes_held += (growth - copied) * KEY_BYTES

    def add(self, counts: Mapping[int, Mapping[str, int]], late_before: int, sign: int = 1) -> None:
        """Adds counts; with sign -1 takes back counts added before."""
        for slot, by_key in counts.items():
            hits = sum(by_key.values())
            self.sums[slot] += sign * hits
            if slot < late_before:
                self._add_late(slot, by_key, sign)
                continue
            mine = self.slots.get(slot)
            if mine is None:
                mine = self.slots[slot] = Counter()
            before = len(mine)
            if sign == 1:
                mine.update(by_key.keys() if hits == len(by_key) else by_key)  # of one hit each: in C
            else:
                mine.subtract(by_key)
            if len(mine) != before:
                self._grown(slot, mine, len(mine) - before)

    def _add_late(self, slot: int, by_key: Mapping[str, int], sign: int) -> None:
        for key, count in by_key.items():
            slots = self.late.get(key)
            if slots is None:
                slots = self.late[key] = {}
                self.bytes_held += LATE_KEY_BYTES + KEY_BYTES + getsizeof(key)
            if slot not in slots:
                self.entries += 1
                self.bytes_held += PAIR_BYTES
            slots[slot] = slots.get(slot, 0) + sign * count

    def of(self, key: str) -> dict[int, int]:
        """Returns slot -> count of one key, without zeros."""
        counts = dict.copy(self.late.get(key, {}))
        for slot, by_key in self.slots.items():
            if key in by_key:
                counts[slot] = counts.get(slot, 0) + by_key[key]
        return _without_zeros(counts)

    def by_key(self) -> Iterator[dict[str, int]]:
        """Yields the keys of now and their counts in tables of the caller's own, a key in several.

        It may be taken in steps: each slot is copied when its turn comes, 300,000 keys in some 6 ms.
        """
        slots = (dict.copy(by_key) for by_key in tuple(self.slots.values()))
        rest = iter(dict.copy(self.late).items())
        late = iter(lambda: {key: sum(of_key.values()) for key, of_key in islice(rest, ENTRIES_PER_PAUSE)}, {})
        return chain(slots, late)

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of all counts, in small steps with pauses."""
        for by_key in self.slots.values():
            drain(by_key, pause)
        drain(self.late, pause)

    def all_links(self) -> dict[int, int]:
        return _without_zeros(dict(self.sums))

    def pieces(self, size: int) -> Iterator[list[tuple[str, int, int]]]:
        """Yields all (key, slot, count) in lists of about `size`, so that a reader can pause in between."""
        piece: list[tuple[str, int, int]] = []
        for slot, by_key in self.slots.items():
            for key, count in by_key.items():
                piece.append((key, slot, count))
                if len(piece) >= size:
                    yield piece
                    piece = []
        for key, slots in self.late.items():
            piece.extend((key, slot, count) for slot, count in slots.items())
            if len(piece) >= size:
                yield piece
                piece = []
        yield piece


# --- by profile -------------------------------------------------------------------------------------------------------
def _hour_of(slot: int) -> int:
    return (slot >> _NUMBER_BITS) * HOUR_S


def _slots_of(
    hour: int, of_hour: HourProfiles, numbers: Sequence[int], known: dict[int, int] | None = None
) -> dict[int, int]:
    """Returns the slot of each profile of an hour: the hour and its number in the buffer.

    known: slots of the same hour, which are kept: one integer for all cells of a slot takes its bytes once.
    """
    base, places = hour // HOUR_S << _NUMBER_BITS, set(of_hour.profiles)
    if not known:
        return {place: base | numbers[place] for place in places}
    known.update({place: base | numbers[place] for place in places.difference(known)})
    return known


@dataclass(slots=True)
class ProfileCounts:
    """Counts of many keys by hour and profile, and their visitors."""

    counts: dict[str, dict[int, int]] = field(default_factory=dict)  # key -> hour and profile -> hits
    visitors: dict[str, dict[tuple[int, int], int]] = field(default_factory=dict)  # key -> (day, hash) -> hits
    sums: Counter[int] = field(default_factory=Counter)  # hour and profile -> hits of all keys
    entries: int = 0  # pairs of a key, and an hour with a profile
    _more_bytes: int = 0

    def bytes_held(self) -> int:
        return self.entries * KEY_PROFILE_BYTES + len(self.sums) * PROFILE_HOUR_BYTES + self._more_bytes

    def add(self, attributes: AttributeCounts, numbers: Sequence[int], sign: int) -> Iterator[None]:
        """Adds counts; with sign -1 takes back counts added before. Yields between steps, for others to run."""
        added = 0
        for hour, of_hour in attributes.hours.items():
            slots: dict[int, int] = {}
            for piece in of_hour.pieces(COUNTS_AT_ONCE):
                slots = _slots_of(hour, piece, numbers, slots)
                self._add_hour(piece, slots, sign)
                if (added := added + len(piece.keys)) >= COUNTS_AT_ONCE:
                    added = 0
                    yield
        for day, by_key in attributes.visitors.items():
            for key, visitors in by_key.items():
                some = (visitors,) if len(visitors) <= COUNTS_AT_ONCE else parts_of(visitors)
                for part in some:
                    self._add_visitors(day, key, part, sign)
                    if (added := added + len(part)) >= COUNTS_AT_ONCE:
                        added = 0
                        yield

    def _add_visitors(self, day: int, key: str, visitors: Sequence[int], sign: int) -> None:
        mine = self.visitors.get(key)
        if mine is None:
            mine = self.visitors[key] = {}
            self._more_bytes += PAIR_BYTES + getsizeof(key)
        before = len(mine)
        for visitor in visitors:
            at = day, visitor
            mine[at] = mine.get(at, 0) + sign
        self._more_bytes += (len(mine) - before) * VISITOR_BYTES

    def _add_hour(self, of_hour: HourProfiles, slots: Mapping[int, int], sign: int) -> None:
        counts, hit_slots = self.counts, list(map(slots.__getitem__, of_hour.profiles))
        entries = 0
        for key, slot, count in zip(of_hour.keys, hit_slots, of_hour.counts or repeat(1), strict=False):
            mine = counts.get(key)
            if mine is None:
                counts[key] = {slot: sign * count}
                self._more_bytes += PROFILED_KEY_BYTES + getsizeof(key)
                entries += 1
            elif slot in mine:
                mine[slot] += sign * count
            else:
                mine[slot] = sign * count
                entries += 1
        self.entries += entries
        if of_hour.counts or sign < 0:
            for slot, count in zip(hit_slots, of_hour.counts or repeat(1), strict=False):
                self.sums[slot] += sign * count
        else:
            self.sums.update(hit_slots)

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of all, in small steps with pauses."""
        drain(self.counts, pause)
        drain(self.visitors, pause)


@dataclass(slots=True)
class BufferedProfiles:
    """The profiles of a buffer, by number."""

    _numbered: NumberedProfiles = field(default_factory=NumberedProfiles)
    _rows: list[ProfileRow] = field(default_factory=list)  # of profiles, by number
    bytes_held: int = 0

    def number(self, part: BatchAttributes, numbers: list[int]) -> Iterator[None]:
        """Appends the numbers of a batch's profiles; adds new ones. Yields between steps, for others to run."""
        rows = part.rows()
        for start in range(0, len(rows), COUNTS_AT_ONCE):
            numbers += self._numbered.numbers_of(part.kinds, rows[start : start + COUNTS_AT_ONCE])
            if growth := len(self._numbered) - len(self._rows):
                new = self._numbered.newest(growth)
                self._rows += new
                self.bytes_held += growth * PROFILE_BYTES + sum(map(getsizeof, texts_of(new)))
            if start:
                yield

    def delta(self, counts: RowCounts) -> BreakdownDelta:
        """Returns what this adds to the breakdown of its key; NO_DELTA if that is nothing."""
        if not any(counts.profiles.values()):
            return NO_DELTA
        visitors: dict[int, set[int]] = {}
        for (day, visitor), hits in counts.visitors.items():
            if hits:
                visitors.setdefault(day, set()).add(visitor)
        return BreakdownDelta(self._values(counts.profiles), visitors, self._known(counts.profiles))

    def delta_of_all(self, sums: Mapping[int, int]) -> BreakdownDelta:
        """Returns what all adds to the breakdown of all links, erased ones included: a visitor is one of a link."""
        return BreakdownDelta(self._values(sums)) if any(sums.values()) else NO_DELTA

    def _values(self, counts: Mapping[int, int]) -> dict[str, dict[int, dict[str, int]]]:
        kinds, rows = list(self._numbered.kinds), self._rows
        values: dict[str, dict[int, dict[str, int]]] = {}
        cells: list[dict[str, int]] = []  # of the kind's dimensions and the hour below, as most slots have them
        before = (-1, -1)
        for slot, count in counts.items():
            if not count:
                continue  # taken back: another owner or flush has claimed its id
            row = rows[slot & _NUMBER]
            at = slot >> _NUMBER_BITS, row[0]
            if at != before:
                hour, before = _hour_of(slot), at
                dimensions, _ = kinds[row[0]]
                cells = [values.setdefault(name, {}).setdefault(hour, {}) for name in dimensions]
            for cell, text in zip(cells, row[1:], strict=True):
                cell[text] = cell.get(text, 0) + count
        return values

    def _known(self, counts: Mapping[int, int]) -> dict[int, int]:
        places = {
            place for (_, hits_by_day), place in list(self._numbered.kinds.items()) if hits_by_day
        }  # perhaps in a thread
        hits_by_day: dict[int, int] = {}
        if not places:
            return hits_by_day
        for slot, count in counts.items():
            if count and self._rows[slot & _NUMBER][0] in places:
                hour = _hour_of(slot)
                hits_by_day[hour - hour % DAY_S] = hits_by_day.get(hour - hour % DAY_S, 0) + count
        return hits_by_day


# --- both -------------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class KeyedCounts:
    """All that a buffer holds of links, or of other rows by their stored keys."""

    people: MinuteCounts = field(default_factory=MinuteCounts)
    bots: MinuteCounts = field(default_factory=MinuteCounts)
    attributes: ProfileCounts = field(default_factory=ProfileCounts)

    @property
    def bytes_held(self) -> int:
        return self.people.bytes_held + self.bots.bytes_held + self.attributes.bytes_held()

    @property
    def entries(self) -> int:
        return self.people.entries + self.bots.entries + self.attributes.entries

    def add(self, people: Counts, bots: Counts, late_before: int, sign: int = 1) -> Iterator[None]:
        """Adds counts by minute; with sign -1 takes back counts added before. Yields between steps."""
        for series, counts in ((self.people, people), (self.bots, bots)):
            if counts:
                for piece in in_pieces(counts, _parts_of_counts):
                    series.add(piece, late_before, sign)
                    if piece is not counts:
                        yield

    def of(self, key: str) -> RowCounts:
        """Returns what is held of one key; hits of profiles that were taken back are there as zeros."""
        profiles, visitors = self.attributes.counts.get(key, {}), self.attributes.visitors.get(key, {})
        return RowCounts(self.people.of(key), self.bots.of(key), 0, profiles, visitors)

    def attributes_of(self, key: str) -> RowCounts:
        """Returns a copy of the attributes of one key's hits, without their minutes."""
        profiles, visitors = self.attributes.counts.get(key, {}), self.attributes.visitors.get(key, {})
        return RowCounts(profiles=dict.copy(profiles), visitors=dict.copy(visitors))

    def by_key(self) -> Iterator[dict[str, int]]:
        """Yields keys and their counts, as MinuteCounts does."""
        return chain(self.people.by_key(), self.bots.by_key())

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of all, in small steps with pauses."""
        self.people.drain(pause)
        self.bots.drain(pause)
        self.attributes.drain(pause)


def drain(table: dict[K, V], pause: Callable[[], None]) -> None:
    """Empties a table in small steps with pauses: 300,000 keys at once hold Python's lock for 20 ms."""
    while table:
        for _ in range(min(len(table), ENTRIES_PER_PAUSE)):
            table.popitem()
        pause()


def at_once(steps: Iterator[None]) -> None:
    """Takes all steps of a count without a pause."""
    for _ in steps:
        pass


def in_pieces(by_slot: Mapping[int, PartT], cut: Callable[[PartT], Iterable[PartT]]) -> Iterator[Mapping[int, PartT]]:
    """Yields what minutes hold in pieces of at most COUNTS_AT_ONCE; itself if it is no more.

    cut: makes parts of at most COUNTS_AT_ONCE of what one minute holds.
    """
    if len(by_slot) <= COUNTS_AT_ONCE and sum(map(len, by_slot.values())) <= COUNTS_AT_ONCE:
        yield by_slot
        return
    piece: dict[int, PartT] = {}
    size = 0
    for slot, held in by_slot.items():
        for part in cut(held) if len(held) > COUNTS_AT_ONCE else (held,):
            if size + len(part) > COUNTS_AT_ONCE:
                yield piece
                piece, size = {}, 0
            piece[slot] = part
            size += len(part)
    if piece:
        yield piece


def parts_of(some: Sequence[V]) -> Iterator[Sequence[V]]:
    """Yields these in parts of COUNTS_AT_ONCE."""
    return (some[start : start + COUNTS_AT_ONCE] for start in range(0, len(some), COUNTS_AT_ONCE))


def _parts_of_counts(counts: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    cells = iter(counts.items())
    while part := dict(islice(cells, COUNTS_AT_ONCE)):
        yield part


def of_key(counts: Mapping[int, Mapping[str, int]], key: str) -> dict[int, int]:
    """Returns slot -> count of one key."""
    return {slot: by_key[key] for slot, by_key in counts.items() if key in by_key}


def _without_zeros(counts: dict[SlotT, int]) -> dict[SlotT, int]:
    """Returns counts that are not 0: themselves if all are, since only what was taken back leaves a zero.

    A link may have many late minutes, and every question asks for them: to copy 60,000 one by one takes up to 10 ms.
    """
    return {slot: count for slot, count in counts.items() if count} if 0 in counts.values() else counts


def sum_of_slots(some: Mapping[SlotT, int], others: Mapping[SlotT, int], sign: int) -> dict[SlotT, int]:
    """Returns some plus others, with sign -1 minus them, without zeros."""
    added = dict(some)
    for slot, count in others.items():
        added[slot] = added.get(slot, 0) + sign * count
    return _without_zeros(added)
