"""Code that stands twice for speed: each fast path beside the slow way that it replaces, in turn.

docs/fast-paths.md has the list.

The slow way is put in its place by name, so both run in the same process, on the same objects, within milliseconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

from bench.limiter.contenders import Rates, limiter_at
from bench.limiter.decisions import place_of
from bench.measure import Line, shown
from bench.micro import breakdown, queries
from bench.micro.attributes import ALL, DIMENSIONS, NOW, reader_of
from bench.micro.growth import moments
from bench.micro.inside import begun_flush, owned_store, read
from bench.micro.reading import body
from bench.options import Options
from bench.visitors import Visitors
from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns import closed_part
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.columns import ColumnTier
from clickcurve.buckets.breakdowns.parts import decode_parts
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Question
from clickcurve.limiter.backends import redis
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.backends.meters import Meter, Tokens, Windows
from clickcurve.limiter.backends.redis_scripts import ScriptCodec
from clickcurve.limiter.backends.redis_socket import RedisSocket
from clickcurve.limiter.blocking import blocking
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule
from ingest.attributes.memo import Memo
from ingest.buffer import Buffer
from ingest.flush import Flush
from ingest.reading import body as reading
from ingest.reading import request_sums
from ingest.reading.body import Media
from query import curve
from storage.memory_store import MemoryStore

LEAST = 1.1  # a fast path wins so much where a user sees it, or it goes
ONE, FOUR = [(70_000, DAY_S)], [(5_000, 1), (20_000, 60), (50_000, 3_600), (70_000, DAY_S)]
AT_ONCE = 2_000  # decisions


@dataclass(frozen=True, slots=True)
class Pair:
    """A call, and what makes it slow: an attribute of something, and what stands there instead.

    apart: each way has something of its own, made in its own way. fresh: each call has something newly made.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any], object]
    unit: str
    per: float
    replaced: tuple[Any, str, Any]
    timer: Callable[[], float] = process_time
    fresh: bool = False
    apart: bool = False

    def line(self, rounds: int) -> Line:
        """Measures both ways in turn, five pairs at least for a round."""
        ways: list[Callable[[], AbstractContextManager[Any]]] = [nullcontext, lambda: patch.object(*self.replaced)]
        made, took = list[Any](), [list[float](), list[float]()]
        for way in ways:
            with way():
                made.append(self.make() if self.apart or self.fresh or not made else made[0])
                self.call(made[-1])
        for _ in range(5 * rounds):
            for number, way in enumerate(ways):
                with way():
                    what = self.make() if self.fresh else made[number]
                    begun = self.timer()
                    self.call(what)
                    took[number].append((self.timer() - begun) / self.per * 1e6)
        times = sorted(slow / fast for fast, slow in zip(*took, strict=True))
        middle = times[len(times) // 4 : len(times) - len(times) // 4]
        compared = f"slow way {shown(median(took[1]))} {self.unit}, {median(times):.2f} times"
        spread = f"middle half of {len(times)} pairs {middle[0]:.2f} to {middle[-1]:.2f}"
        return Line(
            self.name, f"{shown(median(took[0]))} {self.unit}", f"{compared}, {spread}", f">= {LEAST:.2f} times"
        )


def fast_paths(options: Options) -> Iterator[Line]:
    """Those of one process: the limiter in memory, readings of hits, flushes, queries."""
    for pair in (*_in_memory(options), *_of_hits(options), *_of_queries(options)):
        yield pair.line(options.rounds)


def fast_paths_remote(options: Options) -> Iterator[Line]:
    """Those of the limiter's clients of Redis and memcached, on servers that are started; by the wall."""
    remote: Mapping[str, tuple[str, tuple[Any, str, Any]]] = {
        "encode_question": ("redis", (ScriptCodec, "encode_question", _encoded_as_any)),
        "RedisSocket": ("redis", (redis, "RedisSocket", _LibraryConnection)),
        "_take_seen": ("memcached", (MemcachedBackend, "_take_seen", lambda *_: None)),
    }
    for name, (place_name, replaced) in remote.items():
        for strategy in ("fixed", "tiered", "token_bucket"):
            with place_of(place_name) as place:
                decide = _decisions(options.of(AT_ONCE))
                make = partial(limiter_at, place, ONE, strategy)
                what = f"{name}, {strategy}, {place_name}"
                unit, per = "us a decision", options.of(AT_ONCE)
                apart = name == "RedisSocket"  # of which a connection is one for good
                yield Pair(what, make, decide, unit, per, replaced, perf_counter, apart=apart).line(options.rounds)
                place.close()


# --- the limiter ------------------------------------------------------------------------------------------------------
def _in_memory(options: Options) -> Iterator[Pair]:
    paths: tuple[tuple[str, str, Rates, tuple[Any, str, Any]], ...] = (
        ("Windows.hit", "fixed", ONE, (Windows, "hit", _weighed_and_charged)),
        ("Tokens.hit", "token_bucket", ONE, (Tokens, "hit", _weighed_and_charged)),
        ("Tokens.hit, four rates", "token_bucket", FOUR, (Tokens, "hit", _weighed_and_charged)),
        ("MemoryBackend.decide", "fixed", ONE, (MemoryBackend, "decide", _decided_as_any)),
        ("MemoryBackend.decide", "tiered", ONE, (MemoryBackend, "decide", _decided_as_any)),
        ("Limiter.hit", "fixed", ONE, (Limiter, "hit", blocking(AsyncLimiter.hit))),
        ("Limiter.hit", "tiered", ONE, (Limiter, "hit", blocking(AsyncLimiter.hit))),
    )
    for name, strategy, rates, replaced in paths:
        with place_of("memory") as place:
            make, many = partial(limiter_at, place, rates, strategy), options.of(AT_ONCE)
            yield Pair(f"{name}, {strategy}", make, _decisions(many), "us a decision", many, replaced)


def _decisions(many: int) -> Callable[[Limiter], None]:
    keys = [{"ip": str(number)} for number in range(1_000)]

    def decide(limiter: Limiter) -> None:
        for features in islice(cycle(keys), many):
            limiter.hit("e", features)

    return decide


def _weighed_and_charged(meter: Meter, rule: Rule, at_us: int, cost: int, caller: str) -> Quota:
    quota = meter.weigh(rule, at_us, cost, True)
    if quota.fits:
        meter.charge(rule, at_us, cost, caller, False)
    return quota


def _decided_as_any(backend: MemoryBackend, question: Question) -> Any:
    with backend._lock:
        return backend._decide(question, question.at_us or 0)


def _encoded_as_any(codec: ScriptCodec, question: Question) -> bytes:
    return codec.encode_any(question, codec.plan(question.rules))


class _LibraryConnection(RedisSocket):
    """Asks in the library's own way."""

    def ask(self, sent: bytes) -> Any:
        self._connection.send_packed_command([sent], check_health=False)
        return self._connection.read_response(disable_decoding=True)


# --- hits and queries -------------------------------------------------------------------------------------------------
def _of_hits(options: Options) -> Iterator[Pair]:
    visitors, hits = Visitors(), options.of(1_000)
    bodies = visitors.bodies(20, hits, ALL, NOW)
    for name, apart, replaced in (
        ("columns of hits", False, (request_sums, "IN_COLUMNS", 10**9)),
        ("memos of texts", True, (Memo, "__missing__", lambda memo, key: memo._of(key))),
    ):
        reader = partial(reader_of, *DIMENSIONS)
        read_all = partial(_read_all, bodies)
        yield Pair(f"{name}, batches of {hits:,}", reader, read_all, "us a hit", 20 * hits, replaced, apart=apart)
    plain = [body("plain", Media.json, hits)] * 20
    json_hits = (reading, "WAYS", reading.WAYS[1:])
    yield Pair(
        f"plain hits, batches of {hits:,}", reader_of, partial(_read_all, plain), "us a hit", 20 * hits, json_hits
    )
    links = options.of(10_000)
    lazily = (codec, "decode_lazily", codec.decode)
    flush = _flushes(options, links)
    yield Pair(f"lazy rows, flush of {links:,} links", flush, Flush.write, "us a row", links, lazily, fresh=True)


def _read_all(bodies: list[bytes], reader: Any) -> None:
    for each in bodies:
        read(each, NOW, reader)


def _flushes(options: Options, links: int) -> Callable[[], Flush]:
    """Makes the next flush of rows with hits of 400 days, a hit each."""
    store, number, minutes = owned_store(options.folder / "lazy.db"), 0, moments(100)
    options.closing.callback(store.close)

    def make() -> Flush:
        nonlocal number
        number += 1
        buffer = Buffer(NOW - NOW % DAY_S)
        earlier = minutes(0, NOW) if number == 1 else ()
        for at in (*earlier, NOW - NOW % 60):
            some = [{"key": f"link{n}", "ts": at} for n in range(links)]
            buffer.add_batch(read(json.dumps(some).encode(), NOW), number, visible=True)
        return begun_flush(store, number, buffer, NOW)

    return make


def _of_queries(options: Options) -> Iterator[Pair]:
    asked = options.of(300)
    data = queries.row_data(queries.NOW, 10)
    make = lambda: queries.queries_over(queries.row_reader(data), MemoryStore(CLICKS), queries.NOW)  # noqa: E731
    for what, query in (("24 h", b"last=24h"), ("30 d", b"last=30d")):
        call = partial(_ask_curves, asked, query)
        yield Pair(f"kept grids, curve of {what}", make, call, "us", asked, (curve, "_CACHED_POINTS", 0), apart=True)
    parts, _ = breakdown.link(options.of(7_800), ("ref", "country"), seed=7_800)
    start = (breakdown.DAY - 30) * DAY_S
    for what, since in (("life", 0), ("30 d", start)):
        call = partial(_answer_values, asked, since)
        replaced = (closed_part, "ColumnTier", lambda *columns: dict(ColumnTier(*columns)))
        yield Pair(f"columns of breakdowns, by ref, {what}", lambda: parts, call, "us", asked, replaced)


def _ask_curves(asked: int, query: bytes, made: Any) -> None:
    async def ask() -> None:
        for _ in range(asked):
            await made.curve(queries.K, query)

    asyncio.run(ask())


def _answer_values(asked: int, since: int, parts: Any) -> None:
    for _ in range(asked):
        row = decode_parts(parts, {"ref"})
        breakdown_total(row, "ref", since, breakdown.NOW + 1, BREAKDOWN)
