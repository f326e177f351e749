"""A link's curve: the points of a window with their counts, the bounds of the whole, and how they are written.

Where the points lie does not depend on the link, so it is worked out once for a window and cached; so is the text
around the counts. A curve then costs what reading and summing the row costs, and one `%`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span
from clickcurve.buckets.row import Row
from clickcurve.waiting import in_thread, locked
from query.cache import Cache
from query.counts import counts_along
from query.grid import Grid, PointState, estimate_points, make_grid
from query.parameters import Window
from query.zones import iso

# With the text around them, some 20 MB.
_CACHED_POINTS = 200_000
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

    def frames(self) -> Iterator[tuple[int, int, PointState]]:
        """Returns each point's start, end and state."""
        edges = self.grid.edges
        return zip(edges, edges[1:], self.grid.states(self.open_from), strict=False)


class Curves:
    """Makes curves of current rows, and writes them."""

    def __init__(self) -> None:
        self._grids: Cache[tuple[Window, int], Grid] = Cache(_CACHED_POINTS)
        self._making = asyncio.Lock()

    def known_grid(self, window: Window, fold_day: int) -> Grid | None:
        return self._grids.get((window, fold_day))

    async def grid(self, window: Window, ladder: Ladder, fold_day: int) -> Grid:
        """Returns the points of a window, one that is made now if it is not known.

        A grid of many points is made in a thread, one at a time: 8,760 months of a zone take 40 ms, in which a loop
        would answer nobody. Raises ParameterInvalid for too many points.
        """
        if estimate_points(window, window.step, ladder, fold_day) <= AT_ONCE:
            made = make_grid(window, ladder, fold_day)
        else:
            async with locked(self._making, "working out the points of long curves"):
                if (known := self.known_grid(window, fold_day)) is not None:
                    return known  # another question was the same
                made = await in_thread("working out the points of this curve", make_grid, window, ladder, fold_day)
        return self._grids.keep((window, fold_day), made, len(made.edges) + 10)

    def curve(self, row: Row, grid: Grid, bots: Bots, now: int) -> Curve:
        """Returns the curve of a row that is folded to now, along a grid of that day."""
        counts, span = counts_along(row, grid, bots)
        return Curve(grid, grid.open_from(now), counts, span, row.first)

    def json(self, key: str | None, curve: Curve) -> bytes:
        """Returns the answer to `GET /v1/links/{key}/curve`; key None for all links together."""
        span = curve.span
        head = (
            json.dumps(key, ensure_ascii=False),
            "null" if curve.first is None else curve.first,
            span.total,
            span.at_least,
            span.at_most,
            "true" if span.exact else "false",
        )
        return (_cached_text(curve, "json", _json_text) % (*head, *curve.counts)).encode()

    def rows(self, curve: Curve) -> bytes:
        """Returns a flat list of rows, with times as text: what tables read without being told how."""
        return (_cached_text(curve, "rows", _rows_text) % tuple(curve.counts)).encode()

    def csv(self, curve: Curve) -> bytes:
        """Returns `start,end,count,state`, and a line for each point."""
        return (_cached_text(curve, "csv", _csv_text) % tuple(curve.counts)).encode()


def _cached_text(curve: Curve, kind: str, make: Callable[[Curve], str]) -> str:
    """Returns the text around the counts, cached with the grid until one of its points ends."""
    texts = curve.grid.texts
    open_from, text = texts.get(kind, (-1, ""))
    if open_from != curve.open_from:
        text = make(curve)
        texts[kind] = curve.open_from, text
    return text


_WIDE = ',"wide":true'


def _json_text(curve: Curve) -> str:
    window = curve.grid.window
    head = (
        f'{{"key":%s,"from":{window.start},"to":{window.end},"step":"{window.step.name}","tz":"{window.zone.name}",'
        '"first_hit":%s,"total":%s,"at_least":%s,"at_most":%s,"exact":%s,"points":['
    )
    frames = zip(curve.frames(), curve.grid.wide, strict=False)
    points = (
        f'{{"start":{start},"end":{end},"count":%d,"state":"{state}"{_WIDE if wide else ""}}}'
        for (start, end, state), wide in frames
    )
    return f"{head}{','.join(points)}]}}"


def _rows_text(curve: Curve) -> str:
    rows = (
        f'{{"time":"{iso(start)}","end":"{iso(end)}","count":%d,"state":"{state}"}}'
        for start, end, state in curve.frames()
    )
    return f"[{','.join(rows)}]"


def _csv_text(curve: Curve) -> str:
    return "start,end,count,state\n" + "".join(f"{start},{end},%d,{state}\n" for start, end, state in curve.frames())
