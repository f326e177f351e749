"""For tests of imports: a target in memory that fails when told to, and logs to read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from clickcurve.buckets.errors import (
    ImportElsewhere,
    ImportOutOfStep,
    JournalBehind,
    JournalUnknown,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.hit import Moment
from ingest.imports.access_log import AccessLog
from ingest.imports.chunk import Chunk, ChunkReader
from ingest.imports.importer import Importer, ImportSummary, SourceKind
from ingest.imports.target import KeptOffset, Sender, Taken, Target
from ingest.reading.request_sums import RequestSums

NOW = 1_760_000_000
FAULTS = ("behind", "store", "elsewhere", "lost", "lost after", "died", "died after")


class Died(BaseException):
    """The importing process was killed here."""


class MemoryTarget:
    """Counts chunks as a server does. `faults` maps the n-th request (from 1) to what goes wrong with it."""

    def __init__(self) -> None:
        self.offsets: dict[str, KeptOffset] = {}
        self.people: Counter[str] = Counter()
        self.bots: Counter[str] = Counter()
        self.openings: Counter[str] = Counter()
        self.requests = 0
        self.chunks = 0
        self.reconnects = 0
        self.faults: dict[int, str] = {}
        self.before_send: Callable[[], None] = lambda: None

    def _fault(self) -> str:
        self.requests += 1
        return self.faults.get(self.requests, "")

    async def offset(self, source: str) -> KeptOffset:
        fault = self._fault()
        if fault:
            raise _error(fault.removesuffix(" after"))
        return self.offsets.get(source, KeptOffset(0, ""))

    async def send(self, chunk: Chunk) -> Taken:
        fault = self._fault()
        self.before_send()
        if fault in ("behind", "store", "elsewhere", "lost", "died"):
            raise _error(fault)
        taken = self._count(chunk)
        if fault:
            raise _error(fault.removesuffix(" after"))
        return taken

    def _count(self, chunk: Chunk) -> Taken:
        step = chunk.step
        offset = self.offsets.get(step.source, KeptOffset(0, "")).offset
        if step.start != offset:
            raise ImportOutOfStep(f"at {offset}", value=offset)
        sums = RequestSums(Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300))
        for _ in ChunkReader(CLICKS).read_body(chunk.body(), sums):
            pass
        batch, receipt = sums.batch_with(step), sums.receipt()
        for counts, total in ((batch.people, self.people), (batch.bots, self.bots)):
            for by_key in counts.values():
                total.update(by_key)
        self.openings.update(batch.openings)
        self.offsets[step.source] = KeptOffset(step.end, step.tail)
        self.chunks += 1
        return Taken(receipt.counted, receipt.late, receipt.refused, tuple(item.reason for item in receipt.items))

    async def reconnect(self) -> None:
        self.reconnects += 1

    async def close(self) -> None:
        pass


def _error(fault: str) -> BaseException:
    errors: dict[str, BaseException] = {
        "behind": JournalBehind("later"),
        "store": StoreUnavailable("down"),
        "elsewhere": ImportElsewhere("another worker"),
        "lost": JournalUnknown("the connection broke"),
        "died": Died(),
    }
    return errors[fault]


async def no_wait(seconds: float) -> None:
    assert seconds > 0
    await asyncio.sleep(0)


Wait = Callable[[float], Awaitable[None]]


def importer(
    target: Target,
    wait: Wait = no_wait,
    kind: SourceKind | None = None,
    label: str = "",
    tries: int | None = 5,
    chunk_bytes: int = 700,
) -> Importer:
    """An importer of small chunks, some eight lines each."""
    log = AccessLog(lambda agent: "bot" in agent)
    return Importer(Sender(target, wait, tries=tries), log, kind, label, chunk_bytes=chunk_bytes)


def run(target: MemoryTarget, path: Path, kind: SourceKind | None = None, label: str = "") -> ImportSummary:
    """Import a file in a process of its own."""
    return asyncio.run(importer(target, kind=kind, label=label).run(path))


def log_lines(count: int, first: int = 0, server: str = "a", agent: str = "Firefox") -> bytes:
    """Lines that differ from each other, of five keys."""
    return b"".join(log_line(n, server, agent) for n in range(first, first + count))


def log_line(n: int, server: str = "a", agent: str = "Firefox") -> bytes:
    clock = f"{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}"
    return (
        f'203.0.113.{n % 250} - {server} [17/May/2015:{clock} +0000] "GET /k{n % 5}?{n} HTTP/1.1" 302 5 "-" "{agent}"\n'
    ).encode()


def expected(count: int, first: int = 0) -> Counter[str]:
    return Counter(f"k{n % 5}" for n in range(first, first + count))
