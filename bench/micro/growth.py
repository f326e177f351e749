"""What links cost as they become many: a store is filled with rows as they are, then flushed, folded, asked, ranked."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, time
from unittest.mock import patch

from bench.command import Options
from bench.measure import Line, Percentiles
from bench.micro.inside import HELD, begun_flush, owned_store, save_rows, saved_row
from bench.micro.rows import row_of
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from ingest.batch import Batch
from ingest.buffer import Buffer
from query.lists.key_kind import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters
from retention.run import STEP_ROWS
from server.data_folder import journal_folder
from storage.contract import Held, SavedRow, StoredLink
from storage.sqlite.rankings import SqliteRanked
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk

FOLDED_ROWS = 200_000
Minutes = Callable[[int, int], dict[int, int]]  # the hits of a link by minute, from its number and now
NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
FLUSH_ROWS = 30_000
RANKINGS = ("", "last=1d", "last=7d", "last=30d", "last=12mo", "last=60m", "last=24h", "last=30d&bots=include")
LIMITS = (20, 1_000)


def key_of(number: int, links: int) -> str:
    """Eight signs, in ascending order, evenly scattered."""
    return f"{number * (2**32 // links):08x}"


# --- flushes and folds ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Grown:
    """Microseconds of processor and wall time for a row: of each flush, and of the fold of a day later."""

    flush_us: list[tuple[float, float]]
    fold_us: tuple[float, float]
    made_s: float


def growth(options: Options) -> Iterator[Line]:
    """A flush and a fold among few links and many, each with three minutes of hits."""
    for links in options.links or [options.of(50_000), options.of(1_000_000)]:
        data = options.folder / str(links)
        data.mkdir()
        grown = asyncio.run(grow(data, links, three_minutes, 20_000, options.rounds))
        processor, wall = (median(each) for each in zip(*grown.flush_us, strict=True))
        fold = f"fold {grown.fold_us[0]:.1f} us, {grown.fold_us[1]:.1f} by the wall"
        size = (data / "clickcurve.db").stat().st_size / links
        compared = f"{wall:.1f} by the wall; {fold}; {size:.1f} B a link; made in {grown.made_s:.0f} s"
        yield Line(f"{links:,} links", f"flush {processor:.1f} us a row", compared)


def three_minutes(_: int, now: int) -> dict[int, int]:
    """Three minutes of hits, the same for each link."""
    return {now // MINUTE_S * MINUTE_S - MINUTE_S * ago: 1 + ago for ago in range(3)}


def moments(count: int) -> Minutes:
    """Hits at so many moments of 400 days, each link's own."""

    def minutes(number: int, now: int) -> dict[int, int]:
        chance = random.Random(number)
        ages = [int(400 * DAY_S * chance.random() ** 1.35) for _ in range(count)]
        return {(now - age) // 3_600 * 3_600: 1 + chance.randrange(3) for age in ages}

    return minutes


async def grow(data: Path, links: int, minutes: Minutes, flushed: int, rounds: int) -> Grown:
    """Fills the file of a data folder two days ago; flushes a hit of some links, each round; folds the next day."""
    now, begun = [time() - 2 * DAY_S], perf_counter()
    store = SqliteStore(data / "clickcurve.db", CLICKS)
    owner = OwnerProcess(journal_folder(data, 1), store, lambda: now[0], alone=True, disk=TrackedDisk()).owner
    await owner.accept(Batch({int(now[0]) // MINUTE_S * MINUTE_S: {key_of(0, links): 1}}))
    await owner.flush()
    await asyncio.to_thread(_fill, store, links, int(now[0]), minutes)
    made_s, chance, flushes = perf_counter() - begun, random.Random(5), []
    some, rows = min(flushed, links), min(FOLDED_ROWS, links)
    for _ in range(rounds):
        hits = {key_of(n, links): 1 for n in chance.sample(range(links), some)}
        await owner.accept(Batch({int(now[0]) // MINUTE_S * MINUTE_S: hits}))
        flushes.append(await _timed_us(owner.flush(), some))
    now[0] += 2 * DAY_S

    async def fold() -> None:
        for first in range(0, rows, STEP_ROWS):
            owner.revisit(owner.due(fold_day(int(now[0])), None, min(STEP_ROWS, rows - first)))
            await owner.flush()

    folded = await _timed_us(fold(), rows)
    await owner.close()
    store.close()
    return Grown(flushes, folded, made_s)


def _fill(store: SqliteStore, links: int, now: int, minutes: Minutes) -> None:
    """Saves a row for each link in the order of keys, as its owner would."""
    (record,) = store.owners()

    def saved(number: int) -> SavedRow:
        return saved_row(row_of(minutes(number, now), day=fold_day(now), mark=record.begun))

    alike = saved(0) if minutes is three_minutes else None
    rows = ((key_of(number, links), alike or saved(number)) for number in range(links))
    save_rows(store, Held(record.owner, record.epoch, record.holder), record.begun, rows)


async def _timed_us(work: Awaitable[object], rows: int) -> tuple[float, float]:
    processor, wall = process_time(), perf_counter()
    await work
    return (process_time() - processor) / rows * 1e6, (perf_counter() - wall) / rows * 1e6


# --- rankings, while flushes go on ------------------------------------------------------------------------------------
def ranking(options: Options) -> Iterator[Line]:
    """Top links, each question read anew after a flush: wall time, processor time, and links that were read."""
    questions = [f"{query}&limit={limit}" for query in RANKINGS for limit in LIMITS]
    for links in options.links or [options.of(1_000_000)]:
        store = owned_store(options.folder / f"{links}.db")
        options.closing.callback(store.close)
        chance, keys = random.Random(1), [key_of(number, links) for number in range(links)]
        ranks = chance.sample(range(1, links + 1), links)
        store.begin(HELD, 0, 1, 0)
        rows_of = (row_of(_hits_of(chance, rank, links), day=fold_day(NOW), mark=1) for rank in ranks)
        save_rows(store, HELD, 1, zip(keys, map(saved_row, rows_of), strict=True))
        found: dict[str, list[tuple[float, float, int]]] = {question: [] for question in questions}
        flushes, rows = [], min(FLUSH_ROWS, links)
        for number in range(1, options.rounds + 1):
            now = NOW + 15 * number
            buffer, began = Buffer(0), process_time()
            buffer.add_singles(now // MINUTE_S * MINUTE_S, chance.sample(keys, rows), now * 1_000_000)
            begun_flush(store, number + 1, buffer, now).write()
            flushes.append((process_time() - began) / rows * 1e6)
            for question in questions:
                found[question].append(_ask(store, question, now))
        what = f"flushes of {rows:,} rows, of {links:,} links"
        yield Line(what, f"{median(flushes):.1f} us of processor time a row")
        for question, asked in found.items():
            wall_ms, cpu_ms, read = zip(*asked, strict=True)
            of_processor = f"cpu {median(cpu_ms):.1f} ms, {median(read):,.0f} links read"
            yield Line(question, str(Percentiles.of(wall_ms)), of_processor)


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
        cpu_us, wall_us = asyncio.run(_timed_us(links.rankings.best(parameters, now), 1))
    return wall_us / 1e3, cpu_us / 1e3, read


def _hits_of(chance: random.Random, rank: int, links: int) -> dict[int, int]:
    """As links are used: the n-th has 1/n of the hits, each over its own part of the last 400 days."""
    total = 1 + 3 * links // rank
    begun, length = chance.random() * 400, chance.choice((1, 7, 30, 400))
    pieces = min(total, 200)
    hits: Counter[int] = Counter()
    for _ in range(pieces):
        ago_s = int(max(0.0, begun - chance.random() * length) * DAY_S)
        hits[(NOW - ago_s) // MINUTE_S * MINUTE_S] += total // pieces
    return hits
