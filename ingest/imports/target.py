"""Where an import goes: a server over HTTP, or an owner in this process; and requests, each sent until it counts.

For both targets, `send` returns a receipt or raises an error that says whether the chunk counts:

- JournalError, StoreUnavailable: certainly not counted; the same chunk again, later.
- ImportElsewhere: another worker keeps this source; the same chunk again, over a new connection.
- JournalUnknown: unknown; ask for the offset.
- ImportOutOfStep: the source is at another offset, `value`.
- ImportRefused: it will never work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx

from clickcurve.buckets.errors import (
    ClickcurveError,
    ImportElsewhere,
    ImportOutOfStep,
    JournalBehind,
    JournalError,
    JournalFull,
    JournalUnknown,
    OwnerFenced,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import Ladder
from clickcurve.hosts import IGNORED, IN_KEY
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from ingest.hit import Moment
from ingest.imports.chunk import Chunk, ChunkReader
from ingest.imports.places import AS_IT_WAS, Placing
from ingest.reading.request_sums import RequestSums
from storage.contract import Source

TIMEOUT_S = 60.0
SHOWN_REFUSALS = 5
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
TRIES = 40  # of one request, some nine minutes
QUICK_TRIES = 32  # new connections until one reaches the right worker, before there is any waiting

_MAY_PASS = (JournalError, StoreUnavailable, ImportElsewhere)
T = TypeVar("T")


class ImportRefused(ClickcurveError, status=422, title="import refused"):
    """The other side will not take this import."""


@dataclass(frozen=True, slots=True)
class KeptOffset:
    """How many bytes of a source were counted, and the tail that was kept with that.

    fields: what hits may say that is counted where they go. hosts_in_key: whether keys begin with hosts there.
    people: words of agents that are people's there.
    """

    offset: int
    tail: str
    fields: tuple[str, ...] = ()
    hosts_in_key: bool = False
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """What the other side says of a chunk: sums of counts, and the reasons of the first refusals.

    adjusted: hits that count and of which a word was lost.
    """

    counted: int
    late: int
    refused: int
    reasons: tuple[str, ...] = ()
    adjusted: int = 0


class Target(Protocol):
    async def offset(self, source: str) -> KeptOffset:
        """Returns how far a source was counted; 0 for an unknown one."""

    async def send(self, chunk: Chunk) -> Taken: ...

    async def reconnect(self) -> None:
        """Makes the next request go over a new connection, perhaps to another worker."""

    async def close(self) -> None:
        """Ends the target's use; returns when everything sent is where it lasts."""


