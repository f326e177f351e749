"""What the first screen says: cards that the chart draws, points beside those before, panels, the map, whole lists."""

from __future__ import annotations

from typing import Any

import pytest

from clickcurve.answers.breakdowns import ValueAnswer
from clickcurve.buckets.errors import DimensionUnknown, ParameterInvalid
from clickcurve.buckets.ladder import DAY_S
from dashboard.page.audience.countries import countries_on_map, flag_of
from dashboard.page.audience.values import CHANNELS_NAMED, ValueTable, value_text
from dashboard.page.lists.linked import MOST_POINTS, links_of_points
from dashboard.page.panels import CHANGED, LINKS, VALUES, Panel, columns_of, panels_of
from dashboard.page.view import PageView, view_of
from dashboard.questions import LINK
from ingest.attributes.channel import CHANNELS
from tests.dashboard.page.test_pages import NOW, broken_down_of, one, pages_of, rendered, run
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import QueriedNodes

DAYS = 20


@pytest.fixture
def nodes() -> AttributeNodes:
    """Twenty days of one link, and on every other of them another link; bots every day."""
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0, "device": 0})
    for day in range(DAYS):
        said = (("ref", "news.example" if day < 10 else "old.example"), ("country", "AT"), ("device", "phone"))
        nodes.accept(AttributeHit("k", NOW - day * DAY_S - 60, 10 + day, False, said, day % 3, ("g",)))
        nodes.accept(AttributeHit("k", NOW - day * DAY_S - 60, 2, True))
        if day % 2:
            nodes.accept(AttributeHit("other", NOW - day * DAY_S - 60, 1, False, said))
    nodes.owners[0].flush(NOW)
    return nodes


def overview(nodes: AttributeNodes, query: bytes) -> Any:
    return run(pages_of(nodes, broken_down_of(nodes, True)).overview(view_of(query), NOW))


def link(nodes: AttributeNodes, query: bytes) -> Any:
    return run(one(pages_of(nodes, broken_down_of(nodes, True)), LINK, "k", view_of(query), NOW))


# --- cards that the chart draws ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("show", "sentence", "card"),
    [
        ("", " hits,", "Hits"),
        ("bots", " bot hits,", "Bots"),
        ("visitors", " daily visitors,", "Daily visitors"),
        ("links", " hits,", "Hits"),  # a link's page has no such card
    ],
)
def test_each_card_leads_to_its_curve_and_says_whether_that_is_drawn(
    nodes: AttributeNodes, show: str, sentence: str, card: str
) -> None:
    values = link(nodes, f"last=7d&show={show}".encode())
    assert sentence in values["chart"].sentence
    assert [each.name for each in values["cards"] if each.chosen] == [card]
    assert {each.name: each.address for each in values["cards"]} == {
        "Hits": "?last=7d",
        "Daily visitors": "?last=7d&show=visitors",
        "Bots": "?last=7d&show=bots",
    }
    assert all("svg" in each.spark for each in values["cards"])


def test_links_with_hits_are_counted_for_the_range_and_for_each_bar(nodes: AttributeNodes) -> None:
    values = overview(nodes, b"last=7d&step=1d&show=links")
    (card,) = [card for card in values["cards"] if card.name == "Links with hits"]
    assert (card.count.text, card.note, card.change.text, card.chosen) == ("2", "2 before", "0\u00a0%", True)
    assert [row.count for row in values["chart"].rows] == ["1", "2", "1", "2", "1", "2", "1"]
    assert values["chart"].sentence.startswith("2 links, ")
    assert overview(nodes, b"last=7d")["cards"][1].address == "?last=7d&show=links"


@pytest.mark.parametrize(("query", "step"), [(b"last=24h&step=5m", "1h"), (b"last=7d&step=1h", "1d")])
def test_links_are_counted_by_a_longer_step_where_bars_are_many(query: bytes, step: str) -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60)
    curve = run(links_of_points(nodes.queries, query))
    assert curve is not None and curve.step == step and len(curve.points) <= MOST_POINTS
    assert [point.count for point in curve.points][-1] == 1


def test_what_nobody_can_show_is_refused(nodes: AttributeNodes) -> None:
    with pytest.raises(ParameterInvalid, match="show 'cats' is not known"):
        link(nodes, b"show=cats")


def test_a_range_before_which_nothing_was_has_no_rows_that_say_new(nodes: AttributeNodes) -> None:
    values = link(nodes, b"last=28d")
    assert values["cards"][0].change.text == "new"
    assert {row.change.text for table in values["audience"].tables for row in table.rows} == {""}
    assert not values["compared"]


# --- points beside those before ---------------------------------------------------------------------------------------
def test_a_point_stands_beside_the_one_before(nodes: AttributeNodes) -> None:
    saturday = link(nodes, b"last=7d&step=1d")["chart"].rows[-2]
    assert (saturday.when, saturday.count) == ("Sat 28 Feb 2026", "11")
    assert (saturday.before_when, saturday.before) == ("Sat 21 Feb 2026", "18")
    assert saturday.change == "\u22127 (\u221239\u00a0%)"
    alone = link(nodes, b"last=7d&step=1d&compare=none")["chart"]
    assert not alone.compared and {row.before for row in alone.rows} == {""}


