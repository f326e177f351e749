"""Code that stands twice for speed: each fast path beside the slow way that it replaces, in turn.

docs/fast-paths.md has the list.

The slow way is put in its place by name, so both run in the same process, on the same objects, within milliseconds.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from time import perf_counter, process_time
from typing import Any

from bench.command import Options
from bench.inside import queries_over, read, reader_of
from bench.limiter import Rates, limiter_at, place_of
from bench.measure import Measure, ready
from bench.micro import breakdown
from bench.micro.attributes import NOW, plain_bodies
from bench.micro.growth import filled, key_of, moments
from bench.rows import row_of, steady
from bench.workload import ATTRIBUTES, DIMENSIONS, Visitors, values
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, landing
from clickcurve.buckets.breakdowns.columns import ColumnTier
from clickcurve.buckets.breakdowns.parts import decode_parts
from clickcurve.buckets.breakdowns.pieces import hour_bytes, hour_with
from clickcurve.buckets.candidates import DAYS, Cutoffs
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import Delta, Row, add, merge
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import link_subject
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backends.connections.redis_socket import RedisSocket
from clickcurve.limiter.backends.forms import blocking
from clickcurve.limiter.limiter import Limiter
from ingest.imports.access_log import AccessLog
from ingest.reading.body import WAYS
from query.reader import MergedLinks
from storage.contract import StoredLink, StoredRow
from storage.memory_store import MemoryStore

CURVES_NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
WINDOWS, STRATEGIES = ("fixed", "tiered"), ("fixed", "tiered", "token_bucket")
OWNERS = 16
_SAID = ("ref", "country", "device")
ONE, FOUR = [(70_000, DAY_S)], [(5_000, 1), (20_000, 60), (50_000, 3_600), (70_000, DAY_S)]


# --- the limiter ------------------------------------------------------------------------------------------------------
def _weighed_and_charged(meter: Any, rule: Any, at_us: int, cost: int, caller: str) -> Any:
    quota = meter.weigh(rule, at_us, cost, True)
    if quota.fits:
        meter.charge(rule, at_us, cost, caller, False)
    return quota


def _decided_as_any(backend: Any, question: Any) -> Any:
    with backend._lock:
        return backend._decide(question, question.at_us or 0)


def _encoded_as_any(codec: Any, question: Any) -> Any:
    return codec.encode_any(question, codec.plan(question.rules))


class _LibraryConnection(RedisSocket):
    """Asks in the library's own way."""

    def ask(self, sent: bytes) -> Any:
        self._connection.send_packed_command([sent], check_health=False)
        return self._connection.read_response(disable_decoding=True)


# Where counts are, by which strategies and rates, where the fast path stands, and what in its place is the slow way.
LIMITER: Sequence[tuple[str, str, Sequence[str], Rates, str, Any]] = (
    ("Windows.hit", "memory", ["fixed"], ONE, "backends.meters.Windows.hit", _weighed_and_charged),
    ("Tokens.hit", "memory", ["token_bucket"], ONE, "backends.meters.Tokens.hit", _weighed_and_charged),
    ("Tokens.hit, four rates", "memory", ["token_bucket"], FOUR, "backends.meters.Tokens.hit", _weighed_and_charged),
    ("MemoryBackend.decide", "memory", WINDOWS, ONE, "backends.memory.MemoryBackend.decide", _decided_as_any),
    ("Limiter.hit", "memory", WINDOWS, ONE, "limiter.Limiter.hit", blocking(AsyncLimiter.hit)),
    (
        "encode_question",
        "redis",
        STRATEGIES,
        ONE,
        "backends.redis_scripts.ScriptCodec.encode_question",
        _encoded_as_any,
    ),
    ("RedisSocket", "redis", STRATEGIES, ONE, "backends.redis.RedisSocket", _LibraryConnection),
    ("_take_seen", "memcached", STRATEGIES, ONE, "backends.memcached.MemcachedBackend._take_seen", lambda *_: None),
)


def fast_paths(options: Options) -> Iterator[Measure]:
    """Those of one process: the limiter in memory, readings of hits, flushes, queries."""
    yield from _decisions(options, ["memory"], process_time)
    yield from _of_hits(options)
    yield from _of_rows(options)
    yield from _of_queries(options)


