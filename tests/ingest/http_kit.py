"""What the tests of the write routes share: an intake in memory, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import settings

from clickcurve.asgi import Message
from ingest.agents.bots import bot_judge
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch, Counts
from ingest.hit import Hit, Moment
from ingest.hit_sums import batch_of_hits
from ingest.reading.body import PIECE_BYTES, Media, read_hits
from ingest.reading.body_budget import BodyBudget
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import RECEIPT_ITEMS
from ingest.reading.request_sums import RequestSums

NOW = 1_767_225_600 + 12 * 3600 + 34  # 2026-01-01T12:00:34Z
DAY = 1_767_225_600  # 2026-01-01T00:00:00Z
MINUTE = NOW - NOW % 60
MOMENT = Moment(NOW, DAY, NOW + 300)
is_bot = bot_judge()
law = settings(deadline=None)  # no deadline: the machine is shared, and the laws do not speak of time


def minutes_since(now: int) -> int:
    return (now - 3600) // 86_400 * 86_400


class MemoryIntake:
    """Counts in memory, ids for ever. `failure` is raised instead, before anything is counted."""

    def __init__(self) -> None:
        self.people: Counter[tuple[int, str]] = Counter()
        self.bots: Counter[tuple[int, str]] = Counter()
        self.ids: set[str] = set()
        self.singles: Counter[str] = Counter()
        self.batches: list[Batch] = []
        self.failure: Exception | None = None
        self._group: asyncio.Future[None] | None = None

    @property
    def total(self) -> int:
        return self.people.total() + self.bots.total() + self.singles.total()

    async def accept(self, batch: Batch) -> frozenset[str]:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch)
        _count(self.people, people_of(batch))
        _count(self.bots, batch.bots)
        before = set()
        for identified in batch.identified:
            if identified.id in self.ids:
                before.add(identified.id)
            else:
                self.ids.add(identified.id)
                _count(self.people, identified.people)
                _count(self.bots, identified.bots)
        return frozenset(before)

    def accept_one(self, hit: str | Hit) -> asyncio.Future[None]:
        if self._group is None:
            loop = asyncio.get_running_loop()
            self._group = loop.create_future()
            loop.call_soon(self._commit, self._group)
        if self.failure is not None:
            return self._group
        if isinstance(hit, str):
            self.singles[hit] += 1
        else:
            batch = batch_of_hits([hit])
            self.batches.append(batch)
            _count(self.people, people_of(batch))
            _count(self.bots, batch.bots)
        return self._group

    def _commit(self, group: asyncio.Future[None]) -> None:
        self._group = None
        if self.failure is not None:
            group.set_exception(self.failure)
        else:
            group.set_result(None)


def people_of(batch: Batch) -> Counts:
    """Returns the counts of people in a batch, which some batches hold unsummed."""
    if batch.keys:
        return {minute: dict(Counter(keys)) for minute, keys in batch.keys.items()}
    return batch.people


def _count(into: Counter[tuple[int, str]], counts: Counts) -> None:
    for minute, cell in counts.items():
        for key, count in cell.items():
            into[minute, key] += count


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Calls the routes as a server would."""

    def __init__(
        self,
        room: BodyBudget | None = None,
        receipt_items: int = RECEIPT_ITEMS,
        reader: ProfileReader = NO_DIMENSIONS,
        **options: Any,
    ) -> None:
        self.intake = MemoryIntake()
        room = room or BodyBudget(lambda: 0.0, **options)
        self.routes = HitRoutes(
            self.intake,
            lambda: NOW + 0.9,
            minutes_since,
            is_bot,
            reader=reader,
            room=room,
            receipt_items=receipt_items,
        )

    def post(
        self, path: str = "/v1/hits", body: bytes | Sequence[bytes] = b"", method: str = "POST", **headers: str
    ) -> Reply:
        """One request. Header names are given with _ for -."""
        pieces = [body] if isinstance(body, bytes) else body
        given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
        if isinstance(body, bytes) and body and "content_length" not in headers:
            given.append((b"content-length", b"%d" % len(body)))
        elif not isinstance(body, bytes):
            given.append((b"transfer-encoding", b"chunked"))
        return self.call(method, path.encode(), given, pieces)

    def send(self, hits: object, content_type: str | None = None, **headers: str) -> Reply:
        if content_type:
            headers["content_type"] = content_type
        return self.post(body=json.dumps(hits).encode(), **headers)

    def call(
        self, method: str, raw_path: bytes, headers: list[tuple[bytes, bytes]], pieces: Sequence[bytes | None]
    ) -> Reply:
        """None as the last piece: the client leaves in the middle of its body. Reply with status 0: no answer."""
        return asyncio.run(self._call(method, raw_path, headers, pieces))

    async def _call(
        self, method: str, raw_path: bytes, headers: list[tuple[bytes, bytes]], pieces: Sequence[bytes | None]
    ) -> Reply:
        messages = [
            {"type": "http.disconnect"}
            if piece is None
            else {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        feed = iter(messages)
        sent: list[Message] = []

        async def receive() -> dict[str, Any]:
            return next(feed)

        async def send(message: Message) -> None:
            sent.append(message)

        raw_path, _, query = raw_path.partition(b"?")
        scope = {"type": "http", "method": method, "raw_path": raw_path, "path": "", "headers": headers}
        scope["query_string"] = query
        await self.routes(scope, receive, send)
        if not sent:
            return Reply(0, {}, b"")
        start, *bodies = sent
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], named, b"".join(message["body"] for message in bodies))


def summed(body: bytes, media: Media, sums: RequestSums, piece_bytes: int = PIECE_BYTES) -> RequestSums:
    for hits in read_hits(body, media, piece_bytes):
        sums.add(hits, is_bot)
    return sums
