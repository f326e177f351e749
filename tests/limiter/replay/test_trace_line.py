"""Lines of a trace: who asked when, and what is wrong with those that do not say it."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.replay import Call, parse_line

T = 1_772_000_040  # 2026-02-25T06:14:00Z
LOG = '203.0.113.7 - ann [25/Feb/2026:07:14:00 +0100] "POST /links?x=1 HTTP/1.1" 201 12'


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("1772000040", Call(T, {})),
        ("1772000040.25 ip=10.0.0.1", Call(T + 0.25, {"ip": "10.0.0.1"})),
        ("1772000040\tip=10.0.0.1  user=ann cost=7", Call(T, {"ip": "10.0.0.1", "user": "ann"}, 7)),
        ("2026-02-25T06:14:00Z ip=::1", Call(T, {"ip": "::1"})),
        ("2026-02-25T06:14:00", Call(T, {})),
        ("2026-02-25T07:14:00.5+01:00", Call(T + 0.5, {})),
        ("1772000040 user='ann lee' note=\"a=b\"", Call(T, {"user": "ann lee", "note": "a=b"})),
        ("1772000040 query=a=b", Call(T, {"query": "a=b"})),
        ("1772000040 user=", Call(T, {"user": ""})),
        (LOG, Call(T, {"ip": "203.0.113.7", "user": "ann", "method": "POST", "endpoint": "/links"})),
        (
            LOG.replace("- ann", "- -") + ' "https://example.org/" "curl/8"',
            Call(T, {"ip": "203.0.113.7", "method": "POST", "endpoint": "/links"}),
        ),
        (LOG.replace("- ann", "- ann lee"), Call(T, {"ip": "203.0.113.7", "user": "ann lee"})),
    ],
)
def test_a_line_is_a_time_and_features(text: str, call: Call) -> None:
    parsed = parse_line(text)
    assert parsed is not None
    assert (parsed.at, parsed.cost) == (call.at, call.cost)
    assert parsed.features.items() >= call.features.items()
    assert "method" in parsed.features or parsed.features == call.features


@pytest.mark.parametrize("text", ["", "  ", "# a comment", "#"])
def test_blank_lines_and_comments_are_nothing(text: str) -> None:
    assert parse_line(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("yesterday ip=a", "'yesterday' is not a time"),
        ("ip=a", "'ip=a' is not a time"),
        ("1772000040000 ip=a", "milliseconds?"),
        ("-1 ip=a", "before 1970"),
        ("nan", "'nan' is not a time"),
        ("inf", "'inf' is not a time"),
        ("1772000040 a", "'a' is not feature=value"),
        ("1772000040 =a", "'=a' is not feature=value"),
        ("1772000040 ip=a ip=b", "ip is given twice"),
        ("1772000040 cost=1.5", "'1.5' is not a whole number"),
        ("1772000040 cost=-1", "'-1' is not a whole number"),
        ("1772000040 user='ann", "quotes do not match"),
        (LOG.replace("Feb", "Fev"), "its time is not valid"),
        (LOG.replace("25/", "31/"), "its time is not valid"),
    ],
)
def test_an_unparsable_line_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        parse_line(text)
    assert why in refused.value.detail
