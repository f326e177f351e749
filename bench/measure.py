"""Measurements: what has its turn beside what in each round, which figures a turn has, and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median, quantiles
from time import process_time
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar
from unittest.mock import patch

T = TypeVar("T")
Figures: TypeAlias = Mapping[str, float]  # by the words around a figure: "p99 {} ms"; the first leads the row
Turn: TypeAlias = Callable[[], Figures]
PAIRS = 5  # of which the middle half says something


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. compared: how far the rounds lay apart, the ratio, or what the figure is compared with."""

    what: str
    figure: str
    compared: str = ""
    aim: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """Several ways to one end, by their names: in each round each has its turn. The first is what others are held to.

    rounds: None: as many as the command line says.
    """

    name: str
    turns: Mapping[str, Turn]
    aims: Mapping[str, str] = field(default_factory=dict)
    rounds: int | None = None

    def lines(self, rounds: int) -> Iterator[Line]:
        """Yields a row for each way: medians, the median of the ratios to the first way, the spread of rounds."""
        first, *_ = self.turns
        runs = dict(zip(self.turns, in_turn(self.rounds or rounds, *self.turns.values()), strict=True))
        for way, own in runs.items():
            lead, *others = dict.fromkeys(figure for run in own for figure in run)
            compared = []
            if way != first:
                ratios = _ratios(lead, own, runs[first])
                compared.append(f"{median(ratios):.2f} times {first}".rstrip())
                if len(ratios) >= PAIRS:
                    low, _, high = quantiles(ratios, n=4, method="inclusive")
                    compared[-1] += f", middle half of {len(ratios)} pairs {low:.2f} to {high:.2f}"
            if len(own) > 1:
                compared.append(f"rounds within {_spread(lead, own)}")
            for figure in others:
                ratios = [] if way == first else _ratios(figure, own, runs[first])
                more = [f"{median(ratios):.2f} times"] if ratios else []
                more += [f"within {_spread(figure, own)}"] if len(own) > 1 else []
                compared.append(_middle(figure, own) + (f" ({', '.join(more)})" if more else ""))
            what = f"{self.name}, {way}" if way else self.name
            yield Line(what, _middle(lead, own), "; ".join(compared), self.aims.get(way, ""))


def _spread(figure: str, runs: Sequence[Figures]) -> str:
    return spread([run[figure] for run in runs if figure in run])


def _middle(figure: str, runs: Sequence[Figures]) -> str:
    return figure.format(shown(median(run[figure] for run in runs if figure in run)))


def _ratios(figure: str, runs: Sequence[Figures], beside: Sequence[Figures]) -> list[float]:
    """Returns how many times a round's figure is that of the round beside it, where both rounds have it."""
    pairs = zip(runs, beside, strict=True)
    return [mine[figure] / (other[figure] or 1) for mine, other in pairs if figure in mine and figure in other]


def in_turn(rounds: int, *turns: Callable[[], T]) -> list[list[T]]:
    """Calls each in turn, so often; returns what each returned."""
    return [list(runs) for runs in zip(*([turn() for turn in turns] for _ in range(rounds)), strict=True)]


class Percentiles(NamedTuple):
    """Milliseconds that half of the requests took at most, and 99 of 100."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, took_ms: Sequence[float]) -> Self:
        cuts = quantiles(took_ms, n=100, method="inclusive") if len(took_ms) > 1 else [took_ms[0]] * 99
        return cls(cuts[49], cuts[98])

    def figures(self, when: str = "") -> dict[str, float]:
        return {f"{when}p50 {{}} ms": self.p50_ms, f"{when}p99 {{}} ms": self.p99_ms}

    def __str__(self) -> str:
        return f"p50 {self.p50_ms:.2f} p99 {self.p99_ms:.2f} ms"


# --- calls in this process --------------------------------------------------------------------------------------------
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
LEAST_S = 0.0005  # of processor time that a round takes: the clock does not matter then
LEAST_TIMES = 1.1  # a fast path wins so much where a user sees it, or it goes


@dataclass(frozen=True, slots=True)
class Measure:
    """One call of this process.

    `call` gets what `make` made. A unit that begins with s, ms, us or ns is processor time (or the timer's), divided by
    `per` (hits of the call, say); with any other unit `call` returns the figure itself. fresh: each round has something
    newly made. slow: where a fast path stands, and what in its place is measured in turn with it, five pairs a round.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any], Any]
    unit: str
    per: float = 1.0
    fresh: bool = False
    timer: Callable[[], float] = process_time
    slow: tuple[str, Any] | None = None

    def lines(self, rounds: int) -> Iterator[Line]:
        if self.unit.partition(" ")[0] not in UNITS:
            figure = self.call(self.make()) / self.per
            yield Line(self.name, f"{shown(figure)} {self.unit}")
            return
        turns, aims = {"": self._turn(nullcontext)}, dict[str, str]()
        if self.slow is not None:
            turns["slow way"] = self._turn(partial(patch, *self.slow))
            aims["slow way"] = f">= {LEAST_TIMES:.2f} times"
        yield from Beside(self.name, turns, aims).lines(rounds if self.slow is None else 5 * rounds)

    def _turn(self, way: Callable[[], AbstractContextManager[Any]]) -> Turn:
        """Returns what times the call, after a first one that fills caches."""
        with way():
            made = self.make()
            self.call(made)
            calls = 1
            while not self.fresh and self._took_s(made, calls) < LEAST_S:
                calls *= 2
        scale = UNITS[self.unit.partition(" ")[0]] / calls / self.per

        def turn() -> Figures:
            with way():
                return {f"{{}} {self.unit}": self._took_s(self.make() if self.fresh else made, calls) * scale}

        return turn

    def _took_s(self, made: Any, calls: int) -> float:
        begun = self.timer()
        for _ in range(calls):
            self.call(made)
        return self.timer() - begun


def ready(made: Any) -> Callable[[], Any]:
    """Returns what makes something that is there already."""
    return lambda: made


def measure(table: Iterable[Beside | Measure | Line], rounds: int) -> Iterator[Line]:
    """Yields the lines of each measurement; a line that is made already as it is."""
    for each in table:
        yield from [each] if isinstance(each, Line) else each.lines(rounds)


# --- text -------------------------------------------------------------------------------------------------------------
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


def shown(figure: float) -> str:
    """Returns the figure with three digits that count."""
    if figure < 0.1:
        return f"{figure:.2g}"
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def spread(values: Sequence[float]) -> str:
    """Returns how far the rounds lay from their median, in percent."""
    middle = median(values)
    return f"{100 * max(abs(value - middle) for value in values) / middle:.0f} %" if middle else "-"
