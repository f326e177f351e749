"""Measures the limiter next to three libraries: `make bench ARGS=limiter`, or parts by their own names:

python -m bench.limiter memory redis memcached bytes --rounds 9

`memory`, `redis`, `memcached`: decisions a second, in process and on servers started for it. One thread, 10,000 keys;
each group has the same guarantee. In each round all of a group have their turn, and so has the bare operation that they
are held against. `bytes`: what the callers of each library take who have used their limit up.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from time import perf_counter, process_time, time

from bench.command import Options, Part, run
from bench.limiter.contenders import OURS, STRATEGIES, Hit, Make, Place, Rates, contenders, limiter_at, place_of
from bench.measure import Line, in_turn, rate, spread
from clickcurve.buckets.ladder import DAY_S

KEYS, AT_ONCE = 10_000, 100
# No hit of a run is refused: what a decision costs that admits.
CASES: Mapping[str, Rates] = {
    "100/d": [(100, DAY_S)],
    "70,000/d": [(70_000, DAY_S)],
    "4 limits, 100/d": [(70, 1), (80, 60), (90, 3_600), (100, DAY_S)],
    "4 limits, 70,000/d": [(5_000, 1), (20_000, 60), (50_000, 3_600), (70_000, DAY_S)],
}


def decisions(name: str, options: Options) -> Iterator[Line]:
    """In process by the processor's time, of which others on the machine take nothing; on servers by the clock.

    Every key has been seen before. A turn takes a twentieth of `--seconds`.
    """
    timer = process_time if name == "memory" else perf_counter
    some = options.of(KEYS)
    keys = list(map(str, random.Random(1).sample(range(some), some)))
    for guarantee in STRATEGIES:
        for case, rates in CASES.items():
            with place_of(name) as place:
                what, operation = _bare(place, keys)
                hits = {library: make(place, rates) for library, make in contenders(place, guarantee).items()}
                hits[what] = operation
                for hit in hits.values():
                    if not all([hit(key) for key in keys]):  # noqa: C419  each is hit
                        raise RuntimeError("a first hit was refused")
                gc.collect()
                turns = [partial(_per_s, hit, cycle(keys), options.seconds / 20, timer) for hit in hits.values()]
                figures = dict(zip(hits, in_turn(options.rounds, *turns), strict=True))
                yield _line(f"{name}, {guarantee}, {case}", figures, what)


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


def _per_s(hit: Hit, keys: Iterator[str], seconds: float, timer: Callable[[], float]) -> float:
    """Decisions a second. None of them may be refused: that is another measurement."""
    decided = refused = 0
    begun = now = timer()
    while now < begun + seconds:
        refused += [hit(next(keys)) for _ in range(AT_ONCE)].count(False)
        decided += AT_ONCE
        now = timer()
    if refused:
        raise RuntimeError(f"{refused} hits were refused that were to be admitted")
    return decided / (now - begun)


def _line(what: str, figures: Mapping[str, Sequence[float]], operation: str) -> Line:
    """Returns Clickcurve's figure, what part that is of the bare operation, and the figures of the others."""
    medians = {library: median(rates) for library, rates in figures.items()}
    mine, least = medians.pop(OURS), medians.pop(operation)
    compared = [f"1/{least / mine:.1f} of {operation}, rounds within {spread(figures[OURS])}"]
    compared += [f"{library} {figure:,.0f}" for library, figure in medians.items()]
    ahead = f"{mine / max(medians.values()):.2f} times the best of these" if medians else ""
    return Line(what, rate(mine), "; ".join(compared), ahead)


def bytes_per_key(options: Options) -> Iterator[Line]:
    """Of Python's memory, or as a server says it; 200 keys, of the largest limit one."""
    for name in ("memory", "redis", "memcached"):
        for guarantee in STRATEGIES:
            cases = {"100/d": 200, "70,000/d": 1}
            if (name, guarantee) != ("memory", "exact sliding window"):
                del cases["70,000/d"]  # it does not depend on the limit, and over a network it takes long
            for case, keys in cases.items():
                with place_of(name) as place:
                    sizes = {
                        library: _per_key(place, CASES[case], guarantee, library, make, options.of(keys))
                        for library, make in contenders(place, guarantee).items()
                    }
                mine = sizes.pop(OURS)
                compared = "; ".join(f"{library} {size:,.0f}" for library, size in sizes.items())
                yield Line(f"{name}, {guarantee}, {case} used up", f"{mine:,.0f} B a key", compared)


def _per_key(place: Place, rates: Rates, guarantee: str, library: str, make: Make, keys: int) -> float:
    limit, midnight = rates[-1][0], int(time()) // DAY_S * DAY_S
    fill: Callable[[str], object]
    if library == OURS:
        # Spread over the day, which takes the most buckets. The others keep as much in any case.
        ours = limiter_at(place, rates, STRATEGIES[guarantee])
        moments = [midnight + n * DAY_S / limit for n in range(limit)]
        fill = lambda key: [ours.hit("e", {"ip": key}, now=now) for now in moments]  # noqa: E731
    else:
        hit = make(place, rates)
        fill = lambda key: [hit(key) for _ in range(limit)]  # noqa: E731
    fill("first")  # scripts, pools and tables that are not a key's
    if place.client is None:
        tracemalloc.start()
    before = _used(place)
    for n in range(keys):
        fill(f"key{n}")
    gc.collect()
    size = _used(place) - before
    tracemalloc.stop()
    return size / keys


def _used(place: Place) -> int:
    if place.name == "redis":
        return sum(place.client.memory_usage(name, samples=0) for name in place.client.scan_iter(count=1_000))
    return int(place.client.stats()[b"bytes"]) if place.client else tracemalloc.get_traced_memory()[0]


PARTS: dict[str, Part] = {
    "memory": partial(decisions, "memory"),
    "redis": partial(decisions, "redis"),
    "memcached": partial(decisions, "memcached"),
    "bytes": bytes_per_key,
}

if __name__ == "__main__":
    run(__doc__, PARTS)