class HttpTarget:
    """A running server. `new_client` makes a client with the server's address and the token in its headers."""

    def __init__(
        self, new_client: Callable[[], httpx.AsyncClient], placing: Placing = AS_IT_WAS, visitors: bool = True
    ) -> None:
        self._visitors = visitors
        self._new_client = new_client
        self._client = new_client()
        self._placing = placing

    async def offset(self, source: str) -> KeptOffset:
        try:
            answer = await self._client.get(f"/v1/import/{source}")
        except httpx.TransportError as error:
            raise _unreachable(error) from error
        answered = _checked(answer)
        fields, hosts = tuple(map(str, answered.get("fields", ()))), answered.get("hosts", IGNORED)
        people = tuple(map(str, answered.get("people", ())))
        return KeptOffset(int(answered["position"]), str(answered["tail"]), fields, hosts == IN_KEY, people)

    async def send(self, chunk: Chunk) -> Taken:
        step = chunk.step
        query: dict[str, str | int] = {"from": step.start, "to": step.end, "tail": step.tail}
        query |= {"wide": self._placing.wide.value, "ahead": self._placing.ahead.value}
        if not self._visitors:
            query["visitors"] = "false"
        headers = {"Content-Type": "application/x-ndjson"}
        try:
            answer = await self._client.post(
                f"/v1/import/{step.source}", params=query, content=chunk.body(), headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _unreachable(error) from error
        except httpx.TransportError as error:
            raise JournalUnknown(f"the connection broke: {error or type(error).__name__}") from error
        answered = _checked(answer)
        items = [item for item in answered["items"] if item["status"] != "adjusted"]
        reasons = tuple(str(item["reason"]) for item in items[:SHOWN_REFUSALS])
        counted, late, refused = (int(answered[name]) for name in ("counted", "late", "refused"))
        return Taken(counted, late, refused, reasons, int(answered.get("adjusted", 0)))

    async def reconnect(self) -> None:
        await self._client.aclose()
        self._client = self._new_client()

    async def close(self) -> None:
        await self._client.aclose()


def _unreachable(error: httpx.TransportError) -> StoreUnavailable:
    return StoreUnavailable(f"the server does not answer: {error or type(error).__name__}")


def _checked(answer: httpx.Response) -> Mapping[str, Any]:
    """Returns the JSON of a success; raises the error that another status stands for."""
    answered: Any = None
    try:
        answered = answer.json()
    except ValueError:
        answered = None
    if answer.is_success and isinstance(answered, dict):
        return answered
    problem = answered if isinstance(answered, dict) else {}
    detail = str(problem.get("detail") or f"{answer.request.url} answered {answer.status_code}")
    if answer.status_code == 409:
        raise ImportOutOfStep(detail, value=int(problem.get("value", 0)))
    if answer.status_code == 421:
        raise ImportElsewhere(detail)
    if answer.status_code in (429, 502, 503, 504):
        error = JournalBehind(detail) if answer.status_code == 429 else JournalFull(detail)
        after = answer.headers.get("Retry-After", "")
        error.retry_after_s = int(after) if after.isascii() and after.isdigit() else 1
        # A proxy's 502 or 504 says nothing about the server after it.
        raise error if answer.status_code in (429, 503) else JournalUnknown(detail)
    raise ImportRefused(f"the server says: {detail}", value=answer.status_code)


class OwnerVerbs(Protocol):
    """What an import needs of an owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...
    async def kept_offset(self, source: str) -> Source: ...
    async def flush(self) -> None: ...
    async def close(self) -> None: ...


class OwnerTarget:
    """An owner in this process, whose folder no server holds."""

    def __init__(
        self,
        owner: OwnerVerbs,
        ladder: Ladder,
        moment: Callable[[], Moment],
        placing: Placing = AS_IT_WAS,
        attribute_reader: ProfileReader = NO_DIMENSIONS,
        hosts_in_key: bool = False,
    ) -> None:
        self._hosts_in_key = hosts_in_key
        self._owner = owner
        self._attribute_reader = attribute_reader
        self._reader = ChunkReader(ladder, placing)
        self._moment = moment

    async def offset(self, source: str) -> KeptOffset:
        kept = await self._owner.kept_offset(source)
        fields = tuple(self._attribute_reader.useful_fields())
        people = self._attribute_reader.bot_rules.rules.people
        return KeptOffset(kept.position, kept.tail, fields, self._hosts_in_key, people)

    async def send(self, chunk: Chunk) -> Taken:
        sums = RequestSums(self._moment(), reader=self._attribute_reader)
        for _ in self._reader.read(chunk, sums):
            await asyncio.sleep(0)
        try:
            await self._accept(sums.batch_with(chunk.step))
        except JournalUnknown as error:
            raise ImportRefused(f"{error.detail}; start the import again: it goes on where it was") from error
        receipt = sums.receipt()
        refused = [item for item in receipt.items if item.status != "adjusted"]
        reasons = tuple(item.reason for item in refused[:SHOWN_REFUSALS])
        return Taken(receipt.counted, receipt.late, receipt.refused, reasons, receipt.adjusted or 0)

    async def _accept(self, batch: Batch) -> None:
        try:
            await self._owner.accept(batch)
        except (JournalBehind, JournalFull):
            await self._owner.flush()  # nothing else makes room here
            await self._owner.accept(batch)

    async def reconnect(self) -> None:
        """Returns at once: there is no connection."""

    async def close(self) -> None:
        await self._owner.close()


# --- until it counts ----------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Sender:
    """Sends to a target. `wait` sleeps; `on_wait` hears why; `tries` None: for ever."""

    target: Target
    wait: Callable[[float], Awaitable[None]]
    on_wait: Callable[[str], None] = lambda sentence: None
    tries: int | None = TRIES

    async def offset(self, source: str) -> KeptOffset:
        """Returns how far a source was counted."""
        return await self._tried(lambda: self.target.offset(source))

    async def send(self, chunk: Chunk) -> Taken | None:
        """Sends a chunk until it counts; returns None if it does, but its receipt was lost.

        Raises ImportOutOfStep, ImportRefused.
        """

        async def once() -> Taken | None:
            try:
                return await self.target.send(chunk)
            except JournalUnknown as error:
                if await self._counts(chunk):
                    return None
                raise error
            except ImportOutOfStep as error:
                if error.value == chunk.step.end:
                    return None  # an earlier try had arrived
                raise

        return await self._tried(once)

    async def _counts(self, chunk: Chunk) -> bool:
        """Tells whether a chunk arrived whose answer did not."""
        offset = (await self.offset(chunk.step.source)).offset
        if offset not in (chunk.step.start, chunk.step.end):
            raise ImportOutOfStep(f"the offset of the source is {offset}", value=offset)
        return offset == chunk.step.end

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T:
        tried = elsewhere = 0
        while True:
            try:
                return await call()
            except OwnerFenced:
                raise
            except _MAY_PASS as error:
                if isinstance(error, ImportElsewhere):
                    await self.target.reconnect()
                    elsewhere += 1
                    if elsewhere <= QUICK_TRIES:
                        continue
                tried += 1
                if tried == self.tries:
                    raise
                await self._pause(tried, error)

    async def _pause(self, tried: int, error: ClickcurveError) -> None:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(tried - 1, 16), LONGEST_PAUSE_S)
        answered = isinstance(error, JournalError) and not isinstance(error, JournalUnknown)
        asked_s = float(getattr(error, "retry_after_s", 0)) if answered else 0.0
        if tried == 1:
            self.on_wait(f"{error.detail}; trying again")
        await self.wait(max(pause_s, min(asked_s, LONGEST_PAUSE_S)))
