from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clickcurve.limiter.decision import Decision, combine_quotas, is_admitted
from clickcurve.limiter.quota import Bound, Quota, deciding, pause_s
from clickcurve.limiter.rule import Rule, parse_rules

SECOND_US = 1_000_000


def fits(limit: int, remaining: int, window_s: int = 60) -> Quota:
    used = limit - remaining
    return Quota(True, limit, window_s, remaining, 0.0, 1_000, used, used)


def refuses(limit: int, wait_s: float | None, window_s: int = 60, remaining: int = 0) -> Quota:
    return Quota(False, limit, window_s, remaining, wait_s, 1_000, limit, limit + 2)


def rules(*shadows: bool) -> tuple[Rule, ...]:
    return parse_rules({"a": [{"by": "ip", "rates": "5/m", "shadow": shadow} for shadow in shadows]})


def test_the_answer_is_that_of_the_tightest_rule() -> None:
    three = rules(False, False, False)
    assert combine_quotas(three, [fits(9, 5), fits(9, 2), fits(9, 3)]).rule is three[1]
    assert combine_quotas(three, [fits(9, 2), fits(7, 2), fits(8, 2)]).rule is three[1]
    assert combine_quotas(three, [fits(9, 2), fits(9, 2, 3_600), fits(9, 2)]).rule is three[1]


def test_a_refusal_is_that_of_the_longest_wait() -> None:
    three = rules(False, False, False)
    refused = combine_quotas(three, [refuses(9, 5.0), fits(3, 0), refuses(9, 7.0)], "token")
    assert (refused.allowed, refused.rule, refused.retry_after_s) == (False, three[2], 7.0)
    assert refused.reservation is None
    never = combine_quotas(three, [refuses(9, 5.0), refuses(3, None), fits(9, 1)])
    assert (never.rule, never.retry_after_s, never.never) == (three[1], None, True)


def test_of_equal_waits_the_tightest_rate_decides() -> None:
    assert deciding([refuses(9, 5.0), refuses(7, 5.0)]).limit == 7
    assert deciding([refuses(7, 5.0, 60), refuses(7, 5.0, 3_600)]).window_s == 3_600
    assert deciding([refuses(7, 5.0, remaining=2), refuses(9, 5.0, remaining=1)]).limit == 9
    assert deciding([refuses(7, 1.0), fits(9, 1), refuses(8, 2.0)]).limit == 8
    assert deciding([fits(9, 3), fits(9, 2)]).remaining == 2


def test_a_shadow_rule_that_would_refuse_lets_pass_and_says_so() -> None:
    pair = rules(True, False)
    shadow = combine_quotas(pair, [refuses(3, 5.0), fits(9, 4)], "token")
    assert (shadow.allowed, shadow.shadow, shadow.rule, shadow.retry_after_s) == (True, True, pair[0], 5.0)
    assert shadow.reservation == "token"
    refused = combine_quotas(pair, [refuses(3, 50.0), refuses(9, 5.0)])
    assert (refused.allowed, refused.shadow, refused.rule) == (False, False, pair[1])


def test_a_shadow_rule_that_fits_is_the_answer_only_where_it_is_alone() -> None:
    pair = rules(True, False)
    assert combine_quotas(pair, [fits(3, 0), fits(9, 4)]).rule is pair[1]
    alone = combine_quotas(rules(True), [fits(3, 0)])
    assert (alone.allowed, alone.shadow, alone.limit) == (True, False, 3)


@pytest.mark.parametrize(("quotas", "admitted"), [("ff", True), ("fr", False), ("rf", True), ("rr", False)])
def test_a_hit_is_admitted_when_every_enforced_rule_lets_it(quotas: str, admitted: bool) -> None:
    told = [fits(5, 1) if each == "f" else refuses(5, 1.0) for each in quotas]
    assert is_admitted(rules(True, False), told) is admitted


def test_a_decision_has_the_numbers_of_its_quota() -> None:
    decision = combine_quotas(rules(False), [refuses(9, 5.0, 3_600, 2)])
    assert (decision.limit, decision.window_s, decision.remaining, decision.reset_at) == (9, 3_600, 2, 1_000)
    assert decision.bound == Bound(9, 11) == (9, 11)
    assert (decision.pieces, decision.callers, decision.fallback, decision.shadow) == ((), (), False, False)


def test_one_rule_and_many_are_answered_in_the_same_form() -> None:
    one: tuple[Any, ...] = combine_quotas(rules(False), [fits(9, 5)], "token")
    assert one == Decision(True, rules(False)[0], fits(9, 5), False, "token")


@given(st.integers(1_000_000_000 * SECOND_US, 4_000_000_000 * SECOND_US), st.integers(1, 90_000 * SECOND_US))
@example(2_874_306_640_402_805, 72_936_000)  # one millisecond more, for the sum of floats is just before
def test_a_caller_that_waits_for_retry_after_is_not_early(now_us: int, wait_us: int) -> None:
    now = now_us / SECOND_US
    wait_s = pause_s(now_us, now_us + wait_us)
    assert int((now + wait_s) * SECOND_US) >= now_us + wait_us
    assert wait_s <= wait_us / SECOND_US + 0.0021


def test_a_whole_second_is_a_whole_second() -> None:
    assert pause_s(1_700_000_000 * SECOND_US, 1_700_000_005 * SECOND_US) == 5.0
    assert pause_s(1_700_000_000_250_000, 1_700_000_001 * SECOND_US) == 0.75
