"""What the limiters keep for one key, in bytes: of Python's memory, or as a server says it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from time import time

import redis
from pymemcache.client.base import Client

from bench.command import Options
from bench.limiter.contenders import GROUPS, OURS, Place, Rates, contenders, limiter_at, place_of
from bench.measure import Line
from clickcurve.buckets.ladder import DAY_S

# How many keys, and how many hits of each: all that its limit allows.
CASES: Mapping[str, tuple[int, Rates]] = {"100/d": (200, [(100, DAY_S)]), "70,000/d": (1, [(70_000, DAY_S)])}
STRATEGIES = {"fixed window": "fixed", "exact sliding window": "tiered", "token bucket": "token_bucket"}


def bytes_per_key(options: Options) -> Iterator[Line]:
    """What the callers of each library take who have used their limit up."""
    for name in ("memory", "redis", "memcached"):
        for guarantee in GROUPS:
            for case, (keys, rates) in CASES.items():
                if case != "100/d" and (name != "memory" or guarantee != "exact sliding window"):
                    continue  # of the others it does not depend on the limit, and over a network it takes long
                with place_of(name) as place:
                    libraries = contenders(place, guarantee)
                    sizes = {
                        library: _per_key(place, guarantee, library, options.of(keys), rates) for library in libraries
                    }
                compared = "; ".join(f"{library} {size:,.0f}" for library, size in sizes.items() if library != OURS)
                yield Line(f"{name}, {guarantee}, {case} used up", f"{sizes[OURS]:,.0f} B a key", compared)


def _per_key(place: Place, guarantee: str, library: str, keys: int, rates: Rates) -> float:
    fill = _filling(place, guarantee, library, rates)
    fill("first")  # scripts, pools and tables that are not a key's
    before = _used(place)
    if place.name == "memory":
        tracemalloc.start()
    for n in range(keys):
        fill(f"key{n}")
    if place.name == "memory":
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size / keys
    return (_used(place) - before) / keys


def _filling(place: Place, guarantee: str, library: str, rates: Rates) -> Callable[[str], None]:
    limit = rates[-1][0]
    if library == OURS:
        # Spread over the day, which takes the most buckets. The others keep as much in any case.
        hit = limiter_at(place, rates, STRATEGIES[guarantee]).hit
        midnight = int(time()) // DAY_S * DAY_S

        def spread(key: str) -> None:
            for n in range(limit):
                hit("e", {"ip": key}, now=midnight + n * DAY_S / limit)

        return spread
    other = contenders(place, guarantee)[library](place, rates)

    def at_once(key: str) -> None:
        for _ in range(limit):
            other(key)

    return at_once


def _used(place: Place) -> int:
    if place.name == "redis":
        with redis.Redis.from_url(f"redis://{place.address}") as client:
            return sum(client.memory_usage(name, samples=0) for name in client.scan_iter(count=1_000))
    if place.name == "memcached":
        host, port = place.address.split(":")
        client = Client((host, int(port)))
        used = client.stats()[b"bytes"]
        client.close()
        return int(used)
    return 0
