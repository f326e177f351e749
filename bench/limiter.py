"""The limiter next to three libraries, each set up as its manual says: decisions a second, and bytes a caller.

Grouped by what they guarantee; what admits up to twice the limit in a sliding window is not measured as one. One
thread, 10,000 keys. In each round all of a group have their turn, and so has the bare operation that any must do.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import cycle
from time import perf_counter, process_time, time, time_ns
from typing import Any, TypeAlias

import limits
import pyrate_limiter
import redis
import throttled
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, RateLimiter
from pymemcache.client.base import Client
from throttled.rate_limiter import per_duration

from bench.command import Options
from bench.measure import Beside, Figures
from clickcurve.buckets.ladder import DAY_S
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.backends.redis import RedisBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from testing.backend_servers import memcached_server, redis_server

# (limit, seconds), shortest first.
Rates: TypeAlias = Sequence[tuple[int, int]]
# Is a hit of this key allowed?
Hit: TypeAlias = Callable[[str], bool]

# A machine that is busy is no server that is down.
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where counts are kept: `memory`, `redis` or `memcached`, and the address and a plain client of the last two."""

    name: str
    address: str = ""
    client: Any = None
    closing: ExitStack = field(default_factory=ExitStack)  # of what is made there
    moments: Iterator[float] | None = None  # of hits, as far as a library can be told; None: now


@contextmanager
def place_of(name: str) -> Iterator[Place]:
    """Yields memory, or a server of this kind on a free port."""
    with ExitStack() as closing:
        address, client = "", None
        if name != "memory":
            address = closing.enter_context((redis_server if name == "redis" else memcached_server)()).address
            client = redis.Redis.from_url(f"redis://{address}") if name == "redis" else Client(address)
            closing.callback(client.close)
        yield Place(name, address, client, closing)


Make: TypeAlias = Callable[[Place, Rates], Hit]


# --- Clickcurve -------------------------------------------------------------------------------------------------------
def limiter_at(place: Place, rates: Rates, strategy: str) -> Limiter:
    """Returns a limiter with one rule of these rates."""
    backends: Mapping[str, Callable[[], Any]] = {
        "memory": MemoryBackend,
        "redis": partial(RedisBackend, f"redis://{place.address}", timeout_s=PATIENCE_S),
        "memcached": partial(MemcachedBackend, [place.address], timeout_s=PATIENCE_S),
    }
    backend = backends[place.name]()
    place.closing.callback(backend.close)
    texts = ", ".join(f"{limit}/{window_s}s" for limit, window_s in rates)
    rule = {"by": "ip", "rates": texts, "strategy": strategy, "backend": place.name}
    return Limiter(parse_rules({"e": [rule]}), backends={place.name: backend}, clock=time)


def ours(strategy: str, place: Place, rates: Rates) -> Hit:
    hit, moments = limiter_at(place, rates, strategy).hit, place.moments
    if moments is not None:
        return lambda key: hit("e", {"ip": key}, now=next(moments)).allowed
    return lambda key: hit("e", {"ip": key}).allowed


# --- limits -----------------------------------------------------------------------------------------------------------
def of_limits(strategy: type[RateLimiter], place: Place, rates: Rates) -> Hit:
    hit = strategy(
        MemoryStorage() if place.client is None else storage_from_string(f"{place.name}://{place.address}")
    ).hit
    return _all_of([partial(hit, limits.RateLimitItemPerSecond(limit, window_s)) for limit, window_s in rates])


