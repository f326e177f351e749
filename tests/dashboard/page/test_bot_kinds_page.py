"""Bots by kind and by name on pages: in words, apart from people, and a sentence where none came."""

from __future__ import annotations

from typing import Any

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S
from dashboard.page.audience.values import KINDS_OF_BOTS, value_text
from dashboard.page.view import view_of
from dashboard.questions import LINK
from ingest.agents import known_bots
from tests.dashboard.page.test_pages import NOW, broken_down_of, one, pages_of, rendered, run
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes

BOTS = (("ai_crawler", "GPTBot", 30), ("search", "Googlebot", 15), ("other_bot", "", 5))


@pytest.fixture
def nodes() -> AttributeNodes:
    """A link with hits of people and of bots, of today alone, and one that bots do not know."""
    nodes = AttributeNodes(NOW, {"ref": 0, "bot": 0, "bot_kind": 0})
    for key in ("k", "quiet"):
        nodes.accept(AttributeHit(key, NOW - 60, 100, said=(("ref", "news.example"),)))
        nodes.accept(AttributeHit(key, NOW - 10 * DAY_S, 100, said=(("ref", "news.example"),)))
    for kind, name, count in BOTS:
        nodes.accept(AttributeHit("k", NOW - 60, count, True, (("bot", name), ("bot_kind", kind))))
    nodes.owners[0].flush(NOW)
    return nodes


def link(nodes: AttributeNodes, query: str, name: str = "k") -> Any:
    return run(one(pages_of(nodes, broken_down_of(nodes, True)), LINK, name, view_of(query.encode()), NOW))


def text_of(nodes: AttributeNodes, query: str, name: str = "k") -> str:
    return rendered(link(nodes, query, name), view=view_of(query.encode()))


def test_kinds_of_bots_are_named_in_words() -> None:
    judged = {value for name, value in vars(known_bots).items() if name.isupper() and isinstance(value, str)}
    assert set(KINDS_OF_BOTS) == judged, "each kind that a bot is judged to be"
    assert value_text("bot_kind", "ai_crawler") == "AI crawler" and value_text("ref", "ai_crawler") == "ai_crawler"
    assert value_text("bot_kind", "of later") == "of later"


def test_the_panel_has_both_lists_with_their_parts_of_all_bots(nodes: AttributeNodes) -> None:
    values = link(nodes, "last=7d")
    (panel,) = [panel for column in values["columns"] for panel in column if panel.tables and panel.tables[0].of_bots]
    kinds, names = panel.tables
    assert [(row.text, row.count.text, row.share) for row in kinds.rows] == [
        ("AI crawler", "30", "60\u00a0%"),
        ("Search engine", "15", "30\u00a0%"),
        ("Other bots", "5", "10\u00a0%"),
    ]
    assert [row.text for row in names.rows] == ["GPTBot", "Googlebot", "Without a name"]
    text = text_of(nodes, "last=7d")
    assert 'for="tab-bot_kind">Kinds of bots<' in text and 'for="tab-bot">Bots by name<' in text
    assert "of 50 bot hits" in text and "of 100 hits" in text
    assert "Lists of values are of people, but for those of bots." in text


@pytest.mark.parametrize(("query", "name"), [("last=7d", "quiet"), ("from=2026-02-01&to=2026-02-25", "k")])
def test_where_no_bot_came_a_sentence_says_so(nodes: AttributeNodes, query: str, name: str) -> None:
    text = text_of(nodes, query, name)
    assert text.count("No hits of bots in this range.") == 2, "in both lists"
    assert "news.example" in text and 'data-dimension="bot_kind"' not in text
    assert "No hits of bots in this range." in text_of(nodes, f"{query}&list=bot_kind", name)


def test_without_the_dimension_nothing_is_said_of_it() -> None:
    nodes = AttributeNodes(NOW, {"ref": 0})
    nodes.accept(AttributeHit("k", NOW - 60, 100, said=(("ref", "news.example"),)))
    assert "of bots in this range" not in text_of(nodes, "last=7d")


def test_the_curve_and_the_share_of_a_kind_are_of_bots(nodes: AttributeNodes) -> None:
    query = "last=7d&by=bot_kind&value=ai_crawler"
    values = link(nodes, query)
    bots, share = values["cards"]
    assert (bots.name, bots.count.text) == ("Bots", "30")
    assert (share.count.text, share.note) == ("60\u00a0%", "of 50 hits of bots")
    assert values["chart"].sentence.startswith("30 bot hits, ")
    assert "Kind of bot: <bdi>AI crawler</bdi>" in text_of(nodes, query)
    people = link(nodes, "last=7d&by=ref&value=news.example")["cards"][1]
    assert (people.count.text, people.note) == ("100\u00a0%", "of 100 hits of people")


def test_no_list_of_bots_is_sorted_by_what_people_buy(nodes: AttributeNodes) -> None:
    with pytest.raises(ParameterInvalid, match="sort 'event:sale' is not known"):
        link(nodes, "last=7d&list=bot_kind&sort=event:sale")
