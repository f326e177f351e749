"""A month of traffic through the product's own code, in minutes: the clock is moved by hand.

Several owners count one viral link, in every minute of every day, and each some ordinary links of its own. Each flushes
now and then, and carries out its pass over quiet rows once the day is over and the fold day has changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from clickcurve.buckets.ladder import DAY_S, GRACE_S, MINUTE_S, fold_day
from ingest.batch import Batch
from retention.run import PassReport, run_pass
from storage.cassandra.cql import Cql
from storage.cassandra.store import CassandraStore
from testing.owner_process import OwnerProcess, TrackedDisk

START = 1_767_225_600  # 2026-01-01
VIRAL = "viral"


@dataclass(frozen=True, slots=True)
class Plan:
    """`links` ordinary links belong to one owner each; `share` of them have hits in each flush.

    A pass follows each flush at the end of a day: all days, unless flushes lie further apart.
    """

    owners: int = 10
    links: int = 3_000
    days: int = 30
    flush_every_s: int = DAY_S // 4
    share: float = 0.05
    seed: int = 1


@dataclass(slots=True)
class Done:
    """What a month came to. hits: by link. visited: rows that the passes visited. flushes: all, those of passes too."""

    hits: Counter[str] = field(default_factory=Counter)
    visited: int = 0
    flushes: int = 0


class Month:
    """`open_cql` gives a connection of its own to each owner, as each runs on a machine of its own."""

    def __init__(self, plan: Plan, folder: Path, open_cql: Callable[[], Cql]) -> None:
        self.plan = plan
        self.now = float(START)
        self.done = Done()
        self._chance = Random(plan.seed)
        self._nodes = [
            OwnerProcess(
                folder / f"owner-{number}",
                CassandraStore(open_cql()),
                lambda: self.now,
                alone=False,
                disk=TrackedDisk(),
            )
            for number in range(plan.owners)
        ]

    async def pass_by(self) -> Done:
        """All days; what is left in memory is flushed at the end."""
        span_s = self.plan.flush_every_s
        for end in range(START + span_s, START + self.plan.days * DAY_S + 1, span_s):
            await self._traffic(end - span_s, end)
            if end % DAY_S == 0:
                await self._passes(end + GRACE_S + MINUTE_S)
        self.done.flushes += sum(each.owner.status.flushes for each in self._nodes)
        for each in self._nodes:
            await each.owner.close()
        return self.done

    async def _passes(self, now: int) -> None:
        self.now = float(now)
        for report in await asyncio.gather(*(run_pass(each.owner, fold_day(now)) for each in self._nodes)):
            self._note(report)

    def _note(self, report: PassReport) -> None:
        assert report.stopped is None, report.stopped
        self.done.visited += report.rows

    async def _traffic(self, begin: int, end: int) -> None:
        """Each owner counts and flushes what came in between."""
        self.now = end - 1.0
        batches = [self._batch(number, begin, end) for number in range(self.plan.owners)]
        await asyncio.gather(*map(self._count, self._nodes, batches))

    @staticmethod
    async def _count(node: OwnerProcess, batch: Batch) -> None:
        await node.owner.accept(batch)
        await node.owner.flush()

    def _batch(self, number: int, begin: int, end: int) -> Batch:
        people: dict[int, dict[str, int]] = {}
        for minute in range(begin, end, MINUTE_S):
            people[minute] = {VIRAL: self._chance.randint(1, 1_000)}
        for link in range(number, self.plan.links, self.plan.owners):
            if self._chance.random() < self.plan.share:
                people[self._chance.randrange(begin, end, MINUTE_S)][f"link-{link}"] = self._chance.randint(1, 9)
        for counts in people.values():
            self.done.hits.update(counts)
        return Batch(people=people)
