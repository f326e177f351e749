"""What the tests of alerts share: a store in memory, ledgers that survive a restart, receivers that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from clickcurve.buckets.errors import ImportElsewhere, ImportOutOfStep, StoreUnavailable
from ingest.batch import Batch
from server.alerts.cause import CauseFinder
from server.alerts.ledger import Ledger
from server.alerts.mail import Mail
from server.alerts.watch import AlertWatch
from server.alerts.webhook import NotDelivered
from server.settings.alerts import parse_alerts
from storage.contract import Source
from tests.query.queried_nodes import QueriedNodes

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class MemorySteps:
    """Keeps sources as an owner does. `failure` is raised instead."""

    def __init__(self) -> None:
        self.kept: dict[str, Source] = {}
        self.failure: Exception | None = None
        self.steps = 0

    async def source(self, source: str) -> Source:
        if self.failure is not None:
            raise self.failure
        return self.kept.get(source, Source(1, 0, ""))

    async def accept(self, batch: Batch) -> frozenset[str]:
        if self.failure is not None:
            raise self.failure
        step = batch.source
        assert step is not None
        if self.kept.get(step.source, Source(1, 0, "")).position != step.start:
            raise ImportOutOfStep("elsewhere", value=0)
        self.kept[step.source] = Source(1, step.end, step.tail)
        self.steps += 1
        return frozenset()


@dataclass
class Receiver:
    """Takes webhooks and mails. `faults`: what happens to the next ones, "fail" or "killed after"; then all is well."""

    posts: list[tuple[str, bytes]] = field(default_factory=list)  # id, body
    mails: list[Mail] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    async def send(self, *given: Any) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "fail":
            raise NotDelivered("it is down")
        if isinstance(given[0], Mail):
            self.mails.append(given[0])
        else:
            _, _, message_id, body = given
            self.posts.append((message_id, body))
        if fault == "killed after":
            raise asyncio.CancelledError  # the process was killed here


class WatchedNode:
    """One node with alerts. `restart` forgets all that is not kept."""

    def __init__(self, *tables: dict[str, Any], steps: MemorySteps | None = None) -> None:
        self.nodes = QueriedNodes(now=NOW)
        self.steps = steps or MemorySteps()
        self.receiver = Receiver()
        self.causes: CauseFinder | None = None
        self.tables: Iterable[dict[str, Any]] = tables
        self._ids = count(1)
        self.restart()

    def restart(self, *tables: dict[str, Any]) -> None:
        self.tables = tables or self.tables
        ways = {"url": "https://hooks.example/x", "secret": SECRET}
        self.alerts = parse_alerts([({} if "mail" in table else ways) | table for table in self.tables])
        self.watch = AlertWatch(
            self.alerts,
            self.nodes.queries,
            Ledger(self.steps),
            self.receiver,
            self.receiver,
            self.causes,
            lambda: float(self.nodes.now),
            lambda: f"msg_{next(self._ids)}",
        )

    def visit(self, after_s: int = 0) -> list[str]:
        """Judges once, so many seconds later; returns the ids of what has arrived so far."""
        self.nodes.now += after_s

        async def judge_and_say() -> None:
            await self.watch.visit()
            await asyncio.gather(*self.watch._under_way.values(), return_exceptions=True)

        asyncio.run(judge_and_say())
        return [message_id for message_id, _ in self.receiver.posts]


def elsewhere() -> ImportElsewhere:
    return ImportElsewhere("another owner keeps it")


def unavailable() -> StoreUnavailable:
    return StoreUnavailable("down")
