"""Counts in memory that are not in the store yet.

A buffer holds what one flush will move. The event loop fills it. Once a flush has taken it nothing is added, so the
flush thread may read it while the loop answers queries from it. What is decided meanwhile (an id that another owner or
flush has claimed, a link that is erased) is applied by the loop between two steps of the flush.

Hits of today are kept by minute (a dict of keys for each minute), late ones by key, so that reading one key does not
walk the million minutes of an imported history of a thousand days.

What a buffer takes is counted as it grows, in bytes, together with the copy by key that its flush will make. Hits of
keys that a minute knows already cost nothing, to hold and to count.

What hits say beside is counted in the same way, by hour and profile in place of the minute. A profile of a batch gets
the number that it has in the buffer, where it stands once, however many batches bring it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof
from typing import Generic, TypeVar

from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, link_of
from ingest.batch import (
    Batch,
    Identified,
    ProfileCounts,
    SourceStep,
    WordyBatch,
    WordyIdentified,
    decode_batch,
    keys_of,
)
from ingest.journal.segment_format import Frame
from ingest.words.profile import Profile

Slot = tuple[int, ...]  # the start of an hour, and the number of a profile
SlotT = TypeVar("SlotT", int, Slot)  # or the start of a minute
# What a buffer adds to a breakdown: dimension -> start of an hour -> value -> count
ValueCountsByHour = dict[str, dict[int, dict[str, int]]]

# What CPython takes, beside the bytes of each key: measured as growth of a process, with the flush's copy.
PAIR_BYTES = 100  # a key in a minute: its place in two tables
KEY_BYTES = 320  # more for a key that the minute before did not know: its dict in the copy, and its stored key
LATE_KEY_BYTES = 200  # more for a key that is kept with its late minutes
ID_BYTES = 600  # an id whose claim is not decided, with a hit; PAIR_BYTES for each key of it
PROFILE_BYTES = 400  # a profile, beside its values
PROFILE_HOUR_BYTES = 500  # an hour of a profile, beside its keys


class SlotCounts(Generic[SlotT]):
    """Counts of many keys by slot in one series: people, bots, rows that belong to no link, or profiles.

    `before` gives the slot whose keys the flush's copy has already; without it each key costs as much as a new one.
    """

    __slots__ = ("_before", "bytes_held", "entries", "late", "slots", "sums")

    def __init__(self, before: Callable[[SlotT], SlotT] | None = None) -> None:
        self._before: Callable[[SlotT], SlotT] | None = before
        self.slots: dict[SlotT, Counter[str]] = {}
        self.late: dict[str, dict[SlotT, int]] = {}
        self.sums: Counter[SlotT] = Counter()  # slot -> all keys together
        self.entries = 0  # (key, slot) pairs
        self.bytes_held = 0

    def add_singles(self, slot: SlotT, keys: Sequence[str]) -> bool:
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

    def _grown(self, slot: SlotT, by_key: Counter[str], growth: int) -> None:
        """Counts the last `growth` keys of a slot, which are new to it: a dict keeps the order of their coming."""
        self.entries += growth
        self.bytes_held += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(by_key), growth)))
        before = None if self._before is None else self.slots.get(self._before(slot))
        known = 0 if before is None else sum(map(before.__contains__, islice(reversed(by_key), growth)))
        self.bytes_held += (growth - known) * KEY_BYTES

    def add(self, counts: Mapping[SlotT, Mapping[str, int]], late_before: SlotT, sign: int = 1) -> None:
        """Adds counts; with sign -1 takes back counts added before."""
        for slot, by_key in counts.items():
            self.sums[slot] += sign * sum(by_key.values())
            if slot < late_before:
                self._add_late(slot, by_key, sign)
                continue
            mine = self.slots.get(slot)
            if mine is None:
                mine = self.slots[slot] = Counter()
            before = len(mine)
            if sign == 1:
                mine.update(by_key)
            else:
                mine.subtract(by_key)
            if len(mine) != before:
                self._grown(slot, mine, len(mine) - before)

    def _add_late(self, slot: SlotT, by_key: Mapping[str, int], sign: int) -> None:
        for key, count in by_key.items():
            slots = self.late.get(key)
            if slots is None:
                slots = self.late[key] = {}
                self.bytes_held += LATE_KEY_BYTES + KEY_BYTES + getsizeof(key)
            if slot not in slots:
                self.entries += 1
                self.bytes_held += PAIR_BYTES
            slots[slot] = slots.get(slot, 0) + sign * count

    def of(self, key: str) -> dict[SlotT, int]:
        """Returns slot -> count of one key, without zeros."""
        found = {slot: by_key[key] for slot, by_key in self.slots.items() if key in by_key}
        for slot, count in self.late.get(key, {}).items():
            found[slot] = found.get(slot, 0) + count
        return {slot: count for slot, count in found.items() if count}

    def all_links(self) -> dict[SlotT, int]:
        return {slot: count for slot, count in self.sums.items() if count}

    def pieces(self, size: int) -> Iterator[list[tuple[str, SlotT, int]]]:
        """Yields all (key, slot, count) in lists of about `size`, so that a reader can pause in between."""
        piece: list[tuple[str, SlotT, int]] = []
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


def minute_counts() -> SlotCounts[int]:
    return SlotCounts(lambda minute: minute - MINUTE_S)


@dataclass(slots=True)
class UndecidedId:
    """The counts under an id whose claim is not decided yet. `visible`: they are in answers already.

    numbers: those in the buffer of the profiles of its batch.
    """

    identified: Identified
    accepted_us: int
    visible: bool
    numbers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ErasedCounts:
    """The counts of a link that were buffered when it was erased. They stay in the sums of all links."""

    at_us: int
    people: Mapping[int, int]
    bots: Mapping[int, int]
    opening: int
    words: Mapping[Slot, int] = field(default_factory=dict)


@dataclass(slots=True)
class Buffer:
    """The counts that one flush moves. `late_before`: earlier minutes are kept by key."""

    late_before: int
    people: SlotCounts[int] = field(default_factory=minute_counts)
    bots: SlotCounts[int] = field(default_factory=minute_counts)
    others: SlotCounts[int] = field(default_factory=minute_counts)  # by stored key, not in the sums of links
    words: SlotCounts[Slot] = field(default_factory=SlotCounts)
    profiles: dict[Profile, int] = field(default_factory=dict)  # their numbers
    openings: Counter[str] = field(default_factory=Counter)
    undecided: dict[str, UndecidedId] = field(default_factory=dict)  # by id
    sources: dict[str, SourceStep] = field(default_factory=dict)  # the last piece of each
    refused: set[str] = field(default_factory=set)  # ids that another owner or flush has claimed
    erased: dict[str, ErasedCounts] = field(default_factory=dict)  # by link
    flush: int | None = None  # the number of the flush that took it
    since_us: int | None = None  # the first accept stamp
    until_us: int = 0  # the last
    more_bytes: int = 0  # what is held beside the counts

    def bytes_held(self) -> int:
        """Returns what this buffer takes in memory, with what its flush will."""
        counts = self.people.bytes_held + self.bots.bytes_held + self.others.bytes_held
        return counts + self.words.bytes_held + len(self.words.sums) * PROFILE_HOUR_BYTES + self.more_bytes

    def entries(self) -> int:
        pairs = self.people.entries + self.bots.entries + self.others.entries + self.words.entries
        return pairs + len(self.undecided) + len(self.openings)

    def is_empty(self) -> bool:
        return self.since_us is None

    def hits(self) -> int:
        """Returns the hits of all links, without those of undecided ids that are not visible."""
        return self.people.sums.total() + self.bots.sums.total()

    def _stamp(self, accepted_us: int) -> None:
        if self.since_us is None:
            self.since_us = accepted_us
        self.until_us = accepted_us

    def add_singles(self, minute: int, keys: Sequence[str], accepted_us: int) -> bool:
        """Counts a hit of each key; returns whether more is held than before."""
        self._stamp(accepted_us)
        return self.people.add_singles(minute, keys)

    def add_batch(self, batch: Batch, accepted_us: int, visible: bool) -> None:
        """Counts a batch. `visible`: the counts under ids are in answers before their claims are decided."""
        self._stamp(accepted_us)
        self.people.add(batch.people, self.late_before)
        self.bots.add(batch.bots, self.late_before)
        self.others.add(batch.others, self.late_before)
        before = len(self.openings)
        self.openings.update(batch.openings)
        if growth := len(self.openings) - before:
            self.more_bytes += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(self.openings), growth)))
        numbers: Sequence[int] = ()
        if type(batch) is WordyBatch:
            numbers = self._numbers(batch.table())
            self._count_words(batch.words, numbers, 1)
        for identified in batch.identified:
            self.undecided[identified.id] = UndecidedId(identified, accepted_us, visible, numbers)
            pairs = sum(map(len, identified.people.values())) + sum(map(len, identified.bots.values()))
            self.more_bytes += ID_BYTES + pairs * PAIR_BYTES
            if visible:
                self._count(identified, numbers, 1)
            if type(identified) is WordyIdentified:
                self.more_bytes += ID_BYTES + pairs * PAIR_BYTES
        if batch.source is not None:
            self.sources[batch.source.source] = batch.source

    def _numbers(self, profiles: Sequence[Profile]) -> list[int]:
        """Returns the numbers of a batch's profiles, which stand in the buffer from then on."""
        for profile in profiles:
            if profile not in self.profiles:
                self.profiles[profile] = len(self.profiles)
                self.more_bytes += PROFILE_BYTES + sum(map(getsizeof, profile.values))
        return [self.profiles[profile] for profile in profiles]

    def _count(self, identified: Identified, numbers: Sequence[int], sign: int) -> None:
        self.people.add(identified.people, self.late_before, sign)
        self.bots.add(identified.bots, self.late_before, sign)
        if type(identified) is WordyIdentified:
            self._count_words(identified.words, numbers, sign)

    def _count_words(self, words: ProfileCounts, numbers: Sequence[int], sign: int) -> None:
        self.words.add(_slots(words, numbers), (self.late_before,), sign)

    def decide(self, refused: Iterable[str]) -> None:
        """Leaves out the ids in `refused`, which others have claimed, and counts all other undecided ids."""
        others = set(refused)
        self.refused |= others
        for id_, undecided in self.undecided.items():
            if undecided.visible and id_ in others:
                self._count_late(undecided, -1)
            elif not undecided.visible and id_ not in others:
                self._count_late(undecided, 1)
            undecided.visible = id_ not in others
        for id_ in others:
            self.undecided.pop(id_, None)

    def _count_late(self, undecided: UndecidedId, sign: int) -> None:
        """Counts the hits under an id (sign -1: takes them back), also among what was erased after they came."""
        identified = undecided.identified
        self._count(identified, undecided.numbers, sign)
        words = _slots(identified.words, undecided.numbers) if type(identified) is WordyIdentified else {}
        for key in keys_of(identified.people, identified.bots) & self.erased.keys():
            erased = self.erased[key]
            if undecided.accepted_us < erased.at_us:
                people = _sum(erased.people, _of(identified.people, key), sign)
                bots = _sum(erased.bots, _of(identified.bots, key), sign)
                said = _sum(erased.words, _of(words, key), sign)
                self.erased[key] = ErasedCounts(erased.at_us, people, bots, erased.opening, said)

    def erase(self, key: str, at_us: int) -> ErasedCounts | None:
        """Erases what is buffered of a link; returns what `restore` needs to take this back."""
        before = self.erased.get(key)
        people, bots, words = self.people.of(key), self.bots.of(key), self.words.of(key)
        self.erased[key] = ErasedCounts(at_us, people, bots, self.openings.get(key, 0), words)
        return before

    def restore(self, key: str, before: ErasedCounts | None) -> None:
        if before is None:
            self.erased.pop(key, None)
        else:
            self.erased[key] = before

    def delta_of_row(self, stored: str) -> Delta:
        """Returns what this buffer adds to the row of a stored key."""
        link = link_of(stored)
        if link is not None:
            return self.delta(link)
        return self.all_links() if stored == ALL_LINKS else Delta(self.others.of(stored), {})

    def delta(self, key: str) -> Delta:
        """Returns what this buffer adds to one link's row."""
        return self.without_erased(key, self.people.of(key), self.bots.of(key))

    def without_erased(self, key: str, people: Mapping[int, int], bots: Mapping[int, int]) -> Delta:
        opening = self.openings.get(key, 0)
        erased = self.erased.get(key)
        if erased is None:
            return Delta(people, bots, opening)
        return Delta(
            _sum(people, erased.people, -1),
            _sum(bots, erased.bots, -1),
            opening - erased.opening,
            erased=sum(erased.people.values()) + erased.opening,
            erased_bots=sum(erased.bots.values()),
        )

    def values(self, key: str) -> ValueCountsByHour:
        """Returns what this buffer adds to one link's breakdown."""
        words = self.words.of(key)
        erased = self.erased.get(key)
        return self._values(words if erased is None else _sum(words, erased.words, -1))

    def all_values(self) -> ValueCountsByHour:
        """Returns what this buffer adds to the breakdown of all links, erased ones included."""
        return self._values(self.words.all_links())

    def _values(self, words: Mapping[Slot, int]) -> ValueCountsByHour:
        values: ValueCountsByHour = {}
        profiles = list(self.profiles) if words else []
        for (hour, number), count in words.items():
            for dimension, value in zip(*profiles[number], strict=True):
                counts = values.setdefault(dimension, {}).setdefault(hour, {})
                counts[value] = counts.get(value, 0) + count
        return values

    def links(self) -> set[str]:
        """Returns the links that were counted here, erased ones included."""
        found = set(self.openings)
        for counts in (self.people, self.bots):
            found.update(*counts.slots.values(), counts.late)
        return found

    def all_links(self) -> Delta:
        return Delta(self.people.all_links(), self.bots.all_links(), self.openings.total())


