"""Where the points of a curve lie: the edges between them, as the kept buckets allow. No counts here.

The points tile from the start of the kept bucket that holds the range's start to the end of the one that holds its
end. Between those:

- where the step is finer than what a tier keeps, every kept bucket is a point (a year of minutes is not a million
  points, but some 60 weeks and then minutes);
- elsewhere each of the step's edges in the range is one, moved to the nearer end of the kept bucket that it falls
  inside, if any; edges that meet are one. So a month of New York is off by the five hours by which it begins inside a
  bucket, not by the week or month that this bucket is long. Where the range itself begins or ends with such an edge,
  the bucket that it cuts is a point of its own if more of it lies outside.

The result depends on the range, the step, the zone and the fold day, so it serves all links alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from clickcurve.answers.counts import PointState
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, Ladder, Tier
from clickcurve.buckets.ranges import Bucket
from query.parameters import Window
from query.steps import STEPS, Step
from query.zones import Unit, Zone

MAX_POINTS = 10_000

# What "which step would fit" may answer, finest first.
_OFFERED = ("5m", "1h", "1d", "1w", "1mo", "1y")
# How long a usual bucket of a calendar tier is, and how long they are on average: a year has some 62.5 weeks and pieces
# of weeks.
_LENGTH_S = {"week": 7 * DAY_S, "month": 28 * DAY_S}
_AVERAGE_S = {"week": 505_000, "month": 2_629_746}


@dataclass(frozen=True, slots=True)
class Grid:
    """The points of one window: point i is [edges[i], edges[i + 1]).

    `wide` says of each point whether it is wider than its step, because no finer buckets are kept. `cut`: the kept
    buckets of which the requested range holds only a part: none, one or two; None where the points hold more than these
    of what lies outside, so that each row must be asked what of it lies inside.
    """

    window: Window
    fold_day: int
    edges: tuple[int, ...]
    wide: tuple[bool, ...] = ()
    cut: tuple[Bucket, ...] | None = ()

    def open_from(self, now: int) -> int:
        """Returns the index of the first point that ends after now."""
        return max(0, bisect_right(self.edges, now) - 1)

    def without(self, bucket_cut: Callable[[int], Bucket | None]) -> Grid:
        """Returns the grid without edges inside buckets of another kind: there those are one point, which is wide.

        bucket_cut: the bucket that an edge lies inside, None if there is none.
        """
        if not any(map(bucket_cut, self.edges)):
            return self
        first, last = bucket_cut(self.edges[0]), bucket_cut(self.edges[-1])
        inner = [edge for edge in self.edges[1:-1] if not bucket_cut(edge)]
        edges = (first[0] if first else self.edges[0], *inner, last[1] if last else self.edges[-1])
        wide = []
        for start, end in pairwise(edges):
            inside = range(max(0, bisect_left(self.edges, start)), bisect_left(self.edges, end))
            is_own = start in self.edges and end in self.edges and len(inside) == 1
            wide.append(not is_own or self.wide[inside[0]])
        return replace(self, edges=edges, wide=tuple(wide), cut=None)

    def states(self, open_from: int) -> list[PointState]:
        """Returns one state per point: open, else partial, else complete."""
        points = len(self.edges) - 1
        if points < 1:
            return []
        states: list[PointState] = ["complete"] * points
        if self.edges[0] < self.window.start:
            states[0] = "partial"
        if self.edges[-1] > self.window.end:
            states[-1] = "partial"
        states[open_from:] = ["open"] * (points - open_from)
        return states


def make_grid(window: Window, ladder: Ladder, fold_day: int) -> Grid:
    """Returns the points of a window on a fold day; raises ParameterInvalid for more than MAX_POINTS."""
    if window.start >= window.end:
        return Grid(window, fold_day, ())
    if estimate_points(window, window.step, ladder, fold_day) > MAX_POINTS * 1.03:
        raise _too_many(window, ladder, fold_day)
    edges = _edges(window, window.step, ladder, fold_day)
    if len(edges) > MAX_POINTS + 1:
        raise _too_many(window, ladder, fold_day)
    ends = {ladder.kept(t, fold_day) for t in (window.start, window.end - 1)}
    cut = tuple(bucket for bucket in ends if bucket[0] < window.start or bucket[1] > window.end)
    return Grid(window, fold_day, edges, _wide_points(window, edges, ladder, fold_day), cut)


def _edges(window: Window, step: Step, ladder: Ladder, fold_day: int) -> tuple[int, ...]:
    first = ladder.kept(window.start, fold_day)[0]
    last = ladder.kept(window.end - 1, fold_day)[1]
    edges = [first]
    begin = window.start - (first < window.start)  # the range's own edges count, if they lie inside a bucket
    for tier, low, high in _spans(first, last, ladder, fold_day):
        if step.unit is None or _is_finer(step, tier):
            edges += _bucket_ends(tier, low, high)
        else:
            inside = step.unit.edges(max(low, begin), min(high, window.end), window.zone)
            edges += tier.nearest_edges(list(inside))
    return tuple(dict.fromkeys((*edges, last)))


def _spans(first: int, last: int, ladder: Ladder, fold_day: int) -> Iterator[tuple[Tier, int, int]]:
    """Returns the tiers that hold [first, last), oldest first, each with its part of that span."""
    cuts = ladder.cuts(fold_day)
    for index in reversed(range(len(cuts))):
        low = max(first, cuts[index])
        high = min(last, cuts[index - 1]) if index else last
        if low < high:
            yield ladder.tiers[index], low, high


def _is_finer(step: Step, tier: Tier) -> bool:
    """Returns whether each bucket of the tier is longer than the step, so that the buckets are the points."""
    return step.average_s < (tier.width_s or _LENGTH_S[tier.name])


def _bucket_ends(tier: Tier, low: int, high: int) -> Sequence[int]:
    """Returns the ends of a tier's buckets in (low, high]; low is the start of one."""
    if tier.width_s is not None:
        return range(low + tier.width_s, high + 1, tier.width_s)
    ends = []
    while low < high:
        low = tier.bucket(low)[1]
        ends.append(low)
    return ends


