"""What a query costs, piece by piece, in process: microseconds of the median call.

    python -m bench.micro.query_parts [--rounds 300]

Rows: `quiet` has 6 buckets, `busy` one hit in a tenth of all buckets, `full` a hit in every bucket.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter_ns, time
from typing import Any

from clickcurve.answers import as_json
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import EMPTY, Delta, add, fold
from clickcurve.keys import link_subject
from query.curve import make_curve
from query.grid import make_grid
from query.lists.key_kind import GROUP, LINK
from query.lists.listing import Listing
from query.parameters import CURVE, parse_parameters, parse_query, resolve_window
from query.queries import Queries
from query.reader import Reader
from storage.contract import StoredLink, StoredRow
from storage.memory_store import MemoryStore

QUERIES = {
    "60 min": "last=60m",
    "24 h": "last=24h",
    "30 d": "last=30d",
    "12 mo": "last=12mo",
    "all, native": "from=0&step=native",
}


def row_data(now: int, every: int) -> bytes:
    """A row as a store holds it, with a hit in every n-th kept bucket of four years."""
    row = fold(EMPTY, fold_day(now), CLICKS)
    t, minutes = now - 4 * 366 * 86_400, {}
    while t < now:
        start, end = CLICKS.kept(t, row.fold_day)
        minutes[start] = 1 + start // 60 % 100
        t = end
    return encode(add(row, Delta(dict(list(minutes.items())[::every]), {}), CLICKS))


def timed(call: Callable[[], Any], rounds: int) -> float:
    """Microseconds of the median call."""
    spent = []
    for _ in range(rounds):
        started = perf_counter_ns()
        call()
        spent.append(perf_counter_ns() - started)
    return statistics.median(spent) / 1000


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")


def queries_over(data: bytes, now: int) -> Queries:
    link = StoredLink(0, (StoredRow(1, data),))

    async def rows(key: str) -> StoredLink:
        return link

    reader = Reader(rows, lambda key: [], lambda keys: None, lambda: CLICKS)
    links, groups = (Listing(kind, MemoryStore(CLICKS), lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(reader, links, groups, lambda: now)


def asked_lifetime(queries: Queries) -> Any:
    return as_json(finished(queries.total(link_subject("k"), b"")))


def measure(rounds: int, now: int) -> None:
    for name, every in (("quiet", 500), ("busy", 10), ("full", 1)):
        data = row_data(now, every)
        row = decode(data)
        print(f"\n{name}: {sum(len(starts) for starts, _ in row.people_cells)} buckets, {len(data)} bytes")
        queries = queries_over(data, now)
        print(f"  decode {timed(partial(decode, data), rounds):.1f} us")
        print(f"  lifetime {timed(partial(asked_lifetime, queries), rounds):.1f} us")
        for title, query in QUERIES.items():
            measure_curve(title, query.encode(), queries, row, now, rounds)


def measure_curve(title: str, query: bytes, queries: Queries, row: Any, now: int, rounds: int) -> None:
    parameters = parse_parameters(parse_query(query, CURVE))
    over = resolve_window(parameters, now, CLICKS)
    assert over is not None
    grid = make_grid(over, CLICKS, row.fold_day)
    curve = make_curve(row, grid, Bots.exclude, now)
    asyncio.run(queries.curve(link_subject("k"), query))  # the first time a grid of many points is made in a thread
    pieces = {
        "window": timed(lambda: resolve_window(parameters, now, CLICKS), rounds),
        "layout, first time": timed(lambda: make_grid(over, CLICKS, row.fold_day), rounds // 10 + 1),
        "count": timed(lambda: make_curve(row, grid, Bots.exclude, now), rounds),
        "json": timed(lambda: as_json(curve.answer("k")), rounds),
        "all of it": timed(lambda: as_json(finished(queries.curve(link_subject("k"), query))), rounds),
    }
    print(f"  {title:12} {len(curve.counts):5} points  " + "  ".join(f"{what} {us:.1f}" for what, us in pieces.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300, help="calls of each piece (default 300)")
    measure(parser.parse_args().rounds, int(time()))


if __name__ == "__main__":
    main()
