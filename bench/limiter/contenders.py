"""The limiters that are measured side by side: Clickcurve's, and three libraries, each set up as its manual says.

Grouped by what they guarantee; what admits up to twice the limit in a sliding window is not measured as one. Each makes
of a place (where it keeps its counts) and a list of rates a function that decides one hit of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import time, time_ns
from typing import Any, TypeAlias

import limits
import pyrate_limiter
import redis
import throttled
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, RateLimiter
from throttled.rate_limiter import per_duration

from clickcurve.limiter.backend import Backend
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
    """Where counts are kept: `memory`, `redis` or `memcached`, and the address of the last two."""

    name: str
    address: str = ""
    closing: ExitStack = field(default_factory=ExitStack)  # of what is made there


@contextmanager
def place_of(name: str) -> Iterator[Place]:
    """Yields memory, or a server of this kind on a free port."""
    with ExitStack() as closing:
        address = ""
        if name != "memory":
            address = closing.enter_context((redis_server if name == "redis" else memcached_server)()).address
        yield Place(name, address, closing)


Make: TypeAlias = Callable[[Place, Rates], Hit]


# --- Clickcurve -------------------------------------------------------------------------------------------------------
def limiter_at(place: Place, rates: Rates, strategy: str) -> Limiter:
    """Returns a limiter with one rule of these rates."""
    backend: Backend
    if place.name == "memory":
        backend = MemoryBackend()
    elif place.name == "redis":
        backend = RedisBackend(f"redis://{place.address}", timeout_s=PATIENCE_S)
    else:
        backend = MemcachedBackend([place.address], timeout_s=PATIENCE_S)
    place.closing.callback(backend.close)
    texts = ", ".join(f"{limit}/{window_s}s" for limit, window_s in rates)
    rule = {"by": "ip", "rates": texts, "strategy": strategy, "backend": place.name}
    return Limiter(parse_rules({"e": [rule]}), backends={place.name: backend}, clock=time)


def ours(strategy: str) -> Make:
    def make(place: Place, rates: Rates) -> Hit:
        hit = limiter_at(place, rates, strategy).hit
        return lambda key: hit("e", {"ip": key}).allowed

    return make


# --- limits -----------------------------------------------------------------------------------------------------------
def of_limits(strategy: type[RateLimiter]) -> Make:
    def make(place: Place, rates: Rates) -> Hit:
        storage = MemoryStorage() if place.name == "memory" else storage_from_string(f"{place.name}://{place.address}")
        hit = strategy(storage).hit
        items = [limits.RateLimitItemPerSecond(limit, window_s) for limit, window_s in rates]
        if len(items) == 1:
            return lambda key: hit(items[0], key)
        return lambda key: all([hit(item, key) for item in items])  # noqa: C419  a hit is charged to each

    return make


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


def of_pyrate(kind: str) -> Make:
    def make(place: Place, rates: Rates) -> Hit:
        several = [pyrate_limiter.Rate(limit, window_s * 1_000) for limit, window_s in rates]
        client: Any = None
        if place.name == "redis":
            client = redis.Redis.from_url(f"redis://{place.address}")
            place.closing.callback(client.close)
        script = ""

        def bucket(key: str) -> pyrate_limiter.AbstractBucket:
            nonlocal script
            if kind == "bucket":
                store = None if client is None else pyrate_limiter.RedisStateStore(client, "bucket:" + key)
                return pyrate_limiter.StateBucket(several, pyrate_limiter.TokenBucket(), store)
            algorithm = pyrate_limiter.FixedWindow() if kind == "fixed" else None
            if client is None:
                return pyrate_limiter.InMemoryBucket(several, algorithm)
            # Loaded once; its own way loads it again for each key.
            script = script or client.script_load(pyrate_limiter.buckets.redis_bucket.LuaScript.PUT_ITEM)
            return pyrate_limiter.RedisBucket(several, client, f"{kind}:{key}", script, algorithm)

        acquire = pyrate_limiter.Limiter(Buckets(bucket), buffer_ms=0).try_acquire
        return lambda key: bool(acquire(key, blocking=False))

    return make


# --- throttled-py -----------------------------------------------------------------------------------------------------
def of_throttled(using: Any) -> Make:
    def make(place: Place, rates: Rates) -> Hit:
        store: Any = throttled.MemoryStore(options={"MAX_SIZE": 1_000_000})
        if place.name == "redis":
            store = throttled.RedisStore(server=f"redis://{place.address}/0")
        all_of = [
            throttled.Throttled(
                using=using,
                quota=per_duration(timedelta(seconds=window_s), limit),
                store=store,
                key_prefix=f"throttled{window_s}",
            ).limit
            for limit, window_s in rates
        ]
        if len(all_of) == 1:
            return lambda key: not all_of[0](key).limited
        return lambda key: not any([limit(key).limited for limit in all_of])  # noqa: C419  a hit is charged to each

    return make


# --- which are measured together --------------------------------------------------------------------------------------
OURS = "Clickcurve"
GROUPS: Mapping[str, Mapping[str, Make]] = {
    "fixed window": {
        OURS: ours("fixed"),
        "limits": of_limits(FixedWindowRateLimiter),
        "throttled-py": of_throttled("fixed_window"),
        "PyrateLimiter": of_pyrate("fixed"),
    },
    "exact sliding window": {
        OURS: ours("tiered"),
        "limits": of_limits(MovingWindowRateLimiter),
        "PyrateLimiter": of_pyrate("sliding"),
    },
    "token bucket": {
        OURS: ours("token_bucket"),
        "throttled-py": of_throttled("token_bucket"),
        "throttled-py GCRA": of_throttled("gcra"),
        "PyrateLimiter": of_pyrate("bucket"),
    },
}


def contenders(place: Place, guarantee: str) -> Mapping[str, Make]:
    """Those that keep this guarantee there."""
    found = GROUPS[guarantee]
    if place.name != "memcached":
        return found
    # The others have no memcached at all, and limits has only its windows of the clock there.
    return {name: found[name] for name in ((OURS, "limits") if guarantee == "fixed window" else (OURS,))}
