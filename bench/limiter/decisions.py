"""Measures the limiter's decisions a second next to three libraries', in process and on servers started for it.

One thread, 10,000 keys; each group has the same guarantee. In each round all of a group have their turn, and so has the
bare operation that they are held against.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from time import perf_counter, process_time

import redis
from pymemcache.client.base import Client

from bench.command import Options
from bench.limiter.contenders import GROUPS, OURS, Hit, Place, Rates, contenders, place_of
from bench.measure import Line, in_turn, rate, spread
from clickcurve.buckets.ladder import DAY_S

KEYS = 10_000
# No hit of a run is refused: what a decision costs that admits.
CASES: Mapping[str, Rates] = {
    "100/d": [(100, DAY_S)],
    "70,000/d": [(70_000, DAY_S)],
    "4 limits, 100/d": [(70, 1), (80, 60), (90, 3_600), (100, DAY_S)],
    "4 limits, 70,000/d": [(5_000, 1), (20_000, 60), (50_000, 3_600), (70_000, DAY_S)],
}
AT_ONCE = 100


def bare(place: Place, keys: Sequence[str]) -> tuple[str, Hit]:
    """What any limiter there must do at least: its name, and the operation."""
    if place.name == "memory":
        counts: dict[str, int] = {}

        def increment(key: str) -> bool:
            counts[key] = counts.get(key, 0) + 1
            return True

        return "a dict increment", increment
    if place.name == "redis":
        client = redis.Redis.from_url(f"redis://{place.address}")
        place.closing.callback(client.close)
        return "INCRBY by redis-py", lambda key: bool(client.incrby("bare:" + key, 1))
    host, port = place.address.split(":")
    other = Client((host, int(port)))
    place.closing.callback(other.close)
    for key in keys:
        other.set(f"bare:{key}", "0", noreply=False)
    return "incr by pymemcache", lambda key: other.incr("bare:" + key, 1) is not None


def per_s(hit: Hit, keys: Iterator[str], seconds: float, timer: Callable[[], float]) -> float:
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


def decisions(name: str, options: Options) -> Iterator[Line]:
    """In process by the processor's time, of which others on the machine take nothing; on servers by the clock.

    Every key has been seen before. A turn takes a twentieth of `--seconds`.
    """
    timer = process_time if name == "memory" else perf_counter
    some = options.of(KEYS)
    keys = list(map(str, random.Random(1).sample(range(some), some)))
    for guarantee in GROUPS:
        for case, rates in CASES.items():
            with place_of(name) as place:
                what, operation = bare(place, keys)
                hits = {library: make(place, rates) for library, make in contenders(place, guarantee).items()}
                hits[what] = operation
                for hit in hits.values():
                    if not all([hit(key) for key in keys]):  # noqa: C419  each is hit
                        raise RuntimeError("a first hit was refused")
                gc.collect()
                turns = [partial(per_s, hit, cycle(keys), options.seconds / 20, timer) for hit in hits.values()]
                figures = dict(zip(hits, in_turn(options.rounds, *turns), strict=True))
                yield _line(f"{name}, {guarantee}, {case}", figures, what)


def _line(what: str, figures: Mapping[str, Sequence[float]], operation: str) -> Line:
    """Returns Clickcurve's figure, what part that is of the bare operation, and the figures of the others."""
    medians = {library: median(rates) for library, rates in figures.items()}
    mine, least = medians.pop(OURS), medians.pop(operation)
    compared = [f"1/{least / mine:.1f} of {operation}, rounds within {spread(figures[OURS])}"]
    compared += [f"{library} {figure:,.0f}" for library, figure in medians.items()]
    ahead = f"{mine / max(medians.values()):.2f} times the best of these" if medians else ""
    return Line(what, rate(mine), "; ".join(compared), ahead)
