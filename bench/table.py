"""The figures as one table: what was measured, the figure, what it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


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
