"""A proxy in front of a node's native port that loses answers on purpose, for the tests of unknown outcomes.

It follows the protocol far enough to know the statement of each request, so a test says which ones it is about. All
faults begin after the request was passed on: the node does the work, the client does not learn of it.

Where drivers find other nodes by themselves, start each node with the proxy's address as the `announced` one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, cast

import uvloop

from testing.cassandra.ring import free_ports
from tests.cassandra.protocol import (
    ERROR,
    PREPARE,
    SUPPORTED,
    Envelope,
    Piece,
    Splitter,
    in_segments,
    is_unprepared,
    prepared_id,
    starts_segments,
    text_of,
    without_compression,
)

Predicate = Callable[[str], bool]
STOP_WITHIN_S = 300.0
TRY_EVERY_S = 0.02
TRIES = 30_000


def conditional(text: str) -> bool:
    """Whether a statement, or one of a batch, is a conditional update."""
    return " IF " in " ".join(text.split())


@dataclass(slots=True)
class Counts:
    """What a proxy has done since it was made."""

    connections: int = 0
    requests: int = 0
    answers: int = 0  # passed on, events of the node among them
    dropped: int = 0  # answers that came and were kept back
    dropped_conditional: int = 0  # those of them that answered conditional updates
    dropped_errors: int = 0  # those of them that told of an error: what they answer may not have happened
    resets: int = 0
    stalls: int = 0
    unknown: int = 0  # requests for statements that were prepared elsewhere: predicates see an empty text


class Proxy:
    """Listens at `listen` (None: a free port) and speaks to the node at `node` in a thread of its own.

    `prepared` maps the ids of prepared statements to their texts: give the proxies of one cluster the same. While the
    node refuses connections the proxy does too; a driver would wait long for one that was taken and closed.
    """

    def __init__(
        self,
        node: tuple[str, int],
        listen: tuple[str, int] | None = None,
        prepared: dict[bytes, str] | None = None,
    ) -> None:
        self.node = node
        self.address, self.port = listen or ("127.0.0.1", free_ports(1)[0])
        self.prepared = {} if prepared is None else prepared
        self.tally = Counts()
        self.drops: Predicate | None = None
        self.resets: Predicate | None = None
        self.links: set[Link] = set()
        self.stalls_now = 0
        self._loop: asyncio.AbstractEventLoop  # of its thread
        self._news: asyncio.Event
        self._ends = False
        self._listens = False
        self._thread: threading.Thread

    @property
    def counts(self) -> Counts:
        """The counts now, as a copy."""
        return replace(self.tally)

    def start(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=f"proxy of {self.node[0]}", daemon=True)
        self._thread.start()
        self.wait_listening()
        return self

    def wait_listening(self) -> None:
        """Wait until it takes connections, which it does when the node does."""
        self.until(lambda _: self._listens)

    def stop(self) -> None:
        """Close the port and all connections."""
        self._ends = True
        self._loop.call_soon_threadsafe(self._news.set)
        self._thread.join(STOP_WITHIN_S)

    def drop(self, predicate: Predicate) -> None:
        """From now on pass requests of these statements on and keep their answers back.

        The predicate is asked once for each request, in the order in which they come, in the proxy's thread. An answer
        that a statement must be prepared first is not kept back: nothing was done, and the driver asks again.
        """
        self.drops = predicate

    def reset(self, predicate: Predicate) -> None:
        """From now on pass requests of these statements on and then reset the client's connection."""
        self.resets = predicate

    def stall(self, seconds: float) -> None:
        """Hold all answers back for that long from now. Requests are passed on."""
        self._loop.call_soon_threadsafe(self._stall, seconds)

    def heal(self) -> None:
        """Drop and reset nothing any more. Answers that are owed a drop by an earlier request are still dropped."""
        self.drops = self.resets = None

    def until(self, happened: Callable[[Counts], bool]) -> None:
        """Wait until the counts are as wanted; waiting for its thread to end paces the tries."""
        for _ in range(TRIES):
            if happened(self.counts):
                return
            self._thread.join(TRY_EVERY_S)
        raise AssertionError(f"it never happened: {self.counts}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def doubt(self) -> None:
        """The node may be down."""
        self._news.set()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        while not self._ends:
            await self._until_node_listens()
            server = await self._loop.create_server(lambda: Link(self), self.address, self.port)
            self._listens = True
            while not self._ends:
                await self._news.wait()
                self._news.clear()
                if not await self._node_listens():
                    break
            self._listens = False
            server.close()
        for link in list(self.links):
            link.close()

    async def _until_node_listens(self) -> None:
        while not self._ends and not await self._node_listens():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), TRY_EVERY_S)
            self._news.clear()

    async def _node_listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(*self.node)
        except OSError:
            return False
        writer.transport.abort()
        return True

    def _stall(self, seconds: float) -> None:
        self.tally.stalls += 1
        self._loop.call_later(seconds, self._count_stalls, -1)
        self._count_stalls(+1)

    def _count_stalls(self, change: int) -> None:
        self.stalls_now += change
        for link in self.links:
            link.hold("stalled", self.stalls_now > 0)


