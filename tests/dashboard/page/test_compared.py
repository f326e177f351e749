"""The page compares with the range that the API compares with: one rule, in every zone, also of a range under way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from dashboard.page.audience.differences import ranges_asked
from dashboard.page.compared import Compared, compared_of
from dashboard.page.view import view_of
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes, run, subject

ZONES = ("UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
NOW = int(datetime(2026, 10, 28, 14, 37, 20, tzinfo=UTC).timestamp())  # a Wednesday, after clocks were set back
RANGES = st.one_of(
    st.sampled_from(["last=60m", "last=24h", "last=1d", "last=7d", "last=28d", "last=91d", "last=1mo", "last=12mo"]),
    st.tuples(st.integers(1, 700), st.integers(0, 60)).map(
        lambda each: f"from={day(each[0] + each[1])}&to={day(each[0])}"
    ),
)


def day(ago: int) -> str:
    return str((datetime.fromtimestamp(NOW, UTC) - timedelta(days=ago)).date())


def nodes_at(now: int) -> QueriedNodes:
    nodes = QueriedNodes(now=now)
    nodes.hit("k", now - 60)
    return nodes


def compared(nodes: QueriedNodes, query: str, now: int) -> Compared | None:
    view = view_of(query.encode())
    curve = run(nodes.queries.curve(subject("k"), view.curve_query))
    return compared_of(nodes.queries.before, curve, view, now)


@settings(max_examples=examples(60), deadline=None)
@given(RANGES, st.sampled_from(ZONES), st.sampled_from(["before", "before_exact", "year"]), st.integers(0, 400 * 24))
def test_the_page_compares_as_the_api_does(asked: str, tz: str, rule: str, hours_later: int) -> None:
    now = NOW + hours_later * HOUR_S
    nodes = nodes_at(now)
    view = view_of(f"{asked}&tz={tz}&compare={rule}".encode())
    answer = nodes.total("k", view.compared_query(rule).decode())
    found = compared(nodes, f"{asked}&tz={tz}&compare={rule}", now)
    assert found is not None
    assert found.span == (answer["before"]["from"], answer["before"]["to"])
    assert found.until <= found.end
    if rule == "before":
        assert found == compared(nodes, f"{asked}&tz={tz}", now), "also where the address says nothing"


@pytest.mark.parametrize("tz", ZONES)
def test_a_day_under_way_is_compared_up_to_the_same_minute(tz: str) -> None:
    found = compared(nodes_at(NOW), f"last=1d&tz={tz}", NOW)
    assert found is not None and found.end - found.start == DAY_S
    assert found.until == NOW - NOW % 60 + 60 - DAY_S
    assert found.words(ZoneInfo("UTC")).startswith("compared with 2")


def test_fridays_stand_beside_fridays_and_the_words_say_which_range() -> None:
    zone = ZoneInfo("UTC")
    nodes = nodes_at(NOW)
    asked = "from=2026-09-28&to=2026-10-27"  # 30 days
    for rule, words in {
        "": "24 Aug - 22 Sep 2026",
        "before_exact": "29 Aug - 27 Sep 2026",
        "year": "29 Sep - 28 Oct 2025",
        "2026-01-01": "1 Jan - 30 Jan 2026",
    }.items():
        found = compared(nodes, f"{asked}&compare={rule}", NOW)
        assert found is not None and found.words(zone) == f"compared with {words}"
    assert compared(nodes, f"{asked}&compare=none", NOW) is None
    assert compared(nodes, "from=0", NOW) is None, "of all time"
    with pytest.raises(ParameterInvalid, match="compare 'after' is not known"):
        compared(nodes, f"{asked}&compare=after", NOW)


@pytest.mark.parametrize("minute", [0, 37, 59])
def test_what_changed_is_asked_up_to_the_same_hour_of_both_ranges(minute: int) -> None:
    now = NOW - NOW % HOUR_S + minute * 60 + 20
    view, nodes = view_of(b"last=1d"), nodes_at(now)
    curve = run(nodes.queries.curve(subject("k"), view.curve_query))
    asked = ranges_asked(view, curve, compared_of(nodes.queries.before, curve, view, now), now)
    assert asked is not None
    assert asked.after[1] == now - now % HOUR_S and asked.before[1] == asked.after[1] - DAY_S
