"""What buffered hits said: counts by hour and profile, and visitors by day, until a flush has moved them.

A profile of a batch gets the number that it has in the buffer, where it stands once, however many batches bring it.
A visitor is counted, though only his being there is flushed: hits of an id that others claimed can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.ladder import DAY_S
from ingest.batch import Words, WordyBatch, WordyIdentified
from ingest.slot_counts import PAIR_BYTES, Slot, SlotCounts, drain, of_key, sum_of_slots
from ingest.words.profile import Profile

# What CPython takes, measured as growth of a process.
PROFILE_BYTES = 400  # a profile, beside its values
PROFILE_HOUR_BYTES = 500  # an hour of a profile, beside its keys
VISITOR_BYTES = 150

NO_DELTA = BreakdownDelta({})


class Said(NamedTuple):
    """What hits of one link, or group, said.

    counts: by hour and number of a profile. visitors: by day and hash, with their hits.
    Where there are visitors there are counts.
    """

    counts: Mapping[Slot, int]
    visitors: Mapping[Slot, int]

    def plus(self, other: Said, sign: int = 1) -> Said:
        counts = sum_of_slots(self.counts, other.counts, sign)
        return Said(counts, sum_of_slots(self.visitors, other.visitors, sign))


NOTHING_SAID = Said({}, {})


def said_of(words: Words, numbers: Sequence[int], key: str) -> Said:
    """Returns what hits of a batch said of one link, or group; numbers: those of the batch's profiles."""
    visitors: dict[Slot, int] = {}
    for day, by_key in words.visitors.items():
        for visitor in by_key.get(key, ()):
            visitors[day, visitor] = visitors.get((day, visitor), 0) + 1
    return Said(of_key(_by_numbers(words, numbers), key), visitors)


def _by_numbers(words: Words, numbers: Sequence[int]) -> dict[Slot, Mapping[str, int]]:
    """Returns counts by the buffer's numbers. No two profiles of a batch are the same, so no two of these slots are."""
    return {
        (hour, numbers[place]): by_key
        for hour, by_profile in words.counts.items()
        for place, by_key in by_profile.items()
    }


@dataclass(slots=True)
class KeyedWords:
    """What hits said of each link, or of each group."""

    counts: SlotCounts[Slot] = field(default_factory=SlotCounts)
    visitors: dict[str, dict[Slot, int]] = field(default_factory=dict)  # key -> (day, hash) -> hits
    _more_bytes: int = 0

    def bytes_held(self) -> int:
        return self.counts.bytes_held + len(self.counts.sums) * PROFILE_HOUR_BYTES + self._more_bytes

    def add(self, words: Words, numbers: Sequence[int], late_before: int, sign: int) -> None:
        """Counts what hits said; with sign -1 takes back what was counted before."""
        self.counts.add(_by_numbers(words, numbers), (late_before,), sign)
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

    def drain(self, pause: Callable[[], None]) -> None:
        """Lets go of all, in small steps with pauses."""
        self.counts.drain(pause)
        drain(self.visitors, pause)

    def of(self, key: str) -> Said:
        return Said(self.counts.of(key), self.visitors.get(key, {}))


@dataclass(slots=True)
class BufferedWords:
    """What the hits of a buffer said. links: by link. groups: by the stored keys of groups."""

    links: KeyedWords = field(default_factory=KeyedWords)
    groups: KeyedWords = field(default_factory=KeyedWords)
    _numbers: dict[Profile, int] = field(default_factory=dict)
    _profiles: list[Profile] = field(default_factory=list)  # by number
    _profile_bytes: int = 0

    def bytes_held(self) -> int:
        return self.links.bytes_held() + self.groups.bytes_held() + self._profile_bytes

    def entries(self) -> int:
        return self.links.counts.entries + self.groups.counts.entries

    def numbers(self, profiles: Sequence[Profile]) -> list[int]:
        """Returns the numbers of a batch's profiles, which stand here from then on."""
        found = []
        for profile in profiles:
            number = self._numbers.get(profile)
            if number is None:
                number = self._numbers[profile] = len(self._profiles)
                self._profiles.append(profile)
                self._profile_bytes += PROFILE_BYTES + sum(map(getsizeof, profile.values))
            found.append(number)
        return found

    def add(self, said: WordyBatch | WordyIdentified, numbers: Sequence[int], late_before: int, sign: int = 1) -> None:
        """Counts what hits said; with sign -1 takes back what was counted before."""
        self.links.add(said.words, numbers, late_before, sign)
        if said.groups:
            self.groups.add(said.groups.words, numbers, late_before, sign)

    def of(self, link: str) -> Said:
        """Returns what was said of one link."""
        return self.links.of(link) if self._profiles else NOTHING_SAID

    def of_group(self, stored: str) -> Said:
        """Returns what was said of one group, by its stored key."""
        return self.groups.of(stored) if self._profiles else NOTHING_SAID

    def delta(self, said: Said) -> BreakdownDelta:
        """Returns what this adds to a link's breakdown."""
        if not said.counts:
            return NO_DELTA
        visitors: dict[int, set[int]] = {}
        for (day, visitor), hits in said.visitors.items():
            if hits:
                visitors.setdefault(day, set()).add(visitor)
        return BreakdownDelta(self._values(said.counts), visitors, self._known(said.counts))

    def delta_of_all(self) -> BreakdownDelta:
        """Returns what all adds to the breakdown of all links, erased ones included: a visitor is one of a link."""
        counts = self.links.counts.all_links()
        return BreakdownDelta(self._values(counts)) if counts else NO_DELTA

    def _values(self, counts: Mapping[Slot, int]) -> dict[str, dict[int, dict[str, int]]]:
        values: dict[str, dict[int, dict[str, int]]] = {}
        cells: list[dict[str, int]] = []  # of the dimensions and the hour below, which most slots of a link share
        known: tuple[str, ...] = ()
        of_hour = -1
        for (hour, number), count in counts.items():
            dimensions, texts, _ = self._profiles[number]
            if hour != of_hour or dimensions != known:
                cells = [values.setdefault(dimension, {}).setdefault(hour, {}) for dimension in dimensions]
                of_hour, known = hour, dimensions
            for cell, text in zip(cells, texts, strict=True):
                cell[text] = cell.get(text, 0) + count
        return values

    def _known(self, counts: Mapping[Slot, int]) -> dict[int, int]:
        known: dict[int, int] = {}
        for (hour, number), count in counts.items():
            if self._profiles[number].known:
                day = hour - hour % DAY_S
                known[day] = known.get(day, 0) + count
        return known