def fast_paths_remote(options: Options) -> Iterator[Measure]:
    """Those of the limiter's clients of Redis and memcached, on servers that are started; by the wall."""
    yield from _decisions(options, ["redis", "memcached"], perf_counter)


def _decisions(options: Options, places: Sequence[str], timer: Callable[[], float]) -> Iterator[Measure]:
    """Decisions for one caller out of a thousand."""
    keys, many = [{"ip": str(number)} for number in range(1_000)], options.of(2_000)

    def decide(limiter: Limiter) -> None:
        for features in islice(cycle(keys), many):
            limiter.hit("e", features)

    for name, where, strategies, rates, stands, way in LIMITER:
        for strategy in strategies if where in places else ():
            with place_of(where) as place:
                what = f"{name}, {strategy}" if where == "memory" else f"{name}, {strategy}, {where}"
                limiter, slow = partial(limiter_at, place, rates, strategy), (f"clickcurve.limiter.{stands}", way)
                yield Measure(what, limiter, decide, "us a decision", many, timer=timer, slow=slow)


# --- hits and queries -------------------------------------------------------------------------------------------------
def _of_hits(options: Options) -> Iterator[Measure]:
    hits, links = options.of(1_000), options.of(10_000)
    plain, said = plain_bodies(hits, 20), Visitors().bodies(20, hits, ATTRIBUTES, NOW)
    of_all = partial(reader_of, *DIMENSIONS)
    ways: Sequence[tuple[str, Any, list[bytes], str, Any]] = (
        ("columns of hits", of_all, said, "reading.judge.IN_COLUMNS", 10**9),
        ("memos of texts", of_all, said, "attributes.memo.Memo.__missing__", lambda memo, key: memo.of(key)),
        ("plain hits", reader_of, plain, "reading.body.WAYS", WAYS[-1:]),
    )
    for what, make_reader, bodies, stands, way in ways:
        read_all, slow = partial(_read_all, bodies), (f"ingest.{stands}", way)
        yield Measure(f"{what}, batches of {hits:,}", make_reader, read_all, "us a hit", 20 * hits, slow=slow)
    lines = options.of(20_000)
    log = "".join(map(_log_line, Visitors().hits(lines, ("ref", "ip", "ua"), NOW))).encode()
    read_log = lambda reader: reader.read(log)  # noqa: E731
    alone = "ingest.imports.access_log.AccessLog._read_piece", _read_alone
    yield Measure(f"{lines:,} lines of a log", _log_reader, read_log, "us a line", lines, slow=alone)
    file = filled(options.folder / "data", links, moments(100), NOW, alike=True)
    options.closing.callback(file.close)
    take, flush = partial(file.take_each, [key_of(number, links) for number in range(links)]), lambda _: file.flush()
    for name, stands, anew in (
        ("lazy rows", "clickcurve.buckets.codec.decode_lazily", decode),
        ("bounds after hits of today", "ingest.flushed_rows.upper_bounds_after", _bounds_anew),
    ):
        what = f"{name}, flush of {links:,} links"
        yield Measure(what, take, flush, "us a row", links, slow=(stands, anew), fresh=True)


def _read_all(bodies: list[bytes], reader: Any) -> None:
    for each in bodies:
        read(each, NOW, reader)


def _log_line(hit: Mapping[str, Any]) -> str:
    said = f'"{hit.get("ref", "-")}" "{hit.get("ua", "-")}"'
    return f'{hit["ip"]} - - [01/Jan/2026:11:50:00 +0000] "GET /{hit["key"]} HTTP/1.1" 302 0 {said}\n'


def _read_alone(log: Any, text: str, sums: Any) -> None:
    for line in text.split("\n"):
        sums.lines += 1
        log._read_odd(sums.lines, line, sums)


def _log_reader() -> AccessLog:
    reader = AccessLog(lambda agent: "bot" in agent)
    reader.use(("ip", "ref", "ua", "source"))
    return reader


