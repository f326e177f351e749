"""What a row costs as links become many: a store is filled with rows as they are, then flushed, folded and asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, time

from bench.command import Options
from bench.measure import Line
from bench.micro.inside import save_rows, saved_row
from bench.micro.rows import row_of
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from ingest.batch import Batch
from ingest.owner import Owner
from retention.run import run_pass
from server.data_folder import journal_folder
from storage.contract import Held, SavedRow
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk

FOLDED_ROWS = 200_000
Minutes = Callable[[int, int], dict[int, int]]  # the hits of a link by minute, from its number and now


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


def key_of(number: int, links: int) -> str:
    """Eight signs, in ascending order, evenly scattered."""
    return f"{number * (2**32 // links):08x}"


def base62_key(n: int) -> str:
    """Six signs of base 62, as shorteners make them."""
    signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    n = (n * 2_654_435_761 + 12_345) % 62**6
    return "".join(signs[n // 62**place % 62] for place in range(6))


async def grow(data: Path, links: int, minutes: Minutes, flushed: int, rounds: int) -> Grown:
    """Fills the file of a data folder two days ago; flushes a hit of some links, each round; folds the next day."""
    now, begun = [time() - 2 * DAY_S], perf_counter()
    store = SqliteStore(data / "clickcurve.db", CLICKS)
    owner = OwnerProcess(journal_folder(data, 1), store, lambda: now[0], alone=True, disk=TrackedDisk()).owner
    await owner.accept(Batch({int(now[0]) // MINUTE_S * MINUTE_S: {key_of(0, links): 1}}))
    await owner.flush()
    await asyncio.to_thread(_fill, store, links, int(now[0]), minutes)
    made_s, chance, flushes = perf_counter() - begun, random.Random(5), []
    some = min(flushed, links)
    for _ in range(rounds):
        hits = {key_of(n, links): 1 for n in chance.sample(range(links), some)}
        await owner.accept(Batch({int(now[0]) // MINUTE_S * MINUTE_S: hits}))
        flushes.append(await _timed_us(owner.flush(), some))
    now[0] += 2 * DAY_S
    rows = min(FOLDED_ROWS, links)
    fold = await _timed_us(run_pass(_Part(owner, rows), fold_day(int(now[0]))), rows)
    await owner.close()
    store.close()
    return Grown(flushes, fold, made_s)


def _fill(store: SqliteStore, links: int, now: int, minutes: Minutes) -> None:
    """Saves a row for each link in the order of keys, as its owner would."""
    (record,) = store.owners()

    def saved(number: int) -> SavedRow:
        return saved_row(row_of(minutes(number, now), day=fold_day(now), mark=record.begun))

    alike = saved(0) if minutes is three_minutes else None
    rows = ((key_of(number, links), alike or saved(number)) for number in range(links))
    save_rows(store, Held(record.owner, record.epoch, record.holder), record.begun, rows)


class _Part:
    """An owner who says of so many due rows only that they are."""

    def __init__(self, owner: Owner, rows: int) -> None:
        self._owner, self._left = owner, rows
        self.flush = owner.flush

    def revisit(self, keys: Iterable[str]) -> None:
        self._owner.revisit(keys)

    def due(self, fold_day: int, after: str | None, limit: int, /) -> list[str]:
        found = self._owner.due(fold_day, after, min(limit, self._left)) if self._left else []
        self._left -= len(found)
        return found

    def visited(self, fold_day: int, /) -> None:
        """Returns at once: others are due still."""


async def _timed_us(work: Awaitable[object], rows: int) -> tuple[float, float]:
    processor, wall = process_time(), perf_counter()
    await work
    return (process_time() - processor) / rows * 1e6, (perf_counter() - wall) / rows * 1e6
