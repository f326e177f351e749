"""A link's curve: the points of a window with their counts, the bounds of the whole, and how they are written.

Where the points lie does not depend on the link, so it is worked out once for a window and remembered; so is the text
around the counts. A curve then costs what reading and summing the row costs, and one `%`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span
from clickcurve.buckets.row import Row
from query.cache import Remembered
from query.counts import along
from query.grid import Layout, PointState, layout
from query.parameters import Window

# With the text around them, some 20 MB.
_POINTS_REMEMBERED = 200_000


@dataclass(frozen=True, slots=True)
class Curve:
    """counts[i] belongs to point i of the layout. first: the minute of the link's first hit, None if never hit.
    open_from: the first point that has not ended."""

    layout: Layout
    open_from: int
    counts: list[int]
    span: Span
    first: int | None

    def frames(self) -> Iterator[tuple[int, int, PointState]]:
        """Each point's start, end and state."""
        edges = self.layout.edges
        return zip(edges, edges[1:], self.layout.states(self.open_from), strict=False)


class Curves:
    """Makes curves of current rows, and writes them."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._layouts: Remembered[tuple[Window, int], Layout] = Remembered(_POINTS_REMEMBERED)

    def curve(self, row: Row, over: Window, bots: Bots, now: int) -> Curve:
        """The curve of a row that is folded to now. ParameterInvalid when it would have too many points."""
        laid = self._layouts.get((over, row.fold_day))
        if laid is None:
            laid = layout(over, self._ladder, row.fold_day)
            self._layouts.keep((over, row.fold_day), laid, len(laid.edges) + 10)
        counts, span = along(row, laid, bots)
        return Curve(laid, laid.open_from(now), counts, span, row.first)

    def json(self, key: str | None, curve: Curve) -> bytes:
        """The answer to `GET /v1/links/{key}/curve`; key None for all links together."""
        span = curve.span
        head = (
            json.dumps(key, ensure_ascii=False),
            "null" if curve.first is None else curve.first,
            span.total,
            span.at_least,
            span.at_most,
            "true" if span.exact else "false",
        )
        return (_text(curve, "json", _json_text) % (*head, *curve.counts)).encode()

    def csv(self, curve: Curve) -> bytes:
        """`start,end,count,state`, and a line for each point."""
        return (_text(curve, "csv", _csv_text) % tuple(curve.counts)).encode()


def _text(curve: Curve, kind: str, make: Callable[[Curve], str]) -> str:
    """The text around the counts, remembered with the layout until one of its points ends."""
    texts = curve.layout.texts
    open_from, text = texts.get(kind, (-1, ""))
    if open_from != curve.open_from:
        text = make(curve)
        texts[kind] = curve.open_from, text
    return text


def _json_text(curve: Curve) -> str:
    over = curve.layout.window
    head = (
        f'{{"key":%s,"from":{over.start},"to":{over.end},"step":"{over.step.name}","tz":"{over.zone.name}",'
        '"first_hit":%s,"total":%s,"at_least":%s,"at_most":%s,"exact":%s,"points":['
    )
    points = (f'{{"start":{start},"end":{end},"count":%d,"state":"{state}"}}' for start, end, state in curve.frames())
    return f"{head}{','.join(points)}]}}"


def _csv_text(curve: Curve) -> str:
    return "start,end,count,state\n" + "".join(f"{start},{end},%d,{state}\n" for start, end, state in curve.frames())
