"""The token bucket: tokens drip in at a steady rate up to a burst, and a hit takes as many as it costs.

No timer fills it: what has come in since the last look is added when somebody looks. All numbers are integers, so no
fraction of a token is ever lost or made. For 10 an hour a token is 360,000,000 drops and one drop falls each
microsecond: a rate of L in W is L drops in W, with common factors taken out (`Flow`). Where a burst would have more
drops than a double can count exactly (2^53; scripts inside a backend have nothing better), time ticks more slowly.

A clock that steps back grants nothing: the level stays as it is until the clock is where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.quota import Quota, new, pause_s
from clickcurve.times import SECOND_US

EXACT = 1 << 53
_TICKS_US = tuple(10**power for power in range(7))  # 1 us to 1 s
_PARTS = 1_000  # of a token, that a change of rate keeps


class Flow(NamedTuple):
    """A rate and a burst in whole numbers.

    Each tick of `tick_us` brings `gain` drops, a token is `token` drops, and `full` drops are the most there can be.
    """

    tick_us: int
    gain: int
    token: int
    full: int


NO_FLOW = Flow(1, 1, 1, 0)  # of a rule without a token bucket


def flow_of(limit: int, window_s: int, burst: int) -> Flow:
    """Returns the flow of limit tokens in window_s seconds up to burst tokens; RuleInvalid if no tick is exact."""
    for tick_us in _TICKS_US:
        ticks = window_s * SECOND_US // tick_us
        common = gcd(limit, ticks)
        token = ticks // common
        if max(burst, _PARTS) * token < EXACT:
            return Flow(tick_us, limit // common, token, burst * token)
    raise RuleInvalid(
        f"a burst of {burst} at {limit} in {window_s} s is more than can be counted exactly",
        field="burst",
        value=burst,
        rule="burst times window below 2^53 s",
    )


def drops_at(flow: Flow, drops: int, seen_us: int, at_us: int) -> int:
    """Returns the drops at at_us of a bucket that had `drops` at seen_us; `drops` if seen_us is later."""
    if at_us <= seen_us:
        return drops
    ticks = at_us // flow.tick_us - seen_us // flow.tick_us
    missing = flow.full - drops
    # By division: the product of a long absence may be too large for a double.
    return flow.full if ticks > missing // flow.gain else drops + ticks * flow.gain


def converted(drops: int, old: Flow, new: Flow) -> int:
    """Returns what a bucket holds after a change of rate or burst: its tokens, down to a thousandth.

    Down to a drop of the new flow too, and at most a full bucket. What came in until then did so at the old rate:
    `drops_at` comes first.
    """
    if old == new:
        return drops
    tokens, rest = divmod(drops, old.token)
    if tokens * new.token >= new.full:
        return new.full
    return min(new.full, tokens * new.token + rest * _PARTS // old.token * new.token // _PARTS)


def holds_at(flow: Flow, drops: int, at_us: int, wanted: int) -> int:
    """Returns the epoch microsecond at which a bucket will hold `wanted` drops (at most full) if nobody takes any.

    It has `drops` at at_us.
    """
    missing = wanted - drops
    if missing <= 0:
        return at_us
    return (at_us // flow.tick_us - -missing // flow.gain) * flow.tick_us


def weigh_tokens(flow: Flow, window_s: int, drops: int, seen_us: int, at_us: int, cost: int, taking: bool) -> Quota:
    """Returns the quota of a bucket that holds `drops` at seen_us, which is now or later.

    It is the one after a hit of this cost if that fits and is taken. Its limit is the burst, which comes in within
    window_s, and the missing tokens stand for the hits that count.
    """
    burst, wanted = flow.full // flow.token, cost * flow.token
    fits = wanted <= drops
    if fits and taking:
        drops -= wanted
    left = drops // flow.token
    wait_s: float | None = 0.0
    more_at = 0
    if not fits and cost > burst:
        wait_s = None
    elif not fits or not left:
        more_us = holds_at(flow, drops, seen_us, flow.token if fits else wanted)
        wait_s = 0.0 if fits else pause_s(at_us, more_us)
        more_at = -(-more_us // SECOND_US)
    reset_at = -(-holds_at(flow, drops, seen_us, flow.full) // SECOND_US)
    used = burst - left
    return new(Quota, (fits, burst, window_s, left, wait_s, reset_at, used, used, (), (), False, more_at))


# --- giving tokens back -----------------------------------------------------------------------------------------------
# What a hit took cannot always be given back whole: had it never been, the bucket might have been full since and the
# tokens lost. So each reservation that is open carries a **claim**: the least that was missing from the bucket at any
# moment since. No more than that may be given back, and then the bucket holds just what it would without the hit.
def trim_claims(claims: Sequence[int], missing: int) -> list[int]:
    """Bounds the claims of a bucket, oldest first, by the drops that are missing from it at a moment.

    Comes before every hit that takes tokens, and before one gives them back.
    """
    return [min(claim, missing) for claim in claims]


def give_back(claims: Sequence[int], which: int, drops: int) -> tuple[int, list[int]]:
    """Returns the drops to put back for claim number `which`, and all claims after that.

    drops: what the hit, or the part of it that is taken back, took. The claim itself is then 0. Without that hit there
    would have been less missing since, for the other claims too.
    """
    claim = claims[which]
    back = min(claim, drops)
    older = [min(each, claim - back) for each in claims[:which]]
    return back, [*older, 0, *(each - back for each in claims[which + 1 :])]
