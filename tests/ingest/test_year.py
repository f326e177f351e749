"""A year in a minute: days of traffic with flushes and daily folds; totals equal the raw count at every step.

`make test-long` has 400 days, other runs the first 120, after which rows hold minutes to weeks.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from pathlib import Path

from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.ranges import Bots, total
from clickcurve.keys import link_key
from ingest.batch import Batch
from retention.run import run_pass
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import read
from tests.power import at

START = 1_767_225_600  # 2026-01-01
DAYS = at(quick=120, full=400)
LIMIT_OF_BUCKETS = 2_700 + 12 * 3
BUSY, QUIET = "busy", "quiet"


class Raw:
    """Every hit ever, as a sorted list of minutes with running sums."""

    def __init__(self) -> None:
        self.hits: list[tuple[int, int]] = []

    def add(self, minute: int, count: int) -> None:
        self.hits.append((minute, count))

    def total(self, start: int, end: int) -> int:
        self.hits.sort()
        lo, hi = bisect_left(self.hits, (start, 0)), bisect_left(self.hits, (end, 0))
        return sum(count for _, count in self.hits[lo:hi])


def test_traffic_of_many_days_keeps_every_total(tmp_path: Path) -> None:
    asyncio.run(_year(tmp_path))


async def _year(tmp_path: Path) -> None:
    rnd = random.Random(7)
    now = float(START)
    store = SqliteStore(tmp_path / "clickcurve.db", CLICKS)
    node = OwnerProcess(tmp_path / "journal-1", store, lambda: now, alone=True, disk=TrackedDisk())
    raw = {BUSY: Raw(), QUIET: Raw()}
    largest = 0
    for day in range(DAYS):
        for part in range(4):
            now = START + day * DAY_S + part * DAY_S // 4 + rnd.randrange(DAY_S // 4)
            people: dict[int, dict[str, int]] = {}
            for key, hits in ((BUSY, 40), (QUIET, int(part == 0 and day % 7 == 0))):
                for _ in range(hits):
                    late = rnd.choice([0, 0, 0, 0, 600, 4_000, DAY_S, 9 * DAY_S, 200 * DAY_S])
                    minute = max(0, int(now) - rnd.randrange(3_600) - late) // 60 * 60
                    count = rnd.randint(1, 1_000)
                    by_key = people.setdefault(minute, {})
                    by_key[key] = by_key.get(key, 0) + count
                    raw[key].add(minute, count)
            await node.owner.accept(Batch(people=people))
            if rnd.random() < 0.5:
                await node.owner.flush()
        now = START + (day + 1) * DAY_S + 3_700
        if rnd.random() < 0.9:  # some days the pass does not run
            report = await run_pass(node.owner, fold_day(int(now)))
            assert report.stopped is None
        largest = max(largest, await _check(rnd, store, node, raw, int(now)))
    assert largest <= LIMIT_OF_BUCKETS
    await node.owner.close()
    store.close()


async def _check(rnd: random.Random, store: SqliteStore, node: OwnerProcess, raw: dict[str, Raw], now: int) -> int:
    """Lifetime and random ranges against the raw hits; returns the buckets of the largest row."""
    buckets = 0
    for key, hits in raw.items():
        row = await read(store, [node], link_key(key), now)
        assert row.fold_day == fold_day(now)
        assert row.lifetime == hits.total(0, now + DAY_S)
        for _ in range(3):
            start = START + rnd.randrange(-100 * DAY_S, now - START)
            end = start + rnd.randrange(1, 60 * DAY_S)
            span = total(row, start, end, Bots.exclude, CLICKS)
            assert span.at_least <= hits.total(start, end) <= span.at_most
            if span.exact:
                assert span.at_most == hits.total(start, end)
        assert len(encode(row)) < 12_000
        buckets = max(buckets, sum(len(starts) for starts, _ in row.people_cells))
    return buckets
