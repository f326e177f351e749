"""Counts in memory that are not in the store yet.

A buffer holds what one flush will move. The event loop fills it. Once a flush has taken it nothing is added, so the
flush thread may read it while the loop answers queries from it. What is decided meanwhile (an id that another owner or
flush has claimed, a link that is erased) is applied by the loop between two steps of the flush.

Hits of today are kept by minute (a dict of keys for each minute), late ones by key, so that reading one key does not
walk the million minutes of an imported history of a thousand days.

What a buffer takes is counted as it grows, in bytes, together with the copy by key that its flush will make. Hits of
keys that a minute knows already cost nothing, to hold and to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof

from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, link_of
from ingest.batch import Batch, Counts, Identified, SourceStep, decode_batch, keys_of
from ingest.journal.segment_format import Frame

# What CPython takes, beside the bytes of each key: measured as growth of a process, with the flush's copy.
PAIR_BYTES = 100  # a key in a minute: its place in two tables
KEY_BYTES = 320  # more for a key that the minute before did not know: its dict in the copy, and its stored key
LATE_KEY_BYTES = 200  # more for a key that is kept with its late minutes
ID_BYTES = 600  # an id whose claim is not decided, with a hit; PAIR_BYTES for each key of it


class MinuteCounts:
    """Counts of many keys in one series: people, bots, or rows that belong to no link."""

    __slots__ = ("bytes_held", "entries", "late", "minutes", "sums")

    def __init__(self) -> None:
        self.minutes: dict[int, Counter[str]] = {}
        self.late: dict[str, dict[int, int]] = {}
        self.sums: Counter[int] = Counter()  # minute -> all keys together
        self.entries = 0  # (key, minute) pairs
        self.bytes_held = 0

    def add_singles(self, minute: int, keys: Sequence[str]) -> bool:
        """Counts a hit of each key; returns whether more is held than before, since a key is new."""
        by_key = self.minutes.get(minute)
        if by_key is None:
            by_key = self.minutes[minute] = Counter()
        before = len(by_key)
        by_key.update(keys)
        self.sums[minute] += len(keys)
        growth = len(by_key) - before
        if growth:
            self._grown(minute, by_key, growth)
        return growth > 0

    def _grown(self, minute: int, by_key: Counter[str], growth: int) -> None:
        """Counts the last `growth` keys of a minute, which are new to it: a dict keeps the order of their coming."""
        self.entries += growth
        self.bytes_held += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(by_key), growth)))
        before = self.minutes.get(minute - MINUTE_S)
        known = 0 if before is None else sum(map(before.__contains__, islice(reversed(by_key), growth)))
        self.bytes_held += (growth - known) * KEY_BYTES

    def add(self, counts: Mapping[int, Mapping[str, int]], late_before: int, sign: int = 1) -> None:
        """Adds counts; with sign -1 takes back counts added before."""
        for minute, by_key in counts.items():
            self.sums[minute] += sign * sum(by_key.values())
            if minute < late_before:
                self._add_late(minute, by_key, sign)
                continue
            mine = self.minutes.get(minute)
            if mine is None:
                mine = self.minutes[minute] = Counter()
            before = len(mine)
            if sign == 1:
                mine.update(by_key)
            else:
                mine.subtract(by_key)
            if len(mine) != before:
                self._grown(minute, mine, len(mine) - before)

    def _add_late(self, minute: int, by_key: Mapping[str, int], sign: int) -> None:
        for key, count in by_key.items():
            minutes = self.late.get(key)
            if minutes is None:
                minutes = self.late[key] = {}
                self.bytes_held += LATE_KEY_BYTES + KEY_BYTES + getsizeof(key)
            if minute not in minutes:
                self.entries += 1
                self.bytes_held += PAIR_BYTES
            minutes[minute] = minutes.get(minute, 0) + sign * count

    def of(self, key: str) -> dict[int, int]:
        """Returns minute -> count of one key, without zeros."""
        found = {minute: by_key[key] for minute, by_key in self.minutes.items() if key in by_key}
        for minute, count in self.late.get(key, {}).items():
            found[minute] = found.get(minute, 0) + count
        return {minute: count for minute, count in found.items() if count}

    def all_links(self) -> dict[int, int]:
        return {minute: count for minute, count in self.sums.items() if count}

    def pieces(self, size: int) -> Iterator[list[tuple[str, int, int]]]:
        """Yields all (key, minute, count) in lists of about `size`, so that a reader can pause in between."""
        piece: list[tuple[str, int, int]] = []
        for minute, by_key in self.minutes.items():
            for key, count in by_key.items():
                piece.append((key, minute, count))
                if len(piece) >= size:
                    yield piece
                    piece = []
        for key, minutes in self.late.items():
            piece.extend((key, minute, count) for minute, count in minutes.items())
            if len(piece) >= size:
                yield piece
                piece = []
        yield piece


@dataclass(slots=True)
class UndecidedId:
    """The counts under an id whose claim is not decided yet. `visible`: they are in answers already."""

    identified: Identified
    accepted_us: int
    visible: bool


@dataclass(frozen=True, slots=True)
class ErasedCounts:
    """The counts of a link that were buffered when it was erased. They stay in the sums of all links."""

    at_us: int
    people: Mapping[int, int]
    bots: Mapping[int, int]
    opening: int


@dataclass(slots=True)
class Buffer:
    """The counts that one flush moves. `late_before`: earlier minutes are kept by key."""

    late_before: int
    people: MinuteCounts = field(default_factory=MinuteCounts)
    bots: MinuteCounts = field(default_factory=MinuteCounts)
    others: MinuteCounts = field(default_factory=MinuteCounts)  # by stored key, not in the sums of links
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
        return self.people.bytes_held + self.bots.bytes_held + self.others.bytes_held + self.more_bytes

    def entries(self) -> int:
        pairs = self.people.entries + self.bots.entries + self.others.entries
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
        for identified in batch.identified:
            self.undecided[identified.id] = UndecidedId(identified, accepted_us, visible)
            pairs = sum(map(len, identified.people.values())) + sum(map(len, identified.bots.values()))
            self.more_bytes += ID_BYTES + pairs * PAIR_BYTES
            if visible:
                self._count(identified, 1)
        if batch.source is not None:
            self.sources[batch.source.source] = batch.source

    def _count(self, identified: Identified, sign: int) -> None:
        self.people.add(identified.people, self.late_before, sign)
        self.bots.add(identified.bots, self.late_before, sign)

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
        self._count(identified, sign)
        for key in keys_of(identified.people, identified.bots) & self.erased.keys():
            erased = self.erased[key]
            if undecided.accepted_us < erased.at_us:
                people = _sum(erased.people, _of(identified.people, key), sign)
                bots = _sum(erased.bots, _of(identified.bots, key), sign)
                self.erased[key] = ErasedCounts(erased.at_us, people, bots, erased.opening)

    def erase(self, key: str, at_us: int) -> ErasedCounts | None:
        """Erases what is buffered of a link; returns what `restore` needs to take this back."""
        before = self.erased.get(key)
        self.erased[key] = ErasedCounts(at_us, self.people.of(key), self.bots.of(key), self.openings.get(key, 0))
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

    def links(self) -> set[str]:
        """Returns the links that were counted here, erased ones included."""
        found = set(self.openings)
        for counts in (self.people, self.bots):
            found.update(*counts.minutes.values(), counts.late)
        return found

    def all_links(self) -> Delta:
        return Delta(self.people.all_links(), self.bots.all_links(), self.openings.total())


def _of(counts: Counts, key: str) -> dict[int, int]:
    return {minute: by_key[key] for minute, by_key in counts.items() if key in by_key}


def _sum(some: Mapping[int, int], others: Mapping[int, int], sign: int = 1) -> dict[int, int]:
    added = dict(some)
    for minute, count in others.items():
        added[minute] = added.get(minute, 0) + sign * count
    return {minute: count for minute, count in added.items() if count}


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
