"""The pass over rows that fell quiet: rows with traffic are folded by the flushes that write them, these are not.

The store keeps next to each row the fold day at which folding next changes it, so the pass asks for the rows that are
due and for no others. It carries them out through the owner, like hits: a step asks the owner to fold some keys and
flushes. So the pass may end anywhere, by a kill or a store that is down: what was not folded is still due, and the next
pass, be it days later, begins with it. A pass that never runs costs bytes, never an answer.

The due days of breakdowns depend on how long values are kept. When the settings say another time than before, the
breakdowns of all rows are visited once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clickcurve.buckets import codec
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import Row, fold
from clickcurve.keys import QUARANTINE, breakdown_of
from clickcurve.row_kinds.table import kind_of
from retention.plan import Fold, TierSummary, plan, summarize
from storage.contract import StoredLink

STEP_ROWS = 1_000  # rows of one flush: some tens of milliseconds of the flush thread
WALK_ROWS = 500

Walk = Callable[[str | None, int], Sequence[tuple[str, StoredLink]]]


InThread = Callable[..., Awaitable[Any]]


class Revisits(Protocol):
    """What every visit needs of the owner of the rows. The calls that visits add may block."""

    def revisit(self, keys: Iterable[str]) -> None: ...
    async def flush(self) -> None: ...


class Verbs(Revisits, Protocol):
    """What a pass needs of the owner."""

    def due(self, fold_day: int, after: str | None, limit: int, /) -> list[str]: ...
    def visited(self, fold_day: int, /) -> None: ...


class RowsToRevisit(Revisits, Protocol):
    """What a visit of all breakdowns needs of their owner."""

    def walk(self, after: str | None, limit: int, /) -> Sequence[tuple[str, StoredLink]]: ...
    def times_changed(self) -> bool: ...
    def note_times(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PassReport:
    """What a pass did. `stopped` says why it ended before all due rows were visited; None: it did not."""

    fold_day: int
    steps: int
    rows: int
    stopped: str | None = None


async def run_pass(
    verbs: Verbs,
    fold_day: int,
    step_rows: int = STEP_ROWS,
    in_thread: InThread = asyncio.to_thread,
) -> PassReport:
    """Visits every row that is due at `fold_day`, once. A store that is down ends the pass, which says so."""

    def due(after: str | None) -> list[str]:
        return verbs.due(fold_day, after, step_rows)

    return await _visit(verbs, fold_day, due, list, lambda: verbs.visited(fold_day), in_thread)


async def revisit_breakdowns(
    verbs: RowsToRevisit,
    fold_day: int,
    step_rows: int = STEP_ROWS,
    in_thread: InThread = asyncio.to_thread,
) -> PassReport:
    """Visits all breakdowns if values are kept for another time than at the last whole visit."""

    def walked(after: str | None) -> list[str]:
        return [key for key, _ in verbs.walk(after, step_rows)]

    def breakdowns(keys: Sequence[str]) -> list[str]:
        return [breakdown_of(key) for key in keys if not kind_of(key).corrects]

    try:
        if not await in_thread(verbs.times_changed):
            return PassReport(fold_day, 0, 0)
    except ClickcurveError as error:
        return PassReport(fold_day, 0, 0, error.detail)
    return await _visit(verbs, fold_day, walked, breakdowns, verbs.note_times, in_thread)


async def _visit(
    verbs: Revisits,
    fold_day: int,
    page: Callable[[str | None], Sequence[str]],
    rows_of: Callable[[Sequence[str]], Sequence[str]],
    end: Callable[[], None],
    in_thread: InThread,
) -> PassReport:
    """Revisits the rows of all pages, one a flush. page: the keys after one; rows_of: which rows they mean."""
    steps = rows = 0
    after: str | None = None
    try:
        # A flush that was begun on an earlier day folds to that day: it must not be the one that takes our keys.
        await verbs.flush()
        while keys := await in_thread(page, after):
            verbs.revisit(rows_of(keys))
            await verbs.flush()
            steps, rows, after = steps + 1, rows + len(keys), keys[-1]
        await in_thread(end)
    except ClickcurveError as error:
        return PassReport(fold_day, steps, rows, error.detail)
    return PassReport(fold_day, steps, rows)


@dataclass(slots=True)
class Preview:
    """What folding everything to `fold_day` would do, all owners' rows together.

    Bytes are those of all rows, before and after. `hits_before` and `hits_after` are the sums of lifetimes and bots of
    the rows that would change; `changed_totals` names keys where they would differ, which would be a bug.
    """

    fold_day: int
    rows: int = 0
    due_rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    hits_before: int = 0
    hits_after: int = 0
    tiers: Sequence[TierSummary] = ()
    changed_totals: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Writes it for people: a line per tier, the bytes, and that the total stays."""
        yield f"{'tier':<14}{'buckets out':>14}{'counts out':>16}{'buckets in':>14}{'counts in':>16}"
        for tier in self.tiers:
            out, into = tier.people_out + tier.bots_out, tier.people_in + tier.bots_in
            yield f"{tier.tier:<14}{tier.buckets_out:>14,}{out:>16,}{tier.buckets_in:>14,}{into:>16,}"
        saved = self.bytes_before - self.bytes_after
        share = f" ({saved / self.bytes_before:.0%})" if self.bytes_before else ""
        yield f"{self.due_rows:,} of {self.rows:,} rows would be folded to day {self.fold_day}"
        yield f"{saved:,} bytes saved{share}: {self.bytes_before:,} before, {self.bytes_after:,} after"
        if self.changed_totals:
            yield f"totals would change, which must not be: {', '.join(map(repr, self.changed_totals))}"
        else:
            yield f"the total stays: {self.hits_before:,} hits in those rows before, {self.hits_after:,} after"

    def plans(self, walk: Walk, ladder: Ladder) -> Iterator[Sequence[Fold]]:
        """Adds every row up; yields the plan of each that is due, one at a time."""
        for key, data, row in _rows(walk):
            self.rows += 1
            self.bytes_before += len(data)
            folds = plan(row, self.fold_day, ladder)
            if not folds:
                self.bytes_after += len(data)
                continue
            folded = fold(row, self.fold_day, ladder)
            before, after = _hits(row), _hits(folded)
            self.due_rows += 1
            self.bytes_after += len(codec.encode(folded))
            self.hits_before += before
            self.hits_after += after
            if before != after:
                self.changed_totals.append(key)
            yield folds


def preview(walk: Walk, fold_day: int, ladder: Ladder) -> Preview:
    """Makes a dry run: reads every row, changes nothing. Raises StoreUnavailable and RowCorrupt."""
    seen = Preview(fold_day)
    seen.tiers = summarize(seen.plans(walk, ladder), ladder)
    return seen


def _rows(walk: Walk) -> Iterator[tuple[str, bytes, Row]]:
    after: str | None = None
    while page := walk(after, WALK_ROWS):
        for key, link in page:
            for stored in link.rows if key != QUARANTINE else ():
                row = codec.decode(stored.data)
                if row.erased_at >= link.erased_at:  # what is older was erased, and goes when the row is next written
                    yield key, stored.data, row
        after = page[-1][0]


def _hits(row: Row) -> int:
    """Returns everything that the buckets and the opening hold, summed anew."""
    cells = (*row.people_cells, *row.bot_cells)
    return row.opening + sum(sum(counts) for _, counts in cells)
