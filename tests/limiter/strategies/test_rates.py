from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.rates import MAX_LIMIT, Rate, parse_rates


def test_several_rates_are_read_shortest_window_first() -> None:
    rates = parse_rates("100/d, 5/m,2 / s , 10/h")
    assert rates == (Rate(2, 1), Rate(5, 60), Rate(10, 3_600), Rate(100, 86_400))


def test_a_window_may_be_several_units_long() -> None:
    assert parse_rates("10/30s, 20/5m, 40/12h, 300/7d") == (
        Rate(10, 30),
        Rate(20, 300),
        Rate(40, 43_200),
        Rate(300, 604_800),
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1/minute", "1/m"),
        ("1 per hour", "1/h"),
        ("1 PER 2 HOURS", None),
        ("1 per 2 Hours", "1/2h"),
        ("1/SECOND; 5/minutes", "1/s, 5/m"),
        ("10/30 secs;20/15min", "10/30s, 20/15m"),
        ("7/day, 70/week, 1000/month", "7/d, 70/7d, 1000/30d"),
        ("9/2 weeks", "9/14d"),
    ],
)
def test_units_may_be_spelled_out_and_a_month_is_thirty_days(text: str, plain: str | None) -> None:
    if plain is None:
        with pytest.raises(RuleInvalid, match="is not a limit per time"):
            parse_rates(text)
    else:
        assert parse_rates(text) == parse_rates(plain)


@given(st.integers(1, MAX_LIMIT), st.integers(1, 366 * 86_400))
def test_a_rate_is_written_as_it_is_read(limit: int, window_s: int) -> None:
    assert parse_rates(str(Rate(limit, window_s))) == (Rate(limit, window_s),)


def test_a_rate_is_written_in_its_largest_unit() -> None:
    shown = [str(Rate(10, window_s)) for window_s in (1, 30, 60, 300, 3_600, 5_400, 86_400)]
    assert shown == ["10/s", "10/30s", "10/m", "10/5m", "10/h", "10/90m", "10/d"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "10/year",
            "has the unit 'year', and the units are s, m, h, d, second, sec, minute, min, hour, day, ",
        ),
        ("10/M", "has the unit 'M'"),
        ("10/w", "has the unit 'w'"),
        ("10/monthly", "has the unit 'monthly'"),
        ("10per minute", "is not a limit per time"),
        ("10 per", "is not a limit per time"),
        ("13/13months", "and it must be from 1 s to 366 days"),
        ("10/mx", "has the unit 'mx'"),
        ("10/m please", "is not a limit per time"),
        ("x10/m", "is not a limit per time"),
        ("10", "is not a limit per time"),
        ("10/", "is not a limit per time"),
        ("", "is not a limit per time"),
        ("5/m,", "is not a limit per time"),
        ("5/m;;10/h", "is not a limit per time"),
        ("-1/s", "is not a limit per time"),
        ("1.5/s", "is not a limit per time"),
        ("\u0661/s", "is not a limit per time"),
        ("10/0s", "has a window of 0 s"),
        ("10/0h", "has a window of 0 s"),
        ("0/s", "has the limit 0"),
        ("1000000001/d", "has the limit 1000000001"),
        ("10/367d", "and it must be from 1 s to 366 days"),
    ],
)
def test_what_is_no_rate_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RuleInvalid) as refused:
        parse_rates(text)
    assert reason in refused.value.detail
    assert refused.value.field == "rates"
    assert refused.value.rule
    assert str(refused.value.value) in text


@pytest.mark.parametrize("text", ["10/s, 10/m", "20/m, 10/h", "2/s, 70/m, 60/h", "100/d, 100/h"])
def test_a_short_limit_that_can_never_refuse_is_refused(text: str) -> None:
    with pytest.raises(RuleInvalid, match="can never refuse anything"):
        parse_rates(text)


@pytest.mark.parametrize("text", ["10/s, 20/s", "5/60s, 10/m"])
def test_two_limits_for_one_window_are_refused(text: str) -> None:
    with pytest.raises(RuleInvalid, match="has the same window"):
        parse_rates(text)
