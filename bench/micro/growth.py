"""What links cost as they become many: a store is filled with rows as they are, then flushed, folded, asked, ranked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, time
from typing import Any
from unittest.mock import patch

from bench.command import Options
from bench.inside import Owned, saved_row
from bench.load import Connection, request
from bench.measure import Line, Percentiles
from bench.rows import row_of
from bench.servers import on_disk, rss_mb
from bench.workload import age_s
from clickcurve.buckets.ladder import DAY_S, MINUTE_S, fold_day
from query.lists.listed_rows import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters
from retention.run import STEP_ROWS
from storage.contract import SavedRow, StoredLink
from storage.sqlite.rankings import SqliteRanked
from testing.server import RunningServer

SIZES, MOMENTS, FLUSHED = (1_000, 10_000, 100_000, 1_000_000), 5, 10_000
FOLDED_ROWS = 200_000
GROWN = (
    "flush {flush_us:.1f} us a row",
    "{flush_wall_us:.1f} by the wall; fold {fold_us:.1f} us, {fold_wall_us:.1f} by the wall",
    "{bytes_a_link:.1f} B a link, made in {filled_s:.0f} s",
    "start {start_s:.2f} s; curve p50 {p50:.2f} p99 {p99:.2f} ms; {rss_mb:.0f} MB",
)
Minutes = Callable[[int, int], dict[int, int]]  # the hits of a link by minute, from its number and now
NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
FLUSH_ROWS = 30_000
RANKINGS = ("", "last=1d", "last=7d", "last=30d", "last=12mo", "last=60m", "last=24h", "last=30d&bots=include")
LIMITS = (20, 1_000)


def key_of(number: int, links: int) -> str:
    """Eight signs, in ascending order, evenly scattered."""
    return f"{number * (2**32 // links):08x}"


# --- flushes, folds, curves -------------------------------------------------------------------------------------------
def growth(options: Options) -> Iterator[Line]:
    """A flush, a fold, a start and curves among few links and many, for the sheet too. All links are alike.

    Times for a row are of the processor, and by the wall.
    """
    sizes = options.sheet["sizes"] = list[dict[str, Any]]()
    for links in options.links or map(options.of, SIZES):
        data = options.folder / str(links)
        stored, served = _stored(data, links, options.rounds), _served(data, links, options.rounds, options.seconds)
        sizes.append({"links": links, **stored, **served})
        options.sheet["growth"] = options.circumstances()
        middle = {name: median(each) if isinstance(each, list) else each for name, each in sizes[-1].items()}
        flush, fold, *more = (text.format(**middle) for text in GROWN)
        yield Line(f"{links:,} links", flush, "; ".join((fold, *more)))


def _stored(data: Path, links: int, rounds: int) -> dict[str, Any]:
    """Fills the file of a data folder two days ago; flushes a hit of some links, each round; folds the next day."""
    begun, chance = perf_counter(), random.Random(5)
    file = filled(data, links, moments(MOMENTS), int(time()) - 2 * DAY_S)
    filled_s, some, rows = perf_counter() - begun, min(FLUSHED, links), min(FOLDED_ROWS, links)
    flushes = [_flush_us(file, chance.sample(range(links), some), links) for _ in range(rounds)]
    file.now += 2 * DAY_S
    steps = (min(STEP_ROWS, rows - first) for first in range(0, rows, STEP_ROWS))  # as a pass over quiet rows does
    folds = [file.flush(file.owner.due(fold_day(file.now), None, step)) for step in steps]
    file.close()
    flush_us, flush_wall_us = map(list, zip(*flushes, strict=True))
    fold_us, fold_wall_us = (sum(each) / rows * 1e6 for each in zip(*folds, strict=True))
    of_flush = {"flush_us": flush_us, "flush_wall_us": flush_wall_us}
    size = sum(map(on_disk, data.glob("clickcurve.db*")))
    of_fold = {"fold_us": fold_us, "fold_wall_us": fold_wall_us}
    return {"filled_s": filled_s, "bytes_a_link": size / links, **of_flush, **of_fold}


def _served(data: Path, links: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Starts a server on this data folder and asks for curves of 30 days, each round; links are drawn evenly."""
    chance, start_s, took, rss = random.Random(3), [], [], 0.0
    for _ in range(rounds):
        begun = perf_counter()
        with RunningServer(data) as server, closing(Connection(server.port)) as connection:
            ready, took_ms = perf_counter(), []
            while perf_counter() < ready + seconds:
                key = key_of(chance.randrange(links), links)
                took_ms.append(connection.time("curve", request("GET", f"/v1/links/{key}/curve?last=30d")).took_ms)
            start_s.append(ready - begun)
            took.append(Percentiles.of(took_ms))
            rss = rss_mb([server.pid])
    p50, p99 = map(list, zip(*took, strict=True))
    return {"start_s": start_s, "p50": p50, "p99": p99, "rss_mb": rss}


