"""The question why a total changed, as a program asks it, and the spans that it compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.ladder import DAY_S, HOUR_S
from query.breakdowns.causes import spans_around
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.breakdowns.test_breakdown_routes import Served
from tests.query.breakdowns.test_causes import row_of

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
TODAY = NOW // DAY_S * DAY_S


def hits(nodes: AttributeNodes, day: int, ref: str, count: int, key: str = "k", hour: int = 1) -> None:
    """Counts hits of a day, 0 is today, in one of its hours."""
    t = TODAY - day * DAY_S + hour * HOUR_S
    nodes.accept(AttributeHit(key, t, count, said=(("ref", ref),), groups=("g",) if key == "k" else ()))


@pytest.fixture
def nodes() -> AttributeNodes:
    """Two weeks of two links: the last week of one has a new referrer, that of the other nothing new."""
    nodes = AttributeNodes(NOW, {"ref": 0, "bot": 0})
    for day in range(1, 15):
        hits(nodes, day, "news.example", 10)
        hits(nodes, day, "news.example", 2, "quiet")
    hits(nodes, 3, "new.example", 500)
    nodes.accept(AttributeHit("k", TODAY - 3 * DAY_S, 70, bot=True, said=(("bot", "Crawler"),)))
    nodes.owners[0].flush(NOW)
    return nodes


@pytest.fixture
def served(nodes: AttributeNodes, tmp_path: Path) -> Served:
    return Served(nodes, tmp_path / "tokens.json")


WEEK = f"from={TODAY - 7 * DAY_S}&to={TODAY}"


def test_a_new_referrer_is_named_for_a_link_its_group_and_all_links(served: Served) -> None:
    answer = served.get(f"/v1/links/k/why?{WEEK}").json()
    expected: dict[str, Any] = {
        "key": "k",
        "from": TODAY - 7 * DAY_S,
        "to": TODAY,
        "before": {"from": TODAY - 14 * DAY_S, "to": TODAY - 7 * DAY_S},
        "total": {"before": 70, "after": 570, "change": 500},
        "same_length": True,
        "dimensions": [
            {
                "dimension": "ref",
                "explains": 1.0,
                "causes": [
                    {"value": "new.example", "change": 500, "at_least": 500, "at_most": 500, "before": 0, "after": 500}
                ],
                "not_shown": {"values": 1, "change": 0},
                "other": 0,
                "unrecorded": 0,
            }
        ],
        "by_link": [],
        "exact": True,
    }
    assert answer == expected
    assert served.get(f"/v1/groups/g/why?{WEEK}").json() == {**expected, "key": "g"}
    of_all = served.get(f"/v1/why?{WEEK}").json()
    assert of_all["total"] == {"before": 84, "after": 584, "change": 500}
    assert of_all["by_link"] == [
        {"key": "k", "before": 70, "after": 570, "change": 500},
    ]


def test_without_a_range_it_is_of_seven_days_and_csv_lists_the_causes(served: Served) -> None:
    assert served.get("/v1/links/k/why").json() == served.get("/v1/links/k/why?last=7d&limit=5").json()
    lines = served.get(f"/v1/links/k/why?{WEEK}&format=csv").text.splitlines()
    assert lines == ["dimension,value,change,at_least,at_most,before,after", "ref,new.example,500,500,500,0,500"]


def test_a_range_of_ones_own_is_compared_with(served: Served) -> None:
    before = f"before_from={TODAY - 4 * DAY_S}&before_to={TODAY - 2 * DAY_S}"
    answer = served.get(f"/v1/links/k/why?from={TODAY - 2 * DAY_S}&to={TODAY}&{before}").json()
    assert (answer["total"]["before"], answer["total"]["after"], answer["exact"]) == (520, 20, True)
    (cause,) = answer["dimensions"][0]["causes"]
    assert (cause["value"], cause["change"]) == ("new.example", -500)


def test_today_is_compared_with_yesterday_up_to_the_same_hour(nodes: AttributeNodes, served: Served) -> None:
    nodes.now = TODAY + 10 * HOUR_S + 60
    hits(nodes, 1, "late.example", 99, hour=20)
    answer = served.get("/v1/links/k/why?last=1d").json()
    assert (answer["from"], answer["to"]) == (TODAY, TODAY + 11 * HOUR_S)
    assert answer["before"] == {"from": TODAY - DAY_S, "to": TODAY - DAY_S + 11 * HOUR_S}
    assert answer["total"] == {"before": 10, "after": 0, "change": -10}
    assert answer["exact"]


def test_an_open_week_is_compared_by_whole_days(served: Served) -> None:
    answer = served.get("/v1/links/k/why?last=7d").json()
    assert answer["before"]["to"] - answer["before"]["from"] == answer["to"] - answer["from"] >= 6 * DAY_S
    assert answer["same_length"]


def test_ranges_of_ones_own_that_cut_buckets_are_cut_alike(served: Served) -> None:
    """Days are kept whole, so that both begin with the next midnight."""
    at = TODAY - 3 * DAY_S - 2 * HOUR_S
    before = f"before_from={at - 10 * DAY_S}&before_to={at - 5 * DAY_S}"
    answer = served.get(f"/v1/links/k/why?from={at - 5 * DAY_S}&to={at}&{before}").json()
    assert answer["before"] == {"from": TODAY - 13 * DAY_S, "to": TODAY - 9 * DAY_S}
    assert (answer["from"], answer["to"]) == (TODAY - 8 * DAY_S, TODAY - 4 * DAY_S)
    assert answer["same_length"] and not answer["exact"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("before_from=2026-01-01", "before_to"),
        ("before_to=2026-01-01", "before_from"),
        ("before_from=2026-02-01&before_to=2026-01-01", "before_from"),
        ("last=7x", "last"),
        ("limit=0", "limit"),
        ("bots=only", "bots"),
    ],
)
def test_a_wrong_parameter_is_named(served: Served, query: str, field: str) -> None:
    answer = served.get(f"/v1/links/k/why?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_link_without_hits_changed_by_nothing(served: Served) -> None:
    answer = served.get("/v1/links/nosuch/why").json()
    assert answer["total"] == {"before": 0, "after": 0, "change": 0}
    assert [each["causes"] for each in answer["dimensions"]] == [[]]


@given(st.integers(0, 500 * DAY_S), st.integers(60, 400 * DAY_S))
def test_spans_without_a_given_one_follow_each_other_and_cut_no_bucket(age: int, length: int) -> None:
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0})
    row = row_of(nodes, "k")
    asked = NOW - age, NOW - age + length
    spans = spans_around(row, asked, NOW)
    for span in (spans.before, spans.after):
        assert span[0] == span[1] or (row.is_edge(span[0]) and row.is_edge(span[1]))
    before, after = (end - start for start, end in (spans.before, spans.after))
    if before == after and spans.before[1] <= spans.after[0]:
        assert after <= length + HOUR_S
    else:  # widened, so nothing of the asked range up to now is left out
        assert spans.after[0] <= asked[0]
        assert spans.after[1] >= min(asked[1], NOW)


def test_a_comparison_is_as_good_as_naming_the_range(served: Served) -> None:
    answer = served.get("/v1/links/k/why?last=7d&compare=before").json()
    assert answer["from"] - answer["before"]["from"] == answer["to"] - answer["before"]["to"] == 7 * DAY_S
    named = "from={}&to={}&before_from={}&before_to={}"
    for days, back in ((30, 35), (28, 28), (3, 3)):
        start = TODAY - days * DAY_S
        spans = named.format(start, TODAY, start - back * DAY_S, TODAY - back * DAY_S)
        compared = served.get(f"/v1/links/k/why?from={start}&to={TODAY}&compare=before").json()
        assert compared == served.get(f"/v1/links/k/why?{spans}").json()
    refused = served.get(f"/v1/links/k/why?{WEEK}&compare=before&before_from=0&before_to=9")
    assert (refused.status_code, refused.json()["field"]) == (422, "before_from")