def estimate_points(window: Window, step: Step, ladder: Ladder, fold_day: int) -> int:
    """Returns about how many points there will be, two in a hundred more or less, without making them."""
    if window.start >= window.end:
        return 0
    first = ladder.kept(window.start, fold_day)[0]
    last = ladder.kept(window.end - 1, fold_day)[1]
    points = 0
    for tier, low, high in _spans(first, last, ladder, fold_day):
        if step.unit is None or _is_finer(step, tier):
            points += (high - low) // (tier.width_s or _AVERAGE_S[tier.name])
        else:
            points += (high - low) // step.average_s
    return points


def fitting_step(
    start: int, end: int, zone: Zone, ladder: Ladder, fold_day: int, most_points: int, least: Step | None
) -> Step:
    """Returns the finest step that all of a range is kept in, with about so many points at most.

    So all points of a picture are alike: none is wider than its neighbours because less is kept of it. `least`: no
    finer than this one. The longest step, if none has so few points.
    """
    kept_s = ladder.tiers[ladder.tier_of(start, fold_day)]
    finest_s = max(kept_s.width_s or _LENGTH_S[kept_s.name], least.average_s if least else 0)
    steps = sorted((step for step in STEPS.values() if step.average_s >= finest_s), key=lambda step: step.average_s)
    for step in steps:
        if estimate_points(Window(start, end, step, zone), step, ladder, fold_day) <= most_points:
            return step
    return STEPS["1y"]


def _wide_points(window: Window, edges: tuple[int, ...], ladder: Ladder, fold_day: int) -> tuple[bool, ...]:
    unit = window.step.unit
    if unit is None:
        return (False,) * (len(edges) - 1)
    buckets_until = 0  # before this, points are kept buckets
    for tier, _, high in _spans(edges[0], edges[-1], ladder, fold_day):
        if _is_finer(window.step, tier):
            buckets_until = high
    wide = []
    for start, end in pairwise(edges):
        width_s = end - start
        if start < buckets_until:
            wide.append(width_s > unit.average_s)
        else:  # its edges may have moved apart; or a clock is set back, and the step itself is longer
            wide.append(
                width_s > unit.longest_s and all(width_s > _length_s(unit, t, window) for t in (start, end - 1))
            )
    return tuple(wide)


def _length_s(unit: Unit, t: int, window: Window) -> int:
    """Returns how long the unit is that holds t."""
    return unit.after(t, window.zone) - unit.start(t, window.zone)


def _too_many(window: Window, ladder: Ladder, fold_day: int) -> ParameterInvalid:
    coarser = (STEPS[name] for name in _OFFERED if STEPS[name].average_s > window.step.average_s)
    fitting = (step.name for step in coarser if estimate_points(window, step, ladder, fold_day) < MAX_POINTS * 0.97)
    fits = next(fitting, None)
    advice = "ask for a shorter range" if fits is None else f"step={fits} would fit"
    return ParameterInvalid(
        f"this range has more than {MAX_POINTS} points at step={window.step.name}; {advice}",
        field="step",
        value=window.step.name,
        rule=f"at most {MAX_POINTS} points",
    )
