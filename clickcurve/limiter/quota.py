"""What one key has left under one rule: what a backend answers, in the numbers of the rate that matters.

Named tuples, since several are made for every request and a frozen dataclass takes ten times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

# Makes a named tuple in a third of the time of its own constructor: new(Bound, (1, 2)).
new = tuple.__new__


class Bound(NamedTuple):
    """How many admitted hits the window holds: a number from at_least to at_most."""

    at_least: int
    at_most: int


class Piece(NamedTuple):
    """`buckets` adjacent buckets of one width that a window was summed from, the first at `start`, with their hits."""

    width_s: float
    start: float
    buckets: int
    hits: int


class Quota(NamedTuple):
    """What one key has left under one rule, in the numbers of the rate that matters.

    That is, of the rates that refuse, the one with the longest wait; else the tightest: least remaining, then the
    latest more_at, then least limit, then longest window. Of a token bucket limit is the burst, and window_s the time
    in which that comes in.

    All numbers are of one moment, after the hit if it was counted. retry_after_s: 0.0 where the hit fits, None where it
    never will. reset_at: epoch seconds, rounded up, at which all of the limit is free if nobody calls. at_least and
    at_most bound the hits in the window (now - window, now]; they are equal where a strategy knows exactly.
    fallback: it was decided without the backend. more_at: epoch seconds, rounded up, at which this hit fits where it is
    refused, or one more where nothing is left; 0 where some is left, or no time helps.
    """

    fits: bool
    limit: int
    window_s: int
    remaining: int
    retry_after_s: float | None
    reset_at: int
    at_least: int
    at_most: int
    pieces: tuple[Piece, ...] = ()
    callers: tuple[str, ...] = ()
    fallback: bool = False
    more_at: int = 0


def deciding(quotas: Sequence[Quota]) -> Quota:
    """Returns the quota of the rate that matters: of the refusals that with the longest wait, else the tightest."""
    if len(quotas) == 1:
        return quotas[0]
    refusals = [quota for quota in quotas if not quota.fits]
    if len(refusals) == 1:
        return refusals[0]
    return max(refusals, key=by_wait) if refusals else min(quotas, key=by_room)


def by_room(quota: Quota) -> tuple[int, int, int, int]:
    """Sorts by room: the tightest first."""
    return quota.remaining, -quota.more_at, quota.limit, -quota.window_s


def by_wait(quota: Quota) -> tuple[float, int, int, int]:
    """Sorts by wait: the longest last, and of equal ones the tightest last."""
    wait_s = quota.retry_after_s
    return inf if wait_s is None else wait_s, -quota.remaining, -quota.limit, quota.window_s


def pause_s(now_us: int, until_us: int) -> float:
    """Returns the seconds to wait from now_us until a hit is at until_us or after, rounded up to milliseconds.

    One more where adding it to epoch seconds would round to just before.
    """
    wait_ms = -(-(until_us - now_us) // 1_000)
    now_s = now_us / 1_000_000
    while int((now_s + wait_ms / 1_000) * 1_000_000) < until_us:
        wait_ms += 1
    return wait_ms / 1_000
