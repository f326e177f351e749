"""Rankings over many links, while flushes of 30,000 rows go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from statistics import median
from time import perf_counter, process_time
from unittest.mock import patch

from bench.command import Options
from bench.measure import Line, Percentiles
from bench.micro.growth import base62_key
from bench.micro.inside import HELD, begun_flush, owned_store, save_rows, saved_row
from bench.micro.rows import row_of
from clickcurve.buckets.ladder import DAY_S, MINUTE_S, fold_day
from ingest.buffer import Buffer
from query.lists.key_kind import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters
from storage.contract import StoredLink
from storage.sqlite.rankings import SqliteRanked
from storage.sqlite.store import SqliteStore

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
FLUSH_ROWS = 30_000
RANKINGS = ("", "last=1d", "last=7d", "last=30d", "last=12mo", "last=60m", "last=24h", "last=30d&bots=include")
LIMITS = (20, 1_000)


def ranking(options: Options) -> Iterator[Line]:
    """Top links, each question read anew after a flush: wall time, processor time, and links that were read."""
    for links in options.links or [options.of(1_000_000)]:
        path = options.folder / f"{links}.db"
        store, begun = owned_store(path), perf_counter()
        options.closing.callback(store.close)
        keys = _fill(store, links)
        made_s, size = perf_counter() - begun, path.stat().st_size / links
        yield Line(f"{links:,} links", f"{size:.1f} B each", f"made in {made_s:.0f} s")
        drawn = random.Random(2)
        questions = [f"{query}&limit={limit}" for query in RANKINGS for limit in LIMITS]
        spans: dict[str, list[tuple[float, float, int]]] = {question: [] for question in questions}
        flushes, rows = [], min(FLUSH_ROWS, links)
        for number in range(1, options.rounds + 1):
            now = NOW + 15 * number
            buffer = Buffer(0)
            began = process_time()
            buffer.add_singles(now // MINUTE_S * MINUTE_S, drawn.sample(keys, rows), now * 1_000_000)
            begun_flush(store, number + 1, buffer, now).write()
            flushes.append((process_time() - began) / rows * 1e6)
            for question in questions:
                spans[question].append(_ask(store, question, now))
        yield Line(f"flushes of {rows:,} rows", f"{median(flushes):.1f} us of processor time a row")
        for question, found in spans.items():
            wall_ms, cpu_ms, read = zip(*found, strict=True)
            of_processor = f"cpu {median(cpu_ms):.1f} ms, {median(read):,.0f} links read"
            yield Line(question, str(Percentiles.of(wall_ms)), of_processor)


def _fill(store: SqliteStore, links: int) -> list[str]:
    """Saves a row for each link, with its hits; returns the keys."""
    drawn = random.Random(1)
    store.begin(HELD, 0, 1, 0)
    keys = [base62_key(n) for n in range(links)]
    ranked = sorted(enumerate(keys, 1), key=lambda each: each[1])
    rows = ((key, row_of(_hits_of(drawn, rank, links), day=fold_day(NOW), mark=1)) for rank, key in ranked)
    save_rows(store, HELD, 1, ((key, saved_row(row)) for key, row in rows))
    return keys


def _ask(store: SqliteStore, question: str, now: int) -> tuple[float, float, int]:
    """Returns the milliseconds of one ranking, by the wall and of the processor, and how many links it read."""
    links_of, read = SqliteRanked.links, 0

    def counted(ranked: SqliteRanked, keys: Sequence[str]) -> dict[str, StoredLink]:
        nonlocal read
        read += len(keys)
        return links_of(ranked, keys)

    links = Listing(LINK, store, lambda key: [], dict, lambda: 0)
    parameters = parse_parameters(dict(part.split("=") for part in question.split("&") if part))
    with patch.object(SqliteRanked, "links", counted):
        began, cpu = perf_counter(), process_time()
        asyncio.run(links.rankings.best(parameters, now))
        return (perf_counter() - began) * 1e3, (process_time() - cpu) * 1e3, read


def _minutes_ago(days: float) -> int:
    return (NOW - int(days * DAY_S)) // MINUTE_S * MINUTE_S


def _hits_of(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    """As links are used: the n-th has 1/n of the hits, each over its own part of the last 400 days."""
    total = 1 + 3 * links // rank
    begun, length = drawn.random() * 400, drawn.choice((1, 7, 30, 400))
    pieces = min(total, 200)
    hits: dict[int, int] = {}
    for _ in range(pieces):
        minute = _minutes_ago(max(0.0, begun - drawn.random() * length))
        hits[minute] = hits.get(minute, 0) + total // pieces
    return hits
