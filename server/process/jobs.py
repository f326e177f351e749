"""What each scheduled job does, as plain coroutine functions over the parts. `schedule` decides when they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import GRACE_S, HOUR_S
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import link_key
from ingest.owner import ID_WINDOW_S, Owner
from retention.run import revisit_breakdowns, run_pass
from server.logs import log
from server.process.schedule import Job
from storage.contract import Store

PUBLISH_S = 5
CLOCK_S = 1
OTHER_CLOCKS_S = 60
TOKENS_S = 2  # all workers and nodes know of a new or revoked token within 5 s
HAND_OVER_S = 1
DEAD_WORKERS_S = 2
DUTIES_S = 5
ALERTS_S = 20
REPORT_S = 600
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
    """Keeps the rankings of a store those of the prefixes that tokens have. prefixes: of the tokens that hold now."""

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
            await asyncio.to_thread(self._store.rank_prefixes, sorted(map(link_key, prefixes)))
            self._asked_for, self._again_at = prefixes, now + HOUR_S
        await rank_rows(self._store)


class DailyFold:
    """The retention pass over an owner's quiet rows, once a fold day. A stopped pass goes on at the next run.

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
        self._done_day = day


def job_table(
    functions: Mapping[str, Callable[[], Awaitable[None]]], now: float, epoch_s: float, flush_s: float, phase: float
) -> list[Job]:
    """Returns the jobs that `functions` names, with their due times by the clock of the schedule.

    now: what that says now, and epoch_s what the time is.
    Flushes are due every flush_s from now on, `phase` of a period (0 to 1) later, so that workers flush one after the
    other.
    """
    due: dict[str, tuple[float, float, bool]] = {  # name -> (period, any due time, run at the start too)
        "flush": (flush_s, now + flush_s * phase, True),
        # It folds once a day; it runs hourly, to go on where a pass was stopped.
        "fold": (HOUR_S, now + FOLD_AT_S - epoch_s, True),
        "forget_ids": (HOUR_S, now, False),
        "clock": (CLOCK_S, now, True),
        "other_clocks": (OTHER_CLOCKS_S, now, True),
        "rank": (RANK_S, now, True),
        "tokens": (TOKENS_S, now, False),
        "disavow": (TOKENS_S, now, True),
        "erase": (TOKENS_S, now, False),
        "audit": (HOUR_S, now, False),
        # What could not be emptied is tried again. Each is visited once a day; mostly there is nothing to do.
        "orphaned_journals": (flush_s, now, True),
        "dead_workers": (DEAD_WORKERS_S, now, False),
        "publish_metrics": (PUBLISH_S, now, False),
        "limit_history": (HAND_OVER_S, now, False),
        "statsd": (HAND_OVER_S, now, False),
        "dimensions": (flush_s, now, False),  # a server that began while the store was away agrees soon after
        "duties": (DUTIES_S, now, True),
        "alerts": (ALERTS_S, now, False),
        "weekly_report": (REPORT_S, now, False),  # sent once a week; looks more often, to go on where it failed
    }
    return [
        Job(name, function, period_s=due[name][0], since_s=due[name][1], at_start=due[name][2])
        for name, function in functions.items()
    ]
