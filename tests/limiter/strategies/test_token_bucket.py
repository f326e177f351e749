from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from clickcurve.limiter.token_bucket import (
    EXACT,
    Flow,
    converted,
    drops_at,
    flow_of,
    give_back,
    holds_at,
    trim_claims,
    weigh_tokens,
)
from tests.limiter.given import ANN, BEN, T, hits
from tests.limiter.places import Place, on
from tests.limiter.replay.traces import rates_of, steps, text_of

SECOND_US = 1_000_000
limits = st.integers(1, 100_000)
windows = st.sampled_from([1, 7, 60, 3_600, 86_399, 86_400, 30 * 86_400])
moments = st.integers(1_700_000_000 * SECOND_US, 1_800_000_000 * SECOND_US)


@given(st.integers(1, 1_000_000_000), st.integers(1, 366 * 86_400), st.integers(1, 1_000_000))
def test_a_flow_is_the_rate_exactly_in_numbers_that_a_double_can_hold(limit: int, window_s: int, burst: int) -> None:
    flow = flow_of(limit, window_s, burst)
    per_us = Fraction(flow.gain, flow.token * flow.tick_us)
    assert per_us == Fraction(limit, window_s * SECOND_US)
    assert flow.full == burst * flow.token < EXACT


def test_ten_an_hour_keeps_every_microsecond() -> None:
    assert flow_of(10, 3_600, 10) == Flow(1, 1, token=360_000_000, full=3_600_000_000, burst=10, window_s=3_600)
    assert flow_of(10, 60, 25).window_s == 150
    # A thousandth of a token, which a change of rate keeps, is exact as well.
    assert 1_000 * flow_of(1, 366 * 86_400, 1).token < 1 << 53


def test_what_cannot_be_counted_exactly_is_refused() -> None:
    with pytest.raises(RuleInvalid, match="more than can be counted exactly"):
        flow_of(999_999_937, 366 * 86_400, 1_000_000_000)


