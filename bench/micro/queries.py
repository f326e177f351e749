"""What a query costs, piece by piece; and rankings over many links while flushes of 30,000 rows go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.measure import Line, Measure, call_each, ready
from bench.micro.growth import base62_key
from bench.micro.inside import HELD, begun_flush, owned_store
from bench.options import Options
from clickcurve.answers import as_json
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import EMPTY, Delta, add, fold, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import link_subject
from ingest.buffer import Buffer
from query.curve import Curve, make_curve
from query.grid import make_grid
from query.lists.key_kind import GROUP, LINK
from query.lists.listing import Listing
from query.parameters import CURVE, parse_parameters, parse_query, resolve_window
from query.queries import Queries
from query.reader import Reader
from storage.contract import Ranking, SavedRow, Store, StoredLink, StoredRow
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
CURVES = {
    "60 min": "last=60m",
    "24 h": "last=24h",
    "30 d": "last=30d",
    "12 mo": "last=12mo",
    "all, native": "from=0&step=native",
}
K = link_subject("k")
CHUNK = 500
FLUSH_ROWS = 30_000
RANKINGS = ("", "last=1d", "last=7d", "last=30d", "last=12mo", "last=60m", "last=24h", "last=30d&bots=include")
LIMITS = (20, 1_000)


def query_parts(_: Options) -> Iterator[Measure]:
    """The parts of a total and of curves. `quiet` has few of a row's buckets, `busy` a tenth, `full` all."""
    for name, every in (("quiet", 500), ("busy", 10), ("full", 1)):
        data = row_data(NOW, every)
        row = decode(data)
        queries = queries_over(row_reader(data), MemoryStore(CLICKS), NOW)
        yield Measure(f"{name}, {len(data):,} B: decode", ready(data), decode, "us")
        yield Measure(f"{name}: lifetime", ready(queries), _lifetime, "us")
        for title, query in CURVES.items():
            parameters = parse_parameters(parse_query(query.encode(), CURVE))
            window = resolve_window(parameters, NOW, CLICKS)
            if window is None:
                raise RuntimeError(f"{query} has no window")
            grid = make_grid(window, CLICKS, row.fold_day)
            curve = make_curve(row, grid, Bots.exclude, NOW)
            asyncio.run(queries.curve(K, query.encode()))  # the first time a grid of many points is made in a thread
            pieces: dict[str, Callable[[], Any]] = {
                "window": partial(resolve_window, parameters, NOW, CLICKS),
                "grid, first time": partial(make_grid, window, CLICKS, row.fold_day),
                "count": partial(make_curve, row, grid, Bots.exclude, NOW),
                "json": partial(_as_json, curve),
                "all of it": partial(_answered, queries, query.encode()),
            }
            for what, piece in pieces.items():
                points = f"{title}, {len(curve.counts)} points"
                yield Measure(f"{name}, {points}: {what}", ready([piece]), call_each, "us")


def _answered(queries: Queries, query: bytes) -> bytes:
    return as_json(_finished(queries.curve(K, query)))


def _lifetime(queries: Queries) -> bytes:
    return as_json(_finished(queries.total(K, b"")))


def _as_json(curve: Curve) -> bytes:
    return as_json(curve.answer("k"))


def row_data(now: int, every: int) -> bytes:
    """A row as a store holds it, with a hit in every n-th kept bucket of four years."""
    row = fold(EMPTY, fold_day(now), CLICKS)
    t, minutes = now - 4 * 366 * 86_400, {}
    while t < now:
        start, end = CLICKS.kept(t, row.fold_day)
        minutes[start] = 1 + start // 60 % 100
        t = end
    return encode(add(row, Delta(dict(list(minutes.items())[::every]), {}), CLICKS))


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("it waited")


def row_reader(data: bytes) -> Reader:
    link = StoredLink(0, (StoredRow(1, data),))

    async def rows(key: str) -> StoredLink:
        return link

    return Reader(rows, lambda key: [], lambda keys: None, lambda: CLICKS)


