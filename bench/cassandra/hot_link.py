"""A link that every node counts, next to one that a single node counts: what a flush of it costs, and a read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import cycle
from random import Random
from statistics import median
from time import perf_counter, process_time, time
from typing import Any

from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.measure import Line, Percentiles, in_turn, spread
from bench.micro.inside import queries_over
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from clickcurve.buckets.row import Delta, apply
from clickcurve.keys import link_subject
from ingest.batch import Batch
from ingest.owner import Owner
from query.reader import MergedLinks, stored
from storage.contract import Store, StoredLink, StoredRow
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

OWNERS = 10
HOT, QUIET = "hot", "single"  # counted by all owners, and by the first alone; rows of both are full
FLUSHES = 10  # of each link in a round
READS = 200
QUERIES = {"lifetime": b"", "curve 24 h": b"last=24h", "curve 30 d": b"last=30d", "curve 12 mo": b"last=12mo"}
SUMMED = {"24 h": 1, "30 d": 30, "12 mo": 360}  # spans, in days


def hot_link(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """The costs of both links, in turn."""
    now, rounds = int(time()) // 60 * 60, min(options.rounds, 3)
    store = open_store(make_keyspace(nodes, "hot_link"), CLICKS)
    options.closing.callback(store.close)
    run = options.closing.enter_context(asyncio.Runner()).run
    folders = [options.folder / f"owner-{number}" for number in range(OWNERS)]
    processes = [OwnerProcess(folder, store, lambda: now, alone=False, disk=TrackedDisk()) for folder in folders]
    owners = [process.owner for process in processes]
    run(_fill(owners, now))
    hot, quiet = run(_rows_of(store))
    hot_bytes, quiet_bytes = ([len(row.data) for row in link.rows] for link in (hot, quiet))
    if (len(hot_bytes), len(quiet_bytes)) != (OWNERS, 1):
        raise RuntimeError(f"rows of {hot_bytes} and {quiet_bytes} bytes, not those of {OWNERS} owners and of one")
    what = f"link counted by {OWNERS} owners, 1,000 hits a minute each for 500 days"
    yield Line(what, f"{sum(hot_bytes):,} B", f"by 1 owner {sum(quiet_bytes):,} B")
    turns = [lambda: run(_flushes_ms(owners, HOT, now)), lambda: run(_flushes_ms(owners[:1], QUIET, now))]
    hot_ms, quiet_ms = in_turn(rounds, *turns)
    beside = f"{median(hot_ms) / median(quiet_ms):.1f} times 1 owner's {median(quiet_ms):.1f} ms"
    apart = f"rounds within {spread(hot_ms)}"
    yield Line(f"a hit and a flush of {OWNERS} owners at once", f"{median(hot_ms):.1f} ms", f"{beside}, {apart}")
    queries = queries_over(store.rows, store, now)
    for what, query in QUERIES.items():
        ask = queries.total if what == "lifetime" else queries.curve
        of_hot, of_quiet = in_turn(rounds, *(partial(_reads_ms, run, ask, key, query) for key in (HOT, QUIET)))
        took, beside_it = (Percentiles.of([ms for turn in of for ms in turn]) for of in (of_hot, of_quiet))
        compared = f"{took.p50_ms / beside_it.p50_ms:.1f} times 1 owner's ({beside_it})"
        apart = f"rounds within {spread([median(turn) for turn in of_hot])}"
        yield Line(f"{what} of {OWNERS} rows, in process", str(took), f"{compared}, {apart}")
    hot, quiet = run(_rows_of(store))
    yield from (_sum_line(what, days, hot, quiet, now) for what, days in SUMMED.items())
    for owner in owners:
        run(owner.close())


async def _fill(owners: Sequence[Owner], now: int) -> None:
    """Counts about 1,000 hits a minute for 500 days in each row."""
    chance = Random(1)
    people: dict[int, dict[str, int]] = {}
    at, day = now - 500 * DAY_S, fold_day(now)
    while at < now:
        start, at = CLICKS.kept(at, day)
        count = max(1, round(chance.gauss(1_000, 32) * (at - start) / 60))
        people[start] = {HOT: count, QUIET: count}
    for owner in owners:
        await owner.accept(Batch(people=people))
        await owner.flush()
        people = {start: {HOT: counts[HOT]} for start, counts in people.items()}


async def _rows_of(store: Store) -> list[StoredLink]:
    return [await store.rows(key) for key in (HOT, QUIET)]


async def _flushes_ms(owners: Sequence[Owner], key: str, now: int) -> float:
    """Has these owners count a hit and flush it, at once, as machines of their own would; returns the mean time.

    All run in this process, so a time is that of ten only as far as the cores allow.
    """

    async def count(owner: Owner) -> None:
        await owner.accept(Batch(people={now: {key: 1}}))
        await owner.flush()

    begun = perf_counter()
    for _ in range(FLUSHES):
        await asyncio.gather(*map(count, owners))
    return (perf_counter() - begun) * 1000 / FLUSHES


def _reads_ms(
    run: Callable[[Coroutine[Any, Any, list[float]]], list[float]], ask: Callable[..., Any], key: str, query: bytes
) -> list[float]:
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
    return took_ms


def _sum_line(what: str, days: int, hot: StoredLink, quiet: StoredLink, now: int) -> Line:
    """Returns processor times of a read's sum of the rows: all new, one changed since the last read, none changed."""
    since, same, merged = now - days * DAY_S, MergedLinks(), MergedLinks()
    later = [StoredLink(0, (*hot.rows[:-1], _with_a_hit(hot.rows[-1], now - MINUTE_S * age))) for age in range(2)]
    turns = cycle(later)
    anew = partial(stored, now=now, ladder=CLICKS, since=since, bots=False)
    one_ms, changed_ms = _processor_ms(
        lambda: anew(quiet), lambda: merged.stored(HOT, next(turns), now, CLICKS, since, False)
    )
    first_ms, same_ms = _processor_ms(lambda: anew(hot), lambda: same.stored(HOT, hot, now, CLICKS, since, False))
    compared = f"{changed_ms / one_ms:.1f} times 1 owner's {one_ms:.2f} ms; first read {first_ms:.2f} ms,"
    compared = f"{compared} {first_ms / one_ms:.0f} times; unchanged {same_ms:.3f} ms"
    return Line(f"{OWNERS} rows of {what} summed, one has flushed", f"{changed_ms:.2f} ms", compared, "<= 2 times")


def _with_a_hit(row: StoredRow, at: int) -> StoredRow:
    before = decode(row.data)
    data = encode(apply(before, Delta({at: 1}, {}), before.mark + 1, before.fold_day, 0, CLICKS))
    return StoredRow(row.owner, data)


def _processor_ms(*calls: Callable[[], object]) -> list[float]:
    """Returns the medians of each, in turn."""

    def timed(call: Callable[[], object]) -> float:
        begun = process_time()
        call()
        return (process_time() - begun) * 1000

    gc.disable()
    spent = in_turn(READS, *(partial(timed, call) for call in calls))
    gc.enable()
    return [median(times) for times in spent]
