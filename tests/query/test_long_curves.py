"""Curves of many points: the end of the calendar, points wider than their step, and who makes them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clickcurve.answers.written import as_csv, as_json
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, HOUR_S, fold_day
from clickcurve.keys import link_subject
from clickcurve.times import LATEST
from query.curve import AT_ONCE
from query.grid import Grid, fitting_step, make_grid
from query.parameters import Window
from query.steps import STEPS
from query.zones import DAY, HOUR, MONTH, UTC_ZONE, WEEK, YEAR, Unit, Zone, zone
from tests.query.queried_nodes import QueriedNodes, run

NOW = 1_772_361_480  # 2026-03-01T10:38

LONG = (
    "from=70000&to=2700-01-01&step=1mo&tz=Europe/Vienna",
    "from=70000&to=2700-01-01&step=1mo&tz=Africa/Monrovia",
    "from=70000&to=9990-01-01&step=1y&tz=Africa/Casablanca",
    "from=70000&to=2700-01-01&step=1mo",
)


@pytest.mark.parametrize("tz", ["UTC", "Europe/Vienna", "Asia/Kathmandu", "Pacific/Kiritimati", "America/New_York"])
@pytest.mark.parametrize("step", ["1y", "3mo", "1mo", "1w", "1d", "auto"])
@pytest.mark.parametrize(
    "span", ["from=9998-12-30&to=9998-12-31", "from=9998-12-30&to=253370764800", "from=9998-01-01&to=9998-12-01"]
)
def test_the_last_year_of_the_calendar_has_curves_in_every_zone(tz: str, step: str, span: str) -> None:
    nodes = QueriedNodes(now=NOW)
    points = nodes.curve("k", f"{span}&step={step}&tz={tz}")["points"]
    assert points and all(before["end"] == after["start"] for before, after in itertools.pairwise(points))


def test_all_of_the_calendar_by_years_ahead_of_utc() -> None:
    curve = QueriedNodes(now=NOW).curve("k", "from=0&to=253370764800&step=1y&tz=Asia/Kathmandu")
    assert (len(curve["points"]), curve["points"][-1]["end"]) == (8030, 253_370_764_800)


@pytest.mark.parametrize("query", LONG)
def test_many_points_are_not_made_by_the_thread_of_the_event_loop(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One edge of a zone's calendar is one call; what is left to the loop is parsing."""
    instants: Counter[bool] = Counter()
    real = Zone.instant

    def counted(self: Zone, wall: datetime) -> int:
        instants[threading.current_thread() is threading.main_thread()] += 1
        return real(self, wall)

    monkeypatch.setattr(Zone, "instant", counted)
    nodes = QueriedNodes(now=NOW)
    points = len(nodes.curve("k", query)["points"])
    assert points > 7_000
    assert instants[True] <= 10
    assert instants[False] >= points


def test_few_points_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a thread was asked for a small curve")

    monkeypatch.setattr("asyncio.to_thread", refuse)
    nodes = QueriedNodes(now=NOW)
    assert len(nodes.curve("k", f"from={NOW}&to={NOW + 999 * 60}&step=1m")["points"]) == 999 <= AT_ONCE


def test_the_same_long_question_of_many_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Window] = []

    def counted(window: Window, *given: Any) -> Grid:
        made.append(window)
        return make_grid(window, *given)

    monkeypatch.setattr("query.curve.make_grid", counted)
    nodes = QueriedNodes(now=NOW)

    async def ask() -> set[bytes]:
        asked = [nodes.queries.curve(link_subject("k"), LONG[0].encode()) for _ in range(5)]
        return {as_json(answer) for answer in await asyncio.gather(*asked)}

    assert len(run(ask())) == 1
    assert len(made) == 1


