"""Jobs come due without drift, run one at a time, survive their failures and end cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from clickcurve.buckets.errors import StoreUnavailable
from server.job import Job
from server.process.jobs import flush_job, fold_job
from server.process.schedule import Schedule, trigger


class Clock:
    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


async def nothing() -> None:
    return


def due_times(job: Job, began: datetime, runs_late_s: list[float]) -> list[float]:
    """When each run is due, if the scheduler looks that much later each time."""
    found, previous, now = [], None, began
    for late_s in runs_late_s:
        due = trigger(job).get_next_fire_time(previous, now)
        found.append(due.timestamp())
        previous, now = due, due + timedelta(seconds=late_s)
    return found


def test_due_times_do_not_drift_however_late_each_run_begins() -> None:
    job = Job("flush", nothing, period_s=15, since_s=1_000)
    late = [0.9, 14.0, 0.0, 3.3] * 100
    found = due_times(job, datetime.fromtimestamp(990, UTC), late)
    assert found == [1_000 + 15 * n for n in range(400)]


def test_the_fold_is_due_just_after_the_fold_day_changes_and_at_the_start() -> None:
    now = 1_800_000_000.0
    job = fold_job(nothing, now - 1_700_000_123.0, now)
    due = trigger(job).get_next_fire_time(None, datetime.fromtimestamp(now - 1_700_000_123.0, UTC))
    assert job.period_s == 3_600, "hourly, to go on where a pass was stopped"
    assert (due.timestamp() + 1_700_000_123.0) % 3_600 == 30, "just after 01:00, when the fold day changes"
    assert job.at_start, "days of standstill are caught up when the server starts"


def test_the_flush_is_due_first_one_period_after_the_start_at_the_latest() -> None:
    for phase in (0.0, 0.5, 0.9):
        job = flush_job(nothing, 15, phase, 1_000.0)
        due = trigger(job).get_next_fire_time(None, datetime.fromtimestamp(1_000.1, UTC))
        assert 1_000 < due.timestamp() <= 1_015.1


def running(function: Callable[[], Awaitable[None]], clock: Clock) -> Schedule:
    return Schedule([Job("job", function, period_s=15, since_s=clock.at - 0.5)], clock)


async def test_a_run_that_is_still_going_is_not_begun_again() -> None:
    may_end, began = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        assert not began.is_set()
        began.set()
        await may_end.wait()

    clock = Clock(1_000.0)
    schedule = running(slow, clock)
    schedule.start()
    await began.wait()
    clock.at += 14.75
    await schedule.due("job")
    assert schedule.status["job"].skipped == 1
    assert schedule.status["job"].lag_s == 0.25
    may_end.set()
    await schedule.stop(patience_s=5)
    assert (schedule.status["job"].runs, schedule.status["job"].failures) == (1, 0)


async def test_a_failed_run_is_counted_and_the_job_lives_on() -> None:
    raised: list[Exception] = [StoreUnavailable("down"), RuntimeError("a mistake")]
    done = asyncio.Event()

    async def fails_twice() -> None:
        if raised:
            raise raised.pop(0)
        done.set()

    schedule = running(fails_twice, Clock(1_000.0))
    for _ in range(3):
        await schedule.run(schedule.jobs["job"])
    assert done.is_set()
    assert (schedule.status["job"].runs, schedule.status["job"].failures) == (3, 2)


async def test_a_stop_lets_a_run_end_and_begins_no_other() -> None:
    ended, began = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.sleep(0)
        ended.set()

    schedule = running(work, Clock(1_000.0))
    schedule.start()
    await began.wait()
    await schedule.stop(patience_s=5)
    assert ended.is_set()
    await schedule.due("job")
    assert schedule.status["job"].runs == 1


async def test_a_stop_cuts_off_what_does_not_end() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    schedule = running(hangs, Clock(1_000.0))
    schedule.start()
    await began.wait()
    await schedule.stop(patience_s=0)
    assert ended.is_set()


def test_jobs_really_come_due() -> None:
    async def main() -> None:
        twice, runs = asyncio.Event(), 0

        async def count() -> None:
            nonlocal runs
            runs += 1
            if runs == 2:
                twice.set()

        clock = asyncio.get_running_loop().time
        schedule = Schedule([Job("job", count, period_s=0.05, since_s=clock(), at_start=False)], clock)
        schedule.start()
        await asyncio.wait_for(twice.wait(), 600)
        await schedule.stop(patience_s=1)

    asyncio.run(main())


def test_a_schedule_wakes_for_its_due_times_alone() -> None:
    async def main() -> int:
        thrice, wakes, runs = asyncio.Event(), 0, 0

        async def count() -> None:
            nonlocal runs
            runs += 1
            if runs == 3:
                thrice.set()

        clock = asyncio.get_running_loop().time
        jobs = [Job("often", count, period_s=0.1, since_s=clock()), Job("seldom", nothing, 3_600, since_s=clock())]
        schedule = Schedule(jobs, clock)
        look = schedule._scheduler._process_jobs

        def counted() -> object:
            nonlocal wakes
            wakes += 1
            return look()

        schedule._scheduler._process_jobs = counted
        schedule.start()
        await asyncio.wait_for(thrice.wait(), 10)
        await schedule.stop(patience_s=1)
        return wakes

    assert asyncio.run(main()) < 30, "a wake by a timer that is early is repeated a few times"


def test_a_clock_that_jumps_far_ahead_is_followed_in_a_few_steps() -> None:
    async def nothing() -> None:
        return

    since = 1_772_000_000
    due = trigger(Job("each second", nothing, period_s=1, since_s=since))
    first = datetime.fromtimestamp(since + 5, UTC)
    now = datetime.fromtimestamp(since + 10 * 366 * 86_400 + 0.5, UTC)
    at, times = first, []
    while at <= now:
        times.append(at)
        found = due.get_next_fire_time(at, now)
        assert found is not None and found > at
        at = found
    assert len(times) <= 3, "the library asks for each due time until now"
    assert at == datetime.fromtimestamp(since + 10 * 366 * 86_400 + 1, UTC), "still on the grid"
