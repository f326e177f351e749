"""Sliding windows over tiers of buckets (`tiered`): what is counted, what it means, and when a refused hit will fit.

No input or output, no clock. Every admitted hit is counted in one bucket of the finest edge's width (a second, a minute
or an hour; and where a window is short, a fraction of a second). A window of length W that ends with the current second
is the sum of those in it, which is shown by its cover, the fewest buckets of all tiers that tile it: a day is 24, 83 or
142 of them. All windows of a rule read the same buckets.

The old end of a window is known only to the width of a bucket, the **edge**. Of the buckets of that width, which begin
at its multiples, `now - W` lies in one: the one that is just being left. Its hits may be inside the true window
(now - W, now] or not. So the truth is bounded:

    at_least    the buckets that begin after now - W: all of their hits are inside
    at_most     these and the bucket that is being left: all hits that are inside are in them

The **side** says which of the two is held against the limit. strict takes at_most: no true window of length W ever
holds more than the limit. lenient takes at_least: no hit is refused that a perfect log of times would allow. A bucket
that begins at b stops counting when now reaches b + W (lenient) or b + W + edge (strict), and no moment earlier, so the
time to wait is exact.

Time is counted in **ticks** of the rule: seconds, or where a window is shorter than `FINE_BELOW_S` the width of its
fine buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clickcurve.buckets.cover import Run, cover
from clickcurve.limiter.moment import moment
from clickcurve.limiter.quota import Piece, Quota, deciding, new, pause_s
from clickcurve.limiter.rule import FINE_BELOW_S, Reach, Rule

# How long fine buckets are kept: as long as any window that needs them.
FINE_KEPT_S = FINE_BELOW_S + 1


def bucket_start(tick: int, width: int) -> int:
    return tick - tick % width


def leaving(rule: Rule, reach: Reach, tick: int) -> int:
    """Returns the start of the bucket in which the window's old end lies."""
    return bucket_start(tick - reach.window_s * rule.ticks_s, reach.edge)


def inside(rule: Rule, reach: Reach, tick: int) -> list[Run]:
    """Returns the cover of the buckets that are wholly inside the window, up to the end of the newest."""
    start = leaving(rule, reach, tick) + reach.edge
    widths = rule.widths if reach.edge == rule.widths[0] else rule.widths[1:]
    return cover(start, bucket_start(tick, reach.edge) + reach.edge, widths)


def life_s(rule: Rule, width: int) -> int:
    """Returns how long a bucket of this width, a second or more, may be needed, from its first hit on.

    The newest second in it still counts for the longest window, and no cover reads it after that.
    """
    return rule.ttl_s + width // rule.ticks_s


class Counted(NamedTuple):
    """What counts under one rate at a moment.

    used: hits that are held against the limit. other: the other end of the bound. start: of the bucket with which
    enough of them leave for a hit to fit, or one, where that hit takes the last place; else it means nothing.
    """

    used: int
    other: int
    start: int


def weigh_rates(rule: Rule, counted: Sequence[Counted], latest: int, at_us: int, cost: int, taking: bool) -> Quota:
    """Returns the quota of what counts under all rates, after a hit of this cost if it is taken.

    latest: the tick of the latest hit that counts.
    """
    at_us = moment(at_us, latest * rule.tick_us)
    tick = at_us // rule.tick_us
    if len(counted) == 1:
        return weigh_rate(rule, rule.reaches[0], counted[0], latest, tick, at_us, cost, taking)
    left = [reach.limit - used for reach, (used, _, _) in zip(rule.reaches, counted, strict=True)]
    least = min(left)
    if least > (cost if taking else cost - 1):
        n = left.index(least)
        return weigh_rate(rule, rule.reaches[n], counted[n], latest, tick, at_us, cost, taking)
    quotas = []
    for reach, each in zip(rule.reaches, counted, strict=True):
        quotas.append(weigh_rate(rule, reach, each, latest, tick, at_us, cost, taking))
    return deciding(quotas)


def weigh_rate(
    rule: Rule, reach: Reach, counted: Counted, latest: int, tick: int, at_us: int, cost: int, taking: bool
) -> Quota:
    """Returns what `weigh_rates` does, of one rate. tick: the present one, `latest` or after."""
    used, other, start = counted
    limit, window_s, edge, decided, _ = reach
    wait_s: float | None = 0.0
    passes_at = 0
    fits = used + cost <= limit
    if not fits:
        wait_s = None
        if cost <= limit:
            passes_at = start + decided
            wait_s = pause_s(at_us, passes_at * rule.tick_us)
    elif taking:
        if used + cost == limit:
            passes_at = (start if used else bucket_start(tick, edge)) + decided
        used, other, latest = used + cost, other + cost, tick
    reset_at = whole_s(rule, bucket_start(latest, edge) + decided) if used else tick // rule.ticks_s
    left = limit - used if used < limit else 0  # a limit that was lowered may be exceeded
    more_at = whole_s(rule, passes_at)
    if other < used:
        used, other = other, used
    return new(Quota, (fits, limit, window_s, left, wait_s, reset_at, used, other, (), (), False, more_at))


def whole_s(rule: Rule, tick: int) -> int:
    """Returns the first whole second at a tick or after."""
    return -(-tick // rule.ticks_s)


def pieces(rule: Rule, reach: Reach, tick: int, hits: Callable[[Run], int]) -> tuple[Piece, ...]:
    """Returns the runs of a window's cover with their hits; if it is strict, the bucket being left comes first.

    hits: counts those of a run.
    """
    runs = inside(rule, reach, tick)
    if rule.is_strict:
        runs.insert(0, Run(reach.edge, leaving(rule, reach, tick), 1))
    return tuple(Piece(_seconds(rule, run.width_s), _seconds(rule, run.start), run.count, hits(run)) for run in runs)


def _seconds(rule: Rule, ticks: int) -> float:
    whole, rest = divmod(ticks, rule.ticks_s)
    return whole + rest / rule.ticks_s if rest else whole
