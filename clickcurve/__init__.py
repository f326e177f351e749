"""Clickcurve as a library: counts per link in buckets of several widths, whose totals never change.

    >>> from clickcurve import EMPTY, Bots, Delta, Ladder, add, fold, total
    >>> ladder = Ladder.parse("60:1,3600:31,month")
    >>> row = add(EMPTY, Delta(people={1772323200: 3}, bots={}), ladder)
    >>> row = fold(row, fold_day=20_600, ladder=ladder)
    >>> total(row, 1772323200, 1772326800, Bots.exclude, ladder).at_most
    3

Here are the names of the bucket engine and the parents of all errors. The rate limiter is `clickcurve.limiter`.
Importing this package loads neither a web framework nor a driver. The program that `clickcurve serve` runs is not part
of the library.
"""

from __future__ import annotations

from clickcurve.buckets.errors import ClickcurveError, LadderInvalid, ParameterInvalid, RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.ranges import Bots, Span, total
from clickcurve.buckets.row import EMPTY, Delta, Row, add, fold, merge

__all__ = [
    "EMPTY",
    "Bots",
    "ClickcurveError",
    "Delta",
    "Ladder",
    "LadderInvalid",
    "ParameterInvalid",
    "Row",
    "RowCorrupt",
    "Span",
    "__version__",
    "add",
    "fold",
    "fold_day",
    "merge",
    "total",
]

__version__: str


def __getattr__(name: str) -> str:
    """Returns `__version__`, read from the installed package when it is first asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # 20 ms that most imports need not spend

    globals()[name] = number = version("clickcurve")
    return number
