"""Counts of many keys by minute, as a buffer holds them.

Minutes of today are kept as a dict of keys for each, late ones by key, so that reading one key does not walk the
million minutes of an imported history of a thousand days.

What is held is counted as it grows, in bytes, together with the copy by key that a flush will make. Hits of keys that a
slot knows already cost nothing, to hold and to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from sys import getsizeof
from typing import TypeVar

from clickcurve.buckets.ladder import MINUTE_S

K = TypeVar("K")
V = TypeVar("V")
SlotT = TypeVar("SlotT")
# What CPython takes, beside the bytes of each key: measured as growth of a process, with the flush's copy.
PAIR_BYTES = 100  # a key in a minute: its place in two tables
KEY_BYTES = 320  # more for a key that the minute before did not know: its dict in the copy, and its stored key
LATE_KEY_BYTES = 200  # more for a key that is kept with its late minutes

ENTRIES_PER_PAUSE = 200


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
            if slot < late_before:
                self.add({slot: Counter(of_slot)}, late_before)
            else:
                self.add_singles(slot, of_slot)

    def _grown(self, slot: int, by_key: Counter[str], growth: int) -> None:
        """Counts the last `growth` keys of a slot, which are new to it: a dict keeps the order of their coming."""
        self.entries += growth
        self.bytes_held += growth * PAIR_BYTES + sum(map(getsizeof, islice(reversed(by_key), growth)))
        before = self.slots.get(slot - MINUTE_S)  # whose keys the flush's copy has already
        known = 0 if before is None else sum(map(before.__contains__, islice(reversed(by_key), growth)))
        self.bytes_held += (growth - known) * KEY_BYTES

    def add(self, counts: Mapping[int, Mapping[str, int]], late_before: int, sign: int = 1) -> None:
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
        found = {slot: by_key[key] for slot, by_key in self.slots.items() if key in by_key}
        for slot, count in self.late.get(key, {}).items():
            found[slot] = found.get(slot, 0) + count
        return {slot: count for slot, count in found.items() if count}

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
        return {slot: count for slot, count in self.sums.items() if count}

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


def drain(table: dict[K, V], pause: Callable[[], None]) -> None:
    """Empties a table in small steps with pauses: 300,000 keys at once hold Python's lock for 20 ms."""
    while table:
        for _ in range(min(len(table), ENTRIES_PER_PAUSE)):
            table.popitem()
        pause()


def of_key(counts: Mapping[int, Mapping[str, int]], key: str) -> dict[int, int]:
    """Returns slot -> count of one key."""
    return {slot: by_key[key] for slot, by_key in counts.items() if key in by_key}


def sum_of_slots(some: Mapping[SlotT, int], others: Mapping[SlotT, int], sign: int) -> dict[SlotT, int]:
    """Returns some plus others, with sign -1 minus them, without zeros."""
    added = dict(some)
    for slot, count in others.items():
        added[slot] = added.get(slot, 0) + sign * count
    return {slot: count for slot, count in added.items() if count}
