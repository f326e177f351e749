"""The sentence of what changed beside the card of hits: of the same ranges, or it says of which; never another way."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ladder import DAY_S, HOUR_S
from dashboard.page.audience.differences import Ranges
from dashboard.page.page_routes import page_routes
from dashboard.page.templates import Templates
from testing.asgi import ask_app
from tests.dashboard.page.test_pages import broken_down_of, pages_of
from tests.power import examples
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes

NOW = int(datetime(2026, 11, 28, 14, 37, 20, tzinfo=UTC).timestamp())  # a Saturday
DAYS = 140
COUNTED = re.compile(r"had [\d,]+ hits?, (?:([\d,]+) (more|fewer) than|as many as)")


def nodes_with(counts: list[int], now: int = NOW, steady: int = 0) -> AttributeNodes:
    """Some days of hits, the last one first: two referrers take turns. steady: of the second one every day, if any."""
    nodes = AttributeNodes(now, {"ref": 0})
    for ago in range(DAYS):
        for place, value in enumerate(("news.example", "old.example")):
            count = steady if place and steady else counts[(ago + 3 * place) % len(counts)]
            if count:
                nodes.accept(AttributeHit("k", now - ago * DAY_S - 3 * HOUR_S, count, said=(("ref", value),)))
    nodes.owners[0].flush(now)
    return nodes


def page_at(nodes: AttributeNodes, path: str, now: int = NOW) -> str:
    app, pages = FastAPI(), pages_of(nodes, broken_down_of(nodes, visitors=False))
    app.include_router(page_routes(pages, Templates(), lambda: now, lambda scope: False, lambda scope: True, lambda: 0))
    answer = ask_app(app, "GET", path)
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


def sentence_of(text: str) -> str:
    found = re.search(r'<p class="why">(.*?)</p>', text, re.DOTALL)
    return found[1] if found else ""


def way_of_card(text: str) -> str:
    """Returns up, down or empty, as the card of hits says."""
    card = text[text.index('<ul class="cards"') :]
    found = re.search(r'<b class="change (\w*)"', card[: card.index("</li>")])
    return found[1] if found else ""


def rising(days: int) -> list[int]:
    return [100] * days + [60] * (DAYS - days)


def test_thirty_days_tell_the_whole_weeks_that_can_be_compared() -> None:
    text = page_at(nodes_with(rising(30), steady=50), "/links/k?last=30d")
    assert way_of_card(text) == "up"
    assert sentence_of(text).startswith(
        "By whole days or weeks, as values are kept: "
        "2 Nov - 22 Nov 2026 had 3,150 hits, 840 more than 28 Sep - 18 Oct 2026."
    )
    assert "2 Nov - 22 Nov 2026 compared with 28 Sep - 18 Oct 2026</p>" in text, "above the causes"


def test_weeks_that_went_the_other_way_than_the_card_name_what_moved_alone() -> None:
    text = page_at(nodes_with([400] * 6 + [40] * 22 + [60] * (DAYS - 28), steady=50), "/links/k?last=30d")
    assert way_of_card(text) == "up"
    assert sentence_of(text) == (
        "By whole days or weeks, as values are kept: news.example \u2212420 "
        "(2 Nov - 22 Nov 2026 compared with 28 Sep - 18 Oct 2026)."
    )


def test_ranges_that_are_kept_are_told_as_the_card_has_them() -> None:
    text = page_at(nodes_with(rising(14), steady=50), "/links/k?from=2026-11-16&to=2026-11-22")
    assert sentence_of(text).startswith("16 Nov - 22 Nov 2026 had 1,050 hits, 240 more than 9 Nov - 15 Nov 2026.")
    assert "compared with 9 Nov" in text and '<p class="note">16 Nov' not in text


def test_ranges_that_only_wider_buckets_hold_are_not_told() -> None:
    text = page_at(nodes_with(rising(30), steady=50), "/links/k?from=2026-11-20&to=2026-11-24&compare=2026-09-09")
    sentence = sentence_of(text)
    assert sentence.endswith("not equally long, so what moved the hits is not told.")
    assert "20 Nov - 24 Nov 2026 and of 7 Sep - 13 Sep 2026" in sentence
    assert "<h2>What changed</h2>" not in text


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=5, max_size=40),
    st.integers(0, 14 * 24),
    st.sampled_from(["last=7d", "last=28d", "last=30d", "last=91d", "last=1d", "from=2026-10-05&to=2026-11-03"]),
    st.sampled_from(["UTC", "Europe/Vienna", "America/New_York"]),
    st.sampled_from(["", "&compare=before_exact", "&compare=2026-08-09"]),
    st.sampled_from(["/", "/links/k"]),
)
def test_the_sentence_never_says_another_way_than_the_card(
    counts: list[int], later_h: int, asked: str, tz: str, compare: str, path: str
) -> None:
    now = NOW + later_h * HOUR_S
    text = page_at(nodes_with(counts, now), f"{path}?{asked}&tz={tz}{compare}", now)
    sentence = sentence_of(text)
    for number, word in COUNTED.findall(sentence):
        assert way_of_card(text) == {"more": "up", "fewer": "down", "": ""}[word], (number, sentence)
    assert "not equally long" not in sentence or ("not told" in sentence and "What changed</h2>" not in text)


@given(st.integers(0, 3_000), st.integers(1, 400), st.integers(0, 3_000), st.integers(-2, 2))
def test_whole_weeks_lie_inside_and_are_as_long_beside(start: int, days: int, back: int, hours: int) -> None:
    before = start * DAY_S, (start + days) * DAY_S
    moved = back * DAY_S + hours * HOUR_S
    found = Ranges((before[0] + moved, before[1] + moved), before).whole_weeks()
    if found is None:
        assert days < 13
        return
    first, end = found.before
    assert before[0] <= first < end <= before[1]
    assert datetime.fromtimestamp(first, UTC).isoweekday() == datetime.fromtimestamp(end, UTC).isoweekday() == 1
    assert (found.after[0] - first, found.after[1] - end) == (back * DAY_S, back * DAY_S)


@pytest.mark.parametrize(
    "query", ["last=30d&bots=include", "last=30d&by=ref&value=news.example", "last=30d&compare=none"]
)
def test_nothing_is_told_where_no_causes_are_known(query: str) -> None:
    assert sentence_of(page_at(nodes_with(rising(30), steady=50), f"/links/k?{query}")) == ""
