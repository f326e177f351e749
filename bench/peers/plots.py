"""Plots of the figures: level bars, one a peer, on a scale whose marks are ten times apart; growth from zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import ceil, floor, log10
from statistics import median
from typing import Any, TypeAlias

from dashboard.pictures.axes import round_steps
from dashboard.pictures.shapes import Box, Label, Picture, Shape
from dashboard.pictures.svg import AUTO, svg_file

WIDTH, GUTTER, ROOM = 760, 190, 0.14  # pixels; of the plot's width, for the figure behind the longest bar
ROW, HEAD, BETWEEN = 20, 30, 14
OWN = "Clickcurve"
Place: TypeAlias = Callable[[float], float]  # in parts of the plot's width


def plots(figures: dict[str, Any]) -> dict[str, bytes]:
    """Returns each plot as an SVG file, by its name."""
    peers: dict[str, Any] = figures["peers"]
    batches = (1_000, 100_000)
    asked = ("total", "curve 60 min", "curve 30 d", "curve 12 mo")
    grown = {
        "bytes a link": "bytes_a_link",
        "processor time of a flushed row, µs": "flush_us",
        "curve of 30 days: p50 in ms": "p50",
        "start, in s": "start_s",
    }
    drawn = {
        "writing": {
            "hits a second, one by one": _of_each(peers, "singles"),
            **{f"hits a second, batches of {size:,}": _of_each(peers, "batches", str(size)) for size in batches},
        },
        "size": {
            "bytes on disk for each link": {
                name: peer["bytes"] / peer["links"] for name, peer in peers.items() if "bytes" in peer
            }
        },
        "reading": {f"{what}: p50 in ms": _of_each(peers, "latencies", what, "p50") for what in asked},
        "growth": {
            what: {f"{size['links']:,} links": size[figure] for size in figures["sizes"]}
            for what, figure in grown.items()
        },
    }
    return {name: svg_file(_bars(groups, tenfold=name != "growth"), AUTO) for name, groups in drawn.items()}


def _of_each(peers: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Returns what is at this path in the figures of each peer; nothing of some."""
    return {name: reduce(lambda of, key: of.get(key, {}), path, peer) for name, peer in peers.items()}


def _bars(groups: Mapping[str, Mapping[str, Any]], tenfold: bool) -> Picture:
    """Draws groups of bars below one another. tenfold: marks are ten times apart, else even, from zero."""
    shapes: list[Shape] = []
    top = 0.0
    for title, rounds in groups.items():
        values = {name: median(each) if isinstance(each, list) else each for name, each in rounds.items() if each}
        if values:
            shapes += _group(title, values, top, *(_tenfold if tenfold else _even)([*values.values()]))
            top += HEAD + ROW * len(values) + BETWEEN
    scale = "Each mark of the scale is ten times the one before." if tenfold else "The scale begins at zero."
    return Picture(WIDTH, int(top), f"{'; '.join(groups)}. {scale}", tuple(shapes), GUTTER)


def _group(
    title: str, values: Mapping[str, float], top: float, marks: Sequence[float], place: Place
) -> Iterator[Shape]:
    yield Label("title", 0, top + 20, title, shift=8 - GUTTER)
    for mark in marks:
        yield Box("grid", place(mark), top + HEAD, place(mark) + 0.0015, top + HEAD + ROW * len(values))
    for number, (name, value) in enumerate(values.items()):
        y = top + HEAD + ROW * number
        own = name == OWN or name.endswith(" links")
        yield Label("label", 0, y + 14, name, "end", shift=-8)
        yield Box("bar" if own else "partial", 0, y + 3, place(value), y + ROW - 3)
        yield Label("label", place(value), y + 14, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", shift=6)


def _tenfold(values: Sequence[float]) -> tuple[list[float], Place]:
    """Returns the marks from one power of ten to another, and where a value stands."""
    low = floor(log10(0.8 * min(values)))
    high = max(low + 1, ceil(log10(max(values))))
    marks = [10.0**power for power in range(low, high + 1)]
    return marks, lambda value: (log10(value) - low) / (high - low) * (1 - ROOM)


def _even(values: Sequence[float]) -> tuple[list[float], Place]:
    """Returns the marks from zero to the greatest value, and where a value stands."""
    steps = round_steps(max(values), 4, whole=False)
    return [0.0, *steps], lambda value: value / steps[-1] * (1 - ROOM)
