"""Curves of one range with the same points, though each may be kept in buckets of other lengths.

Where one link keeps hours and another a week as one sum, both have the week: a point ends where a point of every curve
does. Points tile a range, so the sums are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from clickcurve.answers.counts import CurveAnswer, PointAnswer

_STATES = ("open", "partial", "complete")  # the first that any point has is that of all together


def with_common_points(curves: Sequence[CurveAnswer]) -> list[CurveAnswer]:
    """Returns the curves with points that begin and end together; in each curve their counts have the same sum.

    Where the range cuts the first or the last bucket of a curve, those points reach as far as the widest does. A curve
    without points leaves none to any.
    """
    if any(not curve.points for curve in curves):
        return [replace(curve, points=[]) for curve in curves]
    start = min(curve.points[0].start for curve in curves)
    end = max(curve.points[-1].end for curve in curves)
    inner = set.intersection(*({point.start for point in curve.points[1:]} for curve in curves))
    ends = [*sorted(inner), end]
    return [replace(curve, points=_joined(curve.points, start, ends)) for curve in curves]


def _joined(points: Sequence[PointAnswer], start: int, ends: Sequence[int]) -> list[PointAnswer]:
    """Joins points up to each of these ends, the last of which takes all that are left."""
    joined = []
    place = 0
    for end in ends:
        first = place
        while place < len(points) and (points[place].end <= end or end == ends[-1]):
            place += 1
        some = points[first:place]
        states = {point.state for point in some}
        state = next(each for each in _STATES if each in states)
        wide = any(point.wide for point in some)
        joined.append(PointAnswer(start, end, sum(point.count for point in some), state, wide))
        start = end
    return joined