def _of_rows(options: Options) -> Iterator[Measure]:
    """What a flush does with a row that is no candidate, and with an hour of values; a link of 16 owners, asked."""
    many, day = options.of(1_000), fold_day(NOW)
    rows = [row_of(moments(100)(number, NOW), day=day) for number in range(20)]
    days = {row.last // DAY_S for row in rows if row.last is not None}
    cutoffs = Cutoffs().raised(days, [(1_000_000, "")] * len(DAYS), day)
    stands, slow = "clickcurve.buckets.candidates.Cutoffs.bounds_if_candidate", _candidate_by_all_bounds
    call = lambda made: [made.bounds_if_candidate("k", row, CLICKS) for row in islice(cycle(rows), many)]  # noqa: E731
    yield Measure("rows that are no candidates", ready(cutoffs), call, "us a row", many, slow=(stands, slow))
    chance = random.Random(4)
    said = {name: list(values(name, 15, chance)) for name in _SAID}
    hour, more = ({name: Counter(said[name][part]) for name in _SAID} for part in (slice(12), slice(12, None)))
    piece = hour_bytes({name: landing(counts) for name, counts in hour.items()})
    add_hits = lambda piece: [hour_with(piece, more, 300) for _ in range(many)]  # noqa: E731
    few = ("clickcurve.buckets.breakdowns.pieces._few_values_with", lambda *_: None)
    yield Measure(f"an hour of {len(_SAID)} dimensions", ready(piece), add_hits, "us an hour", many, slow=few)
    stored_rows = [StoredRow(owner, encode(row)) for owner, row in enumerate(rows[:OWNERS], 1)]
    later = [StoredRow(1, encode(add(rows[0], Delta({NOW - NOW % 60: 1}, {}), CLICKS))), *stored_rows[1:]]
    links = [StoredLink(0, tuple(each)) for each in (stored_rows, later)]
    ask = lambda kept: [kept.stored("k", link, NOW, CLICKS, 0, True) for link in islice(cycle(links), many)]  # noqa: E731
    anew = ("query.reader.merge_again", lambda whole, rows, changes: merge(rows, CLICKS))
    yield Measure(f"a link of {OWNERS} owners", MergedLinks, ask, "us a question", many, slow=anew)


def _bounds_anew(bounds: Any, before: Any, after: Row, delta: Any, ladder: Any) -> Any:
    return upper_bounds_of(after, ladder)


def _candidate_by_all_bounds(cutoffs: Any, key: str, row: Row, ladder: Any) -> Any:
    bounds = upper_bounds_of(row, ladder)
    return bounds if cutoffs.passed_by(bounds, key) else None


def _of_queries(options: Options) -> Iterator[Measure]:
    asked = options.of(300)
    every_tenth = [*steady(1_000, 4 * 366, CURVES_NOW).items()][::10]
    data = encode(row_of(dict(every_tenth), day=fold_day(CURVES_NOW)))

    async def rows(key: str) -> StoredLink:
        return StoredLink(0, (StoredRow(1, data),))

    make = partial(queries_over, rows, MemoryStore(CLICKS), CURVES_NOW)
    for what, query in (("24 h", b"last=24h"), ("30 d", b"last=30d")):
        call, anew = partial(_ask_curves, asked, query), ("query.curve._CACHED_POINTS", 0)
        yield Measure(f"kept grids, curve of {what}", make, call, "us", asked, slow=anew)
    parts = breakdown.link(options.of(7_800), ("ref", "country"), seed=7_800)
    by_bucket = ("clickcurve.buckets.breakdowns.closed_part.ColumnTier", lambda *columns: dict(ColumnTier(*columns)))
    for what, since in (("life", 0), ("30 d", (breakdown.DAY - 30) * DAY_S)):
        call = partial(_answer_values, asked, since)
        yield Measure(f"columns of breakdowns, by ref, {what}", ready(parts), call, "us", asked, slow=by_bucket)


def _ask_curves(asked: int, query: bytes, made: Any) -> None:
    async def ask() -> None:
        for _ in range(asked):
            await made.curve(link_subject("k"), query)

    asyncio.run(ask())


def _answer_values(asked: int, since: int, parts: Any) -> None:
    for _ in range(asked):
        row = decode_parts(parts, {"ref"})
        breakdown_total(row, "ref", since, breakdown.NOW + 1, BREAKDOWN)
