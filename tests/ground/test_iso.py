"""ISO 8601 as people and programs write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.times import iso_seconds

law = settings(deadline=None)  # the machine is shared, and the laws do not speak of time
NEW_YEAR = 1_767_225_600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01", NEW_YEAR),
        ("2026-01", NEW_YEAR),
        ("20260101", NEW_YEAR),
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2026-01-01t00:00:00z", NEW_YEAR),
        ("2026-01-01 00:00:00", NEW_YEAR),
        ("2026-01-01 00:00:00 +0000", NEW_YEAR),
        ("2026-01-01T00:00", NEW_YEAR),
        ("2026-01-01T00", NEW_YEAR),
        ("20260101T000000Z", NEW_YEAR),
        ("20260101T0000", NEW_YEAR),
        ("2026-01-01T00:00:00.999999999Z", NEW_YEAR),
        ("2026-01-01T00:00:00,5Z", NEW_YEAR),
        ("2026-01-01T00:00:01.5+00:00", NEW_YEAR + 1),
        ("2026-01-01T05:30:00+05:30", NEW_YEAR),
        ("2026-01-01T05:45:00+0545", NEW_YEAR),
        ("2025-12-31T19:00:00-05", NEW_YEAR),
        ("2026-01-01T00:00:00-00:00", NEW_YEAR),
        ("2025-12-31T24:00:00Z", NEW_YEAR),
        ("2025-12-31T23:59:60Z", NEW_YEAR),
        ("2024-02-29T00:00:00Z", 1_709_164_800),
        ("1970-01-01", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("0001-01-01", -62_135_596_800),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ],
)
def test_common_forms_are_read(text: str, seconds: int) -> None:
    assert iso_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "x", "2026", "2026-1", "2026-1-1", "2026-0101", "202601-01", "2026-13-01", "2026-00-01", "2026-02-29",
        "2026-01-32", "0000-01-01", "2026-01-01T", "2026-01-01Z", "2026-01-01+01:00", "2026-01-01T25:00:00",
        "2026-01-01T24:00:01", "2026-01-01T00:60", "2026-01-01T00:00:61", "2026-01-01T0:00", "2026-01-01T00:00:00.",
        "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00+5", "2026-01-01T00:00:00ZZ",
        "2026-01-01T00:00:00Z ", " 2026-01-01", "2026-01-01\n", "2026-01-01x00:00:00", "2026-01-01T00:0000",
        "1767225600", "1767225600000", "+2026-01-01", "\uff12026-01-01", "2026-01-01T00:00:00." + "0" * 100,
    ],
)  # fmt: skip
def test_other_texts_are_no_times(text: str) -> None:
    assert iso_seconds(text) is None


moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@law
@given(moments, offsets, st.sampled_from(["seconds", "milliseconds", "microseconds"]), st.sampled_from("T "))
def test_what_python_writes_is_read(moment: datetime, offset: timezone, precision: str, separator: str) -> None:
    text = moment.replace(tzinfo=offset).isoformat(sep=separator, timespec=precision)
    assert iso_seconds(text) == moment.replace(tzinfo=offset, microsecond=0).timestamp()


@law
@given(moments)
def test_no_offset_is_utc(moment: datetime) -> None:
    assert iso_seconds(moment.isoformat()) == moment.replace(tzinfo=UTC, microsecond=0).timestamp()


@law
@given(st.text(alphabet="0123456789-:TZ+., ", max_size=30))
def test_any_text_is_a_time_or_none(text: str) -> None:
    assert isinstance(iso_seconds(text), int | None)
