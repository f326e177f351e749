"""A link that every node counts, next to one that a single node counts: what a flush of it costs, and a read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from time import perf_counter, process_time, time
from typing import Any

from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.inside import queries_over
from bench.measure import Beside, Figures, Line, Percentiles
from bench.rows import steady
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S
from clickcurve.buckets.row import Delta, apply
from clickcurve.keys import link_subject
from ingest.batch import Batch
from ingest.owner import Owner
from query.reader import MergedLinks, stored
from storage.contract import StoredLink, StoredRow
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

OWNERS = 10
QUIET, HOT = "single", "hot"  # counted by the first owner alone, and by all; rows of both are full
FLUSHES = 10  # of each link in a round
READS = 200  # of a round
QUERIES = {"lifetime": b"", "curve 24 h": b"last=24h", "curve 30 d": b"last=30d", "curve 12 mo": b"last=12mo"}
SUMMED = {"24 h": 1, "30 d": 30, "12 mo": 360}  # spans, in days


def hot_link(nodes: Sequence[Node], options: Options) -> Iterator[Beside | Line]:
    """The costs of both links, in turn."""
    now = int(time()) // 60 * 60
    store = open_store(make_keyspace(nodes, "hot_link"), CLICKS)
    options.closing.callback(store.close)
    run = options.closing.enter_context(asyncio.Runner()).run
    folders = [options.folder / f"owner-{number}" for number in range(OWNERS)]
    processes = [OwnerProcess(folder, store, lambda: now, alone=False, disk=TrackedDisk()) for folder in folders]
    owners = [process.owner for process in processes]
    run(_fill(owners, now))
    links = {QUIET: "1 owner", HOT: f"{OWNERS} owners"}
    for key, what in links.items():
        sizes = [len(row.data) for row in run(store.rows(key)).rows]
        if len(sizes) != (OWNERS if key == HOT else 1):
            raise RuntimeError(f"rows of {sizes} bytes, not those of {what}")
        yield Line(f"link counted by {what}, 1,000 hits a minute each for 500 days", f"{sum(sizes):,} B")
    counting = {QUIET: owners[:1], HOT: owners}
    flushes = {what: partial(_flushes, run, counting[key], key, now) for key, what in links.items()}
    yield Beside("a hit and a flush of all owners at once", flushes, rounds=min(options.rounds, 3))
    queries = queries_over(store.rows, store, now)
    for name, query in QUERIES.items():
        ask = queries.total if name == "lifetime" else queries.curve
        reads = {what: partial(_reads, run, ask, key, query) for key, what in links.items()}
        yield Beside(f"{name}, in process", reads, rounds=min(options.rounds, 3))
    hot, quiet = (run(store.rows(key)) for key in (HOT, QUIET))
    for span, days in SUMMED.items():
        sums = _sums(hot, quiet, now, since=now - days * DAY_S)
        turns = {what: partial(_processor, sum_up) for what, sum_up in sums.items()}
        yield Beside(f"{span} summed", turns, {f"{OWNERS} rows, one has flushed": "<= 2 times"})
    for owner in owners:
        run(owner.close())


async def _fill(owners: Sequence[Owner], now: int) -> None:
    """Counts about 1,000 hits a minute for 500 days in each row."""
    links = [HOT, QUIET]
    counts = steady(1_000, 500, now)
    for owner in owners:
        await owner.accept(Batch(people={start: dict.fromkeys(links, count) for start, count in counts.items()}))
        await owner.flush()
        links = [HOT]


def _flushes(run: Callable[..., Any], owners: Sequence[Owner], key: str, now: int) -> Figures:
    """Has these owners count a hit and flush it, at once, as machines of their own would; returns the mean time.

    All run in this process, so a time is that of ten only as far as the cores allow.
    """

    async def count(owner: Owner) -> None:
        await owner.accept(Batch(people={now: {key: 1}}))
        await owner.flush()

    async def count_all() -> None:
        for _ in range(FLUSHES):
            await asyncio.gather(*map(count, owners))

    begun = perf_counter()
    run(count_all())
    return {"{} ms": (perf_counter() - begun) * 1000 / FLUSHES}


def _reads(run: Callable[..., Any], ask: Callable[..., Coroutine[Any, Any, Any]], key: str, query: bytes) -> Figures:
    async def reads() -> list[float]:
        took_ms = []
        for _ in range(READS):
            begun = perf_counter()
            await ask(link_subject(key), query)
            took_ms.append((perf_counter() - begun) * 1000)
        return took_ms

    gc.disable()
    took_ms = run(reads())
    gc.enable()
    return Percentiles.of(took_ms).figures()


def _sums(hot: StoredLink, quiet: StoredLink, now: int, since: int) -> dict[str, Callable[[], object]]:
    """Returns what sums up rows as reads do."""
    same, merged = MergedLinks(), MergedLinks()
    later = cycle(
        [StoredLink(0, (*hot.rows[:-1], _with_a_hit(hot.rows[-1], now - MINUTE_S * age))) for age in range(2)]
    )
    anew = partial(stored, now=now, ladder=CLICKS, since=since, bots=False)
    return {
        "1 owner's row": lambda: anew(quiet),
        f"{OWNERS} rows, one has flushed": lambda: merged.stored(HOT, next(later), now, CLICKS, since, False),
        f"{OWNERS} rows, first read": lambda: anew(hot),
        f"{OWNERS} rows, unchanged": lambda: same.stored(HOT, hot, now, CLICKS, since, False),
    }


def _with_a_hit(row: StoredRow, at: int) -> StoredRow:
    before = decode(row.data)
    data = encode(apply(before, Delta({at: 1}, {}), before.mark + 1, before.fold_day, 0, CLICKS))
    return StoredRow(row.owner, data)


def _processor(sum_up: Callable[[], object]) -> Figures:
    """Returns the median of many times."""
    spent_ms = []
    gc.disable()
    for _ in range(READS):
        begun = process_time()
        sum_up()
        spent_ms.append((process_time() - begun) * 1000)
    gc.enable()
    return {"{} ms of processor time": median(spent_ms)}
