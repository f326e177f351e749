"""A small world for the owner: a clock moved by hand, a disk and a store that fail on purpose, and an auditor.

The auditor gives every hit of a key a weight of its own, a power of two, so that a wrong total names the hit. It
knows three fates: acknowledged (counts once), refused (counts never), unknown (the process died or could not say:
once or never).
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickcurve.buckets import codec
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.row import Row, add, fold, merge
from clickcurve.keys import ALL_LINKS, link_key
from ingest.batch import Batch, Counts, Identified
from ingest.flush import Pace
from ingest.journal.disk import Disk
from ingest.journal.journal import Journal
from ingest.owner import Owner
from storage.contract import Store
from storage.memory_store import MemoryStore


class Killed(BaseException):
    """The process ends here."""


class TrackedDisk(Disk):
    """The real disk, with the files that the process has open: a dead process has none."""

    def __init__(self) -> None:
        super().__init__()
        self.fds: set[int] = set()

    def lock(self, path: Path) -> int:
        return self._opened(super().lock(path))

    def create(self, path: Path) -> int:
        return self._opened(super().create(path))

    def open(self, path: Path) -> int:
        return self._opened(super().open(path))

    def _opened(self, fd: int) -> int:
        self.fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.fds.discard(fd)
        super().close(fd)

    def kill(self) -> None:
        for fd in list(self.fds):
            self.close(fd)


class FaultyStore:
    """Fails or kills before or after the n-th call of the flush side, and answers nothing while `down`."""

    PLAIN = ("rows", "claimed", "shared", "replay_us", "close", "walk", "due", "owners", "owner")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.down = False
        self.calls = 0
        self.fail_at: dict[int, tuple[str, type[BaseException]]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name in ("shared", "replay_us"):
            return real
        if name in ("rows", "claimed"):

            async def read(*args: Any) -> Any:
                self._up()
                return await real(*args)

            return read

        def call(*args: Any, **kwargs: Any) -> Any:
            self._up()
            self.calls += 1
            when, error = self.fail_at.pop(self.calls, ("never", StoreUnavailable))
            if when == "before":
                raise error(f"{name} before")
            answer = real(*args, **kwargs)
            if when == "after":
                raise error(f"{name} after")
            return answer

        return call

    def _up(self) -> None:
        if self.down:
            raise StoreUnavailable("down")


class Auditor:
    """What every key's total may be."""

    def __init__(self) -> None:
        self.next_weight: defaultdict[str, int] = defaultdict(lambda: 1)
        self.sure: defaultdict[str, int] = defaultdict(int)
        self.maybe: defaultdict[str, int] = defaultdict(int)

    def weigh(self, key: str) -> int:
        weight = self.next_weight[key]
        self.next_weight[key] = weight * 2
        return weight

    def acknowledged(self, hits: dict[str, int]) -> None:
        for key, weight in hits.items():
            self.sure[key] |= weight
            self.maybe[key] &= ~weight

    def unknown(self, hits: dict[str, int]) -> None:
        for key, weight in hits.items():
            if not self.sure[key] & weight:
                self.maybe[key] |= weight

    def erased(self, key: str) -> None:
        self.sure[key] = self.maybe[key] = 0

    def check(self, key: str, total: int, what: str, *, lower: bool = True) -> None:
        extra = total & ~(self.sure[key] | self.maybe[key])
        missing = self.sure[key] & ~total
        assert not extra, f"{what}: {key} counts {bin(extra)} too much (total {bin(total)})"
        assert not lower or not missing, f"{what}: {key} lost {bin(missing)} (total {bin(total)})"


class Node:
    """One owner process: journal folder, owner object, and the disk it uses."""

    def __init__(self, folder: Path, store: Store, clock: Callable[[], float], alone: bool, disk: TrackedDisk) -> None:
        self.folder, self.store, self.clock, self.alone, self.disk = folder, store, clock, alone, disk
        self.tokens = 0
        self.start()

    def start(self) -> None:
        self.journal = Journal.open(self.folder, self.disk)
        self.owner = Owner(
            journal=self.journal,
            store=self.store,
            ladder=CLICKS,
            clock=self.clock,
            token=self._token,
            pace=Pace(lambda _: None, 15.0),
            place=str(self.folder),
            alone=self.alone,
        )

    def _token(self) -> str:
        self.tokens += 1
        return f"{self.folder.name}-{self.tokens}-{random.random()}"


async def read(store: Store, nodes: list[Node], key: str, now: int) -> Row:
    """What a reader at these nodes sees: the rows, and what the nodes have not flushed."""
    pending = [found for node in nodes for found in node.owner.pending(key)]
    stored = await store.rows(key)
    rows = {row.owner: codec.decode(row.data) for row in stored.rows}
    rows = {owner: row for owner, row in rows.items() if row.erased_at >= stored.erased_at}
    merged = fold(merge(rows.values(), CLICKS), fold_day(now), CLICKS)
    for found in pending:
        mark = rows[found.owner].mark if found.owner in rows else 0
        if found.is_missing(mark):
            merged = add(merged, found.delta, CLICKS)
    return merged


def counts(minute: int, hits: dict[str, int]) -> Counts:
    return {minute: dict(hits)}


def minute_of(now: float) -> int:
    return int(now) // 60 * 60


__all__ = [
    "ALL_LINKS", "Auditor", "Batch", "ClickcurveError", "FaultyStore", "Identified", "JournalUnknown", "Killed",
    "MemoryStore", "Node", "StoreUnavailable", "TrackedDisk", "asyncio", "counts", "link_key", "minute_of", "read",
]  # fmt: skip