# --- points that are wider than their step -------------------------------------------------------------------------
def wide_points(nodes: QueriedNodes, query: str) -> list[tuple[int, int]]:
    """Start and width in days of the points that say that they are wide."""
    points = nodes.curve("k", query)["points"]
    assert all(point.get("wide", True) is True for point in points), "told only where it is so"
    return [(point["start"], (point["end"] - point["start"]) // DAY_S) for point in points if "wide" in point]


def test_a_point_that_is_wider_than_its_step_says_so() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW)
    for query in ("last=60d&step=1d", "last=92d&step=1d", "last=7d&step=1h", "last=2y&step=1mo", "last=24h&step=1m"):
        widths = {"1m": HOUR_S}
        assert (wide_points(nodes, query) == []) == (query.split("=")[-1] not in widths), query
    hours_are_kept_from = 1_769_472_000  # 2026-01-27, 33 days before the fold day
    days = wide_points(nodes, "last=60d&step=1h")
    assert days == [(start, 1) for start in range(NOW - NOW % DAY_S - 59 * DAY_S, hours_are_kept_from, DAY_S)]


def test_a_piece_of_a_week_that_is_one_day_is_no_wider_than_a_day() -> None:
    """1 June 2025 is a Sunday: its week is cut there."""
    nodes = QueriedNodes(now=NOW)
    first_of_june, points = 1_748_736_000, {}
    for point in nodes.curve("k", "from=2025-05-26&to=2025-06-09&step=1d")["points"]:
        points[point["start"]] = (point["end"] - point["start"]) // DAY_S, point.get("wide", False)
    assert points[first_of_june] == (1, False)
    assert sorted(points.values()) == [(1, False), (6, True), (7, True)]


@pytest.mark.parametrize(
    ("query", "wide_days"),
    [
        # Weeks and months of New York begin at 05:00 or 04:00 UTC, inside pieces that begin with them.
        ("from=2025-05-19&to=2025-06-30&step=1w&tz=America/New_York", []),
        ("from=2024-01-01&to=2024-04-01&step=1mo&tz=America/New_York", []),
        # Days are kept: the bucket that begins 23 hours before Berlin's first one is a point of its own.
        ("from=2025-12-20&to=2025-12-24&step=1d&tz=Europe/Berlin", []),
        # Where a day begins at noon, both ends are as near, and it moves to the later one: away from the range's start.
        ("from=2025-12-20T06:00&to=2025-12-24&step=1d&tz=Etc/GMT+12", [2]),
    ],
)
def test_a_point_is_wide_where_its_edges_moved_apart(query: str, wide_days: list[int]) -> None:
    assert [days for _, days in wide_points(QueriedNodes(now=NOW), query)] == wide_days


def test_an_hour_is_wide_where_the_range_cuts_one_of_india() -> None:
    nodes = QueriedNodes(now=NOW)
    points = nodes.curve("k", "from=2026-02-10T10:05&to=2026-02-10T14:05&step=1h&tz=Asia/Kolkata")["points"]
    assert [((p["end"] - p["start"]) // HOUR_S, p.get("wide", False)) for p in points] == [(2, True)] + 3 * [(1, False)]


def test_pieces_that_a_clock_makes_longer_are_not_wide() -> None:
    """A day of 25 hours in autumn, and the hour and a half by which Lord Howe's clock is set back."""
    assert wide_points(QueriedNodes(now=1_761_560_000), "last=4d&step=1d&tz=Europe/Vienna") == []
    lord_howe = QueriedNodes(now=1_775_320_000).curve("k", "last=24h&step=1h&tz=Australia/Lord_Howe")["points"]
    assert {p["end"] - p["start"] for p in lord_howe} == {HOUR_S, HOUR_S + 1_800}
    assert not any("wide" in p for p in lord_howe)


def test_buckets_as_kept_and_csv_say_nothing_of_width() -> None:
    nodes = QueriedNodes(now=NOW)
    assert wide_points(nodes, "from=2024-01-01&to=2026-03-01&step=native") == []
    body = as_csv(run(nodes.queries.curve(link_subject("k"), b"last=60d&step=1h&format=csv")))
    assert {line.count(",") for line in body.decode().splitlines()} == {3}


@given(
    st.sampled_from([HOUR, DAY, WEEK, MONTH, YEAR]),
    st.sampled_from(["UTC", "Asia/Kathmandu", "America/New_York", "Pacific/Kiritimati"]),
    st.integers(LATEST, 2 * END_OF_TIME) | st.integers(END_OF_TIME - 3 * DAY_S, END_OF_TIME + DAY_S),
)
@example(YEAR, "UTC", END_OF_TIME - 1)
@example(DAY, "Pacific/Kiritimati", END_OF_TIME - 1)
def test_a_time_at_the_end_of_the_calendar_is_in_a_unit_or_is_refused(unit: Unit, name: str, t: int) -> None:
    where = zone(name)
    try:
        start, after = unit.start(t, where), unit.after(t, where)
    except ParameterInvalid:
        assert t > END_OF_TIME - 2 * DAY_S
    else:
        assert start <= t < after


def test_edges_end_with_the_calendar() -> None:
    assert len(list(YEAR.edges(LATEST - 3 * 366 * DAY_S, END_OF_TIME + 9_000 * DAY_S, UTC_ZONE))) <= 5


@pytest.mark.parametrize("end", [LATEST + 361 * DAY_S, END_OF_TIME, 2**53])
def test_a_range_that_ends_after_the_calendar_is_refused_whoever_asks(end: int) -> None:
    with pytest.raises(ParameterInvalid, match="after the year 9998"):
        Window(0, end, STEPS["1y"], UTC_ZONE)
    with pytest.raises(ParameterInvalid):
        fitting_step(NOW, end, UTC_ZONE, CLICKS, fold_day(NOW), 1, None)


def test_a_failure_gives_the_lock_of_long_curves_back(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = QueriedNodes(now=NOW)

    def fail(*_: object) -> Grid:
        raise StopIteration

    with monkeypatch.context() as patched:
        patched.setattr("query.curve.make_grid", fail)
        with pytest.raises(RuntimeError):
            nodes.curve("k", LONG[0])
    assert len(nodes.curve("k", LONG[0])["points"]) > 7_000
