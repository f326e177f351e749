"""Moving a buffer into the store: tried as often as it takes, counted once.

What a flush adds is a pure function of its record (number, fold day) and of the journal's frames that it covers. Each
row carries its mark, the number of the last flush that it includes. So doing all or part of a flush again adds nothing
twice. All of this runs in the owner's flush thread and may block. It pauses after each slice of work, so that the event
loop gets the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.parts import head_of_joined
from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import ClickcurveError, CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import fold_day
from clickcurve.buckets.measures import measured
from clickcurve.buckets.quarantine import AnyRow, decode_quarantined, encode_quarantined
from clickcurve.keys import ALL_LINKS, QUARANTINE, breakdown_of, counts_key
from clickcurve.row_kinds.breakdown import BREAKDOWN
from clickcurve.row_kinds.kind import RowKind
from clickcurve.row_kinds.table import KINDS, apart, kind_of
from ingest.buffer import Buffer
from ingest.deltas import DeltasByKey
from ingest.flushed_rows import D, FlushedBreakdowns, FlushedCounts, FlushedRows, R
from storage.contract import Held, OwnRow, SavedRow, Source, Store

ROWS_PER_SAVE = 2_000  # one transaction each: other processes of the machine wait for it
SLICE_S = 0.0002  # of work between two pauses: single POSTs wait for it
LONGEST_PAUSE_S = 0.005
NO_ROW = OwnRow(None, 0)

# How the flush treats each kind of rows, and how where it revisits them.
RowsByKind: TypeAlias = tuple[Mapping[RowKind, FlushedRows[Any, Any]], Mapping[RowKind, FlushedRows[Any, Any]]]


class Loaded(NamedTuple):
    """Keys of clicks, of the events beside them, and of breakdowns, and the own rows of all."""

    clicks: list[str]
    events: list[str]
    breakdowns: list[str]
    own: dict[str, OwnRow]


@dataclass(slots=True)
class Flush:
    """One recorded flush with the buffer that it took.

    A breakdown is written together with its row of counts, so that both have one mark: that is how a reader knows that
    they are of one moment. The events of a link are written before its clicks, and these then in any case: where the
    clicks are read first, the events have all that the mark of the clicks says, and their marks tell what came later.

    `quarantined`, empty at first, is what is in quarantine after `write`; damaged rows in `given_up` begin anew.
    `again` rebuilds the taken buffer from the journal with these rows (stored keys) erased at these moments (epoch us):
    needed when another owner erased one in the middle of the time that this flush covers. `rewrite`: also write rows
    that include this flush already, because their marks may come from a write that reached only one replica. `sound`:
    the flush before, of this process, is known to have left nothing quarantined.
    """

    held: Held
    number: int
    fold_day: int
    rewrite: bool
    sound: bool
    taken: Buffer
    revisit: frozenset[str]
    given_up: frozenset[str]
    again: Callable[[Mapping[str, int]], Buffer]
    store: Store
    bounded: BoundedLadder  # of breakdowns
    pause: Callable[[], None]
    unreadable: Callable[[str, ClickcurveError], object]  # called for each row that is quarantined
    quarantined: dict[str, AnyRow] = field(default_factory=dict)
    events: Mapping[str, set[str]] = field(init=False, default_factory=dict)  # stored keys, by those of clicks

    def write(self) -> int:
        """Reads, adds to, folds and writes back every row; returns how many were written."""
        kept = self._load_quarantine()
        self.quarantined.update(kept or {})
        deltas = DeltasByKey.of(self.taken, self.pause)
        asked = {*self.revisit, *self.quarantined}
        with_breakdown = {*map(counts_key, apart(asked)[1])}
        counted = {*map(counts_key, asked)}
        self.events = deltas.events(counted, self.pause)
        with_all = {ALL_LINKS} if deltas.any_attributes() else set[str]()
        keys = chain.from_iterable(map(sorted, deltas.ranges(counted, self.pause)))
        kinds = self._kinds()
        written = 0
        with self.store.saving(self.held, self.number) as save:
            for rows in self._pieces(keys, with_breakdown, deltas, kinds):
                save(rows)
                written += len(rows)
        # The row of all links goes last, in every flush: its mark says that all other rows have this flush too.
        saved = self._apply(self._load([ALL_LINKS], with_breakdown | with_all, deltas), deltas, kinds)
        if of_events := self._taken_out(saved):
            self.store.save_own(self.held, self.number, of_events, {})
        if self.quarantined != (kept or {}) or (self.rewrite and kept is not None):
            aside = SavedRow(encode_quarantined(self.quarantined), None)
            self.store.save_own(self.held, self.number, {QUARANTINE: aside}, {})
        sources = {name: Source(self.held.owner, step.end, step.tail) for name, step in self.taken.sources.items()}
        self.store.save_own(self.held, self.number, saved, sources)
        return written + len(of_events) + len(saved)

    def _kinds(self) -> RowsByKind:
        ladder, cutoffs, day = self.store.ladder(), self.store.cutoffs(self.held.owner), self._touched_day()
        counts = FlushedCounts(self.number, self.fold_day, self.rewrite, ladder, day, cutoffs, self.events)
        breakdowns = FlushedBreakdowns(self.number, self.fold_day, self.rewrite, self.bounded)
        kinds: dict[RowKind, FlushedRows[Any, Any]] = {
            kind: replace(breakdowns, bounded=kind.bounded(self.bounded)) if kind.beside_counts else counts
            for kind in KINDS
        }
        return kinds, kinds | {BREAKDOWN: replace(breakdowns, whole=True)}

    def _touched_day(self) -> int:
        """Returns the day on which lists name the links that get hits: a fold day may lag behind the hits'."""
        minutes = chain.from_iterable(
            counts.sums for rows in (self.taken.links, self.taken.others) for counts in (rows.people, rows.bots)
        )
        return max(self.fold_day, fold_day(max(minutes, default=0)))

    def _pieces(
        self, keys: Iterator[str], with_breakdown: set[str], deltas: DeltasByKey, kinds: RowsByKind
    ) -> Iterator[dict[str, SavedRow]]:
        """Yields the rows of these links with the flush in them, as many as are saved together.

        Those of the next piece are read before: behind the writes of this one a cluster would answer last, and then
        have nothing to do while the flush is added to them.
        """
        loaded = self._load_some(keys, with_breakdown, deltas)
        while loaded:
            saved: dict[str, SavedRow] = {}
            for some in loaded:
                saved |= self._apply(some, deltas, kinds)
            loaded = self._load_some(keys, with_breakdown, deltas)
            for rows in (self._taken_out(saved), saved):
                if rows:
                    yield rows
                    self.pause()

    def _taken_out(self, saved: dict[str, SavedRow]) -> dict[str, SavedRow]:
        """Takes the rows of events out of some rows, with their breakdowns; returns them."""
        if not self.events:
            return {}
        return {key: saved.pop(key) for key in [*saved] if measured(counts_key(key))[0].event}

    def _load_some(self, keys: Iterator[str], with_breakdown: set[str], deltas: DeltasByKey) -> list[Loaded]:
        """Reads the rows of a piece, or the last ones; returns nothing if no keys are left."""
        loaded: list[Loaded] = []
        rows, at_once = 0, self.store.links_per_load
        while rows <= ROWS_PER_SAVE - at_once and (some := list(islice(keys, at_once))):
            loaded.append(self._load(some, with_breakdown, deltas))
            rows += sum(map(len, loaded[-1][:3]))
            self.pause()
        return loaded

    def _load(self, clicks: list[str], with_breakdown: set[str], deltas: DeltasByKey) -> Loaded:
        events = [event for key in clicks for event in sorted(self.events.get(key, ()))] if self.events else []
        counts = [*clicks, *events]
        breakdowns = [breakdown_of(key) for key in counts if key in with_breakdown or deltas.has_breakdown(key)]
        return Loaded(clicks, events, breakdowns, self.store.load_own(self.held.owner, [*counts, *breakdowns]))

    def _load_quarantine(self) -> dict[str, AnyRow] | None:
        """Returns what earlier flushes, or earlier tries of this one, quarantined; None: nothing, or damaged too."""
        if self.sound:
            return None
        try:
            return load_quarantine(self.store, self.held.owner)
        except RowCorrupt as error:
            self.unreadable(QUARANTINE, error)
            return None

    def _apply(self, loaded: Loaded, deltas: DeltasByKey, kinds: RowsByKind) -> dict[str, SavedRow]:
        """Returns these rows of counts and breakdowns with the flush in them, as far as that changes them."""
        clicks, events, breakdowns, own = loaded
        keys = [*clicks, *events]
        breakdowns = breakdowns + self._emptied(keys, breakdowns, own)
        own.update(self._as_counts_know(breakdowns, own))
        erased = self._buffers_of_erased(own)
        saved: dict[str, SavedRow] = {}
        for key in [*keys, *breakdowns]:
            self.pause()
            rows, buffer = kinds[key in self.revisit][kind_of(key)], erased.get(counts_key(key)) if erased else None
            delta = rows.delta(key, deltas, buffer)
            row = self._row(rows, key, own.get(key, NO_ROW), delta, void=buffer is not None)
            if row is not None:
                saved[key] = row
        return saved

    def _emptied(self, keys: list[str], breakdowns: list[str], own: dict[str, OwnRow]) -> list[str]:
        """Returns the breakdowns, read into `own`, that do not know yet that their link was erased."""
        erased = {breakdown_of(key) for key in keys if key in own and own[key].erased_at} - set(breakdowns)
        if not erased:
            return []
        rows = self.store.load_own(self.held.owner, sorted(erased))
        late = {key: row for key, row in rows.items() if row.data is not None and _is_behind(row.data, row.erased_at)}
        own.update(late)
        return sorted(late)

    def _as_counts_know(self, breakdowns: list[str], own: Mapping[str, OwnRow]) -> dict[str, OwnRow]:
        """Returns these breakdowns of links whose row of counts knows of a newer erasure than was read.

        One that failed may be on a single replica, and be read in one flush and not in the next: a breakdown that began
        without it counted for nothing as soon as it was seen again.
        """
        knowing: dict[str, OwnRow] = {}
        for key in breakdowns:
            counts, read = own.get(counts_key(key), NO_ROW), own.get(key, NO_ROW)
            if counts.data is not None:
                with suppress(RowCorrupt):  # it is quarantined where the flush is added to it
                    erased_at = decode_header(counts.data).erased_at
                    if erased_at > read.erased_at:
                        knowing[key] = OwnRow(read.data, erased_at)
        return knowing

    def _row(self, rows: FlushedRows[R, D], key: str, own: OwnRow, delta: D, *, void: bool) -> SavedRow | None:
        """Returns the row with this flush in it; None if it has that already, is quarantined, or is none.

        void: it was erased since the flush's first hit, so nothing that the row held counts.
        """
        aside: R | None = self.quarantined.get(key)  # type: ignore[assignment]  # of the kind that its key says
        data, erased_at, bounds = own
        if data is None and delta is rows.nothing and aside is None:
            return None  # to be folded, but this owner has no such row
        before: R | None = None
        try:
            before = None if data is None else rows.read(data)
            if aside is None:
                return rows.saved(key, before, rows.applied(before, delta, erased_at), delta, bounds)
            saved = rows.saved(key, before, self._joined(rows, data, before, aside, delta, erased_at), delta)
        except (RowCorrupt, CountTooLarge) as error:
            if aside is None and self._includes(rows, data):
                return None  # it was damaged after an earlier try of this flush had written it
            after = rows.applied(aside, delta, erased_at)
            if not (void or key in self.given_up or self._knows_erasure(rows, key, erased_at, aside)):
                self.quarantined[key] = after
                self.unreadable(key, error)
                return None
            saved = rows.saved(key, None, after, delta)
        self.quarantined.pop(key, None)
        return saved

    def _joined(
        self, rows: FlushedRows[R, D], data: bytes | None, before: R | None, aside: R, delta: D, erased_at: int
    ) -> R:
        """Returns the row with this flush and all that was quarantined, which an earlier try may have added."""
        if before is not None and self._includes(rows, data):
            return before
        whole = None if before is None else rows.applied(before, rows.nothing, erased_at)
        return rows.joined(whole, rows.applied(aside, delta, erased_at))

    def _includes(self, rows: FlushedRows[R, D], data: bytes | None) -> bool:
        """Returns whether the head of a row can be read and says that the row includes this flush."""
        try:
            return data is not None and rows.mark_in(data) >= self.number
        except RowCorrupt:
            return False

    def _knows_erasure(self, rows: FlushedRows[R, D], key: str, erased_at: int, aside: R | None) -> bool:
        """Returns whether the row was erased after it was found to be damaged."""
        erased = self.taken.erased.get(counts_key(key))
        return (erased is not None and erased.at_us == erased_at) or (
            aside is not None and rows.erased_at(aside) < erased_at
        )

    def _buffers_of_erased(self, own: Mapping[str, OwnRow]) -> dict[str, Buffer]:
        """Returns where to take what this flush adds to rows that were erased since its first hit, by stored key."""
        since_us = self.taken.since_us
        if since_us is None:
            return {}
        rows: dict[str, int] = {}
        for key, row in own.items():
            if row.erased_at >= since_us:
                counts = counts_key(key)
                rows[counts] = max(row.erased_at, rows.get(counts, 0))
        # What was buffered when this owner erased a row counts as erased where the store has that erasure, and only
        # there: while the store is asked, nobody knows whether it will.
        stored = {
            key: erased
            for key, at_us in rows.items()
            if (erased := self.taken.erased.get(key)) is not None and erased.at_us == at_us
        }
        taken = replace(self.taken, erased=stored)
        again = self.again(rows) if len(stored) < len(rows) else taken
        return {key: taken if key in stored else again for key in rows}


