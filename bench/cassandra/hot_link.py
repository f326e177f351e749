"""A link that every node counts, next to one that a single node counts: what a flush of it costs, and a read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter, process_time, time

from bench.cassandra.node import make_keyspace
from bench.measure import Line, spread
from bench.micro.queries import queries_over
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from clickcurve.buckets.row import Delta, apply
from clickcurve.keys import link_subject
from ingest.batch import Batch
from ingest.owner import Owner
from query.reader import MergedLinks, Reader, stored
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


def hot_link(node: Node, folder: Path, rounds: int) -> list[Line]:
    """The costs of both links, in turn."""
    return asyncio.run(_hot_link(make_keyspace(node, "hot_link"), folder, rounds))


async def _hot_link(uri: str, folder: Path, rounds: int) -> list[Line]:
    now = int(time()) // 60 * 60
    store = open_store(uri, CLICKS)
    try:
        owners = [
            OwnerProcess(folder / f"owner-{number}", store, lambda: now, alone=False, disk=TrackedDisk()).owner
            for number in range(OWNERS)
        ]
        await _fill(owners, now)
        row_bytes = {key: [len(row.data) for row in (await store.rows(key)).rows] for key in (HOT, QUIET)}
        if [len(sizes) for sizes in row_bytes.values()] != [OWNERS, 1]:
            raise RuntimeError(f"rows of {row_bytes} bytes, not those of {OWNERS} owners and of one")
        lines = [*await _flush_lines(owners, now, rounds), *await _read_lines(store, now, rounds)]
        hot, quiet = await store.rows(HOT), await store.rows(QUIET)
        lines += [_sum_line(what, days, hot, quiet, now) for what, days in SUMMED.items()]
        for owner in owners:
            await owner.close()
    finally:
        store.close()
    what = f"link counted by {OWNERS} owners, 1,000 hits a minute each for 500 days"
    return [Line(what, f"{sum(row_bytes[HOT]):,} B", f"by 1 owner {sum(row_bytes[QUIET]):,} B"), *lines]


async def _fill(owners: Sequence[Owner], now: int) -> None:
    """About 1,000 hits a minute for 500 days in each row."""
    chance = Random(1)
    people: dict[int, dict[str, int]] = {}
    at, day = now - 500 * DAY_S, fold_day(now)
    while at < now:
        start, at = CLICKS.kept(at, day)
        count = max(1, round(chance.gauss(1_000, 32) * (at - start) / 60))
        people[start] = {HOT: count, QUIET: count}
    for number, owner in enumerate(owners):
        await owner.accept(Batch(people=people))
        await owner.flush()
        if not number:
            people = {start: {HOT: counts[HOT]} for start, counts in people.items()}


async def _flush_lines(owners: Sequence[Owner], now: int, rounds: int) -> list[Line]:
    """A hit and a flush of all owners that count the link, at once, as machines of their own would; beside one owner.

    All run in this process, so a time is that of ten only as far as the cores allow.
    """

    async def count(owner: Owner, key: str) -> None:
        await owner.accept(Batch(people={now: {key: 1}}))
        await owner.flush()

    spent_ms: dict[str, list[float]] = {HOT: [], QUIET: []}
    for _ in range(rounds):
        for key, counting in ((HOT, owners), (QUIET, owners[:1])):
            begun = perf_counter()
            for _ in range(FLUSHES):
                await asyncio.gather(*(count(owner, key) for owner in counting))
            spent_ms[key].append((perf_counter() - begun) * 1000 / FLUSHES)
    hot, quiet = median(spent_ms[HOT]), median(spent_ms[QUIET])
    compared = f"{hot / quiet:.1f} times 1 owner's {quiet:.1f} ms, rounds within {spread(spent_ms[HOT])}"
    return [Line(f"a hit and a flush of {OWNERS} owners at once", f"{hot:.1f} ms", compared)]


async def _read_lines(store: Store, now: int, rounds: int) -> list[Line]:
    queries = queries_over(Reader(store.rows, lambda key: [], lambda keys: None, lambda: CLICKS), store, now)
    lines = []
    for what, query in QUERIES.items():
        ask = queries.total if what == "lifetime" else queries.curve
        runs: dict[str, list[list[float]]] = {HOT: [], QUIET: []}
        for _ in range(rounds):
            for key, of_key in runs.items():
                of_key.append([])
                gc.disable()
                for _ in range(READS):
                    begun = perf_counter()
                    await ask(link_subject(key), query)
                    of_key[-1].append((perf_counter() - begun) * 1000)
                gc.enable()
        (p50, p99), (single50, single99) = (
            (cuts[49], cuts[98])
            for of_key in runs.values()
            for cuts in [quantiles([ms for run in of_key for ms in run], n=100)]
        )
        compared = f"{p50 / single50:.1f} times 1 owner's (p50 {single50:.2f} p99 {single99:.2f} ms)"
        apart = f"rounds within {spread([median(run) for run in runs[HOT]])}"
        figure = f"p50 {p50:.2f} p99 {p99:.2f} ms"
        lines.append(Line(f"{what} of {OWNERS} rows, in process", figure, f"{compared}, {apart}"))
    return lines


def _sum_line(what: str, days: int, hot: StoredLink, quiet: StoredLink, now: int) -> Line:
    """Processor time of what a read makes of the rows: all new, one changed since the last read, none changed."""
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
    """The medians of each, in turn."""
    spent: list[list[float]] = [[] for _ in calls]
    gc.disable()
    for _ in range(READS):
        for call, times in zip(calls, spent, strict=True):
            begun = process_time()
            call()
            times.append((process_time() - begun) * 1000)
    gc.enable()
    return [median(times) for times in spent]
