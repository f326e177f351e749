"""The parts of a worker, joined: every job has its period, and a part that cannot begin ends the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid
from server.app.startup import running
from server.settings.reading import read_settings
from testing.server import free_port

PERIODS_S = {
    "flush": 15,
    "fold": 3_600,
    "forget_ids": 3_600,
    "rank": 5,
    "orphaned_journals": 15,
    "dimensions": 15,
    "events": 60,
    "event_deletions": 5,
    "statsd": 1,
    "tokens": 2,
    "audit": 3_600,
    "notes": 2,
    "disavow": 2,
    "erase": 2,
    "limit_history": 1,
    "weekly_report": 600,
    "clock": 1,
    "duties": 5,
}


async def test_a_worker_runs_the_jobs_of_all_its_parts(tmp_path: Path) -> None:
    asked = {"statsd": f"127.0.0.1:{free_port()}", "weekly_report": "reports@a.example", "smtp": "smtp://127.0.0.1:25"}
    async with running(read_settings({"data": str(tmp_path), "store": "memory://", **asked}, {}), [0]) as worker:
        assert {name: job.period_s for name, job in worker.schedule.jobs.items()} == PERIODS_S


async def test_a_part_that_must_not_begin_ends_the_start(tmp_path: Path) -> None:
    settings = read_settings({"data": str(tmp_path), "store": "memory://", "statsd": "192.0.2.1:8125"}, {})
    with pytest.raises(SettingInvalid, match="can be reached by others"):
        async with running(settings, [0]):
            raise AssertionError("it began")
