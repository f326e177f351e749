"""`POST /v1/hits` and `POST /v1/hits/{key}`, as a plain ASGI callable.

A web framework's routing and validation cost more than a hit, so the server calls `HitRoutes` in front of it for
every path that `serves` says yes to; all methods of those paths are answered here. One hit now, by path or by a JSON
object with nothing but a key, goes to the owner without a batch and is answered with constant bytes. Most of those do
not even come here: connections answer them without ASGI, by `single` and `COUNTED` alone (`server/http/fast_path.py`).

All others take one way: the bytes of a body become hits as read (`body.py`), these are judged (`judge.py`) and
summed (`request_sums.py`), the sums become a batch for the owner, and its answer makes the receipt (`receipt.py`).
"""

from __future__ import annotations

import re
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol

from clickcurve.access import access
from clickcurve.asgi import FIELDS, Answer, Message, Receive, Scope, Send, answer, close_unanswered
from clickcurve.buckets.errors import (
    BodyUnreadable,
    ClickcurveError,
    HitRejected,
    JournalUnknown,
    ParameterInvalid,
)
from clickcurve.keys import key_in_path
from clickcurve.problem import problem, problem_answer
from clickcurve.waiting import computed
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from ingest.hit import ID_RULE, NO_TIME, Hit, JsonHit, Judge, Moment, PlainHit, is_id, minute_start
from ingest.hit_sums import batch_of_hits
from ingest.reading.body import Media, media_of, read_hits, read_one
from ingest.reading.body_budget import BodyBudget, ClientGone, HeldBody, Step, coding_of, too_large
from ingest.reading.fit import cut_words
from ingest.reading.judge import HitJudge
from ingest.reading.receipt import ONE_COUNTED, RECEIPT_ITEMS, IngestCounters, Item, Receipt
from ingest.reading.request_sums import RequestSums

HITS = b"/v1/hits"
HIT = b"/v1/hits/"

# With one of these headers a request is more than one plain hit.
NOT_PLAIN = frozenset((b"transfer-encoding", b"content-encoding", b"idempotency-key", b"expect"))
_PLAIN_PATH = re.compile(rb"/v1/hits/[!-$&-.0-~]{1,256}").fullmatch
_JSON = b"application/json"
COUNTED = answer(200, ONE_COUNTED)

Counting = Awaitable[frozenset[str]] | Awaitable[None]


