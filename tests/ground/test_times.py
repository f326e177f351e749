"""One parser reads every time that somebody writes: the same text means the same wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.limiter.replay import parse_line
from clickcurve.times import LATEST, WrittenTime, parse_iso, parse_time
from ingest.hit import Moment, ts_of
from ingest.imports.access_log import AccessLog
from ingest.imports.logs.logged_request import LineBad
from query.parameters import parse_parameters, parse_query

OCTOBER = 1_759_276_800  # 2025-10-01T00:00:00Z
FAR = Moment(now=LATEST, late_before=0, latest=LATEST)


def as_ts(text: str) -> int:
    return ts_of(text, FAR)


def as_from(text: str) -> int:
    query = str(httpx.QueryParams({"from": text})).encode()
    start = parse_parameters(parse_query(query, ("from",))).start
    assert start is not None
    return start


def as_trace(text: str) -> int:
    call = parse_line(f"{text} ip=10.0.0.1" if " " not in text else f"'{text}' ip=10.0.0.1")
    assert call is not None
    return int(call.at)


def as_log_line(text: str) -> int:
    found = AccessLog(lambda agent: False).parse(f'{{"ts": "{text}", "status": 302, "request": "GET /k HTTP/1.1"}}')
    assert not isinstance(found, str)
    return found.minute


READERS: dict[str, Callable[[str], int]] = {"ts": as_ts, "from": as_from, "trace": as_trace}


def read(reader: str, text: str) -> int | None:
    """Epoch seconds, or None if the reader refuses the text."""
    try:
        return READERS[reader](text)
    except ClickcurveError:
        return None


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20251001", OCTOBER),
        ("2025-10-01", OCTOBER),
        ("2025-10", OCTOBER),
        ("2025-10-01T00:00", OCTOBER),
        ("2025-10-01 00:00:00", OCTOBER),
        ("20251001T000000Z", OCTOBER),
        ("20251001T0000", OCTOBER),
        ("2025-10-01t00z", OCTOBER),
        ("2025-10-01T00:00:00.75", OCTOBER),
        ("2025-10-01T00:00:00,75Z", OCTOBER),
        ("2025-10-01T05:30+05:30", OCTOBER),
        ("2025-10-01T05:30+0530", OCTOBER),
        ("2025-09-30T19-05", OCTOBER),
        ("2025-09-30T24:00", OCTOBER),
        ("2025-09-30T23:59:60Z", OCTOBER),
        ("2025-10-01 00:00 Z", OCTOBER),
        ("2025-W40-3", None),
        ("2025-274", None),
        ("2025-10-01T24:01", None),
        ("2025-10-01x00:00", None),
        ("2025-10-01T00:00+05:30:15", None),
        ("20251301", None),
        ("2025-13", None),
        ("2025", None),
        ("9999.5", None),
        ("00000000", None),
        ("86400000", None),
        ("1759276800000", None),
        ("1_759_276_800", None),
        ("1e9", None),
        ("-0", None),
        ("-0.0", None),
        ("1969-12-31", None),
        ("yesterday", None),
    ],
)
def test_a_text_means_the_same_to_every_reader(reader: str, text: str, seconds: int | None) -> None:
    assert read(reader, text) == seconds


moments = st.datetimes(datetime(1971, 1, 1), datetime(9990, 1, 1))
offsets = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
written = st.builds(
    lambda moment, offset, separator, precision: moment.replace(tzinfo=offset).isoformat(separator, precision),
    moments,
    offsets,
    st.sampled_from("T "),
    st.sampled_from(["hours", "minutes", "seconds", "milliseconds", "microseconds"]),
) | st.dates(datetime(1971, 1, 1).date()).map(lambda day: f"{day:%Y%m%d}".zfill(8))


@settings(deadline=None)
@given(written | st.text("0123456789-:TZtz+., W", min_size=1, max_size=26))
@example("-0")
@example("-00.")
def test_doors_agree_on_any_text(text: str) -> None:
    """A number is no text of JSON, where it needs no quotes; else what one reader reads, all read alike."""
    if parse_iso(text) is None and text.replace(".", "", 1).isdecimal():
        assert read("ts", text) is None
        assert read("from", text) == read("trace", text)
        return
    said = {read(reader, text) for reader in ("ts", "trace")}
    lost_plus = read("from", text) != read("from", text.replace(" ", "T", 1))
    assert len(said | (set() if lost_plus else {read("from", text)})) == 1


def test_a_log_line_has_the_same_times_in_whole_minutes() -> None:
    for text in ("20251001", "2025-10-01T00:00:59.9Z", "2025/10/01 00:00:00", "2025-09-30T24:00", "1759276800.123"):
        assert as_log_line(text) == OCTOBER, text
    for text in ("2025-W40-3", "yesterday", "2025-13-01"):
        with pytest.raises(LineBad, match="not a valid time"):
            as_log_line(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2025-10-01", WrittenTime(OCTOBER, 0.0, None)),
        ("2025-10-01T00:00:00.25", WrittenTime(OCTOBER, 0.25, None)),
        ("2025-10-01T00:00:00Z", WrittenTime(OCTOBER, 0.0, 0)),
        ("2025-10-01T00:00:00-00:00", WrittenTime(OCTOBER, 0.0, 0)),
        ("2025-10-01T00:00:00-05:30", WrittenTime(OCTOBER, 0.0, -19_800)),
        ("1759276800", WrittenTime(OCTOBER, 0.0, 0)),
        ("1759276800.5", WrittenTime(OCTOBER, 0.5, 0)),
        ("-1.25", WrittenTime(-2, 0.75, 0)),
        ("-1", WrittenTime(-1, 0.0, 0)),
        ("20251001.0", WrittenTime(20_251_001, 0.0, 0)),
        ("123456.5", WrittenTime(123_456, 0.5, 0)),
        ("-1234567", WrittenTime(-1_234_567, 0.0, 0)),
        ("9999-12-31T24:00", WrittenTime(253_402_300_800, 0.0, None)),
    ],
)
def test_a_time_is_a_reading_of_a_clock_and_perhaps_an_offset(text: str, said: WrittenTime) -> None:
    assert parse_time("from", text) == said


def test_the_seconds_of_utc_are_those_of_the_calendar() -> None:
    for text in ("2024-02-29T12:00:00+14:00", "1970-01-01T00:00:00-12:00", "2100-03-01T00:00:00Z"):
        assert parse_time("from", text).utc_s == datetime.fromisoformat(text).astimezone(UTC).timestamp()
