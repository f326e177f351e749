"""Moving a buffer into the store: tried as often as it takes, counted once.

What a flush adds is a pure function of its record (number, fold day) and of the journal's frames that it covers. Each
row carries its mark, the number of the last flush that it includes. So doing all or part of a flush again adds nothing
twice. All of this runs in the owner's flush thread and may block. It pauses every ROWS_PER_PAUSE rows, so that the
event loop gets the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from clickcurve.buckets import codec
from clickcurve.buckets.row import EMPTY, Delta, apply, forget, next_due
from clickcurve.keys import ALL_LINKS, kept_days, link_key, link_of
from ingest.buffer import Buffer, MinuteCounts
from storage.contract import Held, OwnRow, SavedRow, Source, Store

ROWS_PER_SAVE = 500  # one short transaction each
ROWS_PER_PAUSE = 8  # some 0.2 ms of work: single POSTs wait for it
ENTRIES_PER_PAUSE = 500

NOTHING = Delta({}, {})


@dataclass(frozen=True, slots=True)
class Flush:
    """One recorded flush with the buffer that it took.

    `again` rebuilds the taken buffer from the journal with these links erased at these moments (epoch us): needed
    when another owner erased a link in the middle of the time that this flush covers. `rewrite`: also write rows that
    include this flush already, because their marks may come from a write that reached only one replica.
    """

    held: Held
    number: int
    fold_day: int
    rewrite: bool
    taken: Buffer
    revisit: frozenset[str]
    again: Callable[[Mapping[str, int]], Buffer]
    store: Store
    pause: Callable[[], None]

    def write(self) -> int:
        """Reads, adds to, folds and writes back every row; returns how many were written."""
        counts = CountsByKey.of(self.taken, self.pause)
        keys = {*self.revisit, *map(link_key, counts.links()), *counts.others} - {ALL_LINKS}
        written = 0
        for some in _chunks(sorted(keys), ROWS_PER_SAVE):
            saved = self._apply(some, counts.delta)
            if saved:
                self.store.save_own(self.held, self.number, saved, {})
            written += len(saved)
        # The row of all links goes last, in every flush: its mark says that all other rows have this flush too.
        saved = self._apply([ALL_LINKS], lambda _: self.taken.all_links())
        sources = {name: Source(self.held.owner, step.end, step.tail) for name, step in self.taken.sources.items()}
        self.store.save_own(self.held, self.number, saved, sources)
        return written + len(saved)

    def _apply(self, keys: list[str], delta_of: Callable[[str], Delta]) -> dict[str, SavedRow]:
        own, ladder = self.store.load_own(self.held.owner, keys), self.store.ladder()
        cut = self._cut_by_erasure(own)
        saved: dict[str, SavedRow] = {}
        for n, key in enumerate(keys, 1):
            if n % ROWS_PER_PAUSE == 0:
                self.pause()
            stored = own.get(key)
            delta = cut[key] if key in cut else delta_of(key)
            if stored is None or stored.data is None:
                if delta is NOTHING:
                    continue  # to be folded, but this owner has no such row
                before = EMPTY
            else:
                before = codec.decode(stored.data)
            erased_at = 0 if stored is None else stored.erased_at
            after = apply(before, delta, self.number, self.fold_day, erased_at, ladder)
            days = kept_days(key)
            if days is not None and after is not before:
                after = forget(after, self.fold_day, days)
            if after is not before or (self.rewrite and before is not EMPTY):
                touched_day = None if delta is NOTHING or link_of(key) is None else self.fold_day
                saved[key] = SavedRow(codec.encode(after), next_due(after, ladder, days), touched_day)
        return saved

    def _cut_by_erasure(self, own: Mapping[str, OwnRow]) -> dict[str, Delta]:
        """Returns the deltas of links that were erased since this flush's first hit, by stored key."""
        since_us = self.taken.since_us
        if since_us is None:
            return {}
        erased = {key: row.erased_at for key, row in own.items() if row.erased_at >= since_us}
        links = {link: at_us for key, at_us in erased.items() if (link := link_of(key)) is not None}
        known = {
            link
            for link, at_us in links.items()
            if link in self.taken.erased and self.taken.erased[link].at_us == at_us
        }
        deltas = {link_key(link): self.taken.delta(link) for link in known}
        if len(known) < len(links):
            buffer = self.again(links)
            deltas.update((link_key(link), buffer.delta(link)) for link in links.keys() - known)
        return deltas


@dataclass(frozen=True, slots=True)
class CountsByKey:
    """A taken buffer turned around: link -> minute -> count, and `others` by stored key.

    Made in small steps with pauses, so that no step keeps the event loop waiting.
    """

    buffer: Buffer
    people: Mapping[str, Mapping[int, int]]
    bots: Mapping[str, Mapping[int, int]]
    others: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, buffer: Buffer, pause: Callable[[], None]) -> CountsByKey:
        return cls(buffer, *(_by_key(counts, pause) for counts in (buffer.people, buffer.bots, buffer.others)))

    def links(self) -> set[str]:
        return {*self.people, *self.bots, *self.buffer.openings, *self.buffer.erased}

    def delta(self, key: str) -> Delta:
        """Returns what the buffer adds to the row of this stored key; NOTHING if that is nothing."""
        link = link_of(key)
        if link is None:
            return Delta(self.others[key], {}) if key in self.others else NOTHING
        people, bots = self.people.get(link), self.bots.get(link)
        if people is None and bots is None and link not in self.buffer.openings and link not in self.buffer.erased:
            return NOTHING
        return self.buffer.without_erased(link, people or NOTHING.people, bots or NOTHING.bots)


def _by_key(counts: MinuteCounts, pause: Callable[[], None]) -> dict[str, dict[int, int]]:
    grouped: dict[str, dict[int, int]] = {}
    for piece in counts.pieces(ENTRIES_PER_PAUSE):
        for key, minute, count in piece:
            if not count:
                continue  # taken back: another owner or flush has claimed its id
            minutes = grouped.get(key)
            if minutes is None:
                grouped[key] = {minute: count}
            else:
                minutes[minute] = minutes.get(minute, 0) + count
        pause()
    return grouped


def _chunks(keys: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of the flush thread: at most `share` of the flush interval, `longest_s` at a time.

    Thirty thousand rows took the p99 of single POSTs from 0.5 ms to 9.8 ms without a pause, to 1.4 ms with 2 ms every
    20 rows, and to 1.0 ms with 1 ms every 8.
    """

    sleep: Callable[[float], None]
    interval_s: float
    share: float = 0.4
    longest_s: float = 0.001

    def over(self, rows: int) -> Callable[[], None]:
        """Returns the pause for a flush of so many rows."""
        pauses = max(1, rows // ROWS_PER_PAUSE)
        pause_s = min(self.longest_s, self.interval_s * self.share / pauses)
        return lambda: self.sleep(pause_s)
