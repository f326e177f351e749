"""Measures how the processor time of a parser grows with its input: at most in proportion, for every hostile family.

A family makes an input of a size. A parser reads inputs of n, 2n and 4n; what takes four times as long for four times
as much is linear, sixteen times is quadratic. A law shows in both doublings; where the memory that is asked for comes
in other pieces from some size on (of 128 KiB, say), there is a step in one of them: so the lesser of them counts.

Each is measured by the processor time of this process, the least of several runs of some milliseconds each, so that a
busy machine changes little; a growth that seems too fast is measured again before it counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

MOST_GROWTH = 8.0  # of four times as much: as far from linear, 4, as from quadratic, 16
_LEAST_S = 0.001  # a run is repeated until it takes so long
_RUNS = 3
_TRIES = 6
_SLOWEST_S = 2.0  # what takes longer than this is not repeated

_Input = TypeVar("_Input")


class Growth(NamedTuple):
    """Processor seconds for inputs of n, 2n and 4n. factor: of four times as much, by the lesser of both doublings."""

    one_s: float
    two_s: float
    four_s: float

    @property
    def factor(self) -> float:
        return min(self.two_s / self.one_s, self.four_s / self.two_s) ** 2

    def __str__(self) -> str:
        times = " ".join(f"{seconds * 1000:.3f}" for seconds in self)
        return f"{times} ms, {self.factor:.1f} times as long for 4 times as much"


def measured(parse: Callable[[_Input], object], make: Callable[[int], _Input], n: int) -> Growth:
    """Returns how a parser's time grows with what a family makes, the least of a few tries."""
    inputs = [make(size) for size in (n, 2 * n, 4 * n)]
    best = [float("inf")] * 3
    for _ in range(_TRIES):
        # The same number of repeats for each size, so that what a call costs at all weighs alike.
        repeats = max(1, int(_LEAST_S / max(_once(parse, inputs[0], 1), 1e-7)))
        for at, each in enumerate(inputs):
            for _ in range(_RUNS):
                took = _once(parse, each, repeats) / repeats
                best[at] = min(best[at], took)
                if took * repeats > _SLOWEST_S:
                    break
        found = Growth(*best)
        if found.factor < MOST_GROWTH:
            break
    return found


def _once(parse: Callable[[_Input], object], value: _Input, repeats: int) -> float:
    begun = time.process_time()
    for _ in range(repeats):
        parse(value)
    return time.process_time() - begun
