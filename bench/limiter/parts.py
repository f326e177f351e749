"""Measure the limiter, part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.limiter import bytes_per_key
from bench.limiter.decisions import decisions, place_of
from bench.measure import Line

PARTS: Mapping[str, Callable[[int, float], list[Line]]] = {
    "memory": lambda rounds, seconds: decisions("memory", rounds, seconds),
    "redis": lambda rounds, seconds: decisions("redis", rounds, seconds),
    "memcached": lambda rounds, seconds: decisions("memcached", rounds, seconds),
    "bytes": lambda *_: bytes_per_key.measure(place_of),
}


def measure(rounds: int, seconds: float, parts: Sequence[str] = tuple(PARTS)) -> list[Line]:
    lines: list[Line] = []
    for part in parts:
        print(f"measuring limiter {part} ...", flush=True)
        lines += PARTS[part](rounds, seconds)
    return lines
