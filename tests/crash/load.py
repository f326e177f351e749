"""Clients that post to a server which dies again and again, and write every answer into the ledger."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.ledger import Ledger, Outcome, Sent
from tests.crash.wire import Unanswered, Unreachable, Wire

DAY_S = 86_400
# How long ago hits say they happened: mostly now, some in every tier of the ladder.
AGES_S = (0, 0, 0, 0, 0, 3_600, DAY_S, 2 * DAY_S, 40 * DAY_S, 500 * DAY_S)
SAFE_TO_REPEAT = (429, 503)


@dataclass(frozen=True, slots=True)
class Request:
    """A POST and the hits in it; `repeatable` if it carries ids, so that it may be sent until it is answered."""

    path: str
    body: bytes
    headers: dict[str, str]
    hits: Sequence[Sent]
    repeatable: bool = False


class Load:
    """`clients` connections that post until `stop`. While the server is down they wait for `up`."""

    def __init__(self, port: int, ledger: Ledger, chance: random.Random, clients: int = 8) -> None:
        self.ledger = ledger
        self.up = asyncio.Event()
        self.repeats = 0
        self._chance = chance
        self._numbers = iter(range(1_000_000_000))
        self._stopping = False
        self.tasks = [asyncio.create_task(self._client(Wire(port))) for _ in range(clients)]

    async def wait(self, seconds: float) -> None:
        """Let the load run for a while; a client that failed raises here."""
        done, _ = await asyncio.wait(self.tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """Send nothing new, repeat what must be repeated until it is answered, and end."""
        self._stopping = True
        self.up.set()
        await asyncio.gather(*self.tasks)

    async def _client(self, wire: Wire) -> None:
        try:
            while not self._stopping:
                await self.up.wait()
                request = self._next()
                while (outcome := await self._send(wire, request)) is not Outcome.acknowledged and request.repeatable:
                    self.repeats += 1
                    await self._pause()
                self.ledger.settle(request.hits, outcome)
                if outcome is not Outcome.acknowledged:
                    await self._pause()
        finally:
            wire.close()

    async def _send(self, wire: Wire, request: Request) -> Outcome:
        try:
            status, body = await wire.post(request.path, request.body, request.headers)
        except Unreachable:
            return Outcome.refused
        except Unanswered:
            return Outcome.unknown
        if status in SAFE_TO_REPEAT:
            return Outcome.refused
        receipt = json.loads(body)
        told = receipt.get("counted", 0) + receipt.get("duplicate", 0)
        sent = sum(hit.count for hit in request.hits)
        if status != 200 or told != sent or (receipt["duplicate"] and not request.repeatable):
            raise AssertionError(f"{request.path}: {status} {body[:500]!r} for hits that sum to {sent}")
        return Outcome.acknowledged

    async def _pause(self) -> None:
        """A moment before the next try, so that a dead server is not hammered."""
        await asyncio.sleep(0.01 + 0.04 * self._chance.random())

    # --- what is posted ----------------------------------------------------------------------------------------
    def _next(self) -> Request:
        kinds = (self._by_path, self._one, self._one_with_id, self._batch, self._batch_with_id, self._batch_of_ids)
        return self._chance.choices(kinds, weights=(6, 4, 4, 2, 2, 1))[0]()

    def _by_path(self) -> Request:
        hit = self.ledger.single()
        return Request(f"/v1/hits/{hit.key}", b"", {}, [hit])

    def _one(self) -> Request:
        hit = self.ledger.weighted()
        return Request("/v1/hits", json.dumps(self._body(hit)).encode(), {}, [hit])

    def _one_with_id(self) -> Request:
        hit = self.ledger.weighted()
        return Request("/v1/hits", json.dumps(self._body(hit, with_id=True)).encode(), {}, [hit], repeatable=True)

    def _batch(self) -> Request:
        hits = [self.ledger.weighted() for _ in range(self._chance.choice((3, 30, 300)))]
        return Request("/v1/hits", json.dumps([self._body(hit) for hit in hits]).encode(), {}, hits)

    def _batch_with_id(self) -> Request:
        plain = self._batch()
        headers = {"Idempotency-Key": self._id(), "Content-Type": "application/json"}
        return Request(plain.path, plain.body, headers, plain.hits, repeatable=True)

    def _batch_of_ids(self) -> Request:
        hits = [self.ledger.weighted() for _ in range(20)]
        lines = [json.dumps(self._body(hit, with_id=True)) for hit in hits]
        headers = {"Content-Type": "application/x-ndjson"}
        return Request("/v1/hits", "\n".join(lines).encode(), headers, hits, repeatable=True)

    def _id(self) -> str:
        return f"{self.ledger.prefix}id-{next(self._numbers)}"

    def _body(self, hit: Sent, with_id: bool = False) -> dict[str, Any]:
        said: dict[str, Any] = {"key": hit.key, "count": hit.count}
        if age_s := self._chance.choice(AGES_S):
            said["ts"] = int(time.time()) - age_s
        if self._chance.random() < 0.2:
            said["bot"] = True
        if with_id:
            said["id"] = self._id()
        return said
