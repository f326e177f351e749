"""`POST /v1/hits` and `POST /v1/hits/{key}`, as a plain ASGI callable.

A web framework's routing and validation cost more than a hit, so the server calls `HitRoutes` in front of it for
every path that `serves` says yes to; all methods of those paths are answered here. One hit now, by path or by a JSON
object with nothing but a key, goes to the owner without a batch and is answered with constant bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from buckets.errors import BodyUnreadable, ClickcurveError, HitRejected, JournalBehind, JournalUnknown, ParameterInvalid
from ingest.answer import Answer, Send, answer, close_unanswered, problem, problem_answer
from ingest.batch import Batch
from ingest.body import Media, media_of, read
from ingest.counters import IngestCounters
from ingest.encoding import BODY_BYTES, coding_of, decoded, too_large
from ingest.hit import FUTURE_S, ID_CHARACTERS, ID_RULE, Hit, Moment, minute_start, shown
from ingest.path_key import key_in
from ingest.receipt import ONE_COUNTED, RECEIPT_ITEMS, Receipt
from ingest.tally import IDENTIFIED_HITS, NO_TIME, PlainHit, Tally

HITS = b"/v1/hits"
HIT = b"/v1/hits/"

# Bytes of large bodies in memory at once, over all requests. Beyond it further ones are asked to come again.
WAITING_BYTES = 256 * 1024 * 1024
_SMALL_BODY = 1024 * 1024
_STEP_BYTES = 256 * 1024

# Headers with which a hit by path is more than one hit now.
_NOT_PLAIN = frozenset((b"content-length", b"transfer-encoding", b"idempotency-key"))
_VISIBLE = re.compile(rb"[!-~]{1,%d}" % ID_CHARACTERS)
_LEAN_BYTES = 4096
_LEAN = msgspec.json.Decoder(PlainHit)
_ONE_COUNTED = answer(200, ONE_COUNTED)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Intake(Protocol):
    """What counts the hits: the owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...
    def accept_one(self, key: str) -> Awaitable[None]: ...


class BodiesBusy(JournalBehind):
    """Too many bytes of large bodies are being read at once: nothing of this one was counted."""

    title = "too many large bodies"


class _ClientGone(Exception):
    """The client closed the connection in the middle of its body."""


class _Request:
    """The headers that matter here, and what is held for the request."""

    def __init__(self, scope: Scope) -> None:
        self.type = b""
        self.coding = b""
        self.length = 0
        self.chunked = False
        self.names: list[bytes] = []
        self.expects = False
        self.unread = True
        self.held = 0
        for name, value in scope["headers"]:
            if name == b"content-type":
                self.type = value if not self.type else self.type + b", " + value
            elif name == b"content-encoding":
                self.coding = value if not self.coding else self.coding + b"," + value
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() else 0
            elif name == b"transfer-encoding":
                self.chunked = True
            elif name == b"idempotency-key":
                self.names.append(value)
            elif name == b"expect":
                self.expects = True

    @property
    def name(self) -> str | None:
        """The Idempotency-Key."""
        if not self.names:
            return None
        if len(self.names) > 1 or not _VISIBLE.fullmatch(self.names[0]):
            value = shown(b", ".join(self.names))
            detail = "the Idempotency-Key is empty, too long, not visible ASCII, or given twice"
            raise ParameterInvalid(detail, field="Idempotency-Key", value=value, rule=ID_RULE)
        return self.names[0].decode("ascii")


