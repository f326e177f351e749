"""Times in a query string, spans and steps as callers write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from clickcurve.buckets.errors import ParameterInvalid, shown
from clickcurve.times import LATEST
from query.parameters import moment
from query.steps import LAST_RULE, STEPS, Last, auto_step, parse_last, parse_step
from query.zones import DAY, HOUR, MONTH, zone

UTC, KOLKATA, BERLIN = zone("UTC"), zone("Asia/Kolkata"), zone("Europe/Berlin")
MARCH = 1772323200  # 2026-03-01T00:00:00Z


def at(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1772323200", MARCH),
        ("1772323200.999", MARCH),
        ("1772323200.", MARCH),
        ("0000000000000001772323200", MARCH),
        ("2026-03-01", MARCH),
        ("20260301", MARCH),
        ("2026-03-01T00:00", MARCH),
        ("2026-03-01 00:00:00", MARCH),
        ("2026-03-01T00:00:00.999999Z", MARCH),
        ("2026-03-01T00:00:00Z", MARCH),
        ("2026-03-01T05:30:00+05:30", MARCH),
        ("2026-03-01T05:30:00 05:30", MARCH),
        ("2026-02-28T19:00-05:00", MARCH),
        ("20260301T000000Z", MARCH),
        (str(LATEST), LATEST),
    ],
)
def test_a_time_is_epoch_seconds_or_iso(text: str, expected: int) -> None:
    assert moment("from", text, UTC) == expected


def test_a_time_without_an_offset_is_meant_in_the_requested_zone() -> None:
    assert moment("from", "2026-03-01", KOLKATA) == MARCH - 19_800
    assert moment("from", "2026-03-01T00:00Z", KOLKATA) == MARCH
    assert moment("from", "1772323200", KOLKATA) == MARCH


def test_a_time_that_the_clock_jumps_over_is_the_jump_and_of_a_doubled_one_the_first_counts() -> None:
    assert moment("from", "2026-03-29T02:30", BERLIN) == at("2026-03-29T01:00")
    assert moment("from", "2026-10-25T02:30", BERLIN) == at("2026-10-25T00:30")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1772323200000", "milliseconds?"),
        ("-1", "before 1970"),
        ("-0.5", "before 1970"),
        ("1969-12-31", "before 1970"),
        ("0001-01-01", "before 1970"),
        (str(LATEST + 1), "after the year 9998"),
        ("9999-12-31T23:59", "after the year 9998"),
        ("", "not a time"),
        ("yesterday", "not a time"),
        ("nan", "not a time"),
        ("1e9", "not a time"),
        ("1_000", "not a time"),
        (" 5", "not a time"),
        ("٣", "not a time"),
        ("2026-13-01", "not a time"),
        ("2026-02-29", "not a time"),
        ("2026-W09-7", "not a time"),
        ("20260229", "not a time: eight digits are a date"),
        ("9" * 5000, "milliseconds?"),
    ],
)
def test_what_is_not_a_time_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        moment("to", text, UTC)
    error = refused.value
    assert says in error.detail
    assert (error.field, error.value) == ("to", shown(text))
    assert error.rule


def test_a_bare_date_before_1970_in_an_eastern_zone_is_refused() -> None:
    with pytest.raises(ParameterInvalid, match="before 1970"):
        moment("from", "1970-01-01", KOLKATA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1h", Last(1, HOUR)), ("24h", Last(24, HOUR)), ("7d", Last(7, DAY)), ("12mo", Last(12, MONTH))],
)
def test_last_is_a_number_and_a_unit(text: str, expected: Last) -> None:
    assert parse_last(text) == expected


@pytest.mark.parametrize("text", ["", "0d", "d", "7", "-1d", "1.5h", "7D", "7 d", "7days", "1M", "9999999999d", "٣d"])
def test_any_other_last_is_refused(text: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        parse_last(text)
    assert (refused.value.field, refused.value.value, refused.value.rule) == ("last", text, LAST_RULE)


def test_the_steps_are_named_where_another_is_refused() -> None:
    for name in ("1m", "5m", "1h", "1d", "1w", "1mo", "native"):
        assert parse_step(name) is STEPS[name]
    assert parse_step("auto") is None
    with pytest.raises(ParameterInvalid) as refused:
        parse_step("7m")
    assert all(name in str(refused.value.rule) for name in (*STEPS, "auto"))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        ("2026-03-01T10:00", "2026-03-01T12:00:00", "1m"),
        ("2026-03-01T10:00", "2026-03-01T12:00:01", "5m"),
        ("2026-03-01T10:00", "2026-03-03T10:00:00", "5m"),
        ("2026-03-01T10:00", "2026-03-03T10:00:01", "1h"),
        ("2026-03-01T00:00", "2026-03-15T00:00:00", "1h"),
        ("2026-03-01T00:00", "2026-03-15T00:00:01", "1d"),
        ("2026-03-01T00:00", "2026-06-01T00:00:00", "1d"),
        ("2026-03-01T00:00", "2026-06-01T00:00:01", "1w"),
        ("2024-01-01T00:00", "2026-01-01T00:00:00", "1w"),
        ("2024-01-01T00:00", "2026-01-01T00:00:01", "1mo"),
        ("2024-02-29T00:00", "2026-02-28T00:00:00", "1w"),
        ("2024-02-29T00:00", "2026-03-01T00:00:00", "1mo"),
        ("1970-01-01T00:00", "9998-01-01T00:00:00", "1mo"),
    ],
)
def test_the_automatic_step_goes_by_the_length_of_the_range(start: str, end: str, step: str) -> None:
    assert auto_step(at(start), at(end), UTC).name == step


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_days_of_23_and_25_hours_are_days_to_the_automatic_step(day: str) -> None:
    now = at(day + "T12:00")
    for last, step in (("14d", "1h"), ("15d", "1d"), ("48h", "5m"), ("2h", "1m"), ("2y", "1w"), ("92d", "1d")):
        asked = parse_last(last)
        assert auto_step(asked.start(now, BERLIN), asked.end(now, BERLIN), BERLIN).name == step, last