# --- PyrateLimiter ----------------------------------------------------------------------------------------------------
class Buckets(pyrate_limiter.BucketFactory):
    """A bucket for each key, as its manual has it."""

    def __init__(self, make: Callable[[str], pyrate_limiter.AbstractBucket]) -> None:
        self._make = make
        self._buckets: dict[str, pyrate_limiter.AbstractBucket] = {}

    def wrap_item(self, name: str, weight: int = 1) -> pyrate_limiter.RateItem:
        return pyrate_limiter.RateItem(name, time_ns() // 1_000_000, weight=weight)

    def get(self, item: pyrate_limiter.RateItem) -> pyrate_limiter.AbstractBucket:
        bucket = self._buckets.get(item.name)
        if bucket is None:
            bucket = self._buckets[item.name] = self._make(item.name)
        return bucket


def of_pyrate(kind: str, place: Place, rates: Rates) -> Hit:
    several = [pyrate_limiter.Rate(limit, window_s * 1_000) for limit, window_s in rates]
    client = place.client
    # Loaded once; its own way loads it again for each key.
    script = client.script_load(pyrate_limiter.buckets.redis_bucket.LuaScript.PUT_ITEM) if client else ""

    def bucket(key: str) -> pyrate_limiter.AbstractBucket:
        if kind == "bucket":
            store = pyrate_limiter.RedisStateStore(client, "bucket:" + key) if client else None
            return pyrate_limiter.StateBucket(several, pyrate_limiter.TokenBucket(), store)
        algorithm = pyrate_limiter.FixedWindow() if kind == "fixed" else None
        if client is None:
            return pyrate_limiter.InMemoryBucket(several, algorithm)
        return pyrate_limiter.RedisBucket(several, client, f"{kind}:{key}", script, algorithm)

    acquire = pyrate_limiter.Limiter(Buckets(bucket), buffer_ms=0).try_acquire
    return lambda key: bool(acquire(key, blocking=False))


# --- throttled-py -----------------------------------------------------------------------------------------------------
def of_throttled(using: Any, place: Place, rates: Rates) -> Hit:
    store: Any = throttled.MemoryStore(options={"MAX_SIZE": 1_000_000})
    if place.client is not None:
        store = throttled.RedisStore(server=f"redis://{place.address}/0")

    def one(limit: int, window_s: int) -> Hit:
        quota, prefix = per_duration(timedelta(seconds=window_s), limit), f"throttled{window_s}"
        decide = throttled.Throttled(using=using, quota=quota, store=store, key_prefix=prefix).limit
        return lambda key: not decide(key).limited

    return _all_of([one(limit, window_s) for limit, window_s in rates])


def _all_of(hits: Sequence[Hit]) -> Hit:
    """Returns what charges a hit to each."""
    return hits[0] if len(hits) == 1 else lambda key: all([hit(key) for hit in hits])  # noqa: C419


# --- which are measured together --------------------------------------------------------------------------------------
OURS = "Clickcurve"
CONTENDERS: Mapping[str, Mapping[str, Make]] = {
    "fixed window": {
        OURS: partial(ours, "fixed"),
        "limits": partial(of_limits, FixedWindowRateLimiter),
        "throttled-py": partial(of_throttled, "fixed_window"),
        "PyrateLimiter": partial(of_pyrate, "fixed"),
    },
    "exact sliding window": {
        OURS: partial(ours, "tiered"),
        "limits": partial(of_limits, MovingWindowRateLimiter),
        "PyrateLimiter": partial(of_pyrate, "sliding"),
    },
    "token bucket": {
        OURS: partial(ours, "token_bucket"),
        "throttled-py": partial(of_throttled, "token_bucket"),
        "throttled-py GCRA": partial(of_throttled, "gcra"),
        "PyrateLimiter": partial(of_pyrate, "bucket"),
    },
}


def contenders(place: Place, guarantee: str) -> Mapping[str, Make]:
    """Those that keep this guarantee there, ours first."""
    if place.name != "memcached":
        return CONTENDERS[guarantee]
    # The others have no memcached at all, and limits has only its windows of the clock there.
    there = (OURS, "limits") if guarantee == "fixed window" else (OURS,)
    return {library: CONTENDERS[guarantee][library] for library in there}


# --- decisions a second -----------------------------------------------------------------------------------------------
KEYS, AT_ONCE = 10_000, 100
# No hit of a run is refused: what a decision costs that admits.
CASES: Mapping[str, Rates] = {
    "100/d": [(100, DAY_S)],
    "70,000/d": [(70_000, DAY_S)],
    "4 limits, 100/d": [(70, 1), (80, 60), (90, 3_600), (100, DAY_S)],
    "4 limits, 70,000/d": [(5_000, 1), (20_000, 60), (50_000, 3_600), (70_000, DAY_S)],
}


def decisions(name: str, options: Options) -> Iterator[Beside]:
    """In process by the processor's time, of which others on the machine take nothing; on servers by the clock.

    Every key has been seen before. A turn takes a twentieth of `--seconds`.
    """
    timer = process_time if name == "memory" else perf_counter
    some = options.of(KEYS)
    keys = list(map(str, random.Random(1).sample(range(some), some)))
    for guarantee in CONTENDERS:
        for case, rates in CASES.items():
            with place_of(name) as place:
                what, operation = _bare(place, keys)
                hits = {library: make(place, rates) for library, make in contenders(place, guarantee).items()}
                hits[what] = operation
                for hit in hits.values():
                    if not all([hit(key) for key in keys]):  # noqa: C419  each is hit
                        raise RuntimeError("a first hit was refused")
                gc.collect()
                for_s = options.seconds / 20
                turns = {library: partial(_decide, hit, cycle(keys), for_s, timer) for library, hit in hits.items()}
                yield Beside(f"{name}, {guarantee}, {case}", turns)


def _bare(place: Place, keys: Sequence[str]) -> tuple[str, Hit]:
    """What any limiter there must do at least: its name, and the operation."""
    if place.name == "memory":
        counts: dict[str, int] = {}

        def increment(key: str) -> bool:
            counts[key] = counts.get(key, 0) + 1
            return True

        return "a dict increment", increment
    if place.name == "redis":
        return "INCRBY by redis-py", lambda key: bool(place.client.incrby("bare:" + key, 1))
    place.client.set_many({f"bare:{key}": "0" for key in keys}, noreply=False)
    return "incr by pymemcache", lambda key: place.client.incr("bare:" + key, 1) is not None


def _decide(hit: Hit, keys: Iterator[str], seconds: float, timer: Callable[[], float]) -> Figures:
    """Decisions a second. None of them may be refused: that is another measurement."""
    decided = refused = 0
    begun = now = timer()
    while now < begun + seconds:
        refused += [hit(next(keys)) for _ in range(AT_ONCE)].count(False)
        decided += AT_ONCE
        now = timer()
    if refused:
        raise RuntimeError(f"{refused} hits were refused that were to be admitted")
    return {"{} /s": decided / (now - begun)}


# --- bytes a caller ---------------------------------------------------------------------------------------------------
def bytes_per_key(options: Options) -> Iterator[Beside]:
    """Of Python's memory, or as a server says it; 200 keys, of the largest limit one."""
    for name in ("memory", "redis", "memcached"):
        for guarantee in CONTENDERS:
            cases = {"100/d": 200, "70,000/d": 1}
            if (name, guarantee) != ("memory", "exact sliding window"):
                del cases["70,000/d"]  # it does not depend on the limit, and over a network it takes long
            for case, keys in cases.items():
                with place_of(name) as place:
                    turns = {
                        library: partial(_per_key, place, CASES[case], make, options.of(keys))
                        for library, make in contenders(place, guarantee).items()
                    }
                    yield Beside(f"{name}, {guarantee}, {case} used up", turns, rounds=1)


def _per_key(place: Place, rates: Rates, make: Make, keys: int) -> Figures:
    """Has callers use their limit up. Hits of Clickcurve are spread over the day, which takes the most buckets.

    The others keep as much in any case.
    """
    limit, midnight = rates[-1][0], int(time()) // DAY_S * DAY_S
    moments = cycle([midnight + n * DAY_S / limit for n in range(limit)])
    hit = make(replace(place, moments=moments), rates)

    def use_up(key: str) -> None:
        for _ in range(limit):
            hit(key)

    use_up("first")  # scripts, pools and tables that are not a key's
    if place.client is None:
        tracemalloc.start()
    before = _used(place)
    for n in range(keys):
        use_up(f"key{n}")
    gc.collect()
    size = _used(place) - before
    tracemalloc.stop()
    return {"{} B a key": size / keys}


def _used(place: Place) -> int:
    if place.name == "redis":
        return sum(place.client.memory_usage(name, samples=0) for name in place.client.scan_iter(count=1_000))
    return int(place.client.stats()[b"bytes"]) if place.client else tracemalloc.get_traced_memory()[0]