class HitIntake(Protocol):
    """What counts the hits: the owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...
    def accept_one(self, hit: str | Hit) -> Future[None]: ...


class _Request:
    """The headers that matter here, the part of the body that was received already, and what is held of it."""

    def __init__(self, scope: Scope, first: Message | None) -> None:
        self.first = first
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(pairs)
        length = headers.get(b"content-length", b"0")
        self.type = headers.get(b"content-type", b"").decode("latin-1")
        self.coding = b",".join([value for name, value in pairs if name == b"content-encoding"]).decode("latin-1")
        self.length = int(length) if length.isdigit() and len(length) < 20 else 0
        self.chunked = b"transfer-encoding" in headers
        self.names = [value for name, value in pairs if name == b"idempotency-key"]
        self.expects = b"expect" in headers
        self.unread = first is None
        self.body = HeldBody()

    @property
    def name(self) -> str | None:
        """The Idempotency-Key."""
        if not self.names:
            return None
        if len(self.names) > 1 or not is_id(self.names[0].decode("latin-1")):
            detail = "the Idempotency-Key is empty, too long, not visible ASCII, or given twice"
            raise ParameterInvalid(detail, field="Idempotency-Key", value=b", ".join(self.names), rule=ID_RULE)
        return self.names[0].decode("ascii")


class HitRoutes:
    """Answers the write routes.

    clock gives epoch seconds; minutes_since(now) the start of the oldest day that is kept in minutes; is_bot judges a
    user agent, and reader reads what hits say beside. The counters are plain numbers for the server to export.
    """

    def __init__(
        self,
        intake: HitIntake,
        clock: Callable[[], float],
        minutes_since: Callable[[int], int],
        is_bot: Judge,
        counters: IngestCounters | None = None,
        *,
        reader: ProfileReader = NO_DIMENSIONS,
        room: BodyBudget | None = None,
        receipt_items: int = RECEIPT_ITEMS,
    ) -> None:
        self.intake = intake
        self.counters = counters if counters is not None else IngestCounters()
        self._clock = clock
        self._minutes_since = minutes_since
        self._is_bot = is_bot
        self._reader = reader
        self._key_form = reader.key_form or None
        self._room = room if room is not None else BodyBudget(clock)
        self._receipt_items = receipt_items
        self._now = HitJudge(Moment.at(clock(), minutes_since), reader)

    @staticmethod
    def serves(raw_path: bytes) -> bool:
        return raw_path.startswith(HITS) and (len(raw_path) == len(HITS) or raw_path.startswith(HIT))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of a path that `serves` allows: here one good hit, in `_answer` the rest."""
        first: Message | None = None
        counting: Counting | None = None
        try:
            if scope["method"] == "POST" and not ((allowed := access()).prefix or allowed.charge):
                path: bytes = scope["raw_path"]
                headers = scope.get(FIELDS) or dict(scope["headers"])
                if not is_plain(headers):
                    pass
                elif len(path) > len(HIT):
                    if headers.get(b"content-length", b"0") == b"0" and _PLAIN_PATH(path) and not scope["query_string"]:
                        counting = self.intake.accept_one(self.now(path[len(HIT) :].decode("ascii")))
                elif len(path) == len(HITS) and is_short_json(headers):
                    first = await receive()
                    counting = self._count_one(first)
            if counting is not None:
                counted_before = await counting
                if counted_before:
                    await self._duplicate(counted_before).send(send)
                    return
                self.counters.singles += 1
                await send(COUNTED.start)
                await send(COUNTED.body)
                return
        except ClickcurveError as error:
            await self.fail(error, send)
            return
        await self._answer(scope, receive, send, first)

    def _count_one(self, message: Message) -> Counting | None:
        """Starts to count a body that is one plain or full hit; returns None for any other."""
        body = message.get("body", b"")
        hit = None if message.get("more_body", False) else self.single(body, with_id=True)
        if hit is None:
            return None
        if isinstance(hit, Hit) and hit.id is not None:
            return self.intake.accept(batch_of_hits([hit]))
        return self.intake.accept_one(hit)

    def now(self, key: str, judge: HitJudge | None = None) -> str | Hit:
        """Returns one hit of a link now: its key, or a hit if it counts in groups; judge: None for one of any token."""
        judge = judge or self._judge()
        if self._key_form is not None:
            key = self._key_form.of(key)
        groups = judge.groups_of(key)
        return Hit(key, minute_start(judge.moment.now), 1, None, False, groups=groups) if groups else key

    def single(self, body: bytes, with_id: bool = False) -> str | Hit | None:
        """Reads a body that is one hit which counts once: its key if that is all, else a hit; None for any other."""
        if not body.startswith(b"{") or len(body) > self._room.body_bytes:
            return None
        hit = read_one(body)
        if not isinstance(hit, PlainHit):
            return None if hit is None or not (hit.id is None or with_id) else self._valid(hit)
        if hit.count > 1:
            return None
        if hit.ts == NO_TIME:
            return self.now(hit.key)
        judge, key = self._judge(), hit.key if self._key_form is None else self._key_form.of(hit.key)
        if not judge.moment.late_before <= hit.ts <= judge.moment.latest:
            return None
        return Hit(key, minute_start(hit.ts), 1, None, False, groups=judge.groups_of(key))

    def _valid(self, raw: JsonHit) -> Hit | None:
        if raw.ua is not None and self._reader.lacks_agents:
            return None  # the other way waits for them
        judge = self._judge()
        if self._key_form is not None:
            raw.key = self._key_form.of(raw.key)
        try:
            hit = judge.hit_of(raw, self._is_bot, is_typed=True)
        except HitRejected:
            return None
        if hit.count != 1 or hit.minute < judge.moment.late_before or cut_words(raw, hit):
            return None  # the receipt of the other way says more
        judge.note_ignored(raw, self.counters.ignored)
        return hit

    def _duplicate(self, ids: frozenset[str]) -> Answer:
        """Returns the answer to one hit whose id was counted before."""
        (id_,) = ids
        self.counters.batches += 1
        self.counters.duplicate += 1
        return answer(200, Receipt(0, 1, 0, 0, (Item.duplicate(0, "id", id_),)).encode())

    def _judge(self) -> HitJudge:
        """Returns what judges hits of this second that are counted one by one, of tokens without a prefix."""
        now = self._clock()
        if not self._now.moment.now <= now < self._now.moment.now + 1:
            self._now = HitJudge(Moment.at(now, self._minutes_since), self._reader)
        return self._now

    # --- one request --------------------------------------------------------------------------------------------
    async def _answer(self, scope: Scope, receive: Receive, send: Send, first: Message | None) -> None:
        request = _Request(scope, first)
        try:
            answer = await self._take(scope, request, receive)
        except ClientGone:
            self.counters.disconnected += 1
            return
        except ClickcurveError as error:
            await self.fail(error, send, request)
            return
        finally:
            self._room.release(request.body)
        if answer.status in (404, 405):
            self._count_rejected(answer.status)
        await answer.send(send)

    async def fail(self, error: ClickcurveError, send: Send, request: _Request | None = None) -> None:
        """Answers a request whose hits were refused; closes its connection if nobody knows whether they count."""
        if isinstance(error, JournalUnknown):
            self.counters.unanswered += 1
            await close_unanswered(send)
            raise error
        self._count_rejected(error.status)
        # A client that waits for 100 Continue may leave its body out now: what follows would be taken for the body.
        close = ((b"connection", b"close"),) if request and request.expects and request.unread else ()
        await problem(error, close).send(send)

    def _count_rejected(self, status: int) -> None:
        self.counters.rejected[status] = self.counters.rejected.get(status, 0) + 1

    async def _take(self, scope: Scope, request: _Request, receive: Receive) -> Answer:
        raw_path: bytes = scope["raw_path"]
        if scope["method"] != "POST":
            detail = f"{scope['method']} means nothing here; hits are sent by POST"
            return problem_answer(405, "method not allowed", detail, ((b"allow", b"POST"),))
        if len(raw_path) == len(HITS):
            return await self._take_body(request, receive)
        if b"/" in raw_path[len(HIT) :]:
            return problem_answer(404, "not found", "a slash in a key is written %2F")
        if scope["query_string"]:
            detail = "one hit by path has no query parameters; a hit with time, count or id is sent to /v1/hits"
            raise ParameterInvalid(detail, field="query", value=scope["query_string"], rule="no query")
        return await self._take_path(raw_path[len(HIT) :], request, receive)

    async def _take_path(self, raw: bytes, request: _Request, receive: Receive) -> Answer:
        """Counts one hit now that carries an Idempotency-Key, or an odd key, or perhaps a body."""
        if request.length or (request.chunked and not await _has_no_body(receive)):
            detail = "one hit by path has no body; hits with time, count or id are sent to /v1/hits"
            raise BodyUnreadable(detail, rule="an empty body")
        sums, allowed = self._sums(request.name), access()
        try:
            key = key_in_path(raw, HitRejected)
        except HitRejected as error:
            sums.refuse(error)
        else:
            hit = self.now(allowed.own_key(key), sums.judge)
            if request.name is not None:
                sums.add_hit(Hit(hit, minute_start(sums.moment.now), 1, None, False) if isinstance(hit, str) else hit)
            else:
                if allowed.charge is not None:
                    await allowed.charge(1)
                await self.intake.accept_one(hit)
                self.counters.singles += 1
                return COUNTED
        return await self._settle(sums)

    async def _take_body(self, request: _Request, receive: Receive) -> Answer:
        name = request.name
        media = media_of(request.type)
        coding = coding_of(request.coding)
        if request.length > self._room.body_bytes:
            raise too_large(self._room.body_bytes)
        request.unread = False
        first, request.first = request.first, None
        body = await self._room.receive(request.body, receive, first)
        sums = self._sums(name)
        await self._room.run(self._steps(request, body, coding, media, sums))
        return await self._settle(sums)

    def _steps(
        self, request: _Request, body: bytes, coding: str | None, media: Media, sums: RequestSums
    ) -> Iterator[Step]:
        if coding is not None:
            body = yield from self._room.decode(request.body, body, coding)
        for hits in read_hits(body, media, explained=self._receipt_items):
            if self._reader.lacks_agents and any(getattr(hit, "ua", None) for hit in (*hits.json, *hits.odd)):
                yield computed("reading the list of agents", self._reader.load_agents)
            yield from sums.add_steps(hits, self._is_bot)
            yield None
        self.counters.body_bytes += len(body)

    def _sums(self, name: str | None) -> RequestSums:
        return RequestSums(
            self._judge().moment, name, receipt_items=self._receipt_items, reader=self._reader, allowed=access()
        )

    async def _settle(self, sums: RequestSums) -> Answer:
        await sums.charge()
        batch = await computed("making a batch", sums.batch) if sums.has_many_ids() else sums.batch()
        receipt: Receipt = sums.receipt(await self.intake.accept(batch) if batch is not None else frozenset())
        sums.count_into(self.counters, receipt)
        return answer(receipt.status, receipt.encode())


def is_plain(headers: Mapping[bytes, bytes]) -> bool:
    """Tells whether no header makes a request more than one plain hit."""
    return NOT_PLAIN.isdisjoint(headers)


def is_short_json(headers: Mapping[bytes, bytes]) -> bool:
    """Tells whether the headers announce JSON of less than 10,000 bytes."""
    return 0 < len(headers.get(b"content-length", b"")) < 5 and headers.get(b"content-type", _JSON) == _JSON


async def _has_no_body(receive: Receive) -> bool:
    """Tells whether a body of unknown length turns out to be empty."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        if message.get("body", b""):
            return False
        if not message.get("more_body", False):
            return True
