"""Plots of the figures: level bars, one a peer, on a scale whose marks are ten times apart; growth from zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import median
from typing import Any

from dashboard.pictures.axes import round_steps
from dashboard.pictures.shapes import Box, Label, Picture, Shape
from dashboard.pictures.svg import AUTO, svg_file

WIDTH, GUTTER, ROOM = 760, 190, 0.14  # pixels; of the plot's width, for the figure behind the longest bar
ROW, HEAD, BETWEEN = 20, 30, 14
OWN = "Clickcurve"
Values = Mapping[str, float]


def plots(figures: dict[str, Any]) -> dict[str, bytes]:
    """Each plot as an SVG file, by its name."""
    peers: dict[str, Any] = figures["peers"]
    sizes = figures["sizes"]
    singles = {name: median(peer["singles"]) for name, peer in peers.items() if peer.get("singles")}
    writing = [("hits a second, one by one", singles)]
    for size in (1_000, 100_000):
        rates = {
            name: median(found) for name, peer in peers.items() if (found := peer.get("batches", {}).get(str(size)))
        }
        writing.append((f"hits a second, batches of {size:,}", rates))
    reading = [
        (f"{question}: p50 in ms", _p50(peers, question))
        for question in ("total", "curve 60 min", "curve 30 d", "curve 12 mo")
    ]
    stored = {name: peer["bytes"] / peer["links"] for name, peer in peers.items() if "bytes" in peer}
    growth: tuple[tuple[str, Callable[[Any], float]], ...] = (
        ("bytes a link", lambda size: float(size["bytes_a_link"])),
        ("processor time of a flushed row, µs", lambda size: median(size["flush_us"])),
        ("curve of 30 days: p50 in ms", lambda size: median(size["p50"])),
        ("start, in s", lambda size: median(size["start_s"])),
    )
    grown = [(what, {f"{size['links']:,} links": value(size) for size in sizes}) for what, value in growth]
    drawn: dict[str, Sequence[tuple[str, Values]]] = {
        "writing": writing,
        "size": [("bytes on disk for each link", stored)],
        "reading": reading,
        "growth": grown,
    }
    return {name: svg_file(_bars(groups, tenfold=name != "growth"), AUTO) for name, groups in drawn.items()}


def _p50(peers: dict[str, Any], question: str) -> Values:
    found = ((name, peer.get("latencies", {}).get(question)) for name, peer in peers.items())
    return {name: median(reads["p50"]) for name, reads in found if reads}


def _bars(groups: Sequence[tuple[str, Values]], tenfold: bool) -> Picture:
    """Groups of bars below one another. tenfold: marks are ten times apart, else even, from zero."""
    shapes: list[Shape] = []
    top = 0.0
    for title, values in groups:
        if values:
            shapes += _group(title, values, top, _Tenfold.of(values) if tenfold else _Even.of(values))
            top += HEAD + ROW * len(values) + BETWEEN
    scale = "Each mark of the scale is ten times the one before." if tenfold else "The scale begins at zero."
    return Picture(WIDTH, int(top), f"{'; '.join(title for title, _ in groups)}. {scale}", tuple(shapes), GUTTER)


def _group(title: str, values: Values, top: float, scale: _Tenfold | _Even) -> Iterator[Shape]:
    yield Label("title", 0, top + 20, title, shift=8 - GUTTER)
    for mark in scale.marks():
        yield Box("grid", scale.place(mark), top + HEAD, scale.place(mark) + 0.0015, top + HEAD + ROW * len(values))
    for number, (name, value) in enumerate(values.items()):
        y = top + HEAD + ROW * number
        right = scale.place(value)
        own = name == OWN or name.endswith(" links")
        yield Label("label", 0, y + 14, name, "end", shift=-8)
        yield Box("bar" if own else "partial", 0, y + 3, right, y + ROW - 3)
        yield Label("label", right, y + 14, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", shift=6)


@dataclass(frozen=True, slots=True)
class _Tenfold:
    """From one power of ten to another."""

    low: int
    high: int

    @classmethod
    def of(cls, values: Values) -> _Tenfold:
        low = floor(log10(0.8 * min(values.values())))
        return cls(low, max(low + 1, ceil(log10(max(values.values())))))

    def marks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]

    def place(self, value: float) -> float:
        return (log10(value) - self.low) / (self.high - self.low) * (1 - ROOM)


@dataclass(frozen=True, slots=True)
class _Even:
    """From zero to the greatest."""

    steps: tuple[float, ...]

    @classmethod
    def of(cls, values: Values) -> _Even:
        return cls(tuple(round_steps(max(values.values()), 4, whole=False)))

    def marks(self) -> list[float]:
        return [0.0, *self.steps]

    def place(self, value: float) -> float:
        return value / self.steps[-1] * (1 - ROOM)