@given(limits, windows, limits, st.data())
def test_the_level_is_that_of_exact_fractions(limit: int, window_s: int, burst: int, data: st.DataObject) -> None:
    flow = flow_of(limit, window_s, burst)
    at_us = data.draw(moments)
    at_us -= at_us % flow.tick_us
    drops, tokens = flow.full, Fraction(burst)
    for _ in range(20):
        later = at_us + flow.tick_us * data.draw(st.integers(0, 3 * flow.full // flow.gain))
        tokens = min(Fraction(burst), tokens + Fraction((later - at_us) * limit, window_s * SECOND_US))
        drops = drops_at(flow, drops, at_us, later)
        at_us = later
        assert Fraction(drops, flow.token) == tokens
        cost = data.draw(st.integers(1, burst))
        if cost <= tokens:
            tokens -= cost
            drops -= cost * flow.token


@given(limits, windows, limits, moments, st.data())
def test_the_wait_is_exact_to_the_tick(limit: int, window_s: int, burst: int, at_us: int, data: st.DataObject) -> None:
    flow = flow_of(limit, window_s, burst)
    drops = data.draw(st.integers(0, flow.full))
    wanted = data.draw(st.integers(1, burst)) * flow.token
    then = holds_at(flow, drops, at_us, wanted)
    assert drops_at(flow, drops, at_us, then) >= wanted
    if then > at_us:
        assert drops_at(flow, drops, at_us, then - 1) < wanted


def test_many_short_steps_bring_what_one_long_step_brings() -> None:
    flow = flow_of(10, 3_600, 10)
    drops = 0
    for second in range(3_600):
        drops = drops_at(flow, drops, second * SECOND_US, (second + 1) * SECOND_US)
    assert drops == drops_at(flow, 0, 0, 3_600 * SECOND_US) == flow.full


def test_a_clock_that_steps_back_takes_out_what_came_in_and_a_bucket_that_held_less_is_full() -> None:
    flow = flow_of(10, 60, 10)
    six_s = 6 * SECOND_US * flow.gain
    assert drops_at(flow, six_s, 1_000 * SECOND_US, 998 * SECOND_US) == six_s * 2 // 3
    assert drops_at(flow, six_s, 1_000 * SECOND_US, 994 * SECOND_US) == 0
    assert drops_at(flow, six_s, 1_000 * SECOND_US, 994 * SECOND_US - 1) == flow.full


@given(limits, windows, limits, limits, windows, limits, st.data())
def test_a_change_of_rate_and_burst_keeps_the_tokens_that_are_there(
    limit: int, window_s: int, burst: int, limit2: int, window2_s: int, burst2: int, data: st.DataObject
) -> None:
    old, new = flow_of(limit, window_s, burst), flow_of(limit2, window2_s, burst2)
    drops = data.draw(st.integers(0, old.full))
    tokens = Fraction(drops, old.token)
    after = Fraction(converted(drops, old, new), new.token)
    room = Fraction(burst2)
    assert after <= min(tokens, room)
    assert after >= min(tokens - Fraction(1, 1_000) - Fraction(1, new.token), room)
    if drops % old.token == 0:
        assert after == min(tokens, room)


def test_the_numbers_of_a_quota() -> None:
    flow = flow_of(60, 60, 10)
    at_us = 1_000 * SECOND_US
    full = weigh_tokens(flow, flow.full, at_us, 3, True)
    assert (full.fits, full.limit, full.remaining, full.retry_after_s, full.reset_at) == (True, 10, 7, 0.0, 1_003)
    low = weigh_tokens(flow, flow.token * 3 // 2, at_us, 4, True)
    assert (low.fits, low.remaining, low.retry_after_s, low.reset_at) == (False, 1, 2.5, 1_009)
    never = weigh_tokens(flow, flow.full, at_us, 11, True)
    assert (never.fits, never.retry_after_s) == (False, None)


class Bucket:
    """A bucket with claims, stepped by hand."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.drops, self.at_us = flow, flow.full, 0
        self.open: dict[int, int] = {}

    def see(self, at_us: int) -> None:
        self.drops = drops_at(self.flow, self.drops, self.at_us, at_us)
        self.at_us = at_us
        self._keep(trim_claims(list(self.open.values()), self.flow.full - self.drops))

    def take(self, cost: int, name: int) -> bool:
        if cost * self.flow.token > self.drops:
            return False
        self.drops -= cost * self.flow.token
        self.open[name] = self.flow.full
        return True

    def cancel(self, name: int, cost: int) -> None:
        which = list(self.open).index(name)
        back, claims = give_back(list(self.open.values()), which, cost * self.flow.token)
        self.drops += back
        self._keep(claims)

    def _keep(self, claims: list[int]) -> None:
        self.open = dict(zip(self.open, claims, strict=True))


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=25),
    st.data(),
)
def test_a_cancelled_hit_leaves_the_bucket_as_if_it_had_never_been(
    limit: int, burst: int, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Takes and cancels in any order, against a bucket to which the cancelled hits never came."""
    bucket = Bucket(flow_of(limit, 5, burst))
    moment, taken = 0, list[tuple[int, int, int]]()  # moment, name, cost
    cancelled = set[int]()
    for name, (wait_s, cost) in enumerate(steps):
        moment += wait_s * SECOND_US
        bucket.see(moment)
        if bucket.take(cost, name):
            taken.append((moment, name, cost))
        open_names = [each for _, each, _ in taken if each not in cancelled]
        undoes = data.draw(st.booleans())
        if open_names and undoes:
            undone = data.draw(st.sampled_from(open_names))
            bucket.cancel(undone, next(cost for _, each, cost in taken if each == undone))
            cancelled.add(undone)
        assert bucket.drops == without(bucket.flow, taken, cancelled, moment)


def without(flow: Flow, taken: list[tuple[int, int, int]], cancelled: set[int], moment: int) -> int:
    drops, at_us = flow.full, 0
    for then, name, cost in taken:
        if name not in cancelled:
            drops = drops_at(flow, drops, at_us, then) - cost * flow.token
            at_us = then
    return drops_at(flow, drops, at_us, moment)


# --- several rates ----------------------------------------------------------------------------------------------------
@on("token_bucket")
def test_a_hit_takes_from_the_buckets_of_all_rates_or_from_none(strategy: str, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "2/s, 5/m, 7/h", "strategy": strategy}})
    assert hits(limiter, 3, T) == [True, True, False]
    assert hits(limiter, 3, T + 2) == [True, True, False]
    told = limiter.hit("e", ANN, now=T + 4)
    assert (told.allowed, told.limit, told.remaining) == (True, 5, 0)
    refused = limiter.hit("e", ANN, now=T + 6)
    assert (refused.allowed, refused.limit, refused.window_s, refused.rate.limit) == (False, 5, 60, 5)
    assert refused.retry_after_s == 6.0
    assert hits(limiter, 3, T + 62) == [True, True, False]
    assert limiter.hit("e", ANN, now=T + 70).window_s == 3_600
    assert limiter.hit("e", BEN, now=T + 70).remaining == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_rule_of_several_rates_answers_as_a_rule_for_each(seed: int) -> None:
    random = Random(f"several rates {seed}")
    rates = rates_of(random)
    bucket = {"by": "ip", "strategy": "token_bucket"}
    one = Limiter(parse_rules({"e": {**bucket, "rates": text_of(rates)}}), clock=None)
    each = Limiter(parse_rules({"e": [{**bucket, "rates": text_of([rate])} for rate in rates]}), clock=None)
    held: list[list[str]] = []
    for at_us, cost in steps(random, 3_000, [window_s for _, window_s in rates]):
        now, verb = at_us / SECOND_US, random.choice(("hit", "hit", "peek", "reserve"))
        if held and random.random() < 0.2:
            tokens = held.pop(random.randrange(len(held)))
            keep = random.choice((0, 0, 1, None))
            ends = [
                limiter.commit("e", token, keep, now=now) for limiter, token in zip((one, each), tokens, strict=True)
            ]
            assert ends[0] is ends[1]
        told = [getattr(limiter, verb)("e", ANN, cost, now=now) for limiter in (one, each)]
        assert (told[0].allowed, told[0].quota) == (told[1].allowed, told[1].quota), (verb, at_us, cost)
        if told[0].reservation is not None:
            held.append([decision.reservation for decision in told])


@on("token_bucket")
def test_other_rates_of_as_many_go_on_from_the_tokens_that_are_there(strategy: str, place: Place) -> None:
    def rules(rates: str) -> dict[str, object]:
        return {"e": {"by": "ip", "rates": rates, "strategy": strategy, "backend": place.name}}

    limiter = place.limiter(rules("5/s, 20/m"))
    assert hits(limiter, 4, T) == [True] * 4
    limiter.replace(parse_rules(rules("3/s, 30/m")))
    assert limiter.peek("e", ANN, now=T).remaining == 1
    assert limiter.hit("e", ANN, now=T).limit == 3
    limiter.replace(parse_rules(rules("9/m")))
    assert limiter.peek("e", ANN, now=T).remaining == 9
