"""One table of measurements: a name, what to prepare, the call, and the unit of its figure; and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. `spread` says how far the rounds lay apart; `compared` is the ratio or what it is compared with."""

    what: str
    figure: str
    compared: str = ""
    aim: str = ""


def rate(per_s: float) -> str:
    return f"{per_s:,.0f} /s"


def spread(values: list[float]) -> str:
    """How far the rounds lay from their median, in percent."""
    middle = median(values)
    return f"{100 * max(abs(value - middle) for value in values) / middle:.0f} %" if middle else "-"


def render(lines: list[Line]) -> str:
    """The table as text, columns aligned."""
    rows = [
        ("measured", "figure", "compared", "aim"),
        *((line.what, line.figure, line.compared, line.aim) for line in lines),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([texts[0], "-" * len(max(texts, key=len)), *texts[1:]])


UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
LEAST_S = 0.0005  # of processor time that a round takes: the clock does not matter then


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a table.

    `call` gets what `make` made. A unit that begins with s, ms, us or ns is processor time, divided by `per` (hits of
    the call, say); with any other unit `call` returns the figure itself. fresh: each round has something newly made.
    """

    name: str
    make: Callable[[], Any]
    call: Callable[[Any], Any]
    unit: str
    per: float = 1.0
    fresh: bool = False
    aim: str = ""

    def figures(self, rounds: int) -> list[float]:
        """Returns the figure of each round, after a first call that fills caches."""
        scale, made = UNITS.get(self.unit.partition(" ")[0]), self.make()
        first = self.call(made)
        if scale is None:
            return [first / self.per]
        found: list[float] = []
        calls = 1
        while len(found) < rounds:
            made = self.make() if self.fresh else made
            begun = process_time()
            for _ in range(calls):
                self.call(made)
            took_s = process_time() - begun
            if took_s < LEAST_S and not self.fresh:
                calls *= 2
                continue
            found.append(took_s / calls / self.per * scale)
        return found


def ready(made: Any) -> Callable[[], Any]:
    """What makes something that is there already."""
    return lambda: made


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Calls each, one after the other."""
    for call in calls:
        call()


def measure(table: Iterable[Measure | Line], rounds: int) -> Iterator[Line]:
    """Yields each figure as its median, with the spread of its rounds; a line that is made already as it is."""
    for each in table:
        if isinstance(each, Line):
            yield each
            continue
        figures = each.figures(rounds)
        apart = f"rounds within {spread(figures)}" if len(figures) > 1 else ""
        yield Line(each.name, f"{shown(median(figures))} {each.unit}", apart, each.aim)


def shown(figure: float) -> str:
    """The figure with three digits that count."""
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"