class HitRoutes:
    """Answers the write routes.

    clock gives epoch seconds; minutes_since(now) the start of the oldest day that is kept in minutes; is_bot judges a
    user agent. The counters are plain numbers for the server to export.
    """

    def __init__(
        self,
        intake: Intake,
        clock: Callable[[], float],
        minutes_since: Callable[[int], int],
        is_bot: Callable[[str], bool],
        counters: IngestCounters | None = None,
        *,
        body_bytes: int = BODY_BYTES,
        future_s: int = FUTURE_S,
        identified_hits: int = IDENTIFIED_HITS,
        receipt_items: int = RECEIPT_ITEMS,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self.intake = intake
        self.counters = counters if counters is not None else IngestCounters()
        self._clock = clock
        self._minutes_since = minutes_since
        self._is_bot = is_bot
        self._body_bytes = body_bytes
        self._future_s = future_s
        self._identified_hits = identified_hits
        self._receipt_items = receipt_items
        self._waiting_bytes = waiting_bytes
        self._held = 0

    @staticmethod
    def serves(raw_path: bytes) -> bool:
        return raw_path.startswith(HITS) and (len(raw_path) == len(HITS) or raw_path.startswith(HIT))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope["raw_path"][len(HIT) :]
        try:
            if (
                raw
                and scope["method"] == "POST"
                and len(raw) <= 256
                and b"%" not in raw
                and b"/" not in raw
                and raw.isascii()
                and _NOT_PLAIN.isdisjoint([name for name, _ in scope["headers"]])
            ):
                await self.intake.accept_one(raw.decode("ascii"))
                self.counters.singles += 1
                await send(_ONE_COUNTED.start)
                await send(_ONE_COUNTED.body)
                return
        except ClickcurveError as error:
            await self._fail(error, send)
            return
        await self._answer(scope, receive, send)

    # --- one request --------------------------------------------------------------------------------------------
    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(scope)
        try:
            found = await self._take(scope, request, receive)
        except _ClientGone:
            self.counters.disconnected += 1
            return
        except ClickcurveError as error:
            await self._fail(error, send, request)
            return
        finally:
            self._held -= request.held
        await found.send(send)

    async def _fail(self, error: ClickcurveError, send: Send, request: _Request | None = None) -> None:
        if isinstance(error, JournalUnknown):
            self.counters.unanswered += 1
            await close_unanswered(send)
            raise error
        rejected = self.counters.rejected
        rejected[error.status] = rejected.get(error.status, 0) + 1
        # A client that waits for 100 Continue may leave its body out now: what follows would be taken for the body.
        close = ((b"connection", b"close"),) if request and request.expects and request.unread else ()
        await problem(error, close).send(send)

    async def _take(self, scope: Scope, request: _Request, receive: Receive) -> Answer:
        raw_path: bytes = scope["raw_path"]
        if scope["method"] != "POST":
            detail = f"{scope['method']} means nothing here; hits are sent by POST"
            return problem_answer(405, "method not allowed", detail, ((b"allow", b"POST"),))
        if len(raw_path) == len(HITS):
            return await self._take_body(request, receive)
        if b"/" in raw_path[len(HIT) :]:
            return problem_answer(404, "not found", "a slash in a key is written %2F")
        return await self._take_path(raw_path[len(HIT) :], request, receive)

    async def _take_path(self, raw: bytes, request: _Request, receive: Receive) -> Answer:
        """One hit now, that carries an Idempotency-Key, or an odd key, or perhaps a body."""
        if request.length or (request.chunked and await self._body(request, receive)):
            detail = "one hit by path has no body; hits with time, count or id are sent to /v1/hits"
            raise BodyUnreadable(detail, rule="an empty body")
        tally = self._tally(request.name)
        try:
            key = key_in(raw)
        except HitRejected as error:
            tally.refuse(error)
        else:
            if request.name is None:
                await self.intake.accept_one(key)
                self.counters.singles += 1
                return _ONE_COUNTED
            tally.add(Hit(key, minute_start(tally.moment.now), 1, None, False))
        return await self._settle(tally)

    async def _take_body(self, request: _Request, receive: Receive) -> Answer:
        name = request.name
        media = media_of(request.type.decode("latin-1"))
        coding = coding_of(request.coding.decode("latin-1"))
        body = await self._body(request, receive)
        if coding is not None:
            body = await self._decode(request, body, coding)
        if media is Media.json and name is None and len(body) <= _LEAN_BYTES and body.startswith(b"{"):
            plain = _plain_now(body)
            if plain is not None:
                await self.intake.accept_one(plain)
                self.counters.singles += 1
                return _ONE_COUNTED
        tally = self._tally(name)
        for _ in read(body, media, tally, self._is_bot):
            await asyncio.sleep(0)
        self.counters.body_bytes += len(body)
        return await self._settle(tally)

    def _tally(self, name: str | None) -> Tally:
        moment = Moment.at(self._clock(), self._minutes_since, self._future_s)
        return Tally(moment, name, self._identified_hits, self._receipt_items)

    async def _settle(self, tally: Tally) -> Answer:
        batch = tally.batch()
        receipt: Receipt = tally.receipt(await self.intake.accept(batch) if batch is not None else frozenset())
        tally.count_into(self.counters, receipt)
        return answer(receipt.status, receipt.encode())

    # --- bodies -------------------------------------------------------------------------------------------------
    async def _body(self, request: _Request, receive: Receive) -> bytes:
        """The body as sent, still encoded."""
        if request.length > self._body_bytes:
            raise too_large(self._body_bytes)
        request.unread = False
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _ClientGone
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._body_bytes:
                raise too_large(self._body_bytes)
            self._hold(request, len(chunk))
            if not message.get("more_body", False):
                return b"".join(chunks) + chunk if chunks else chunk
            chunks.append(chunk)

    async def _decode(self, request: _Request, body: bytes, coding: str) -> bytes:
        blocks = []
        step = 0
        for block in decoded(body, coding, self._body_bytes):
            self._hold(request, len(block))
            blocks.append(block)
            step += len(block) + 1024  # empty blocks take time, too
            if step > _STEP_BYTES:
                step = 0
                await asyncio.sleep(0)
        return b"".join(blocks)

    def _hold(self, request: _Request, size: int) -> None:
        self._held += size
        request.held += size
        if self._held > self._waiting_bytes and request.held > _SMALL_BODY:
            raise BodiesBusy(f"more than {self._waiting_bytes:,} bytes of bodies are being read; send this one again")


def _plain_now(body: bytes) -> str | None:
    """The key, if the body is one hit of a person now and nothing else."""
    try:
        hit = _LEAN.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return hit.key if hit.ts == NO_TIME and hit.count == 1 else None