def queries_over(reader: Reader, store: Store, now: int) -> Queries:
    """What a server answers from, without a server."""
    links, groups = (Listing(kind, store, lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(reader, links, groups, lambda: now)


def ranking(options: Options) -> Iterator[Line]:
    """Top links, each question read anew after a flush: wall time, processor time, and links that were read."""
    for links in options.links or [options.of(1_000_000)]:
        path = options.folder / f"{links}.db"
        store, begun = owned_store(path), perf_counter()
        options.closing.callback(store.close)
        keys = _fill(store, links, SHAPES[options.shape])
        made_s, size = perf_counter() - begun, path.stat().st_size / links
        yield Line(f"{links:,} links, {options.shape}", f"{size:.1f} B each", f"made in {made_s:.0f} s")
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
            wall, cpu, read = (sorted(figures) for figures in zip(*found, strict=True))
            of_processor = f"cpu {median(cpu):.1f} ms, {median(read):,.0f} links read"
            yield Line(question, f"p50 {median(wall):.1f} p99 {wall[-1]:.1f} ms", of_processor)


def _fill(store: SqliteStore, links: int, shape: Shape) -> list[str]:
    """Saves a row for each link, with the shape's hits; returns the keys."""
    drawn = random.Random(1)
    store.begin(HELD, 0, 1, 0)
    keys = [base62_key(n) for n in range(links)]
    rows: dict[str, SavedRow] = {}
    for rank, key in sorted(enumerate(keys, 1), key=lambda each: each[1]):
        row = add(EMPTY._replace(fold_day=fold_day(NOW)), Delta(shape(drawn, rank, links), {}), CLICKS)
        rows[key] = SavedRow(encode(row), next_due(row, CLICKS), None, upper_bounds=upper_bounds_of(row, CLICKS))
        if len(rows) == CHUNK:
            store.save_own(HELD, 1, rows, {})
            rows = {}
    store.save_own(HELD, 1, rows, {})
    return keys


def _ask(store: SqliteStore, question: str, now: int) -> tuple[float, float, int]:
    """Returns the milliseconds of one ranking, by the wall and of the processor, and how many links it read."""
    counting = _Counting(store)
    links = Listing(LINK, counting, lambda key: [], dict, lambda: 0)  # type: ignore[arg-type]
    parameters = parse_parameters(dict(part.split("=") for part in question.split("&") if part))
    began, cpu = perf_counter(), process_time()
    asyncio.run(links.rankings.best(parameters, now))
    return (perf_counter() - began) * 1e3, (process_time() - cpu) * 1e3, counting.read


class _Counting:
    """A store that counts the links which rankings read; also each view of it that `ranked` gives."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.read = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ranked(self, ranking: Ranking) -> _Counting:
        self._view = self._inner.ranked(ranking)
        return self

    def __enter__(self) -> _Counting:
        self._links = self._view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._view.__exit__(*error)

    def candidates(self, prefix: str = "") -> object:
        return self._links.candidates(prefix)

    def links(self, keys: list[str]) -> object:
        self.read += len(keys)
        return self._links.links(keys)


def _minutes_ago(days: float) -> int:
    return (NOW - int(days * DAY_S)) // MINUTE_S * MINUTE_S


def _popular(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    """As links are used: the n-th has 1/n of the hits, each over its own part of the last 400 days."""
    total = 1 + 3 * links // rank
    begun, length = drawn.random() * 400, drawn.choice((1, 7, 30, 400))
    pieces = min(total, 200)
    hits: dict[int, int] = {}
    for _ in range(pieces):
        minute = _minutes_ago(max(0.0, begun - drawn.random() * length))
        hits[minute] = hits.get(minute, 0) + total // pieces
    return hits


def _equal(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    """30 hits each."""
    return {_minutes_ago(day * 1.3 + 0.02): 3 for day in range(10)}


def _near(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    """A million and some hits each, all different."""
    return {_minutes_ago(day * 1.3 + 0.02): 100_000 + (rank if day == 3 else 0) for day in range(10)}


def _burst(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    """A thousand hits 13 months ago and a few since."""
    last = drawn.random() * 60
    return {_minutes_ago(400): 1_000 + rank % 500, _minutes_ago(last + 20): 2 + rank % 7, _minutes_ago(last): 1}


Shape = Callable[[random.Random, int, int], dict[int, int]]
SHAPES: dict[str, Shape] = {"popular": _popular, "equal": _equal, "near": _near, "burst": _burst}
