"""What is noted beside a curve, with the views that show where each note comes from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from msgspec import UNSET

from clickcurve.answers.counts import CurveAnswer, NoteAnswer, PointAnswer
from clickcurve.buckets.ladder import HOUR_S
from clickcurve.visible import visible
from dashboard.page.periods import EVER
from dashboard.page.view import PageView

_CALLED_BOTS = "disavow"  # the kind of a note beside hits that a rule calls bots


@dataclass(frozen=True, slots=True)
class NotedLine:
    """A note in words, with its number in the picture. address: the view of its origin; empty if that is shown."""

    text: str
    address: str


def noted_lines(curve: CurveAnswer, view: PageView) -> list[NotedLine]:
    """Returns the notes of a curve: an alert leads to the range that it counted, a rule to the bots of its range.

    Any other leads to its bar alone, or to its hour where bars are shorter.
    """
    if curve.notes is UNSET:
        return []
    return [
        NotedLine(f"{number}: {visible(note.text)}", _origin(note, curve, view))
        for number, note in enumerate(curve.notes, 1)
    ]


def _origin(note: NoteAnswer, curve: CurveAnswer, view: PageView) -> str:
    if note.kind == _CALLED_BOTS:
        start, end = (EVER, "") if note.start is UNSET else (str(note.start), str(note.end))
        return view.address(start=start, end=end, step="", bots="", show="bots")
    if note.start is not UNSET and note.end is not UNSET:
        span = note.start, note.end
    else:
        span = _bar_of(note.at, curve.points)
    return "" if span == (curve.start, curve.end) else view.address(start=str(span[0]), end=str(span[1]), step="")


def _bar_of(at: int, points: Sequence[PointAnswer]) -> tuple[int, int]:
    """Returns the span of the point that holds a moment, at least its hour."""
    place = bisect_right(points, at, key=attrgetter("start")) - 1
    if place >= 0 and points[place].end - points[place].start >= HOUR_S:
        return points[place].start, points[place].end
    return at - at % HOUR_S, at - at % HOUR_S + HOUR_S
