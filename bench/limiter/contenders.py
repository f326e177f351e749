"""The limiters that are measured side by side: Clickcurve's, and three libraries, each set up as its manual says.

Grouped by what they guarantee; what admits up to twice the limit in a sliding window is not measured as one. Each makes
of a place (where it keeps its counts) and a list of rates a function that decides one hit of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import time, time_ns
from typing import Any, TypeAlias

import limits
import pyrate_limiter
import redis
import throttled
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, RateLimiter
from pymemcache.client.base import Client
from throttled.rate_limiter import per_duration

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
    hit = limiter_at(place, rates, strategy).hit
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
STRATEGIES = {"fixed window": "fixed", "exact sliding window": "tiered", "token bucket": "token_bucket"}
OTHERS: Mapping[str, Mapping[str, Make]] = {
    "fixed window": {
        "limits": partial(of_limits, FixedWindowRateLimiter),
        "throttled-py": partial(of_throttled, "fixed_window"),
        "PyrateLimiter": partial(of_pyrate, "fixed"),
    },
    "exact sliding window": {
        "limits": partial(of_limits, MovingWindowRateLimiter),
        "PyrateLimiter": partial(of_pyrate, "sliding"),
    },
    "token bucket": {
        "throttled-py": partial(of_throttled, "token_bucket"),
        "throttled-py GCRA": partial(of_throttled, "gcra"),
        "PyrateLimiter": partial(of_pyrate, "bucket"),
    },
}


def contenders(place: Place, guarantee: str) -> Mapping[str, Make]:
    """Those that keep this guarantee there, ours first."""
    others = OTHERS[guarantee]
    if place.name == "memcached":
        # The others have no memcached at all, and limits has only its windows of the clock there.
        others = {"limits": others["limits"]} if guarantee == "fixed window" else {}
    return {OURS: partial(ours, STRATEGIES[guarantee]), **others}
