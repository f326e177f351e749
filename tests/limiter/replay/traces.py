"""Adversarial traces: hits where limiters go wrong. Reproducible by their seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

SECOND_US = 1_000_000
START_US = 1_709_164_800 * SECOND_US
WINDOWS_S = (1, 2, 5, 10, 60, 120, 300, 3_600, 7_200, 86_400)


def rates_of(random: Random, edge_s: int = 1, most: int = 4) -> list[tuple[int, int]]:
    """Up to four rates that can all refuse something: (limit, window_s), shortest window first."""
    windows = [each for each in WINDOWS_S if each % edge_s == 0]
    windows = sorted(random.sample(windows, random.randint(1, min(most, len(windows)))))
    return list(zip(sorted(random.sample(range(1, 40), len(windows))), windows, strict=True))


def text_of(rates: list[tuple[int, int]]) -> str:
    return ", ".join(f"{limit}/{window_s}s" for limit, window_s in rates)


def steps(random: Random, many: int, windows_s: list[int]) -> Iterator[tuple[int, int]]:
    """So many (epoch microsecond, cost): bursts, the edges of seconds, minutes, hours and of the windows with a
    microsecond on either side, whole windows later, pauses, and clocks that step back a little or, rarely, far."""
    at_us = START_US
    edges_us = [each * SECOND_US for each in {1, 60, 3_600, *windows_s}]
    draw = random.random
    for _ in range(many):
        kind = draw()
        if kind < 0.55:
            at_us += int(draw() * 4)
        elif kind < 0.70:
            at_us += int(draw() * 2 * SECOND_US)
        elif kind < 0.82:
            edge_us = edges_us[int(draw() * len(edges_us))]
            at_us += edge_us - at_us % edge_us + int(draw() * 3) - 1
        elif kind < 0.92:
            at_us += edges_us[int(draw() * len(edges_us))] + (int(draw() * 3) - 1) * (1 if draw() < 0.5 else SECOND_US)
        elif kind < 0.96:
            at_us += int(draw() * 40 * edges_us[0])
        elif kind < 0.9995:
            at_us -= int(draw() * 5 * SECOND_US)
        else:
            at_us -= int(draw() * 90_000 * SECOND_US)
        yield at_us, 1 if draw() < 0.7 else 1 + int(draw() * 4)
