"""How the charts of a page fit together: one axis, labels under their bars, steps by traffic, what is kept whole."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from clickcurve.answers.breakdowns import VisitorDay, VisitorsAnswer
from clickcurve.answers.counts import CurveAnswer, PointAnswer
from dashboard.page.audience.visits import visitor_curve
from dashboard.page.view import view_of
from dashboard.pictures.curve_picture import draw_curve
from dashboard.pictures.shapes import Box, Label
from dashboard.questions import LINK
from tests.dashboard.page.test_pages import NOW, broken_down_of, one, pages_of, rendered, run
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import QueriedNodes

DAY_S, HOUR_S = 86_400, 3_600
MONDAY = int(datetime(2026, 2, 2, tzinfo=UTC).timestamp())


def curve_of(step: str, start: int, width_s: int, n: int) -> CurveAnswer:
    points = [PointAnswer(start + k * width_s, start + (k + 1) * width_s, 1, "complete") for k in range(n)]
    return CurveAnswer(None, start, points[-1].end, step, "UTC", start, n, n, n, True, points)


def days_of(*days: tuple[int, int, int]) -> VisitorsAnswer:
    found = [VisitorDay(start, end, count, count, count, True) for start, end, count in days]
    total = sum(each[2] for each in days)
    return VisitorsAnswer(None, total, total, total, True, found, 0)


def page_of(nodes: QueriedNodes, query: bytes) -> Any:
    return run(one(pages_of(nodes), LINK, "k", view_of(query), NOW))


# --- one axis ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("step", "width_s", "n"), [("1h", HOUR_S, 24 * 7), ("1d", DAY_S, 30), ("1w", 7 * DAY_S, 20)])
def test_visitors_have_the_axis_of_the_hits(step: str, width_s: int, n: int) -> None:
    axis = curve_of(step, MONDAY, width_s, n)
    days = days_of(
        *((MONDAY + k * DAY_S, MONDAY + (k + 1) * DAY_S, k) for k in range(2, 7 * n, 3) if k * DAY_S < n * width_s)
    )
    found = visitor_curve(days, axis, NOW * 2)
    if step == "1w":
        assert found is not None and [point.end - point.start for point in found.points] == [7 * DAY_S] * n
    assert found is not None
    assert (found.points[0].start, found.points[-1].end) == (axis.start, axis.end)
    assert all(one.end == two.start for one, two in zip(found.points, found.points[1:], strict=False))
    assert found.total == days.at_least


def test_days_of_utc_take_the_days_of_a_zone_that_they_touch_most() -> None:
    axis = curve_of("1d", MONDAY - HOUR_S, DAY_S, 10)
    found = visitor_curve(
        days_of(*((MONDAY + k * DAY_S, MONDAY + (k + 1) * DAY_S, k + 1) for k in range(10))), axis, NOW
    )
    assert found is not None and [point.count for point in found.points] == list(range(1, 11))


def test_a_month_of_visitors_that_is_kept_whole_is_one_bar_over_its_weeks() -> None:
    axis = curve_of("1w", MONDAY, 7 * DAY_S, 8)
    found = visitor_curve(
        days_of((MONDAY, MONDAY + 28 * DAY_S, 280), (MONDAY + 28 * DAY_S, MONDAY + 35 * DAY_S, 7)), axis, NOW * 2
    )
    assert found is not None
    assert [(point.count, point.wide) for point in found.points] == [(280, True), (7, False), (0, True)]


def test_estimated_days_are_drawn_by_their_estimate_and_days_of_several_owners_by_what_is_certain() -> None:
    axis = curve_of("1d", MONDAY, DAY_S, 3)
    days = [
        VisitorDay(MONDAY, MONDAY + DAY_S, 900, 700, 2_000, False, 21),
        VisitorDay(MONDAY + DAY_S, MONDAY + 2 * DAY_S, None, 40, 60, False),
    ]
    found = visitor_curve(VisitorsAnswer(None, None, 740, 2_060, False, days, 0), axis, NOW)
    assert found is not None and [point.count for point in found.points] == [900, 40, 0]


def test_a_range_of_hours_has_no_chart_of_days() -> None:
    assert visitor_curve(days_of((MONDAY, MONDAY + DAY_S, 5)), curve_of("5m", MONDAY, 300, 288), NOW) is None


# --- labels ----------------------------------------------------------------------------------------------------------
def test_a_label_is_centred_under_the_bar_of_its_day() -> None:
    curve = curve_of("1d", MONDAY, DAY_S, 10)
    picture = draw_curve(curve, 1_100, 260, False)
    middles = {(box.left + box.right) / 2 for box in picture.shapes if isinstance(box, Box) and box.part == "bar"}
    labels = [each for each in picture.shapes if isinstance(each, Label) and re.fullmatch(r"\d+ Feb", each.text)]
    gap = 1 / (picture.width - picture.gutter)
    assert [each.text for each in labels] == [f"{day} Feb" for day in range(2, 12)]
    assert all(each.anchor == "middle" and min(abs(each.x - x) for x in middles) <= gap for each in labels)


def test_a_wide_bar_has_one_label() -> None:
    """The label of its beginning is centred under it, where those of days inside it would stand too."""
    days = curve_of("1d", MONDAY, DAY_S, 10)
    wide = PointAnswer(MONDAY, MONDAY + 5 * DAY_S, 5, "complete", True)
    picture = draw_curve(msgspec.structs.replace(days, points=[wide, *days.points[5:]]), 1_100, 260, False)
    labels = [each.text for each in picture.shapes if isinstance(each, Label) and re.fullmatch(r"\d+ Feb", each.text)]
    assert labels == ["2 Feb", "7 Feb", "8 Feb", "9 Feb", "10 Feb", "11 Feb"]


# --- steps -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("every_s", "count", "query", "step"),
    [
        (3_000, 1, b"last=24h", "1h"),
        (300, 2, b"last=24h", "15m"),
        (300, 20, b"last=24h", "5m"),
        (8 * HOUR_S, 1, b"last=7d", "1d"),
        (3_000, 1, b"last=24h&step=5m", "5m"),
        (240, 1, b"last=60m", "5m"),
    ],
)
def test_few_hits_have_longer_steps(every_s: int, count: int, query: bytes, step: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for t in range(NOW - 7 * DAY_S, NOW, every_s):
        nodes.hit("k", t, count)
    values = page_of(nodes, query)
    widths = {row.end - row.start for row in values["chart"].rows}
    assert {"5m": 300, "15m": 900, "1h": HOUR_S, "1d": DAY_S}[step] == max(widths)
    assert "step=1" not in values["chart"].earlier, "it is no choice of the reader"


def test_of_an_old_day_that_is_kept_as_a_week_the_week_is_said() -> None:
    nodes = QueriedNodes(now=NOW)
    wednesday = int(datetime(2025, 8, 13, 9, tzinfo=UTC).timestamp())
    nodes.hit("k", wednesday, 7_807)
    nodes.hit("k", NOW)
    values = page_of(nodes, b"from=2025-08-14&to=2025-08-14")
    assert values["chart"].kept_whole == (
        "Only whole weeks are kept from then: 11 Aug - 17 Aug 2025 (week 33) had 7,807 hits."
    )
    (hits,) = [card for card in values["cards"] if card.name == "Hits"]
    assert hits.count.text == "at most 7,807"
    assert page_of(nodes, b"last=30d")["chart"].kept_whole == ""


# --- words ------------------------------------------------------------------------------------------------------------
def test_a_range_that_may_have_no_hit_is_said_with_the_most_that_it_may_have() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", int(datetime(2025, 8, 13, 9, tzinfo=UTC).timestamp()), 7_807)
    nodes.hit("k", NOW)
    values = page_of(nodes, b"from=2025-08-14&to=2025-08-14")
    assert values["chart"].sentence == "at most 7,807 hits, 14 Aug 2025"
    assert values["cards"][0].change.text == "", "both days are in the same week"


def test_visitors_of_one_day_are_not_added_up() -> None:
    nodes = AttributeNodes(NOW, {"ref": 0})
    for ago_s, visitor in ((60, 1), (120, 2), (DAY_S, 1)):
        nodes.accept(AttributeHit("k", NOW - ago_s, 1, False, (("ref", "news.example"),), visitor))
    cards = {}
    for query in (b"last=1d", b"last=2d"):
        values: Any = run(one(pages_of(nodes, broken_down_of(nodes, True)), LINK, "k", view_of(query), NOW))
        cards[query] = {card.name: card.count.text for card in values["cards"]}
    assert cards[b"last=1d"]["Visitors"] == "2" and cards[b"last=2d"]["Daily visitors"] == "3"
    drawn: Any = run(
        one(pages_of(nodes, broken_down_of(nodes, True)), LINK, "k", view_of(b"last=7d&show=visitors"), NOW)
    )
    assert "counts twice" in rendered(drawn) and drawn["chart"].sentence.startswith("3 daily visitors")


def test_a_range_without_bots_has_no_chart_of_them() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60)
    nodes.hit("k", NOW - 40 * DAY_S, 1, True)
    for query, drawn in ((b"last=7d&show=bots", "1 hit,"), (b"last=92d&show=bots", "1 bot hit,")):
        assert page_of(nodes, query)["chart"].sentence.startswith(drawn)
