"""When an alert fires: decided on bounds, and left as it is where they do not tell."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.ranges import Span
from server.alerts.condition import Counted, is_met
from server.settings.alerts import parse_condition

NOW = 1_772_407_710
LONG_AGO = 1_000_000
NOTHING = Span(0, 0, 0)


def exactly(n: int) -> Span:
    return Span(n, n, n)


def between(low: int, high: int) -> Span:
    return Span(high, low, high)


@pytest.mark.parametrize(
    ("when", "last", "before", "expected"),
    [
        ("over 10 in 1h", exactly(11), NOTHING, True),
        ("over 10 in 1h", exactly(10), NOTHING, False),
        ("over 10 in 1h", between(10, 12), NOTHING, None),
        ("under 10 in 24h", exactly(9), NOTHING, True),
        ("under 10 in 24h", exactly(10), NOTHING, False),
        ("under 10 in 24h", between(9, 10), NOTHING, None),
        ("silent for 48h", exactly(0), NOTHING, True),
        ("silent for 48h", exactly(1), NOTHING, False),
        ("silent for 48h", between(0, 3), NOTHING, None),
        ("3x of before in 24h", exactly(30), exactly(10), True),
        ("3x of before in 24h", exactly(29), exactly(10), False),
        ("3x of before in 24h", between(29, 31), exactly(10), None),
        ("3x of before in 24h", exactly(30), between(9, 11), None),
        ("1.5x of before in 24h", exactly(15), exactly(10), True),
        ("0.5x of before in 24h", exactly(5), exactly(10), True),
        ("0.5x of before in 24h", exactly(6), exactly(10), False),
        ("3x of before in 24h", exactly(30), NOTHING, False),
        ("3x of before in 24h", exactly(30), between(0, 1), None),
    ],
)
def test_a_condition_is_decided_by_bounds(when: str, last: Span, before: Span, expected: bool | None) -> None:
    assert is_met(parse_condition(when), Counted(last, before, LONG_AGO), NOW) is expected


@pytest.mark.parametrize("when", ["under 10 in 24h", "silent for 24h"])
@pytest.mark.parametrize("first_hit", [None, NOW - 3_600])
def test_a_link_younger_than_the_span_has_not_fallen(when: str, first_hit: int | None) -> None:
    assert is_met(parse_condition(when), Counted(NOTHING, NOTHING, first_hit), NOW) is False


@pytest.mark.parametrize(
    ("when", "length_s"),
    [("over 1 in 1m", 60), ("over 1 in 90m", 5_400), (" under  2 in 2d ", 172_800), ("silent for 1w", 604_800)],
)
def test_lengths(when: str, length_s: int) -> None:
    assert parse_condition(when).length_s == length_s


@pytest.mark.parametrize(
    "when",
    ["", "over in 1h", "over 10", "over -1 in 1h", "over 10 in 0h", "over 10 in 400d", "over 10 in 1y", "above 1 in 1h",
     "1x of before in 1d", "0x of before in 1d", "3x before in 1d", "silent 48h", "over 1.5 in 1h", "OVER 1 in 1h"],
)  # fmt: skip
def test_what_is_no_condition_is_refused(when: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        parse_condition(when)
    assert refused.value.field == "when"
