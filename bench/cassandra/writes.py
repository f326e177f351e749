"""How many writes a hit costs: an hour of 2,000 hits a second in a clock moved by hand, counted statement by statement.

The store is the product's, over a connection that counts and keeps only the owners table: rows stay in the store's row
cache. Each flush calls the store as the owner's flush does, with an opaque row for each of its links. That this counts
the same as the whole program is checked at the start: an owner's first flush of the same hits, on the real node, must
send the same statements.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from time import time
from typing import Any

from bench.cassandra.node import connection, make_keyspace
from bench.measure import Line
from clickcurve.buckets.ladder import HOUR_S, fold_day
from clickcurve.keys import ALL_LINKS, link_key
from ingest.batch import Batch
from ingest.flush import ROWS_PER_SAVE
from storage.cassandra.cql import Rows, Statement, StatementKind, Values, Work
from storage.cassandra.statements import BEGIN, CREATE_OWNER, NOW_MS, OWNER, SAVE, STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.contract import OPEN, Held, OwnerRecord, SavedRow
from testing.cassandra.counted import Counted
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

LINKS = 100_000
HITS_PER_S = 2_000
SKEW = 1.0
SEED = 11
ROW = bytes(60)
PER_LINK = ("LOAD_OWN", "SAVE", "ADD_DUE", "ADD_TOUCHED")  # the others are a few a flush, and some at the start


def writes(node: Node, folder: Path) -> list[Line]:
    """Statements a hit, with a flush every 15 seconds and every 60."""
    now = int(time()) // 60 * 60
    first = next(_traffic(15))
    _check_against_an_owner(make_keyspace(node, "writes"), folder / "writes", first, now)
    return [line for flush_s in (15, 60) for line in _hour(flush_s, now)]


def _hour(flush_s: int, now: int) -> Iterator[Line]:
    cql = Counted(_Owners())
    flusher = _Flusher(CassandraStore(cql), now)
    for keys in _traffic(flush_s):
        flusher.flush(keys)
    hits = HITS_PER_S * HOUR_S
    sent = cql.sent
    written = sum(
        sent[name] for name, each in STATEMENTS.items() if each.kind in (StatementKind.WRITE, StatementKind.CONDITION)
    )
    rows = sent[SAVE.name]
    hints = sent["ADD_DUE"] + sent["ADD_TOUCHED"]
    what = f"an hour of {HITS_PER_S:,} hits/s on {LINKS:,} links, Zipf {SKEW}, a flush every {flush_s} s"
    yield Line(
        f"{what}: writes a hit",
        f"{written / hits:.3f}",
        f"1 for one write per hit; {rows:,} rows, {hints:,} hints, {written - rows - hints:,} others for {hits:,} hits",
    )
    read = sum(sent.values()) - written
    yield Line(f"... reads a hit, from an empty cache of {flusher.cache_mb:.0f} MB", f"{read / hits:.3f}")


def _traffic(flush_s: int) -> Iterator[Mapping[str, int]]:
    """The hits of each flush of an hour, by link."""
    chance = Random(SEED)
    sums = list(accumulate(1 / (rank + 1) ** SKEW for rank in range(LINKS)))
    links = [f"w{rank:05d}" for rank in range(LINKS)]
    for _ in range(HOUR_S // flush_s):
        yield Counter(chance.choices(links, cum_weights=sums, k=HITS_PER_S * flush_s))


class _Flusher:
    """An owner's flushes as the store sees them."""

    def __init__(self, store: CassandraStore, now: int) -> None:
        self._store = store
        self._now = now
        self._held = Held(1, 1, "bench")
        self._number = 0
        store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))

    @property
    def cache_mb(self) -> float:
        return self._store.measures()["row_cache_bytes"] / 1e6

    def flush(self, hits: Mapping[str, int]) -> None:
        if not self._store.begin(self._held, self._number, self._number + 1, self._now):
            raise RuntimeError("fenced")
        self._number += 1
        keys = sorted(map(link_key, hits))
        for at in range(0, len(keys), ROWS_PER_SAVE):
            self._save(keys[at : at + ROWS_PER_SAVE], fold_day(self._now))
        self._save([ALL_LINKS], None)

    def _save(self, keys: Sequence[str], touched_day: int | None) -> None:
        self._store.load_own(1, keys)
        row = SavedRow(ROW, fold_day(self._now) + 1, touched_day)
        self._store.save_own(self._held, self._number, dict.fromkeys(keys, row), {})


class _Owners:
    """A connection to nothing: it carries out the updates of the owners table and finds no row anywhere."""

    def __init__(self) -> None:
        self._owner: tuple[Any, ...] | None = None

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        if statement is OWNER:
            return [[self._owner] if self._owner else [] for _ in many]
        return [[(0,)] if statement is NOW_MS else [] for _ in many]

    def run_all(self, work: Sequence[Work]) -> list[list[Rows]]:
        return self.send_all(work)()

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        found = [self.run_each(statement, many) for statement, many in work]
        return lambda: found

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool:
        if statement is CREATE_OWNER:
            self._owner = values
        elif statement is BEGIN and self._owner is not None:
            self._owner = (*self._owner[:6], values[0], values[1])
        return True

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        raise NotImplementedError

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        raise NotImplementedError

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        raise NotImplementedError

    def measures(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass


def _check_against_an_owner(uri: str, folder: Path, hits: Mapping[str, int], now: int) -> None:
    """Raises RuntimeError unless an owner on the real node sends for the same hits what is counted here."""
    counted = Counted(_Owners())
    _Flusher(CassandraStore(counted), now).flush(hits)
    with connection(uri) as connected:
        real = Counted(connected)
        asyncio.run(_owner_flush(CassandraStore(real), folder, hits, now))
        if int(connected.measures()["store_requests_total"]) != real.requests:
            raise RuntimeError("requests were sent that are not counted")
    for name in PER_LINK:
        if counted.sent[name] != real.sent[name]:
            raise RuntimeError(f"{name}: {counted.sent[name]} counted, {real.sent[name]} sent by an owner")


async def _owner_flush(store: CassandraStore, folder: Path, hits: Mapping[str, int], now: int) -> None:
    owner = OwnerProcess(folder, store, lambda: now, alone=False, disk=TrackedDisk()).owner
    await owner.accept(Batch(people={now: dict(hits)}))
    await owner.flush()
    await owner.close()
