"""The bodies that a worker holds in memory at once: how they come in, are decoded, and take turns.

The first 16 KiB of each body are free, so that small posts always get in: 10,000 connections hold at most 160 MiB of
them. What bodies hold beyond that, as it arrives and as it is decoded, counts into one budget: the bytes that are
allocated, since a buffer that grows has an eighth more than it holds. When it is used up,
bodies that are still on their way and bring less than 64 KiB a second are refused to make room, the slowest first; if
there is none, the body that needs more is. A body that brought nothing for a second is slow, however fast its beginning
came. So what clients hold without sending keeps nobody out for more than that second.

A packed body of some kilobytes can hold gigabytes. No step of decoding makes more than a bounded number of bytes, and
it stops at the first byte over the limit.

The steps of a body's reading let others run in between. A body of many steps takes turns with other long ones, four at
a time: the loop goes round in some milliseconds however many of them there are.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TypeAlias

from clickcurve.asgi import Message, Receive
from clickcurve.buckets.errors import (
    BodyTooLarge,
    BodyUnreadable,
    ExtraMissing,
    JournalBehind,
    MediaTypeUnsupported,
)
from clickcurve.extras import extra_for

Step: TypeAlias = Awaitable[None] | None  # of a body's reading: what it waits for
BODY_BYTES = 64 * 1024 * 1024

# Members of a gzip body or frames of a zstd body: each costs some microseconds however empty it is.
MEMBERS = 10_000

_GZIP_INPUT = 64 * 1024
_GZIP_OUTPUT = 256 * 1024
# zstd has no bound on the output of a step but the input: 3 bytes make at most 128 KiB.
_ZSTD_INPUT = 512
_ZSTD_WINDOW = 8 * 1024 * 1024  # the most that RFC 9659 allows in HTTP

WAITING_BYTES = 256 * 1024 * 1024  # the budget
FREE_BYTES = 16 * 1024  # of each body
SLOW_BYTES_S = 64 * 1024
LONG_BODIES = 4  # that are read at once
_FREE_STEPS = 4  # before a body counts as long
_STILL_S = 1.0  # without a byte: the body is slow
_LEAST_AGE_S = 1.0  # over which a rate is measured; before that, the body is not called slow
_MARK_S = 2.0  # how far back its rate is measured


class BodiesBusy(JournalBehind, title="too many large bodies"):
    """Too many bytes of large bodies are being read at once: nothing of this one was counted."""


class ClientGone(Exception):
    """The client closed the connection in the middle of its body."""


class HeldBody:
    """What one request holds: `held` bytes in `allocated` ones, of which `counted` are in the budget."""

    __slots__ = ("allocated", "counted", "grew_at", "held", "is_refused", "mark_at", "mark_held", "task")

    def __init__(self) -> None:
        self.held = 0
        self.allocated = 0
        self.counted = 0
        self.is_refused = False
        self.grew_at = 0.0  # when its last byte came
        self.mark_at = 0.0  # when mark_held bytes were here
        self.mark_held = 0
        self.task: asyncio.Task[object] | None = None  # while it waits for more bytes


class BodyBudget:
    """Where all bodies of a worker are held. `clock` gives seconds that never step back."""

    def __init__(
        self, clock: Callable[[], float], waiting_bytes: int = WAITING_BYTES, body_bytes: int = BODY_BYTES
    ) -> None:
        self.body_bytes = body_bytes
        self.waiting_bytes = waiting_bytes
        self.used = 0
        self._clock = clock
        self._waiting: set[HeldBody] = set()
        self._turns = asyncio.Semaphore(LONG_BODIES)

    # --- coming in ----------------------------------------------------------------------------------------------
    async def receive(self, body: HeldBody, receive: Receive, first: Message | None = None) -> bytes:
        """Returns a body as sent; raises BodyTooLarge, BodiesBusy and ClientGone. Release it in any case."""
        grown: bytearray | None = None  # one buffer: a chunk of its own costs 60 bytes, and may hold one
        while True:
            message, first = first or await self._next(body, receive), None
            if message["type"] != "http.request":
                raise ClientGone
            chunk: bytes = message.get("body", b"")
            if body.held + len(chunk) > self.body_bytes:
                raise too_large(self.body_bytes)
            if grown is None:
                if not message.get("more_body", False):
                    self._hold(body, len(chunk), len(chunk))
                    return chunk
                grown = bytearray()
            before = grown.__alloc__()
            grown += chunk
            self._hold(body, len(chunk), grown.__alloc__() - before)
            if not message.get("more_body", False):
                return bytes(grown)  # the one copy: of 64 MiB it takes 30 ms

    def decode(self, body: HeldBody, packed: bytes, coding: str) -> Generator[None, None, bytes]:
        """Returns what a packed body decodes to; each step is at most 256 KiB of it."""
        blocks = []
        for block in decoded(packed, coding, self.body_bytes):
            self._hold(body, len(block), len(block))
            if block:
                blocks.append(block)
            yield
        return b"".join(blocks)

    def release(self, body: HeldBody) -> None:
        """Gives back what a body held."""
        self.used -= body.counted
        body.counted = 0

    # --- reading ------------------------------------------------------------------------------------------------
    async def run(self, steps: Iterator[Step]) -> None:
        """Takes all steps of a body's reading, with others in between; waits for what a step yields."""
        for number, awaited in enumerate(steps, 1):
            if awaited is not None:
                await awaited
            if number == _FREE_STEPS:
                break
            if number > 1:
                await asyncio.sleep(0)
        else:
            return
        async with self._turns:
            for awaited in steps:
                await (asyncio.sleep(0) if awaited is None else awaited)

    # --- the budget ---------------------------------------------------------------------------------------------
    async def _next(self, body: HeldBody, receive: Receive) -> Message:
        if not body.counted:
            return await receive()
        task = body.task = asyncio.current_task()
        assert task is not None
        self._waiting.add(body)
        try:
            return await receive()
        except asyncio.CancelledError:
            if body.is_refused and task.uncancel() == 0:
                raise self._busy() from None
            raise
        finally:
            self._waiting.discard(body)

    def _hold(self, body: HeldBody, size: int, allocated: int) -> None:
        if body.is_refused:
            raise self._busy()
        body.held += size
        body.allocated += allocated
        if body.allocated <= FREE_BYTES:
            return
        now = self._clock()
        if not body.counted or now - body.mark_at > _MARK_S:
            body.mark_at, body.mark_held = now, body.held
        body.grew_at = now
        over = body.allocated - FREE_BYTES - body.counted
        if self.used + over > self.waiting_bytes:
            self._make_room(over, now)
        body.counted += over
        self.used += over

    def _make_room(self, size: int, now: float) -> None:
        while self.used + size > self.waiting_bytes:
            slowest = min(self._waiting, key=lambda body: _bytes_s(body, now), default=None)
            if slowest is None or _bytes_s(slowest, now) >= SLOW_BYTES_S:
                raise self._busy()
            self._waiting.discard(slowest)
            self.release(slowest)
            slowest.is_refused = True
            assert slowest.task is not None
            slowest.task.cancel()

    def _busy(self) -> BodiesBusy:
        return BodiesBusy(f"more than {self.waiting_bytes:,} bytes of bodies are being read; send this one again")


