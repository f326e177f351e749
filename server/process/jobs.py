"""What the scheduled jobs of every worker do, as plain coroutine functions. `schedule` decides when they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import GRACE_S, HOUR_S
from clickcurve.buckets.upper_bounds import upper_bounds_in
from ingest.owner import ID_WINDOW_S, Owner
from retention.run import revisit_breakdowns, run_pass
from server.job import Job
from server.logs import log
from storage.contract import Store

PUBLISH_S = 5
DEAD_WORKERS_S = 2
RANK_S = 5
RANK_PAUSE_S = 0.1  # between steps of some 40 ms
# The fold day changes at 01:00 UTC; a little later all clocks agree that it has.
FOLD_AT_S = GRACE_S + 30


async def forget_ids(store: Store, oldest_us: int | None, careful: Callable[[], float]) -> None:
    """Deletes ids that no repeat can meet any more.

    Twice the window is kept, counted back from the oldest hit that is not in the store (oldest_us is its accept stamp),
    because every attempt of an unfinished flush must judge its ids in the same way.
    """
    now_us = int(careful() * 1e6)
    before_us = now_us if oldest_us is None else min(now_us, oldest_us)
    await asyncio.to_thread(store.forget_ids, before_us - 2 * ID_WINDOW_S * 1_000_000)


async def rank_rows(store: Store, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Ranks the rows of a new prefix, or of a database of a former schema, in steps, with pauses."""
    while await asyncio.to_thread(store.rank_some, lambda data: upper_bounds_in(data, store.ladder())):
        await pause(RANK_PAUSE_S)


class PrefixRankings:
    """Keeps the rankings of a store those of some prefixes of stored keys. prefixes: those that are asked for now."""

    def __init__(self, store: Store, prefixes: Callable[[], frozenset[str]], clock: Callable[[], float]) -> None:
        self._store = store
        self._prefixes = prefixes
        self._clock = clock
        self._asked_for: frozenset[str] = frozenset()
        self._again_at = 0.0

    async def visit(self) -> None:
        """Names the prefixes to the store if they have changed, and once an hour: one may have many links now."""
        prefixes, now = self._prefixes(), self._clock()
        if prefixes != self._asked_for or now >= self._again_at:
            await asyncio.to_thread(self._store.rank_prefixes, sorted(prefixes))
            self._asked_for, self._again_at = prefixes, now + HOUR_S
        await rank_rows(self._store)


class DailyFold:
    """The retention pass over an owner's quiet rows, once a fold day. A stopped pass goes on at the next run.

    It also tells that rows were folded by a clock that was ahead.

    `folded` is how many rows it has visited since the start, for /metrics.
    """

    def __init__(self, fold_day: Callable[[], int]) -> None:
        self._fold_day = fold_day
        self._done_day = -1
        self.folded = 0

    async def visit(self, owner: Owner) -> None:
        day = self._fold_day()
        if day == self._done_day:
            return
        rows = 0
        for visit in (run_pass, revisit_breakdowns):
            report = await visit(owner, day)
            rows += report.rows
            self.folded += report.rows
            if report.stopped is not None:
                raise StoreUnavailable(f"the retention pass stopped after {rows} rows: {report.stopped}")
        log.info("fold", extra={"owner": owner.status.owner, "fold_day": day, "rows": rows})
        ahead = await asyncio.to_thread(owner.folded_to) - day
        if ahead > 1:  # by one day a clock is off soon enough
            then = "for so long new hits of what was folded have no minutes; see `Minutes after a wrong clock` in"
            log.warning(
                "folded ahead", extra={"owner": owner.status.owner, "days": ahead, "then": f"{then} docs/upgrade.md"}
            )
        self._done_day = day


def flush_job(flush: Callable[[], Awaitable[None]], flush_s: float, phase: float, now: float) -> Job:
    """Makes the job that flushes: due every flush_s, `phase` of a period (0 to 1) after `now` of the schedule's clock.

    So workers flush one after the other.
    """
    return Job("flush", flush, flush_s, now + flush_s * phase)


def fold_job(fold: Callable[[], Awaitable[None]], now: float, epoch_s: float) -> Job:
    """Makes the job that folds once a day; it is due hourly, to go on where a pass was stopped. epoch_s: as of now."""
    return Job("fold", fold, HOUR_S, now + FOLD_AT_S - epoch_s)
