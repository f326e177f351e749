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
from clickcurve.buckets.errors import ClickcurveError, CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Delta, Row, apply, forget, merge, next_due
from clickcurve.buckets.set_aside import decode_set_aside, encode_set_aside
from clickcurve.keys import ALL_LINKS, SET_ASIDE, kept_days, link_key, link_of
from ingest.buffer import Buffer, SlotCounts
from storage.contract import Held, OwnRow, SavedRow, Source, Store

ROWS_PER_SAVE = 500  # one short transaction each
ROWS_PER_PAUSE = 8  # some 0.2 ms of work: single POSTs wait for it
ENTRIES_PER_PAUSE = 500

NOTHING = Delta({}, {})


@dataclass(frozen=True, slots=True)
class Flush:
    """One recorded flush with the buffer that it took.

    `set_aside`, empty at first, is what is set aside after `write`; damaged rows in `given_up` begin anew.
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
    set_aside: dict[str, Row]
    given_up: frozenset[str]
    again: Callable[[Mapping[str, int]], Buffer]
    store: Store
    ladder: Ladder
    pause: Callable[[], None]
    unreadable: Callable[[str, ClickcurveError], object]  # called for each row that is set aside

    def write(self) -> int:
        """Reads, adds to, folds and writes back every row; returns how many were written."""
        kept = self._load_set_aside()
        self.set_aside.update(kept or {})
        counts = CountsByKey.of(self.taken, self.pause)
        keys = {*self.revisit, *self.set_aside, *map(link_key, counts.links()), *counts.others} - {ALL_LINKS}
        written = 0
        for some in _chunks(sorted(keys), ROWS_PER_SAVE):
            saved = self._apply(some, counts.delta)
            if saved:
                self.store.save_own(self.held, self.number, saved, {})
            written += len(saved)
        # The row of all links goes last, in every flush: its mark says that all other rows have this flush too.
        saved = self._apply([ALL_LINKS], lambda _: self.taken.all_links())
        if self.set_aside != (kept or {}) or (self.rewrite and kept is not None):
            row = SavedRow(encode_set_aside(self.set_aside), None)
            self.store.save_own(self.held, self.number, {SET_ASIDE: row}, {})
        sources = {name: Source(self.held.owner, step.end, step.tail) for name, step in self.taken.sources.items()}
        self.store.save_own(self.held, self.number, saved, sources)
        return written + len(saved)

    def _load_set_aside(self) -> dict[str, Row] | None:
        """Returns what earlier flushes, or earlier tries of this one, set aside; None: nothing, or damaged too."""
        stored = self.store.load_own(self.held.owner, [SET_ASIDE]).get(SET_ASIDE)
        try:
            return decode_set_aside(stored.data) if stored is not None and stored.data is not None else None
        except RowCorrupt as error:
            self.unreadable(SET_ASIDE, error)
            return None

    def _apply(self, keys: list[str], delta_of: Callable[[str], Delta]) -> dict[str, SavedRow]:
        own = self.store.load_own(self.held.owner, keys)
        cut = self._cut_by_erasure(own)
        saved: dict[str, SavedRow] = {}
        for n, key in enumerate(keys, 1):
            if n % ROWS_PER_PAUSE == 0:
                self.pause()
            stored = own.get(key)
            delta = cut[key] if key in cut else delta_of(key)
            if (stored is None or stored.data is None) and delta is NOTHING and key not in self.set_aside:
                continue  # to be folded, but this owner has no such row
            row = self._row(key, stored or OwnRow(None, 0), delta, void=key in cut)
            if row is not None:
                saved[key] = row
        return saved

    def _row(self, key: str, own: OwnRow, delta: Delta, *, void: bool) -> SavedRow | None:
        """Returns the row with this flush in it; None if it has that already, or is set aside.

        void: the link was erased since the flush's first hit, so nothing that the row held counts.
        """
        aside = self.set_aside.get(key)
        try:
            before = EMPTY if own.data is None else codec.decode(own.data)
            if aside is None:
                return self._saved(key, before, self._applied(before, delta, own), delta)
            found = self._saved(key, before, self._joined(before, aside, delta, own), delta)
        except (RowCorrupt, CountTooLarge) as error:
            if _includes(own.data, self.number) and aside is None:
                return None  # it was damaged after an earlier try of this flush had written it
            after = self._applied(aside or EMPTY, delta, own)
            if not (void or key in self.given_up or self._knows_erasure(key, own, aside)):
                self.set_aside[key] = after
                self.unreadable(key, error)
                return None
            found = self._saved(key, EMPTY, after, delta)
        self.set_aside.pop(key, None)
        return found

    def _joined(self, before: Row, aside: Row, delta: Delta, own: OwnRow) -> Row:
        """Returns the row with this flush and all that was set aside, which an earlier try may have added."""
        if before.mark >= self.number:
            return before
        both = self._applied(before, NOTHING, own), self._applied(aside, delta, own)
        whole = merge(both, self.ladder)._replace(mark=self.number)
        if max(whole.lifetime, whole.bots) > MAX_COUNT:
            raise CountTooLarge("with what is set aside the row's sum is too large", value=whole.lifetime)
        return whole

    def _knows_erasure(self, key: str, own: OwnRow, aside: Row | None) -> bool:
        """Returns whether the link was erased after its row was found to be damaged."""
        erased = self.taken.erased.get(link_of(key) or "")
        return (erased is not None and erased.at_us == own.erased_at) or (
            aside is not None and aside.erased_at < own.erased_at
        )

    def _applied(self, before: Row, delta: Delta, own: OwnRow) -> Row:
        return apply(before, delta, self.number, self.fold_day, own.erased_at, self.ladder)

    def _saved(self, key: str, before: Row, after: Row, delta: Delta) -> SavedRow | None:
        """Returns the row as it is saved; None if it is stored like this already."""
        days = kept_days(key)
        if days is not None and after is not before:
            after = forget(after, self.fold_day, days)
        if after is before and (before is EMPTY or not self.rewrite):
            return None
        touched_day = None if delta is NOTHING or link_of(key) is None else self.fold_day
        return SavedRow(codec.encode(after), next_due(after, self.ladder, days), touched_day)

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


def _by_key(counts: SlotCounts[int], pause: Callable[[], None]) -> dict[str, dict[int, int]]:
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


def _includes(data: bytes | None, flush: int) -> bool:
    """Returns whether the head of a row can be read and says that the row includes this flush."""
    try:
        return data is not None and codec.decode_header(data).mark >= flush
    except RowCorrupt:
        return False


def _chunks(keys: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of the flush thread: at most `share` of the interval, `longest_s` at a time; none unless `served`.

    Thirty thousand rows took the p99 of single POSTs from 0.5 ms to 9.8 ms without a pause, to 1.4 ms with 2 ms every
    20 rows, and to 1.0 ms with 1 ms every 8. A sleep takes longer than it should (0.45 ms for 0.16 in a busy process),
    so what was slept is measured: 37,500 pauses took 17 s where 6 were meant.
    """

    sleep: Callable[[float], None]
    clock: Callable[[], float]
    interval_s: float
    served: Callable[[], bool]  # whether requests wait for the processor
    share: float = 0.4
    longest_s: float = 0.001

    def over(self, rows: int) -> Callable[[], None]:
        """Returns the pause for a flush of so many rows."""
        pauses = max(1, rows // ROWS_PER_PAUSE)
        each_s = min(self.longest_s, self.interval_s * self.share / pauses)
        due_s = slept_s = 0.0

        def pause() -> None:
            """Sleeps what is due, unless longer sleeps before have taken it already."""
            nonlocal due_s, slept_s
            if not self.served():
                return
            due_s = min(due_s + each_s, self.interval_s * self.share)
            if slept_s < due_s:
                began = self.clock()
                self.sleep(min(self.longest_s, due_s - slept_s))
                slept_s += self.clock() - began

        return pause
