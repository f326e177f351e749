"""Measure answers about breakdowns in process: `python -m bench.micro.breakdown_answers`, milliseconds.

The links are those of `bench.micro.breakdown`, with five dimensions; the store is a dict. p99 is of RUNS answers.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from bench.micro.breakdown import DIMENSIONS, HITS, NOW, link
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import joined_parts
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import Subject, breakdown_key
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from storage.contract import StoredLink, StoredRow

RUNS = 200
LINK = Subject("k", "k")


def main() -> int:
    links = {name: hits for name, hits in HITS.items() if not (name == "hottest" and "--quick" in sys.argv)}
    asked = ("by, life", "by, 30 days", "by, 24 h", "curve, 30 d", "visitors")
    print("link       owners " + " | ".join(f"{each:>9} p50   p99" for each in asked))
    for name, hits in links.items():
        for owners in (1, 3):
            times = asyncio.run(answer_times(hits, owners))
            print(f"{name:10} {owners:6} " + " | ".join(f"{p50:13.2f} {p99:5.1f}" for p50, p99 in times), flush=True)
    return 0


async def answer_times(hits: int, owners: int) -> list[tuple[float, float]]:
    """Times each kind of answer about a link: p50 and p99."""
    parts, counts = link(hits, DIMENSIONS[:5], seed=hits)
    stored = {"k": counts, breakdown_key("k"): joined_parts(parts)}

    async def rows(key: str) -> StoredLink:
        return StoredLink(0, tuple(StoredRow(owner, stored[key]) for owner in range(owners)))

    reader = BreakdownReader(rows, lambda key: [], lambda key: [], lambda: CLICKS, BREAKDOWN)
    queries = BreakdownQueries(reader, DIMENSIONS, lambda dimension: 0, lambda: NOW)
    return [
        await timed(lambda: queries.by(LINK, "ref", b"")),
        await timed(lambda: queries.by(LINK, "ref", b"last=30d")),
        await timed(lambda: queries.by(LINK, "ref", b"last=24h")),
        await timed(lambda: queries.curve(LINK, "ref", b"value=&last=30d&step=1d")),
        await timed(lambda: queries.visitors(LINK, b"")),
    ]


async def timed(answer: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        await answer()
        times.append((time.perf_counter() - began) * 1_000)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


if __name__ == "__main__":
    sys.exit(main())