class Link(asyncio.Protocol):
    """One client's connection, with its own connection to the node. All of it runs in the proxy's thread."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._client: asyncio.Transport | None = None
        self._node: asyncio.Transport | None = None
        self._requests = Splitter()
        self._answers = Splitter()
        self._preparing: dict[int, str] = {}  # by stream: what is being prepared
        self._owed: dict[int, str] = {}  # by stream: answers that are dropped when they come
        self._unheard: set[int] = set()  # streams: requests that the node still works on after a reset
        self._held: set[str] = set()  # why no answers are read now
        self._paused = False
        self._opening: asyncio.Task[None] | None = None
        self._early = b""  # what the client sent before the node's connection was open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast(asyncio.Transport, transport)
        self._proxy.links.add(self)
        self._proxy.tally.connections += 1
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _NodeSide(self), *self._proxy.node)
        except OSError:
            self.node_lost()

    def node_connected(self, transport: asyncio.Transport) -> None:
        self._node = transport
        if self._client is None:
            self.close()
            return
        transport.write(self._early)
        # Not at once: a transport that just came to be begins to read after this, whatever it is told here.
        asyncio.get_running_loop().call_soon(lambda: self.hold("stalled", self._proxy.stalls_now > 0))

    def hold(self, why: str, held: bool) -> None:
        """Read no answers of the node as long as there is a reason."""
        (self._held.add if held else self._held.discard)(why)
        if self._node is not None and self._paused != bool(self._held):
            self._paused = bool(self._held)
            (self._node.pause_reading if self._paused else self._node.resume_reading)()

    def data_received(self, data: bytes) -> None:
        for piece in self._requests.feed(data):
            for request in piece.envelopes:
                self._asked(request)
        if self._node is None:
            self._early += data
        else:
            self._node.write(data)
        if self._unheard:
            self._reset()

    def _asked(self, request: Envelope) -> None:
        """Note what becomes of the answer."""
        proxy = self._proxy
        proxy.tally.requests += 1
        text = text_of(request, proxy.prepared)
        if text is None:
            return
        if request.opcode == PREPARE:
            self._preparing[request.stream] = text
            return
        if not text:
            proxy.tally.unknown += 1
        if proxy.drops is not None and proxy.drops(text):
            self._owed[request.stream] = text
        if proxy.resets is not None and proxy.resets(text):
            self._unheard.add(request.stream)

    def answered(self, data: bytes) -> None:
        """Pass on what the node says, but for what is dropped."""
        passed = b"".join(self._kept(piece) for piece in self._answers.feed(data))
        if self._client is not None:
            self._client.write(passed)
        elif not self._unheard:
            self.close()

    def _kept(self, piece: Piece) -> bytes:
        kept = [answer for answer in piece.envelopes if not self._dropped(answer)]
        if len(kept) < len(piece.envelopes):
            return in_segments(kept) if kept else b""
        first = kept[0]
        if not self._answers.in_segments:
            self._answers.in_segments = self._requests.in_segments = starts_segments(first)
            if first.opcode == SUPPORTED:
                return without_compression(first).raw
        return piece.raw

    def _dropped(self, answer: Envelope) -> bool:
        tally = self._proxy.tally
        if self._client is None:
            self._unheard.discard(answer.stream)
            return True
        if self._preparing and (prepared := self._preparing.pop(answer.stream, None)) is not None:
            if (known := prepared_id(answer)) is not None:
                self._proxy.prepared[known] = prepared
        elif self._owed and (owed := self._owed.pop(answer.stream, None)) is not None and not is_unprepared(answer):
            tally.dropped += 1
            tally.dropped_conditional += conditional(owed)
            tally.dropped_errors += answer.opcode == ERROR
            return True
        tally.answers += 1
        return False

    def _reset(self) -> None:
        """Reset the client's connection. The node's stays until it has answered, so that it does what it was sent."""
        self._proxy.tally.resets += 1
        client, self._client = self._client, None
        if client is not None:
            at_once = struct.pack("ii", 1, 0)
            client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            client.abort()

    def pause_writing(self) -> None:
        self.hold("the client is slow", True)

    def resume_writing(self) -> None:
        self.hold("the client is slow", False)

    def client_may_send(self, may: bool) -> None:
        if self._client is not None:
            (self._client.resume_reading if may else self._client.pause_reading)()

    def connection_lost(self, error: Exception | None) -> None:
        if self._client is not None:  # else it was reset here, and the node still works
            self._client = None
            self.close()

    def node_lost(self) -> None:
        if self._client is not None:  # else the client went first
            self._proxy.doubt()
        self.close()

    def close(self) -> None:
        """Close both connections."""
        self._proxy.links.discard(self)
        for transport in (self._client, self._node):
            if transport is not None:
                transport.abort()


class _NodeSide(asyncio.Protocol):
    """The connection to the node, which gives all it has to its link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link.node_connected(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._link.answered(data)

    def pause_writing(self) -> None:
        self._link.client_may_send(False)

    def resume_writing(self) -> None:
        self._link.client_may_send(True)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.node_lost()
