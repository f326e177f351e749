"""The parts of a line of an access log, and its time."""

from __future__ import annotations

import pytest

from clickcurve.access_log import LogLine, parse_log_line, split_request, stamp_seconds

STAMP = "[25/Feb/2026:07:14:00 +0100] "
REQUEST = "POST /links?x=1 HTTP/1.1"


def test_the_common_and_the_combined_format_are_read() -> None:
    common = f'203.0.113.7 - ann lee {STAMP}"{REQUEST}" 201 12'
    assert parse_log_line(common) == LogLine("203.0.113.7 - ann lee ", STAMP, REQUEST, "201", None, None, " 12")
    assert parse_log_line(common + ' "-" "curl/8" 0.1') == LogLine(
        "203.0.113.7 - ann lee ", STAMP, REQUEST, "201", "-", "curl/8", " 0.1"
    )


def test_what_stands_before_the_time_may_be_in_quotes() -> None:
    for before in ('203.0.113.7 - "" ', '"203.0.113.7, 10.0.0.1" - ann ', r'203.0.113.7 - "a\" [b]" '):
        line = parse_log_line(f'{before}{STAMP}"{REQUEST}" 201 12')
        assert line is not None
        assert line.before == before


@pytest.mark.parametrize("line", ["", "1772000040 ip=10.0.0.1", f"a - - {STAMP}", f'a - - {STAMP}"GET / HTTP/1.1"'])
def test_another_line_has_no_parts(line: str) -> None:
    assert parse_log_line(line) is None


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        (STAMP, 1_772_000_040),
        ("[25/Feb/2026:06:14:59 +0000] ", 1_772_000_099),
        ("[25/Feb/2026:06:14:60 +0000] ", 1_772_000_099),
        ("[31/Feb/2026:06:14:00 +0000] ", None),
        ("[25/Fev/2026:06:14:00 +0000] ", None),
        ("[01/Jan/1970:00:00:00 +0100] ", None),
    ],
)
def test_a_stamp_is_epoch_seconds(stamp: str, seconds: int | None) -> None:
    assert stamp_seconds(stamp) == seconds


def test_a_request_is_a_method_and_a_target() -> None:
    assert split_request(REQUEST) == ("POST", "/links?x=1")
    assert split_request(r"GET /a\"b\xC3\xA4 HTTP/2.0") == ("GET", '/a"bä')
    assert split_request("-") == ("-", "")