def load_quarantine(store: Store, owner: int) -> dict[str, AnyRow] | None:
    """Returns what is quarantined of an owner's rows; None: nothing. Raises RowCorrupt, StoreUnavailable."""
    data = store.load_own(owner, [QUARANTINE]).get(QUARANTINE, NO_ROW).data
    return None if data is None else decode_quarantined(data)


def _is_behind(breakdown: bytes, erased_at: int) -> bool:
    try:
        return head_of_joined(breakdown).erased_at < erased_at
    except RowCorrupt:
        return True


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of the flush thread: after each slice of work it lets the event loop answer what it has at hand.

    On a loop with nothing to do a pause is over in some 0.05 ms. All pauses of a flush take at most `share` of the
    interval; then it goes on without. Nothing is waited for unless `served`. Fixed sleeps of 1 ms every 8 rows took
    7 s for 30,000 rows, whether anybody waited or not.
    """

    clock: Callable[[], float]
    interval_s: float
    served: Callable[[], bool]  # whether requests wait for the processor
    share: float = 0.4

    def over(
        self, call_soon: Callable[..., object], after_requests: Callable[[Callable[[], object]], None]
    ) -> Callable[[], None]:
        """Returns the pause of one flush. after_requests: calls back when the loop has answered its requests.

        call_soon has the loop call that, from the flush thread.
        """
        left_s, resumed = self.interval_s * self.share, self.clock()

        def pause() -> None:
            """Waits for the loop, if a slice of work was done since the last time."""
            nonlocal left_s, resumed
            began = self.clock()
            if began - resumed < SLICE_S:
                return
            if left_s > 0 and self.served():
                answered = Lock()
                answered.acquire()
                call_soon(after_requests, answered.release)
                answered.acquire(timeout=min(left_s, LONGEST_PAUSE_S))
            resumed = self.clock()
            left_s -= resumed - began

        return pause
