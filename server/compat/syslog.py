"""Access logs by syslog, over UDP and TCP on one port: at most once, and off by default.

Syslog has no answers, so a sender does not learn what was lost: in the network, in a buffer of the system, or by a kill
before the hits were handed over, which happens once a second. Over TCP a sender that is too fast has to wait; over UDP
what comes too fast is dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import cast

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.waiting import computed
from ingest.attributes.profile import ProfileReader
from ingest.imports.access_log import AccessLog
from ingest.imports.importer import dated_hits
from ingest.imports.log_body import pieces
from ingest.imports.log_sums import LogSums
from server.compat.hit_sender import HitSender
from server.compat.syslog_frames import Frames, FramesBroken, line_of
from server.logs import log
from server.metrics import Family

FAMILIES = {
    "clickcurve_syslog_lines_total": Family(
        "Lines of logs by syslog: taken, skipped (no clicks), refused, dropped, lost.", ("outcome",)
    ),
}
TEXTS_KEPT = 8_192  # of each kind, for lines that are alike: some MB
MOST_WAITING = 50_000  # messages between two handings over
MOST_BYTES = 16 * 1024 * 1024  # of these
MOST_CONNECTIONS = 100  # each holds a message at most, and what the system has read for it


class SyslogReceiver(asyncio.DatagramProtocol):
    """Takes messages and hands their hits over. `lines`: how many lines were what, for /metrics.

    access_log: reads the lines, and is used for nothing else; reader: of the attributes that are counted.
    """

    def __init__(self, sender: HitSender, access_log: AccessLog, reader: ProfileReader) -> None:
        self._sender, self._access_log, self._reader = sender, access_log, reader
        self._used: tuple[list[str], tuple[str, ...]] | None = None
        self._messages: list[bytes] = []
        self._bytes = 0  # of these
        self._transport: asyncio.BaseTransport | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[SyslogConnection, None] = {}  # that has said nothing for longest first
        self.lines: Counter[str] = Counter()

    async def listen(self, host: str, port: int) -> None:
        """Opens both sockets; raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SyslogConnection(self), host, port)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))

    def close(self) -> None:
        """Takes nothing more; what has come is still to be handed over."""
        if self._server is not None:
            self._server.close()
        if self._transport is not None:
            self._transport.close()
        for connection in list(self._connections):
            connection.close()

    # --- what comes -------------------------------------------------------------------------------------------------
    def datagram_received(self, data: bytes, address: object) -> None:
        """Keeps a message until the next handing over, if there is room."""
        if self.is_full:
            self.lines["dropped"] += 1
        else:
            self.take((data,))

    @property
    def is_full(self) -> bool:
        """Whether no more should be taken until the next handing over."""
        return len(self._messages) >= MOST_WAITING or self._bytes >= MOST_BYTES

    def take(self, messages: Iterable[bytes]) -> None:
        """Keeps messages until the next handing over; where that is much, senders over TCP wait for it."""
        for message in messages:
            self._messages.append(message)
            self._bytes += len(message)
        if self.is_full:
            for connection in self._connections:
                connection.wait()

    def begin(self, connection: SyslogConnection) -> None:
        """Knows a connection that was made, in place of one that has said nothing for longest where there are many."""
        if len(self._connections) >= MOST_CONNECTIONS:
            next(iter(self._connections)).close()
        self._connections[connection] = None

    def heard(self, connection: SyslogConnection) -> None:
        """Notes that a connection has just said something."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def end(self, connection: SyslogConnection) -> None:
        """Forgets a connection. A message that has no end may be cut anywhere, so it is refused."""
        self._connections.pop(connection, None)
        self.lines["refused"] += connection.frames.is_open

    # --- handing over -----------------------------------------------------------------------------------------------
    async def hand_over(self) -> None:
        """Counts what has come, in pieces, with turns of others. What is not taken is lost, and counted as that."""
        messages, self._messages, self._bytes = self._messages, [], 0
        for connection in self._connections:
            connection.go_on()
        if not messages:
            return
        await self._prepare()
        for piece in pieces(b"\n".join(map(line_of, messages)) + b"\n"):
            if piece is None:
                self.lines["refused"] += 1
                continue
            read = self._access_log.read(piece)
            self.lines["skipped"] += read.skipped.total()
            self.lines["refused"] += read.bad
            if read.hits:
                await self._send(read)
            await asyncio.sleep(0)

    async def _prepare(self) -> None:
        """Fills the fields that count now; what one second's lines have said of columns holds for no other's."""
        if self._reader.lacks_agents:
            await computed("reading the list of agents", self._reader.load_agents)
        used = self._reader.useful_fields(), self._reader.bot_rules.rules.people
        if used != self._used:
            self._access_log.use(*used)
            self._used = used
        self._access_log.begin()

    async def _send(self, read: LogSums) -> None:
        hits = dated_hits(read)
        many = read.hits.total()
        try:
            sent = await self._sender.send(hits)
        except ClickcurveError as error:
            self._lose(many, error.detail)
            return
        if not sent.is_receipt:
            self._lose(many, sent.first_reason())
            return
        refused = int(msgspec.json.decode(sent.body)["refused"])
        self.lines["refused"] += refused
        self.lines["taken"] += many - refused

    def _lose(self, hits: int, reason: str) -> None:
        self.lines["lost"] += hits
        log.warning("syslog hits lost", extra={"hits": hits, "reason": reason})


class SyslogConnection(asyncio.Protocol):
    """One sender over TCP."""

    def __init__(self, receiver: SyslogReceiver) -> None:
        self.frames = Frames()
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # of uvloop it is no subclass
        self._receiver.begin(self)

    def data_received(self, data: bytes) -> None:
        """Takes messages; one that is far too long ends the connection, for nobody knows where the next one begins."""
        self._receiver.heard(self)
        try:
            self._receiver.take(self.frames.feed(data))
        except FramesBroken:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._receiver.end(self)

    def wait(self) -> None:
        """Reads no more until it may go on."""
        if self._transport is not None and not self._waits and not self._transport.is_closing():
            self._waits = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Reads on, if it had to wait."""
        if self._transport is not None and self._waits and not self._transport.is_closing():
            self._waits = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()
