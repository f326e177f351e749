"""Calendar edges in zones, against a walk over every minute of the local clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import ParameterInvalid
from query.steps import STEPS, Step
from query.zones import DAY, HOUR, MONTH, WEEK, YEAR, Calendar, Fixed, Unit, Zone, zone
from tests.power import examples

# Whole, half and quarter hours; changes at midnight, over midnight, by half an hour; a day that never was.
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/Nuuk",
]
DAY_S = 86_400


def at(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp())


def begins(unit: Unit, wall: datetime) -> datetime:
    """The local reading at which the unit that shows `wall` begins."""
    midnight = wall.replace(hour=0, minute=0)
    if isinstance(unit, Fixed):
        since = int((wall - midnight).total_seconds())
        return midnight + timedelta(seconds=since - since % unit.width_s)
    if unit.months:
        return midnight.replace(month=(wall.month - 1) // unit.months * unit.months + 1, day=1)
    return midnight - timedelta(days=midnight.weekday() if unit.days == 7 else 0)


def walked(unit: Unit, low: int, high: int, where: Zone) -> list[int]:
    """The unit's edges in (low, high], found by looking at the clock every minute.

    A fixed step has an edge where the clock shows one; a calendar step where a later unit begins than was ever seen.
    """
    found = []
    latest = max(begins(unit, where.wall(t)) for t in range(low - 7200, low + 1, 60))
    for t in range(low + 60, high + 1, 60):
        wall = where.wall(t)
        if isinstance(unit, Fixed):
            if begins(unit, wall) == wall:
                found.append(t)
        elif (start := begins(unit, wall)) > latest:
            found.append(t)
            latest = start
    return found


@st.composite
def stretches(draw: st.DrawFn) -> tuple[Zone, int, int]:
    """A few days of a zone, half of them around one of its changes."""
    where = zone(draw(st.sampled_from(ZONES)))
    start = draw(st.integers(at("2000-01-01"), at("2030-01-01"))) // 60 * 60
    if draw(st.booleans()):
        for _ in range(400):
            if where.offset(start) != where.offset(start + DAY_S):
                break
            start += DAY_S
        start -= draw(st.integers(0, 1500)) * 60
    return where, start, start + draw(st.integers(1, 4 * 1440)) * 60


@settings(max_examples=examples(150))
@given(stretches(), st.sampled_from([step for step in STEPS.values() if step.unit]))
def test_edges_are_those_that_the_local_clock_shows(stretch: tuple[Zone, int, int], step: Step) -> None:
    where, low, high = stretch
    assert step.unit is not None
    assert list(step.unit.edges(low, high, where)) == walked(step.unit, low, high, where)


@settings(max_examples=examples(150))
@given(stretches(), st.sampled_from([step for step in STEPS.values() if step.unit]))
def test_start_and_after_agree_with_each_other(stretch: tuple[Zone, int, int], step: Step) -> None:
    where, low, high = stretch
    unit = step.unit
    assert unit is not None
    for t in range(low, high, 7 * 3600 + 60):
        start, end = unit.start(t, where), unit.after(t, where)
        assert start <= t < end
        assert unit.after(start, where) == end
        assert unit.start(end - 1, where) == start
        assert unit.start(end, where) == end


def test_a_day_has_23_or_25_hours_when_the_clock_changes() -> None:
    berlin = zone("Europe/Berlin")
    for day, hours in (("2026-03-29T12:00", 23), ("2026-10-25T12:00", 25), ("2026-06-01T12:00", 24)):
        start, end = DAY.start(at(day), berlin), DAY.after(at(day), berlin)
        assert (end - start) // 3600 == hours
        assert len(list(HOUR.edges(start, end, berlin))) == hours


def test_a_midnight_that_a_change_leaves_out_is_the_change() -> None:
    assert DAY.start(at("2018-11-04T12:00"), zone("America/Sao_Paulo")) == at("2018-11-04T03:00")
    # Toronto went from 23:30 to 00:30: the day began at the change, half an hour after its missing midnight.
    assert zone("America/Toronto").instant(datetime(1919, 3, 31)) == at("1919-03-31T04:30")


def test_of_a_doubled_midnight_the_first_counts() -> None:
    havana = zone("America/Havana")
    assert DAY.start(at("2026-11-01T12:00"), havana) == at("2026-11-01T04:00")
    assert DAY.after(at("2026-11-01T12:00"), havana) == at("2026-11-02T05:00")
    # St John's went back at 00:01 to 23:01 of the day before: what was shown then belongs to the new day.
    newfoundland = zone("America/St_Johns")
    assert DAY.start(at("2010-11-07T03:00"), newfoundland) == DAY.start(at("2010-11-07T12:00"), newfoundland)


def test_a_date_that_a_zone_skipped_has_no_edge() -> None:
    apia = zone("Pacific/Apia")
    edges = list(DAY.edges(at("2011-12-28T00:00"), at("2012-01-02T00:00"), apia))
    assert [apia.wall(t).day for t in edges] == [28, 29, 31, 1, 2]
    assert all(end - start == DAY_S for start, end in pairwise(edges))


def test_weeks_begin_on_monday_also_at_new_year() -> None:
    utc = zone("UTC")
    assert WEEK.start(at("2027-01-01T00:00"), utc) == at("2026-12-28")
    assert WEEK.after(at("2027-01-01T00:00"), utc) == at("2027-01-04")
    assert WEEK.start(at("1970-01-01T00:00"), utc) < 0


@pytest.mark.parametrize(
    ("unit", "n", "expected"),
    [
        (HOUR, 0, "2026-03-01T10:00"),
        (HOUR, 23, "2026-02-28T11:00"),
        (DAY, 6, "2026-02-23T00:00"),
        (WEEK, 1, "2026-02-16T00:00"),
        (MONTH, 0, "2026-03-01T00:00"),
        (MONTH, 3, "2025-12-01T00:00"),
        (YEAR, 2, "2024-01-01T00:00"),
        (YEAR, 999_999_999, "1970-01-01T00:00"),
        (WEEK, 999_999_999, "1970-01-01T00:00"),
        (HOUR, 999_999_999, "1970-01-01T00:00"),
    ],
)
def test_units_are_counted_back_from_the_one_that_holds_now(unit: Unit, n: int, expected: str) -> None:
    assert unit.back(at("2026-03-01T10:35"), n, zone("UTC")) == at(expected)


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../UTC", "/etc/localtime", "America", "right/UTC", "localtime", "UTC\0"]
)
def test_what_is_not_a_zone_is_refused(name: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        zone(name)
    assert (refused.value.field, refused.value.value) == ("tz", name)


def test_three_months_are_quarters() -> None:
    assert Calendar(0, 3).start(at("2026-06-30T00:00"), zone("UTC")) == at("2026-04-01")
