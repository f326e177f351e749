"""StatsD and DogStatsD over UDP: at most once, and off by default.

UDP has no answers, so a sender does not learn what was lost: in the network, in a buffer of the system, or by a kill
before the hits were handed over, which happens once a second. A sampled line (`@0.1`) is an estimate and is refused.
Clients add fields as the protocol grows (`|c:`, `|e:`, `|card:`): one that is not known is passed over.

    clicks:1|c|#key:launch,country:DE        DogStatsD, the link as a tag; also |T1783000000
    clicks.launch:3|c                        StatsD, the link in the name
    clicks:1|c|#key:launch,event:sale,value:4990
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.budget import Cost, budgeted, spend
from server.compat.hit_sender import HitSender
from server.logs import log
from server.metrics import Family

METRIC = "clicks"
MOST_WAITING = 50_000  # lines between two handings over; packets with more are dropped, and counted
PIECE_HITS = 200  # that are passed on at once
LINES = Cost("lines", MOST_WAITING)
MOST_DIGITS = 10  # of a count
_NUMBER = re.compile(r"\+?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,2})?")
_TAGS = ("key", "ref", "country", "lang", "source", "ua", "visitor", "event")


FAMILIES = {
    "clickcurve_statsd_lines_total": Family(
        "Lines of StatsD: taken, refused (also later, by the write route), dropped, lost.", ("outcome",)
    ),
}


class LineRefused(Exception):
    """A line that is no count of hits."""


class StatsdReceiver(asyncio.DatagramProtocol):
    """Takes packets and hands their hits over. `lines`: how many lines were what, for /metrics.

    clock: in seconds that never step back.
    """

    def __init__(self, sender: HitSender, clock: Callable[[], float]) -> None:
        self._sender = sender
        self._clock = clock
        self._packets: list[bytes] = []
        self._waiting = 0  # lines of these
        self._transport: asyncio.BaseTransport | None = None
        self.lines: Counter[str] = Counter()

    async def listen(self, host: str, port: int) -> None:
        """Opens the socket; raises OSError."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, address: object) -> None:
        """Keeps a packet until the next handing over."""
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        if self._waiting + lines > MOST_WAITING:
            self.lines["dropped"] += lines
            return
        self._waiting += lines
        self._packets.append(data)

    async def hand_over(self) -> None:
        """Passes on what has come, in pieces, with turns of others. What is not taken is lost, and counted as that."""
        packets, self._packets, self._waiting = self._packets, [], 0
        hits: list[dict[str, Any]] = []
        with budgeted(self._clock):
            for line in (line for packet in packets for line in packet.split(b"\n") if line.strip()):
                await spend(LINES)
                try:
                    hits.append(hit_of_line(line.decode("utf-8", "replace").strip()))
                except LineRefused:
                    self.lines["refused"] += 1
                    continue
                self.lines["taken"] += 1
                if len(hits) == PIECE_HITS:
                    await self._send(hits)
                    hits = []
            if hits:
                await self._send(hits)

    async def _send(self, hits: list[dict[str, Any]]) -> None:
        try:
            sent = await self._sender.send(hits)
        except ClickcurveError as error:
            self._lose(hits, error.detail)
            return
        if not sent.is_receipt:
            self._lose(hits, sent.first_reason())
            return
        self.lines["refused"] += sent.refused()[0]

    def _lose(self, hits: list[dict[str, Any]], reason: str) -> None:
        self.lines["lost"] += len(hits)
        log.warning("statsd hits lost", extra={"hits": len(hits), "reason": reason})


def hit_of_line(line: str) -> dict[str, Any]:
    """Reads one line; raises LineRefused."""
    head, *parts = line.split("|")
    name, *values = head.split(":")
    if not parts or parts[0] != "c":
        raise LineRefused("no counter")
    hit: dict[str, Any] = {"count": sum(map(_value_of, values)) if values else 0}
    for part in parts[1:]:
        if part.startswith("#"):
            hit |= _tags_of(part[1:])
        elif part.startswith("T") and part[1:].isascii() and part[1:].isdigit() and len(part) < 12:
            hit["ts"] = int(part[1:])
        elif part.startswith("T") or (part.startswith("@") and _whole(part[1:]) != 1):
            raise LineRefused("no time, or sampled")
    metric, _, key = name.partition(".")
    if metric != METRIC or (key and "key" in hit):
        raise LineRefused("another metric")
    hit["key"] = key or hit.get("key", "")
    if not hit["key"] or hit["count"] < 1:
        raise LineRefused("no link, or no count")
    return hit


def _value_of(text: str) -> int:
    if (value := _whole(text)) is None:
        raise LineRefused("no whole count")
    return value


def _whole(text: str) -> int | None:
    """Returns a whole number in any spelling: 4, 4.0 or 4e0. None: none, or of more than 10 digits."""
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    return int(value) if value.adjusted() < MOST_DIGITS and value == value.to_integral_value() else None


def _tags_of(text: str) -> dict[str, Any]:
    tags = dict(tag.partition(":")[::2] for tag in text.split(","))
    attributes: dict[str, Any] = {name: tags[name] for name in _TAGS if tags.get(name)}
    if "value" in tags and attributes.get("event"):
        attributes["value"] = _value_of(tags["value"])
    if "bot" in tags:
        attributes["bot"] = tags["bot"].lower() not in ("false", "0", "no")
    return attributes
