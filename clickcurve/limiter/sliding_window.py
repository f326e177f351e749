"""Sliding windows over tiers of buckets (`tiered`): what is counted, what it means, and when a refused hit will fit.

No input or output, no clock. Every admitted hit is counted in one bucket of each tier (second, minute, hour). A window
of length W that ends with the current second is the sum of its cover, the fewest buckets that tile it: a day is 24, 83
or 142 of them. All windows of a rule read the same buckets.

The old end of a window is known only to the width of a bucket, the **edge**. Of the buckets of that width, which begin
at its multiples, `now - W` lies in one: the one that is just being left. Its hits may be inside the true window
(now - W, now] or not. So the truth is bounded:

    at_least    the buckets that begin after now - W: all of their hits are inside
    at_most     these and the bucket that is being left: all hits that are inside are in them

The **side** says which of the two is held against the limit. strict takes at_most: no true window of length W ever
holds more than the limit. lenient takes at_least: no hit is refused that a perfect log of times would allow. A bucket
that begins at b stops counting when now reaches b + W (lenient) or b + W + edge (strict), and no moment earlier, so the
time to wait is exact.

Here a bucket is (width_s, start). A bucket that was asked for and is not among the counts has 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeAlias

from clickcurve.buckets.cover import Run, cover
from clickcurve.limiter.quota import Piece, Quota, longest, new, pause_s
from clickcurve.limiter.rule import Reach, Rule
from clickcurve.times import SECOND_US

Bucket: TypeAlias = tuple[int, int]
Counts: TypeAlias = Mapping[Bucket, int]
# Yields the buckets whose counts it needs, is sent a mapping that has (at least) those, and returns its result.
Reading: TypeAlias = Generator[list[Bucket], Counts, "Quota"]


def bucket_start(second: int, width_s: int) -> int:
    return second - second % width_s


def leaving(reach: Reach, edge_s: int, second: int) -> int:
    """Returns the start of the bucket in which the window's old end lies."""
    return bucket_start(second - reach.window_s, edge_s)


def inside(rule: Rule, reach: Reach, second: int) -> list[Run]:
    """Returns the cover of the buckets that are wholly inside the window, up to the end of the newest."""
    start = leaving(reach, rule.edge_s, second) + rule.edge_s
    return cover(start, bucket_start(second, rule.edge_s) + rule.edge_s, rule.widths_s)


def buckets_of(runs: Iterable[Run]) -> list[Bucket]:
    """Returns every bucket of the runs, in order of time."""
    return [(run.width_s, start) for run in runs for start in range(run.start, run.end, run.width_s)]


def buckets_read(rule: Rule, second: int) -> list[Bucket]:
    """Returns the buckets that a decision reads, for all rates of the rule together, each once."""
    wanted: dict[Bucket, None] = {}
    for reach in rule.reaches:
        wanted[rule.edge_s, leaving(reach, rule.edge_s, second)] = None
        wanted.update(dict.fromkeys(buckets_of(inside(rule, reach, second))))
    return list(wanted)


def buckets_written(rule: Rule, second: int) -> list[Bucket]:
    """Returns the buckets to which an admitted hit is added."""
    return [(width_s, bucket_start(second, width_s)) for width_s in rule.widths_s]


def life_s(rule: Rule, width_s: int) -> int:
    """Returns the seconds after which a bucket that is written now may be forgotten.

    The newest second in it still counts for the longest window, and no cover reads it after that.
    """
    return rule.ttl_s + width_s