@pytest.mark.parametrize("query", [b"last=7d&step=1d", b"last=7d&step=1d&show=bots&tz=Asia/Kolkata"])
def test_a_line_of_the_table_leads_to_its_bar_alone(nodes: AttributeNodes, query: bytes) -> None:
    for row in (each for each in link(nodes, query)["chart"].rows if each.count != "0"):
        alone = link(nodes, row.address.removeprefix("?").encode())
        assert sum(int(each.count) for each in alone["chart"].rows) == int(row.count)
        assert [card.name for card in alone["cards"] if card.chosen] == (["Bots"] if b"bots" in query else ["Hits"])
    text = rendered(link(nodes, query), view=view_of(query))
    assert text.count('<td><a href="?from=') == len(link(nodes, query)["chart"].rows)


def test_no_line_of_minutes_leads_anywhere(nodes: AttributeNodes) -> None:
    assert {row.address for row in link(nodes, b"last=60m")["chart"].rows} == {""}


# --- panels -----------------------------------------------------------------------------------------------------------
def table_of(dimension: str) -> ValueTable:
    return ValueTable(dimension, dimension, dimension, "1", [], True)


def test_tables_of_one_kind_are_tabs_of_one_panel_and_none_is_left_out() -> None:
    names = ("tag.team", "os", "ref", "country", "device", "source", "channel", "bot", "bot_kind")
    panels = panels_of(10, [table_of(name) for name in names], None)
    assert [each.kind for each in panels] == [LINKS, VALUES, VALUES, VALUES, VALUES, VALUES]
    assert [[table.dimension for table in each.tables] for each in panels[1:]] == [
        ["ref", "channel", "source"],
        ["country"],
        ["device", "os"],
        ["bot_kind", "bot"],
        ["tag.team"],
    ]


@pytest.mark.parametrize("lines", [[13], [13, 14], [13, 14, 22, 8], [13, 14, 22, 8, 12], [5, 30, 5, 5, 5, 5]])
def test_no_column_is_empty_and_both_end_at_about_the_same_height(lines: list[int]) -> None:
    columns = columns_of([Panel(CHANGED, each) for each in lines])
    heights = [sum(panel.lines for panel in column) for column in columns]
    assert sum(heights) == sum(lines) and len(columns) == min(2, len(lines))
    assert len(lines) == 1 or max(heights) - min(heights) <= 5, "five lines at most of whatever is in them"


@pytest.mark.parametrize("lines", [[13, 14], [13, 13, 22, 8, 12, 14, 9], [13, 11, 21, 8, 9]])
def test_where_hits_came_from_begins_the_right_column(lines: list[int]) -> None:
    panels = [Panel(CHANGED, each) for each in lines]
    left, right = columns_of(panels)
    assert left[0] is panels[0] and right[0] is panels[1]


# --- countries --------------------------------------------------------------------------------------------------------
def test_countries_have_names_flags_and_a_shade_by_their_hits() -> None:
    counts = (("AT", 400, 400), ("DE", 100, 120), ("", 50, 50), ("XX", 9, 9))
    first, second = countries_on_map([ValueAnswer(*each) for each in counts], PageView())
    assert (first.name, first.shade, first.address) == ("Austria", 1.0, "?by=country&value=AT")
    assert second.count.text == "100 to 120" and 0.5 < second.shade < 0.6, "over half the shade for a quarter"
    assert flag_of("AT") == "\N{REGIONAL INDICATOR SYMBOL LETTER A}\N{REGIONAL INDICATOR SYMBOL LETTER T}"
    assert flag_of("XX") == flag_of("") == ""
    assert value_text("country", "GB") == "United Kingdom" and value_text("country", "XX") == "XX"


def test_every_channel_has_a_name_for_people() -> None:
    assert set(CHANNELS_NAMED) == set(CHANNELS)
    assert value_text("channel", "paid_search") == "Paid search"
    assert value_text("source", "paid_search") == "paid_search"
    assert value_text("channel", "of later") == "of later" and value_text("channel", "") == "(not given)"


# --- whole lists ------------------------------------------------------------------------------------------------------
@pytest.fixture
def many() -> AttributeNodes:
    """Fourteen values, of which later ones have more hits now, and all had as many the week before."""
    nodes = AttributeNodes(NOW, {"ref": 0})
    for number in range(14):
        for ago_s, hits in ((60, 100 + number), (8 * DAY_S, 200)):
            nodes.accept(AttributeHit("k", NOW - ago_s, hits, said=(("ref", f"site-{number:02d}.example"),)))
    return nodes


def test_an_arrow_opens_the_whole_list(many: AttributeNodes) -> None:
    values = link(many, b"last=7d")
    (table,) = values["audience"].tables
    assert table.more and table.rows[-1].text == "4 more"
    assert 'href="?last=7d&amp;list=ref"' in rendered(values, view=view_of(b"last=7d"))


@pytest.mark.parametrize(("sort", "first"), [("", 13), ("key", 0), ("change", 13), ("-change", 0)])
def test_a_whole_list_is_sorted_as_the_address_says(many: AttributeNodes, sort: str, first: int) -> None:
    query = f"last=7d&list=ref&sort={sort}".encode()
    values = link(many, query)
    (table,) = values["audience"].tables
    assert len(table.rows) == 14 and table.rows[0].text == f"site-{first:02d}.example"
    assert values["audience"].difference is None and [len(column) for column in values["columns"]] == [1]
    text = rendered(values, view=view_of(query))
    assert 'href="?last=7d">Back to all lists' in text and text.count("aria-sort=") == 1


def test_a_list_or_an_order_that_is_not_there_is_refused(many: AttributeNodes) -> None:
    with pytest.raises(ParameterInvalid, match="sort 'cats' is not known"):
        link(many, b"list=ref&sort=cats")
    with pytest.raises(DimensionUnknown):
        link(many, b"list=cats")
