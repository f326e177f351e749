"""The shapes that a picture is made of. Each names its part, which says how it looks in any theme.

Across, places are parts of the plot's width, 0 to 1, right of a gutter in pixels; down, they are pixels. So one picture
fills whatever width a page has, and its text keeps its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Box:
    """A filled box from (left, top) to (right, bottom)."""

    part: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Line:
    """A thin level line."""

    part: str
    y: float


@dataclass(frozen=True, slots=True)
class Label:
    """One line of text at a baseline. anchor: start, middle or end; shift: pixels to the right."""

    part: str
    x: float
    y: float
    text: str
    anchor: str = "start"
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A line from place to place, each (across, down)."""

    part: str
    places: tuple[tuple[float, float], ...]


Shape: TypeAlias = Box | Line | Label | Trace


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes from back to front. sentence: what the picture shows; gutter: pixels left of the plot."""

    width: int
    height: int
    sentence: str
    shapes: tuple[Shape, ...]
    gutter: int = 0
