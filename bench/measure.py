"""Measurements: a name, what to prepare, the call and the unit of its figure; rounds in turn; tables as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from time import process_time
from typing import Any, NamedTuple, Self, TypeVar
from unittest.mock import patch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. compared: how far the rounds lay apart, the ratio, or what the figure is compared with."""

    what: str
    figure: str
    compared: str = ""
    aim: str = ""


def render(lines: Sequence[Line]) -> str:
    """Returns the table as text, columns aligned."""
    rows = [("measured", "figure", "compared", "aim")]
    rows += [(line.what, line.figure, line.compared, line.aim) for line in lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([texts[0], "-" * len(max(texts, key=len)), *texts[1:]])


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns the table as Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def rate(per_s: float) -> str:
    return f"{per_s:,.0f} /s"


def shown(figure: float) -> str:
    """Returns the figure with three digits that count."""
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def spread(values: Sequence[float]) -> str:
    """Returns how far the rounds lay from their median, in percent."""
    middle = median(values)
    return f"{100 * max(abs(value - middle) for value in values) / middle:.0f} %" if middle else "-"


class Percentiles(NamedTuple):
    """Milliseconds that half of the requests took at most, and 99 of 100."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, took_ms: Sequence[float]) -> Self:
        cuts = quantiles(took_ms, n=100, method="inclusive") if len(took_ms) > 1 else [took_ms[0]] * 99
        return cls(cuts[49], cuts[98])

    @classmethod
    def middle(cls, runs: Iterable[Percentiles]) -> Self:
        """Returns the medians of several rounds."""
        return cls(*map(median, zip(*runs, strict=True)))

    def __str__(self) -> str:
        return f"p50 {self.p50_ms:.2f} p99 {self.p99_ms:.2f} ms"


def in_turn(rounds: int, *turns: Callable[[], T]) -> list[list[T]]:
    """Calls each in turn, so often; returns what each returned."""
    return [list(runs) for runs in zip(*([turn() for turn in turns] for _ in range(rounds)), strict=True)]


def times(of: Iterable[float], beside: Iterable[float]) -> float:
    """Returns the median of how many times a round's figure is that of the round beside it."""
    return median(mine / (other or 1) for mine, other in zip(of, beside, strict=True))


UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
LEAST_S = 0.0005  # of processor time that a round takes: the clock does not matter then
LEAST_TIMES = 1.1  # a fast path wins so much where a user sees it, or it goes


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a table.

    `call` gets what `make` made. A unit that begins with s, ms, us or ns is processor time (or the timer's), divided by
    `per` (hits of the call, say); with any other unit `call` returns the figure itself. fresh: each round has something
    newly made. slow: where a fast path stands, and what in its place is measured in turn with it; apart: each of the
    two ways has something of its own, made in its own way.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any], Any]
    unit: str
    per: float = 1.0
    fresh: bool = False
    timer: Callable[[], float] = process_time
    slow: tuple[str, Any] | None = None
    apart: bool = False

    def lines(self, rounds: int) -> Iterator[Line]:
        """Yields the median and the spread of rounds, or of five pairs for each round."""
        if self.slow is not None:
            yield self._compared(rounds, *self.slow)
            return
        figures = self._figures(rounds)
        apart = f"rounds within {spread(figures)}" if len(figures) > 1 else ""
        yield Line(self.name, f"{shown(median(figures))} {self.unit}", apart)

    def _figures(self, rounds: int) -> list[float]:
        """Returns the figure of each round, after a first call that fills caches."""
        made = self.make()
        first = self.call(made)
        if self._scale is None:
            return [first / self.per]
        found: list[float] = []
        calls = 1
        while len(found) < rounds:
            figure = self._figure(self.make() if self.fresh else made, calls)
            if figure * self.per * calls < LEAST_S * self._scale and not self.fresh:
                calls *= 2
                continue
            found.append(figure)
        return found

    def _compared(self, rounds: int, place: str, slow_way: Any) -> Line:
        ways: list[Callable[[], AbstractContextManager[Any]]] = [nullcontext, partial(patch, place, slow_way)]
        made: list[Any] = []
        for way in ways:
            with way():
                made.append(self.make() if self.apart or self.fresh or not made else made[0])
                self.call(made[-1])

        def turn(number: int) -> float:
            with ways[number]():
                return self._figure(self.make() if self.fresh else made[number])

        fast, slow = in_turn(5 * rounds, partial(turn, 0), partial(turn, 1))
        won = [slow_us / fast_us for fast_us, slow_us in zip(fast, slow, strict=True)]
        low, _, high = quantiles(won, n=4, method="inclusive")
        pairs = f"{median(won):.2f} times, middle half of {len(won)} pairs {low:.2f} to {high:.2f}"
        compared = f"slow way {shown(median(slow))} {self.unit}, {pairs}"
        return Line(self.name, f"{shown(median(fast))} {self.unit}", compared, f">= {LEAST_TIMES:.2f} times")

    def _figure(self, made: Any, calls: int = 1) -> float:
        begun = self.timer()
        for _ in range(calls):
            self.call(made)
        return (self.timer() - begun) / calls / self.per * (self._scale or 1)

    @property
    def _scale(self) -> float | None:
        return UNITS.get(self.unit.partition(" ")[0])


def ready(made: Any) -> Callable[[], Any]:
    """Returns what makes something that is there already."""
    return lambda: made


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Calls each, one after the other."""
    for call in calls:
        call()


def measure(table: Iterable[Measure | Line], rounds: int) -> Iterator[Line]:
    """Yields the line of each measurement; a line that is made already as it is."""
    for each in table:
        yield from each.lines(rounds) if isinstance(each, Measure) else [each]