def moments(count: int) -> Minutes:
    """Hits at so many moments of 400 days, each link's own."""

    def minutes(number: int, now: int) -> dict[int, int]:
        chance = random.Random(number)
        ages = [age_s(chance) for _ in range(count)]
        return {(now - age) // 3_600 * 3_600: 1 + chance.randrange(3) for age in ages}

    return minutes


def filled(data: Path, links: int, minutes: Minutes, now: int, alike: bool = False) -> Owned:
    """Returns a file with a row for each link, saved in the order of keys; `alike`: all have the first one's."""
    file = Owned.of_file(data, now)

    def rows(mark: int) -> Iterator[tuple[str, SavedRow]]:
        for number in range(links):
            if not (alike and number):
                row = saved_row(row_of(minutes(number, now), day=fold_day(now), mark=mark))
            yield key_of(number, links), row

    file.fill(key_of(0, links), rows)
    return file


def _flush_us(file: Owned, numbers: Sequence[int], links: int) -> tuple[float, float]:
    """Flushes a hit of each of these links; returns microseconds for a row, of the processor and by the wall."""
    file.take_each(key_of(number, links) for number in numbers)
    processor_s, wall_s = file.flush()
    return processor_s / len(numbers) * 1e6, wall_s / len(numbers) * 1e6


# --- rankings, while flushes go on ------------------------------------------------------------------------------------
def ranking(options: Options) -> Iterator[Line]:
    """Top links, each question read anew after a flush: wall time, processor time, and links that were read."""
    questions = [f"{query}&limit={limit}" for query in RANKINGS for limit in LIMITS]
    for links in options.links or [options.of(1_000_000)]:
        chance = random.Random(1)
        file = filled(options.folder / str(links), links, _popular(chance, links), NOW)
        options.closing.callback(file.close)
        flushes, rows = [], min(FLUSH_ROWS, links)
        found: dict[str, list[tuple[float, float, int]]] = {question: [] for question in questions}
        for _ in range(options.rounds):
            file.now += 15
            flushes.append(_flush_us(file, chance.sample(range(links), rows), links)[0])
            for question in questions:
                found[question].append(_ask(file, question))
        what = f"flushes of {rows:,} rows, of {links:,} links"
        yield Line(what, f"{median(flushes):.1f} us of processor time a row")
        for question, asked in found.items():
            wall_ms, cpu_ms, read = zip(*asked, strict=True)
            of_processor = f"cpu {median(cpu_ms):.1f} ms, {median(read):,.0f} links read"
            yield Line(question, str(Percentiles.of(wall_ms)), of_processor)


def _ask(file: Owned, question: str) -> tuple[float, float, int]:
    """Returns the milliseconds of one ranking, by the wall and of the processor, and how many links it read."""
    links_of, read = SqliteRanked.links, 0

    def counted(ranked: SqliteRanked, keys: Sequence[str]) -> dict[str, StoredLink]:
        nonlocal read
        read += len(keys)
        return links_of(ranked, keys)

    links = Listing(LINK, file.store, lambda key: [], dict, lambda: 0)
    parameters = parse_parameters(dict(part.split("=") for part in question.split("&") if part))
    with patch.object(SqliteRanked, "links", counted):
        began, cpu = perf_counter(), process_time()
        file.run(links.rankings.best(parameters, file.now))
        return (perf_counter() - began) * 1e3, (process_time() - cpu) * 1e3, read


def _popular(chance: random.Random, links: int) -> Minutes:
    """As links are used: the n-th has 1/n of the hits, each over its own part of the last 400 days."""
    ranks = chance.sample(range(1, links + 1), links)

    def minutes(number: int, now: int) -> dict[int, int]:
        total = 1 + 3 * links // ranks[number]
        begun, length = chance.random() * 400, chance.choice((1, 7, 30, 400))
        pieces = min(total, 200)
        hits: Counter[int] = Counter()
        for _ in range(pieces):
            ago_s = int(max(0.0, begun - chance.random() * length) * DAY_S)
            hits[(now - ago_s) // MINUTE_S * MINUTE_S] += total // pieces
        return hits

    return minutes
