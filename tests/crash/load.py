"""Clients that post to a server which dies again and again, and enter every answer at the auditor."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.audit.attributes import fields_of
from tests.audit.auditor import Auditor, Hit, Outcome, Sent
from tests.audit.hit_source import HitSource
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
    hits: Sequence[Hit]
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of request comes, and how many hits a batch has."""

    by_path: int = 6
    one: int = 4
    one_with_id: int = 4
    batch: int = 2
    batch_with_id: int = 2
    batch_of_ids: int = 1
    batch_hits: tuple[int, ...] = (3, 30, 300)
    ids_in_batch: int = 20


class Requests:
    """Makes up what clients post, of hits that the source gives out."""

    def __init__(self, source: HitSource, chance: random.Random, mix: Mix | None = None) -> None:
        self._source = source
        self._chance = chance
        self._mix = mix = mix or Mix()
        self._numbers = iter(range(1_000_000_000))
        self._kinds = (
            self._by_path,
            self._one,
            self._one_with_id,
            self._batch,
            self._batch_with_id,
            self._batch_of_ids,
        )
        self._weights = (mix.by_path, mix.one, mix.one_with_id, mix.batch, mix.batch_with_id, mix.batch_of_ids)

    def next(self) -> Request:
        return self._chance.choices(self._kinds, self._weights)[0]()

    def _by_path(self) -> Request:
        hit = self._source.single()
        return Request(f"/v1/hits/{hit.key}", b"", {}, [hit])

    def _one(self) -> Request:
        hit = self._source.weighted()
        return Request("/v1/hits", json.dumps(self._body(hit)).encode(), {}, [hit])

    def _one_with_id(self) -> Request:
        hit = self._source.weighted()
        return Request("/v1/hits", json.dumps(self._body(hit, with_id=True)).encode(), {}, [hit], repeatable=True)

    def _batch(self) -> Request:
        hits = [self._source.weighted() for _ in range(self._chance.choice(self._mix.batch_hits))]
        return Request("/v1/hits", json.dumps([self._body(hit) for hit in hits]).encode(), {}, hits)

    def _batch_with_id(self) -> Request:
        plain = self._batch()
        headers = {"Idempotency-Key": self._id(), "Content-Type": "application/json"}
        return Request(plain.path, plain.body, headers, plain.hits, repeatable=True)

    def _batch_of_ids(self) -> Request:
        hits = [self._source.weighted() for _ in range(self._mix.ids_in_batch)]
        lines = [json.dumps(self._body(hit, with_id=True)) for hit in hits]
        headers = {"Content-Type": "application/x-ndjson"}
        return Request("/v1/hits", "\n".join(lines).encode(), headers, hits, repeatable=True)

    def _id(self) -> str:
        return f"{self._source.prefix}id-{next(self._numbers)}"

    def _body(self, hit: Hit, with_id: bool = False) -> dict[str, Any]:
        said: dict[str, Any] = {"key": hit.key, "count": hit.count, **fields_of(hit)}
        if age_s := self._chance.choice(AGES_S):
            said["ts"] = int(time.time()) - age_s
        if self._chance.random() < 0.2:
            said["bot"] = True
        if with_id:
            said["id"] = self._id()
        if (group := group_of_key(hit.key)) is not None:
            said["groups"] = [group, group, EVERY]
        return said


EVERY = "every"  # a group that all hits name which name one


def group_of_key(key: str) -> str | None:
    """The group that all hits of this key name, so that it has the link's total; None: they name none."""
    return f"of {key}" if key.endswith("7") and "one-" not in key else None


async def send(wire: Wire, request: Request) -> Outcome:
    """Post it once. AssertionError for an answer that no server may give."""
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


async def pause(chance: random.Random) -> None:
    """A moment before the next try, so that a dead server is not hammered."""
    await asyncio.sleep(0.01 + 0.04 * chance.random())


class Load:
    """`clients` connections that post until `stop`. While the server is down they wait for `up`.

    pace_s: how long each rests after a request, about.
    """

    def __init__(
        self,
        port: int,
        auditor: Auditor[Sent],
        source: HitSource,
        chance: random.Random,
        clients: int = 8,
        mix: Mix | None = None,
        pace_s: float = 0.0,
    ) -> None:
        self.up = asyncio.Event()
        self.repeats = 0
        self._chance = chance
        self._auditor = auditor
        self._requests = Requests(source, chance, mix)
        self._pace_s = pace_s
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
                request = self._requests.next()
                sent = self._auditor.enter(Sent(request.hits, request.repeatable))
                while await self._try(wire, request, sent) is not Outcome.acknowledged:
                    await pause(self._chance)
                    if not request.repeatable:
                        break
                    self.repeats += 1
                await asyncio.sleep(2 * self._pace_s * self._chance.random())
        finally:
            wire.close()

    async def _try(self, wire: Wire, request: Request, sent: Sent) -> Outcome:
        begun = self._auditor.begin(sent)
        outcome = await send(wire, request)
        self._auditor.end(begun, outcome)
        return outcome
