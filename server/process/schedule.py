"""Runs a table of jobs by APScheduler, which is imported here only.

Due times are of a clock that nobody can set, so that no job waits for a clock that was set back. They are computed
from a job's first one, so they do not drift. A due time that finds the job still running is
skipped and counted, so there is one run at a time. A run that fails is logged and counted, and tried again at the next
due time. A job's function is a plain coroutine function, which tests call directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from clickcurve.buckets.errors import ClickcurveError
from server.job import Job
from server.logs import log


@dataclass(slots=True)
class JobStatus:
    """What became of a job, for /metrics. lag_s is how long after its due time the last run began."""

    runs: int = 0
    failures: int = 0
    skipped: int = 0
    lag_s: float = 0.0
    last_s: float = 0.0


class Schedule:
    """Runs a table of jobs on the running loop, between `start` and `stop`. clock: seconds that nobody can set."""

    def __init__(self, jobs: Sequence[Job], clock: Callable[[], float]) -> None:
        self.jobs = {job.name: job for job in jobs}
        self._clock = clock
        self._zone = TimeOf(clock)
        self._scheduler = AsyncIOScheduler(timezone=self._zone)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._stopping = False
        self.status = {job.name: JobStatus() for job in jobs}

    def start(self) -> None:
        for job in self.jobs.values():
            self._scheduler.add_job(
                self.due,
                trigger(job, self._zone),
                (job.name,),
                id=job.name,
                coalesce=True,
                misfire_grace_time=None,  # a late run is better than none
            )
        self._scheduler.start()
        for job in self.jobs.values():
            if job.at_start:
                self.begin(job.name)

    async def due(self, name: str) -> None:
        """Begins a run now, as at a due time."""
        job = self.jobs[name]
        self.status[name].lag_s = (self._clock() - job.since_s) % job.period_s
        self.begin(name)

    def begin(self, name: str) -> None:
        """Begins a run unless one is going. It is a task of our own, since the scheduler would cut it off at a stop."""
        if self._stopping:
            return
        if name in self._under_way:
            self.status[name].skipped += 1
            return
        self._under_way[name] = asyncio.get_running_loop().create_task(self.run(self.jobs[name]), name=name)

    async def run(self, job: Job) -> None:
        """Runs a job once and measures it. Logs what it raises, so that the next due time finds the job alive."""
        status, started = self.status[job.name], self._clock()
        try:
            await job.function()
        except ClickcurveError as error:
            status.failures += 1
            log.warning("job failed", extra={"job": job.name, "title": error.title, "reason": error.detail})
        except Exception:
            status.failures += 1
            log.exception("job failed", extra={"job": job.name})
        finally:
            status.runs += 1
            status.last_s = max(0.0, self._clock() - started)
            self._under_way.pop(job.name, None)

    async def stop(self, patience_s: float) -> None:
        """Waits up to `patience_s` for running jobs to end, then cancels them."""
        self._stopping = True
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        tasks = list(self._under_way.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=patience_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class TimeOf(tzinfo):
    """A time zone in which it is now what a clock says: the library asks what the time is in its zone.

    No time of another zone can be converted to it: that is asked of a zone in the same way.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def fromutc(self, dt: datetime) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC).replace(tzinfo=self)

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, dt: datetime | None) -> str:
        return "running"


class EveryPeriod(IntervalTrigger):  # type: ignore[misc]
    """Due times as a grid, of which missed ones are passed over at once.

    The library walks every missed one before it makes one run of them all: a job of each second, on a machine that
    was suspended for a month, would hold the server up for as long as 2.6 million steps take. Due times are of `zone`.
    """

    def __init__(self, job: Job, zone: tzinfo) -> None:
        since = datetime.fromtimestamp(job.since_s, UTC)
        super().__init__(seconds=job.period_s, start_date=since, timezone=UTC)
        self._zone = zone

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> Any:
        if previous is not None:
            missed = int((now.timestamp() - previous.timestamp()) // self.interval_length)
            previous += max(0, missed - 1) * self.interval
        return super().get_next_fire_time(previous, now).replace(tzinfo=self._zone)


def trigger(job: Job, zone: tzinfo = UTC) -> EveryPeriod:
    """Returns the due times of a job in a zone: since_s + n * period_s."""
    return EveryPeriod(job, zone)
