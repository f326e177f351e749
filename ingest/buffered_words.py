"""What buffered hits said: counts by link, hour and profile, and visitors by day, until a flush has moved them.

A profile of a batch gets the number that it has in the buffer, where it stands once, however many batches bring it.
Counts are kept by link, as a flush asks for them: it needs no copy. By profile, as they come, a hit took five times the
memory, since most profiles of a quarter of a minute are met once.
A visitor is counted, though only his being there is flushed: hits of an id that others claimed can be taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from sys import getsizeof
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from ingest.attributes.numbered_profiles import NumberedProfiles, ProfileRow, texts_of
from ingest.batch import AttributeCounts, BatchAttributes, HourProfiles
from ingest.slot_counts import PAIR_BYTES, drain, sum_of_slots

# What CPython takes, measured as growth of a process.
PROFILE_BYTES = 200  # a profile, beside its values
PROFILE_HOUR_BYTES = 60  # an hour of a profile
WORDS_BYTES = 120  # an hour of a profile at a link: dictionaries have room for what may come
WORDY_LINK_BYTES = 250  # a link whose hits said something
VISITOR_BYTES = 150

NO_DELTA = BreakdownDelta({})

# An hour and the number of a profile as one integer: a tuple of both takes twice the memory.
_NUMBER_BITS = 32
_NUMBER = (1 << _NUMBER_BITS) - 1


def _hour_of(slot: int) -> int:
    return (slot >> _NUMBER_BITS) * HOUR_S


def _slots_of(hour: int, words: HourProfiles, numbers: Sequence[int]) -> dict[int, int]:
    """Returns the slot of each profile in these words: its hour and its number in the buffer."""
    base = hour // HOUR_S << _NUMBER_BITS
    return {place: base | numbers[place] for place in set(words.profiles)}


class Said(NamedTuple):
    """What hits of one link, or group, said.

    counts: by hour and number of a profile. visitors: by day and hash, with their hits.
    Where there are visitors there are counts.
    """

    counts: Mapping[int, int]
    visitors: Mapping[tuple[int, int], int]

    def plus(self, other: Said, sign: int = 1) -> Said:
        counts = sum_of_slots(self.counts, other.counts, sign)
        return Said(counts, sum_of_slots(self.visitors, other.visitors, sign))


NOTHING_SAID = Said({}, {})


def said_of(words: AttributeCounts, numbers: Sequence[int], key: str) -> Said:
    """Returns what hits of a batch said of one link, or group; numbers: those of the batch's profiles."""
    counts: Counter[int] = Counter()
    for hour, said in words.hours.items():
        slots = _slots_of(hour, said, numbers)
        for of, place, count in said.cells():
            if of == key:
                counts[slots[place]] += count
    visitors: dict[tuple[int, int], int] = {}
    for day, by_key in words.visitors.items():
        for visitor in by_key.get(key, ()):
            visitors[day, visitor] = visitors.get((day, visitor), 0) + 1
    return Said(counts, visitors)


