"""Where the points of a curve lie: the edges between them, as the kept buckets allow. No counts here.

The points tile from the start of the kept bucket that holds the range's start to the end of the one that holds its
end. Between those:

- where the step is finer than what a tier keeps, every kept bucket is a point (a year of minutes is not a million
  points, but some 60 weeks and then minutes);
- elsewhere each of the step's edges inside the range is one, moved up to the end of the kept bucket that it falls
  inside, if any; edges that meet are one.

The result depends on the range, the step, the zone and the fold day, so it serves all links alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from buckets.curve import State
from buckets.errors import ParameterInvalid
from buckets.ladder import DAY_S, Ladder, Tier
from query.asked import Window
from query.times import STEPS, Step
from query.zones import Calendar, Fixed, Unit, Zone

MAX_POINTS = 10_000

# What "which step would fit" may answer, finest first. Years always fit: time ends in the year 9999.
_OFFERED = ("5m", "1h", "1d", "1w", "1mo", "1y")
# No bucket of a calendar tier is longer than this: what a step must exceed for its edges to matter there.
_CALENDAR_S = {"week": 7 * DAY_S, "month": 28 * DAY_S}


@dataclass(frozen=True, slots=True)
class Layout:
    """The points of one window: point i is [edges[i], edges[i + 1]). `cut` names the kept buckets, as (tier, start),
    of which the asked range holds only a part: none, one or two."""

    window: Window
    fold_day: int
    edges: tuple[int, ...]
    cut: tuple[tuple[int, int], ...]

    def open_from(self, now: int) -> int:
        """The index of the first point that ends after now."""
        return max(0, bisect_right(self.edges, now) - 1)

    def states(self, open_from: int) -> list[State]:
        """One state per point: open, else partial, else complete."""
        points = len(self.edges) - 1
        if points < 1:
            return []
        states = [State.complete] * points
        if self.edges[0] < self.window.start:
            states[0] = State.partial
        if self.edges[-1] > self.window.end:
            states[-1] = State.partial
        states[open_from:] = [State.open] * (points - open_from)
        return states


class _TooMany(Exception):
    """More edges than a curve may have."""


def layout(window: Window, ladder: Ladder, fold_day: int) -> Layout:
    """The points of a window on a fold day; ParameterInvalid when there are more than MAX_POINTS."""
    if window.start >= window.end:
        return Layout(window, fold_day, (), ())
    try:
        edges = _edges(window, window.step, ladder, fold_day)
    except _TooMany:
        raise _too_many(window, ladder, fold_day) from None
    return Layout(window, fold_day, edges, _cut(window, edges, ladder, fold_day))


def _edges(window: Window, step: Step, ladder: Ladder, fold_day: int) -> tuple[int, ...]:
    first = ladder.kept(window.start, fold_day)[0]
    last = ladder.kept(window.end - 1, fold_day)[1]
    found = [first]
    for tier, low, high in _spans(first, last, ladder, fold_day):
        if step.unit is None or _is_finer(step, tier):
            found += _taken(_bucket_ends(tier, low, high))
        else:
            inside = step_edges(step.unit, max(low, window.start), min(high, window.end - 1), window.zone)
            found += tier.edges_up(_taken(inside))
    edges = tuple(dict.fromkeys((*found, last)))
    if len(edges) > MAX_POINTS + 1:
        raise _TooMany
    return edges


def _spans(first: int, last: int, ladder: Ladder, fold_day: int) -> Iterator[tuple[Tier, int, int]]:
    """The tiers that hold [first, last), oldest first, each with its part of that span."""
    cuts = ladder.cuts(fold_day)
    for index in reversed(range(len(cuts))):
        low = max(first, cuts[index])
        high = min(last, cuts[index - 1]) if index else last
        if low < high:
            yield ladder.tiers[index], low, high


def _is_finer(step: Step, tier: Tier) -> bool:
    """Are this tier's buckets themselves the points, because the step is finer or the very same?

    A week or month step is never the same as a week or month bucket: buckets follow UTC, and a week is cut at month
    edges.
    """
    if tier.width_s is not None:
        return step.usual_s <= tier.width_s and isinstance(step.unit, Fixed)
    return step.usual_s < _CALENDAR_S[tier.name]


def _bucket_ends(tier: Tier, low: int, high: int) -> Iterator[int] | range:
    """The ends of a tier's buckets in (low, high]; low is the start of one."""
    if tier.width_s is not None:
        return range(low + tier.width_s, high + 1, tier.width_s)
    return _calendar_ends(tier, low, high)


def _calendar_ends(tier: Tier, low: int, high: int) -> Iterator[int]:
    while low < high:
        low = tier.bucket(low)[1]
        yield low


def step_edges(unit: Unit, low: int, high: int, zone: Zone) -> Iterator[int]:
    """The unit's edges in (low, high], ascending.

    Fixed steps go day by day while the zone's offset keeps its phase, because asking the zone for each edge is slow.
    """
    if isinstance(unit, Calendar) or low >= high:
        yield from _edges_one_by_one(unit, low, high, zone)
        return
    width = unit.width_s
    phase = zone.offset(low) % width
    while low < high:
        until = high if zone.is_utc else min(high, low + DAY_S)
        later = zone.offset(until) % width
        if later == phase:
            yield from range(low + width - (low + phase) % width, until + 1, width)
        else:
            yield from _edges_one_by_one(unit, low, until, zone)
        low, phase = until, later


def _edges_one_by_one(unit: Unit, low: int, high: int, zone: Zone) -> Iterator[int]:
    while (low := unit.after(low, zone)) <= high:
        yield low


def _taken(edges: Iterable[int]) -> list[int]:
    """All of them, as long as they could be edges of one curve: so a range of a million points costs no memory."""
    taken = list(islice(edges, MAX_POINTS + 2))
    if len(taken) > MAX_POINTS + 1:
        raise _TooMany
    return taken


def _cut(window: Window, edges: tuple[int, ...], ladder: Ladder, fold_day: int) -> tuple[tuple[int, int], ...]:
    cut = {}
    for t, edge in ((window.start, edges[0]), (window.end - 1, edges[-1])):
        if edge not in (window.start, window.end):
            cut[ladder.kept(t, fold_day)[0]] = ladder.tier_of(t, fold_day)
    return tuple((tier, start) for start, tier in cut.items())


def _too_many(window: Window, ladder: Ladder, fold_day: int) -> ParameterInvalid:
    coarser = (STEPS[name] for name in _OFFERED if STEPS[name].usual_s > window.step.usual_s)
    fits, points = next(found for step in coarser if (found := _fit(window, step, ladder, fold_day)))
    return ParameterInvalid(
        f"this range has more than {MAX_POINTS} points at step={window.step.name};"
        f" step={fits.name} would fit, with {points} points",
        field="step",
        value=window.step.name,
        rule=f"at most {MAX_POINTS} points",
    )


def _fit(window: Window, step: Step, ladder: Ladder, fold_day: int) -> tuple[Step, int] | None:
    try:
        return step, len(_edges(window, step, ladder, fold_day)) - 1
    except _TooMany:
        return None
