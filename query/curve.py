"""A row's curve: the points of a window with their counts, and the bounds of the whole.

Where the points lie does not depend on the link, so it is worked out once for a window and kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec import UNSET

from clickcurve.answers.counts import CurveAnswer, CurveBefore, NoteAnswer, PointAnswer
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span, between, bounded, total
from clickcurve.buckets.row import Row
from clickcurve.waiting import computed, locked
from query.cache import Cache
from query.grid import Grid, estimate_points, make_grid
from query.parameters import Window

_CACHED_POINTS = 200_000  # some 10 MB
AT_ONCE = 1_000  # points that are made without leaving the event loop: up to 5 ms


@dataclass(frozen=True, slots=True)
class Curve:
    """counts[i] belongs to point i of the grid. first: the minute of the link's first hit, None if never hit.
    open_from: the first point that has not ended."""

    grid: Grid
    open_from: int
    counts: list[int]
    span: Span
    first: int | None

    def points(self) -> list[PointAnswer]:
        """Returns the points as an answer has them."""
        grid, edges = self.grid, self.grid.edges
        return list(map(PointAnswer, edges, edges[1:], self.counts, grid.states(self.open_from), grid.wide))

    def as_before(self) -> CurveBefore:
        """Returns the curve as that of the range before."""
        window, span = self.grid.window, self.span
        bounds = span.total, span.at_least, span.at_most, span.exact
        return CurveBefore(window.start, window.end, *bounds, self.points())

    def answer(
        self, name: str | None, before: Curve | None = None, notes: list[NoteAnswer] | None = None
    ) -> CurveAnswer:
        """Returns the curve as an answer; name None for all links together."""
        span, window = self.span, self.grid.window
        return CurveAnswer(
            key=name,
            start=window.start,
            end=window.end,
            step=window.step.name,
            tz=window.zone.name,
            first_hit=self.first,
            total=span.total,
            at_least=span.at_least,
            at_most=span.at_most,
            exact=span.exact,
            points=self.points(),
            before=UNSET if before is None else before.as_before(),
            notes=UNSET if notes is None else notes,
        )


def make_curve(row: Row, grid: Grid, bots: Bots, now: int, ladder: Ladder) -> Curve:
    """Returns the curve of a row that is folded to now, along a grid of that day."""
    if row.disavowed is not None and bots is not Bots.include:
        grid = grid.without(row.disavowed.cuts)
    counts, span = counts_along(row, grid, bots, ladder)
    return Curve(grid, grid.open_from(now), counts, span, row.first)


def counts_along(row: Row, grid: Grid, bots: Bots, ladder: Ladder) -> tuple[list[int], Span]:
    """Returns one count per point, and what is known of the requested range.

    The row must be folded to the grid's fold day, and no edge lie inside a bucket with hits that are called bots.
    """
    counts, window = between(row, grid.edges, bots), grid.window
    points = sum(counts)
    if row.disavowed is not None or grid.cut is None:
        known = total(row, window.start, window.end, bots, ladder)
        return counts, Span(points, known.at_least, known.at_most)
    cut = [(bucket, between(row, bucket, bots)[0]) for bucket in grid.cut]
    return counts, bounded(points, cut, row, window.start, window.end)


class Grids:
    """Makes the points of windows, and keeps them."""

    def __init__(self) -> None:
        self._grids: Cache[tuple[Window, int], Grid] = Cache(_CACHED_POINTS)
        self._making = asyncio.Lock()

    async def grid(self, window: Window, ladder: Ladder, fold_day: int) -> Grid:
        """Returns the points of a window.

        A grid of many points is made in a thread, one at a time: 8,760 months of a zone take 40 ms, in which a loop
        would answer nobody. Raises ParameterInvalid for too many points.
        """
        if (kept := self._grids.get((window, fold_day))) is not None:
            return kept
        if estimate_points(window, window.step, ladder, fold_day) <= AT_ONCE:
            made = make_grid(window, ladder, fold_day)
        else:
            async with locked(self._making, "working out the points of long curves"):
                if (kept := self._grids.get((window, fold_day))) is not None:
                    return kept  # another question was the same
                made = await computed("working out the points of this curve", make_grid, window, ladder, fold_day)
        return self._grids.keep((window, fold_day), made, len(made.edges) + 10)