def _slots(words: ProfileCounts, numbers: Sequence[int]) -> dict[Slot, dict[str, int]]:
    """Returns counts of a batch's profiles as the buffer numbers them. No two profiles of a batch are the same."""
    return {
        (hour, numbers[place]): by_key for hour, by_profile in words.items() for place, by_key in by_profile.items()
    }


def _of(counts: Mapping[SlotT, Mapping[str, int]], key: str) -> dict[SlotT, int]:
    return {slot: by_key[key] for slot, by_key in counts.items() if key in by_key}


def _sum(some: Mapping[SlotT, int], others: Mapping[SlotT, int], sign: int = 1) -> dict[SlotT, int]:
    added = dict(some)
    for slot, count in others.items():
        added[slot] = added.get(slot, 0) + sign * count
    return {slot: count for slot, count in added.items() if count}


def replay(frames: Iterable[Frame], erasures: Mapping[str, int], late_before: int) -> Buffer:
    """Builds the buffer that these journal frames make, with each link erased at its moment (epoch us).

    No count under an id is visible before its claim is decided: only the store knows whether this journal claimed it
    before a restart, or another owner did.
    """
    buffer = Buffer(late_before)
    to_erase = sorted(((at_us, key) for key, at_us in erasures.items()), reverse=True)
    for frame in frames:
        accepted_us = frame.accepted_us
        while to_erase and to_erase[-1][0] <= accepted_us:
            at_us, key = to_erase.pop()
            buffer.erase(key, at_us)
        decoded = decode_batch(frame.payload)
        if isinstance(decoded, Batch):
            buffer.add_batch(decoded, accepted_us, visible=False)
        else:
            buffer.add_singles(*decoded, accepted_us)
    for at_us, key in reversed(to_erase):
        buffer.erase(key, at_us)
    return buffer
