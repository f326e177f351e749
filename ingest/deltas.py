"""What a taken buffer adds to each row: the buffer turned around, by key instead of by minute.

All is done in small steps with pauses, and what a flush has asked for is let go: one sort, or freeing, of 300,000 keys
holds Python's lock for 15 to 150 ms, in which no request is answered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice

from clickcurve.buckets.measures import clicks_row, measured
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, link_key, link_of
from ingest.buffer import Buffer
from ingest.counts import ENTRIES_PER_PAUSE, MinuteCounts

NOTHING = Delta({}, {})  # what is added to a row that the buffer does not name
KEYS_PER_RANGE = 500  # sorted at once: in 0.1 ms
SAMPLES_PER_RANGE = 8


@dataclass(frozen=True, slots=True)
class DeltasByKey:
    """A taken buffer turned around: link -> minute -> count; of other rows by stored key. Attributes are kept by key.

    What was erased is in it: the flush asks the store whether it is.
    """

    buffer: Buffer
    people: dict[str, dict[int, int]]
    bots: dict[str, dict[int, int]]
    others: dict[str, dict[int, int]]
    other_bots: dict[str, dict[int, int]]

    @classmethod
    def of(cls, buffer: Buffer, pause: Callable[[], None]) -> DeltasByKey:
        rows = (buffer.links.people, buffer.links.bots, buffer.others.people, buffer.others.bots)
        people, bots, others, other_bots = (_by_key(each, pause) for each in rows)
        return cls(replace(buffer, erased={}), people, bots, others, other_bots)

    def ranges(self, more: Collection[str], pause: Callable[[], None]) -> list[set[str]]:
        """Returns the stored keys of all rows of clicks but that of all links, parted into small ranges.

        more: rows that are written beside; of an event the row of clicks. All keys of a range come before those of the
        next.
        """
        links = (self.people, self.bots, self.buffer.openings)
        others = (self.others, self.other_bots, more)
        edges = _parting_keys((*links, *others))
        ranges: list[set[str]] = [set() for _ in range(len(edges) + 1)]
        for keys in (*(map(link_key, each) for each in links), *(map(clicks_row, each) for each in others)):
            rest = iter(keys)
            while some := list(islice(rest, ENTRIES_PER_PAUSE)):
                for key in some:
                    ranges[bisect_right(edges, key)].add(key)
                pause()
        ranges[bisect_right(edges, ALL_LINKS)].discard(ALL_LINKS)
        return ranges

    def events(self, more: Collection[str], pause: Callable[[], None]) -> dict[str, set[str]]:
        """Returns the stored keys of events, among these and `more`, by that of the row of clicks beside them."""
        events: dict[str, set[str]] = {}
        for keys in (self.others, self.other_bots, more):
            rest = iter(keys)
            while some := list(islice(rest, ENTRIES_PER_PAUSE)):
                for key in some:
                    measure, clicks = measured(key)
                    if measure.event:
                        events.setdefault(clicks, set()).add(key)
                pause()
        return events

    def has_breakdown(self, key: str) -> bool:
        """Tells whether the buffer adds to the breakdown beside the row of counts of this stored key."""
        link, buffer = link_of(key), self.buffer
        profiles = buffer.others.attributes if link is None else buffer.links.attributes
        counts = profiles.counts.get(key if link is None else link)
        return counts is not None and any(counts.values())

    def any_attributes(self) -> bool:
        """Tells whether the buffer adds to any breakdown."""
        kept = (self.buffer.links.attributes, self.buffer.others.attributes)
        return any(any(counts.values()) for profiles in kept for counts in profiles.counts.values())

    def take(self, key: str) -> Delta:
        """Removes what the buffer adds to the row of this stored key, and returns it; or NOTHING."""
        link = link_of(key)
        if link is None:
            some = key == ALL_LINKS or key in self.others or key in self.other_bots
            return self.buffer.delta_of_row(key) if some else NOTHING
        people, bots = self.people.pop(link, None), self.bots.pop(link, None)
        if people is None and bots is None and link not in self.buffer.openings:
            return NOTHING
        return Delta(people or NOTHING.people, bots or NOTHING.bots, self.buffer.openings.get(link, 0))


def _by_key(counts: MinuteCounts, pause: Callable[[], None]) -> dict[str, dict[int, int]]:
    grouped: dict[str, dict[int, int]] = {}
    for piece in counts.pieces(ENTRIES_PER_PAUSE):
        for key, slot, count in piece:
            if not count:
                continue  # taken back: another owner or flush has claimed its id
            slots = grouped.get(key)
            if slots is None:
                grouped[key] = {slot: count}
            else:
                slots[slot] = slots.get(slot, 0) + count
        pause()
    return grouped


def _parting_keys(several: Iterable[Collection[str]]) -> list[str]:
    """Returns the keys that divide these into ranges of about KEYS_PER_RANGE, by a sample of them."""
    step = KEYS_PER_RANGE // SAMPLES_PER_RANGE
    sample = sorted(chain.from_iterable(islice(keys, 0, None, step) for keys in several))
    return sample[SAMPLES_PER_RANGE::SAMPLES_PER_RANGE]