def _bytes_s(body: HeldBody, now: float) -> float:
    if now - body.grew_at >= _STILL_S:
        return 0.0
    age_s = now - body.mark_at
    return (body.held - body.mark_held) / age_s if age_s >= _LEAST_AGE_S else float(SLOW_BYTES_S)


# --- Content-Encoding: gzip and zstd ----------------------------------------------------------------------------------
def coding_of(header: str) -> str | None:
    """Returns `gzip`, `zstd` or None for a Content-Encoding header; raises MediaTypeUnsupported for anything else."""
    codings = [coding for part in header.lower().split(",") if (coding := part.strip()) not in ("", "identity")]
    if not codings:
        return None
    if codings == ["zstd"]:
        try:
            with extra_for("a body packed by zstd"):
                import zstandard  # noqa: F401
        except ExtraMissing as missing:
            raise MediaTypeUnsupported(missing.detail, field="Content-Encoding", value="zstd", rule="gzip") from missing
        return "zstd"
    if codings in (["gzip"], ["x-gzip"]):
        return "gzip"
    what = "is not one that is read here" if len(codings) == 1 else "is several on top of one another"
    rule = "gzip, zstd or identity, one of them"
    raise MediaTypeUnsupported(f"the body's encoding {what}", field="Content-Encoding", value=header, rule=rule)


def decoded(body: bytes, coding: str, limit: int) -> Iterator[bytes]:
    """Yields the decoded body in blocks; raises BodyTooLarge over the limit, BodyUnreadable for damage and early ends.

    Several members or frames follow one another as in files; anything else after the end is damage.
    """
    left = limit
    for block in _blocks(body, coding):
        left -= len(block)
        if left < 0:
            raise too_large(limit)
        yield block


def unpacked(body: bytes, coding: str, limit: int) -> bytes:
    """Returns the whole of a decoded body; raises as `decoded` does."""
    return b"".join(decoded(body, coding, limit))


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit:,} bytes", rule=f"at most {limit:,} bytes, decoded")


def _blocks(body: bytes, coding: str) -> Iterator[bytes]:
    member = _gzip_member if coding == "gzip" else _zstd_frame
    start = 0
    for _ in range(MEMBERS):
        start = yield from member(body, start)
        if start == len(body):
            return
    raise BodyUnreadable(f"more than {MEMBERS:,} {coding} streams in one body", field="Content-Encoding", value=coding)


def _gzip_member(body: bytes, start: int) -> Generator[bytes, None, int]:
    """Yields the blocks of the member at `start`; returns where the next one begins."""
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    while start < len(body):
        piece = body[start : start + _GZIP_INPUT]
        start += len(piece)
        while piece and not decoder.eof:
            try:
                block = decoder.decompress(piece, _GZIP_OUTPUT)
            except zlib.error as error:
                raise _damaged("gzip", error) from None
            yield block
            piece = decoder.unconsumed_tail
        if decoder.eof:
            return start - len(decoder.unused_data)
    raise _cut_short("gzip")


def _zstd_frame(body: bytes, start: int) -> Generator[bytes, None, int]:
    """Yields the blocks of the frame at `start`; returns where the next one begins."""
    import zstandard  # an extra: `coding_of` has said so where it is missing

    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    while start < len(body):
        piece = body[start : start + _ZSTD_INPUT]
        start += len(piece)
        try:
            block = decoder.decompress(piece)
        except zstandard.ZstdError as error:
            raise _damaged("zstd", error) from None
        yield block
        if decoder.eof:
            return start - len(decoder.unused_data)
    raise _cut_short("zstd")


def _damaged(coding: str, error: Exception) -> BodyUnreadable:
    return BodyUnreadable(f"the body is not {coding}: {error}", field="Content-Encoding", value=coding)


def _cut_short(coding: str) -> BodyUnreadable:
    return BodyUnreadable(f"the {coding} body is cut short", field="Content-Encoding", value=coding)
