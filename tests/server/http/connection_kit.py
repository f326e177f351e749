"""One connection of a server without a socket: what a test feeds it, what it writes, and what was counted by then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import uvicorn

from clickcurve.limiter.http.address import addresses
from ingest.reading.hit_endpoint import HitRoutes
from server.app.parts import ROUTES
from server.http.connection import AddressConnections, Connection, connection_class
from server.http.fast_path import FastPath, fast_connection_class
from server.http.gateway import FastRoute, Gateway
from server.http.problems import Problems
from testing.tokens import gate_of
from tests.ingest.http_kit import NOW, MemoryIntake, is_bot, minutes_since
from tests.server.http.test_connection import echo

NO_TOKENS = Path("/nowhere/tokens.json")


class HeldIntake(MemoryIntake):
    """Counts at once, or when it is let go of: `group` is what waits for that."""

    holds = False

    @property
    def group(self) -> asyncio.Future[None] | None:
        return self._group

    def _commit(self, group: asyncio.Future[None]) -> None:
        if not self.holds:
            super()._commit(group)

    def let_go(self) -> None:
        assert self._group is not None
        super()._commit(self._group)


class Transport(asyncio.Transport):
    """Keeps what is written to it; paused, it keeps what comes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 8080)})
        self.written = bytearray()
        self.closing = self.half_closed = self.paused = self.ended = False
        self.kept: list[bytes] = []

    def write(self, data: Any) -> None:
        assert not (self.closing or self.half_closed), "uvloop would leave it out"
        self.written += data

    def write_eof(self) -> None:
        """Ends our side; the client's is waited for."""
        self.half_closed = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Server:
    """What the connections of one worker share.

    fast: whether they have the fast path. framework: what answers the rest of requests, by the problems given to it,
    and the fast routes past it.
    """

    def __init__(
        self,
        fast: bool,
        tokens: Path = NO_TOKENS,
        framework: Callable[[Problems], tuple[Any, list[FastRoute]]] = lambda _: (echo, []),
        **bounds: Any,
    ) -> None:
        self.now = 0.0
        self.intake = HeldIntake()
        self.hits = HitRoutes(self.intake, lambda: float(NOW), minutes_since, is_bot)
        self.gate = gate_of(tokens, lambda: self.now)
        self.problems = Problems()
        limiter: Any = bounds.pop("limiter", None)
        rest, fast_routes = framework(self.problems)
        self.gateway = Gateway(self.gate, self.problems, self.hits, rest, ROUTES, limiter, fast_routes=fast_routes)
        self.refused: Counter[str] = Counter()
        self.fast_path = FastPath(self.gateway) if fast else None
        shared = self.refused, AddressConnections(addresses(""))
        self.kind: type[Connection]
        if self.fast_path is None:
            self.kind = connection_class(*shared, **bounds)
        else:
            self.kind = fast_connection_class(self.fast_path, *shared, **bounds)
        self.config = uvicorn.Config(cast(Any, self.gateway), http=self.kind, lifespan="off", log_config=None)
        self.config.load()
        self.state = uvicorn.Server(self.config).server_state

    def connect(self) -> Wired:
        return Wired(self)

    def counted(self) -> dict[str, object]:
        """Everything that a request may leave behind."""
        return {
            "singles": dict(self.intake.singles),
            "people": dict(self.intake.people),
            "bots": dict(self.intake.bots),
            "ids": self.intake.ids,
            "counters": self.hits.counters,
            "answers": dict(self.gateway.answers),
            "problems": dict(self.problems.refused),
            "tokens": self.gate.refused,
            "connections": dict(self.refused),
            "requests": self.state.total_requests,
        }


class Wired:
    """One connection, and what came back over it."""

    def __init__(self, server: Server) -> None:
        self.transport = Transport()
        kind: Any = server.kind
        self.connection: Connection = kind(config=server.config, server_state=server.state, app_state={})
        self.connection.connection_made(self.transport)

    @property
    def is_fast(self) -> bool:
        """Tells whether the last request was answered, or is, below ASGI."""
        return type(self.connection.cycle).__name__ == "_FastCycle"

    def feed(self, data: bytes) -> None:
        """Gives it what was received, as long as it reads."""
        if self.transport.paused:
            self.transport.kept.append(data)
        elif not self.transport.closing:
            self.connection.data_received(data)

    async def settle(self) -> bytes:
        """Lets all that can be answered be answered; returns what was written until now."""
        for _ in range(40):
            await asyncio.sleep(0)
            self._go_on()
        return bytes(self.transport.written)

    async def ask(self, data: bytes) -> bytes:
        """Returns what is written for these bytes."""
        before = len(self.transport.written)
        self.feed(data)
        return (await self.settle())[before:]

    def end(self) -> None:
        """Ends the client's side, as uvloop does: after what was sent, and a connection that says False is closed."""
        self.transport.ended = True
        self._go_on()

    def _go_on(self) -> None:
        transport = self.transport
        while transport.kept and not (transport.paused or transport.closing):
            self.connection.data_received(transport.kept.pop(0))
        if transport.ended and not (transport.paused or transport.closing):
            transport.ended = False
            if not self.connection.eof_received():
                transport.close()

    def lose(self) -> None:
        """Ends the connection."""
        self.transport.closing = True
        self.connection.connection_lost(None)
