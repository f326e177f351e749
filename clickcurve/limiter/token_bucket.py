"""The token bucket: tokens drip in at a steady rate up to a burst, and a hit takes as many as it costs.

No timer fills it: what has come in since the last look is added when somebody looks. All numbers are integers, so no
fraction of a token is ever lost or made. For 10 an hour a token is 360,000,000 drops and one drop falls each
microsecond: a rate of L in W is L drops in W, with common factors taken out (`Flow`). Where a burst would have more
drops than a double can count exactly (2^53; scripts inside a backend have nothing better), time ticks more slowly.

A rule of several rates has a bucket for each, full at first. A hit takes from all of them or from none: `levels` are
the drops in each, in the order of the rates, all as of one moment.

Where the clock was set back a bucket holds what it would have held then (`moment` says when a time is taken for an
earlier one): what came in since is taken out again. If that is more than there is, its hits lie in the future, and it
is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.quota import Quota, deciding, new, pause_s
from clickcurve.times import SECOND_US

EXACT = 1 << 53
_TICKS_US = tuple(10**power for power in range(7))  # 1 us to 1 s
_PARTS = 1_000  # of a token, that a change of rate keeps


class Flow(NamedTuple):
    """A rate and a burst in whole numbers.

    Each tick of `tick_us` brings `gain` drops, a token is `token` drops, and `full` drops are the most there can be:
    `burst` tokens, which come in within window_s.
    """

    tick_us: int
    gain: int
    token: int
    full: int
    burst: int
    window_s: int


def flow_of(limit: int, window_s: int, burst: int) -> Flow:
    """Returns the flow of limit tokens in window_s seconds up to burst tokens; RuleInvalid if no tick is exact."""
    for tick_us in _TICKS_US:
        ticks = window_s * SECOND_US // tick_us
        common = gcd(limit, ticks)
        token = ticks // common
        if max(burst, _PARTS) * token < EXACT:
            return Flow(tick_us, limit // common, token, burst * token, burst, -(-burst * window_s // limit))
    raise RuleInvalid(
        f"a burst of {burst} at {limit} in {window_s} s is more than can be counted exactly",
        field="burst",
        value=burst,
        rule="burst times window below 2^53 s",
    )


def drops_at(flow: Flow, drops: int, seen_us: int, at_us: int) -> int:
    """Returns the drops at at_us of a bucket that had `drops` at seen_us, which may be later."""
    return levels_at((flow,), (drops,), seen_us, at_us)[0]


def levels_at(flows: Sequence[Flow], levels: Sequence[int], seen_us: int, at_us: int) -> list[int]:
    """Returns what `drops_at` does, of each bucket."""
    return [
        then if 0 <= (then := drops + (at_us // tick_us - seen_us // tick_us) * gain) < full else full
        for (tick_us, gain, _, full, _, _), drops in zip(flows, levels, strict=True)
    ]


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


def weigh_levels(flows: Sequence[Flow], levels: Sequence[int], at_us: int, cost: int, taking: bool) -> Quota:
    """Returns the quota of the buckets of all rates, which hold `levels` now.

    It is the one after a hit of this cost if that fits and is taken: that of the rate that matters.
    """
    if len(flows) == 1:
        return weigh_tokens(flows[0], levels[0], at_us, cost, taking)
    left = [drops // flow.token for flow, drops in zip(flows, levels, strict=True)]
    least = min(left)
    if least > (cost if taking else cost - 1):
        # Some is left under each rate: the first of the tightest has the least limit.
        n = left.index(least)
        return weigh_tokens(flows[n], levels[n], at_us, cost, taking)
    pairs = zip(flows, levels, strict=True)
    return deciding([weigh_tokens(flow, drops, at_us, cost, taking) for flow, drops in pairs])


def weigh_tokens(flow: Flow, drops: int, at_us: int, cost: int, taking: bool) -> Quota:
    """Returns what `weigh_levels` does, of one bucket.

    Its limit is the burst, and the missing tokens stand for the hits that count.
    """
    _, _, token, full, burst, window_s = flow
    fits = cost * token <= drops
    if fits and taking:
        drops -= cost * token
    left = drops // token
    wait_s: float | None = 0.0
    more_at = 0
    if not fits and cost > burst:
        wait_s = None
    elif not fits or not left:
        more_us = holds_at(flow, drops, at_us, token if fits else cost * token)
        wait_s = 0.0 if fits else pause_s(at_us, more_us)
        more_at = -(-more_us // SECOND_US)
    reset_at = -(-holds_at(flow, drops, at_us, full) // SECOND_US)
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
