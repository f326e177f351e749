"""What the tests of alerts share: a store that fails, nodes that are restarted, receivers that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from clickcurve.buckets.errors import StoreUnavailable
from server.alerts.cause import CauseFinder
from server.alerts.ledger import Ledger
from server.alerts.mail import Mail
from server.alerts.message import Ways
from server.alerts.watch import AlertWatch
from server.alerts.webhook import NotDelivered
from server.settings.alerts import parse_alerts
from storage.memory_store import MemoryStore
from tests.query.queried_nodes import QueriedNodes

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Noted = TypeVar("Noted", str, str | None)


class LedgerStore(MemoryStore):
    """Keeps the states of alerts. `failure` is raised in place of an answer; `after`, when a change was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.after: Exception | None = None
        self.changes = 0

    def noted(self, name: str) -> str | None:
        self._fail(self.failure)
        return super().noted(name)

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        self._fail(self.failure)
        return self._changed(super().note(name, value, kept_s))

    def change_note(self, name: str, before: str, after: str) -> str | None:
        self._fail(self.failure)
        return self._changed(super().change_note(name, before, after))

    def _changed(self, noted: Noted) -> Noted:
        self.changes += 1
        self._fail(self.after)
        return noted

    def _fail(self, failure: Exception | None) -> None:
        if failure is not None:
            raise failure


@dataclass
class Receiver:
    """Takes webhooks and mails. `faults`: what happens to the next ones, "fail" or "killed after"; then all is well."""

    posts: list[tuple[str, bytes]] = field(default_factory=list)  # id, body
    mails: list[Mail] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    store_fails: Callable[[], object] = lambda: None

    async def send(self, *given: Any) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "fail":
            raise NotDelivered("it is down")
        if isinstance(given[0], Mail):
            self.mails.append(given[0])
        else:
            _, _, message_id, body = given
            self.posts.append((message_id, body))
        if fault == "then the store is down":
            self.store_fails()
        if fault == "killed after":
            raise asyncio.CancelledError  # the process was killed here


class WatchedNode:
    """One node with alerts. `restart` forgets all that is not stored. store: the one that keeps their states."""

    def __init__(self, *tables: dict[str, Any], store: LedgerStore | None = None) -> None:
        self.nodes = QueriedNodes(now=NOW)
        self.store = store or LedgerStore()
        self.receiver = Receiver(store_fails=lambda: setattr(self.store, "failure", unavailable()))
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
            Ledger(self.store),
            Ways(self.receiver.send, self.receiver.send),
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


def unavailable() -> StoreUnavailable:
    return StoreUnavailable("down")