def weigh_buckets(rule: Rule, second: int, latest: int, at_us: int, cost: int, taking: bool) -> Reading:
    """Works out a key's quota from the counts of its buckets.

    It takes one round of reading where the hit fits; where it does not, or takes the last place, up to two more find
    the very bucket of the edge's width whose end lets it, or the next one, pass.

    second is the current one, or `latest`, that of the latest hit that was charged, if that is later.
    """
    counts = yield buckets_read(rule, second)
    sums = [bound(rule, reach, second, counts) for reach in rule.reaches]
    decided = [at_most if rule.is_strict else at_least for at_least, at_most in sums]
    refusing = [n for n, reach in enumerate(rule.reaches) if decided[n] + cost > reach.limit]
    if not refusing:
        left = [reach.limit - used for reach, used in zip(rule.reaches, decided, strict=True)]
        tight, more_at = left.index(min(left)), 0
        if taking and left[tight] == cost:
            for n in [n for n, each in enumerate(left) if each == cost]:
                passes_at = bucket_start(second, rule.edge_s) + rule.reaches[n].decided_s
                if decided[n]:
                    passes_at = yield from _passes_at(rule, rule.reaches[n], second, counts, 1)
                if passes_at > more_at:
                    tight, more_at = n, passes_at
        newest = second if taking else latest
        added = cost if taking else 0
        return admitted_quota(rule, rule.reaches[tight], sums[tight], added, newest, second, more_at)
    refused = []
    for n in refusing:
        reach = rule.reaches[n]
        passes_at = None
        if cost <= reach.limit:
            passes_at = yield from _passes_at(rule, reach, second, counts, decided[n] + cost - reach.limit)
        refused.append(refused_quota(rule, reach, sums[n], latest, second, at_us, passes_at))
    return longest(refused)


def bound(rule: Rule, reach: Reach, second: int, counts: Counts) -> tuple[int, int]:
    """Returns the hits of the buckets inside the window, and the same with those of the bucket being left."""
    at_least = sum(counts.get(bucket, 0) for bucket in buckets_of(inside(rule, reach, second)))
    return at_least, at_least + counts.get((rule.edge_s, leaving(reach, rule.edge_s, second)), 0)


def _passes_at(
    rule: Rule, reach: Reach, second: int, counts: Counts, too_many: int
) -> Generator[list[Bucket], Counts, int]:
    """Returns the second from which `too_many` of the hits that count no longer do."""
    looked = buckets_of(inside(rule, reach, second))
    if rule.is_strict:
        looked.insert(0, (rule.edge_s, leaving(reach, rule.edge_s, second)))
    while True:
        width_s, start = looked[-1]
        for width_s, start in looked:
            hits = counts.get((width_s, start), 0)
            if too_many <= hits:
                break
            too_many -= hits
        if width_s == rule.edge_s:
            return start + reach.decided_s
        finer_s = rule.widths_s[rule.widths_s.index(width_s) - 1]
        looked = [(finer_s, finer) for finer in range(start, start + width_s, finer_s)]
        counts = yield looked


def admitted_quota(
    rule: Rule, reach: Reach, bounds: tuple[int, int], added: int, newest: int, second: int, more_at: int
) -> Quota:
    """Returns the quota of a hit that fits.

    bounds: those without it. added: what it adds. newest: the second of the newest hit that counts.
    """
    at_least, at_most = bounds[0] + added, bounds[1] + added
    used = at_most if rule.is_strict else at_least
    resets = reset_at(rule, reach, used, newest, second)
    left = reach.limit - used
    return new(Quota, (True, reach.limit, reach.window_s, left, 0.0, resets, at_least, at_most, (), (), False, more_at))


def refused_quota(
    rule: Rule, reach: Reach, bounds: tuple[int, int], newest: int, second: int, at_us: int, passes_at: int | None
) -> Quota:
    """Returns the quota of a hit that one rate refuses until the second passes_at, or for ever (None)."""
    used = bounds[rule.is_strict]
    wait_s = None if passes_at is None else pause_s(at_us, passes_at * SECOND_US)
    remaining = reach.limit - used if used < reach.limit else 0  # a limit that was lowered may be exceeded
    resets = reset_at(rule, reach, used, newest, second)
    more_at = passes_at or 0
    return new(Quota, (False, reach.limit, reach.window_s, remaining, wait_s, resets, *bounds, (), (), False, more_at))


def reset_at(rule: Rule, reach: Reach, used: int, newest: int, second: int) -> int:
    """Returns the second at which every hit up to `newest` has stopped counting."""
    return bucket_start(newest, rule.edge_s) + reach.decided_s if used else second


def pieces(rule: Rule, reach: Reach, second: int, hits: Callable[[Run], int]) -> tuple[Piece, ...]:
    """Returns the runs of a window's cover with their hits; if it is strict, the bucket being left comes first.

    hits: counts those of a run.
    """
    runs = inside(rule, reach, second)
    if rule.is_strict:
        runs.insert(0, Run(rule.edge_s, leaving(reach, rule.edge_s, second), 1))
    return tuple(Piece(run.width_s, run.start, run.count, hits(run)) for run in runs)