@dataclass(slots=True)
class KeyedWords:
    """What hits said of each link, or of each group."""

    counts: dict[str, dict[int, int]] = field(default_factory=dict)  # key -> hour and profile -> hits
    visitors: dict[str, dict[tuple[int, int], int]] = field(default_factory=dict)  # key -> (day, hash) -> hits
    sums: Counter[int] = field(default_factory=Counter)  # hour and profile -> hits of all keys
    entries: int = 0  # pairs of a key, and an hour with a profile
    _more_bytes: int = 0

    def bytes_held(self) -> int:
        return self.entries * WORDS_BYTES + len(self.sums) * PROFILE_HOUR_BYTES + self._more_bytes

    def add(self, words: AttributeCounts, numbers: Sequence[int], sign: int) -> None:
        """Counts what hits said; with sign -1 takes back what was counted before."""
        for hour, said in words.hours.items():
            self._add_hour(said, _slots_of(hour, said, numbers), sign)
        for day, by_key in words.visitors.items():
            for key, visitors in by_key.items():
                mine = self.visitors.get(key)
                if mine is None:
                    mine = self.visitors[key] = {}
                    self._more_bytes += PAIR_BYTES + getsizeof(key)
                before = len(mine)
                for visitor in visitors:
                    mine[day, visitor] = mine.get((day, visitor), 0) + sign
                self._more_bytes += (len(mine) - before) * VISITOR_BYTES

    def _add_hour(self, words: HourProfiles, slots: Mapping[int, int], sign: int) -> None:
        counts, found = self.counts, list(map(slots.__getitem__, words.profiles))
        entries = 0
        for key, slot, count in zip(words.keys, found, words.counts or repeat(1), strict=False):
            mine = counts.get(key)
            if mine is None:
                counts[key] = {slot: sign * count}
                self._more_bytes += WORDY_LINK_BYTES + getsizeof(key)
                entries += 1
            elif slot in mine:
                mine[slot] += sign * count
            else:
                mine[slot] = sign * count
                entries += 1
        self.entries += entries
        if words.counts or sign < 0:
            for slot, count in zip(found, words.counts or repeat(1), strict=False):
                self.sums[slot] += sign * count
        else:
            self.sums.update(found)

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of all, in small steps with pauses."""
        drain(self.counts, pause)
        drain(self.visitors, pause)

    def of(self, key: str) -> Said:
        """Returns what was said of one key; hits that were taken back are there as zeros."""
        return Said(self.counts.get(key, {}), self.visitors.get(key, {}))


@dataclass(slots=True)
class BufferedWords:
    """What the hits of a buffer said. links: by link. groups: by the stored keys of groups."""

    links: KeyedWords = field(default_factory=KeyedWords)
    groups: KeyedWords = field(default_factory=KeyedWords)
    _numbered: NumberedProfiles = field(default_factory=NumberedProfiles)
    _rows: list[ProfileRow] = field(default_factory=list)  # of profiles, by number
    _profile_bytes: int = 0

    def bytes_held(self) -> int:
        return self.links.bytes_held() + self.groups.bytes_held() + self._profile_bytes

    def entries(self) -> int:
        return self.links.entries + self.groups.entries

    def numbers(self, batch: BatchAttributes) -> list[int]:
        """Returns the numbers of a batch's profiles, which stand here from then on."""
        found = self._numbered.numbers_of(batch.kinds, batch.rows())
        if growth := len(self._numbered) - len(self._rows):
            new = self._numbered.newest(growth)
            self._rows += new
            self._profile_bytes += growth * PROFILE_BYTES + sum(map(getsizeof, texts_of(new)))
        return found

    def of(self, link: str) -> Said:
        """Returns what was said of one link."""
        return self.links.of(link)

    def of_group(self, stored: str) -> Said:
        """Returns what was said of one group, by its stored key."""
        return self.groups.of(stored)

    def delta(self, said: Said) -> BreakdownDelta:
        """Returns what this adds to a link's breakdown; NO_DELTA if that is nothing."""
        if not any(said.counts.values()):
            return NO_DELTA
        visitors: dict[int, set[int]] = {}
        for (day, visitor), hits in said.visitors.items():
            if hits:
                visitors.setdefault(day, set()).add(visitor)
        return BreakdownDelta(self._values(said.counts), visitors, self._known(said.counts))

    def delta_of_all(self) -> BreakdownDelta:
        """Returns what all adds to the breakdown of all links, erased ones included: a visitor is one of a link."""
        counts = self.links.sums
        return BreakdownDelta(self._values(counts)) if any(counts.values()) else NO_DELTA

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
        places = {place for (_, known), place in self._numbered.kinds.items() if known}
        known: dict[int, int] = {}
        if not places:
            return known
        for slot, count in counts.items():
            if count and self._rows[slot & _NUMBER][0] in places:
                hour = _hour_of(slot)
                known[hour - hour % DAY_S] = known.get(hour - hour % DAY_S, 0) + count
        return known
