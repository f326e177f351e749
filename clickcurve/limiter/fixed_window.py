"""Windows that begin at a moment: multiples of their length on the clock, or a first hit. Pure arithmetic.

`fixed` and `per_second` count on the clock, `single_counter` and `list` from a first hit.

`fixed` counts each of its rates in the window [n W, (n + 1) W) of the clock, so that around the turn of two windows up
to twice the limit can pass within W. A window that a hit opened lasts W from that very microsecond, and the next hit
that is admitted after it opens the next one. Ten means ten: a hit fits while the count with it is at most the limit.

Where the clock was set back to before a window, its count is none (`moment`).
"""

from __future__ import annotations

from clickcurve.limiter.quota import Quota, new, pause_s
from clickcurve.times import SECOND_US


def turn(second: int, window_s: int) -> int:
    """Returns the second at which the clock's window that holds this second ends, and the next begins."""
    return (second // window_s + 1) * window_s


def closes_us(opened_us: int, window_s: int) -> int:
    """Returns the epoch microsecond from which a window that a hit opened at opened_us no longer counts."""
    return opened_us + window_s * SECOND_US


def weigh_count(limit: int, window_s: int, used: int, closes_us: int, at_us: int, cost: int, taking: bool) -> Quota:
    """Returns the quota of a count in a window that closes at closes_us.

    It is the one after a hit of this cost if that fits and is taken. Where nothing is counted all of the limit is free
    now, and reset_at says so.
    """
    fits = used + cost <= limit
    wait_s: float | None = 0.0
    if not fits:
        wait_s = pause_s(at_us, closes_us) if cost <= limit else None
    elif taking:
        used += cost
    reset_at = -(-closes_us // SECOND_US) if used else at_us // SECOND_US
    left = limit - used if limit > used else 0  # a limit that was lowered may be exceeded
    more_at = reset_at if not left or wait_s else 0
    return new(Quota, (fits, limit, window_s, left, wait_s, reset_at, used, used, (), (), False, more_at))
