"""Where numbers come from: bounds lead to the points that make them, notes to what they are of."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from clickcurve.answers.counts import NoteAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_subject
from dashboard.page.chart import make_chart
from dashboard.page.proofs.noted import noted_lines
from dashboard.page.view import view_of
from dashboard.questions import LINK
from tests.dashboard.page.test_pages import NOW, at, broken_down_of, one, pages_of, rendered, run
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes

FULL = ("2026-02-10", "2026-02-12", "2026-02-20", "2026-02-21", "2026-02-25")  # days with more values than are kept
FILTER = "last=28d&step=1d&by=ref&value=news.example"


@pytest.fixture
def nodes() -> AttributeNodes:
    """A link of whose days five are full, one is not, and an hour of today is."""
    nodes = AttributeNodes(NOW, {"ref": 0})
    for moment in (*(f"{day}T12:00" for day in FULL), "2026-03-01T09:00"):
        for number in range(400):
            nodes.accept(AttributeHit("k", at(moment), 1 + number % 3, said=(("ref", f"s{number}.example"),)))
    for moment in ("2026-02-10T15:00", "2026-02-15T12:00", "2026-03-01T09:30"):
        nodes.accept(AttributeHit("k", at(moment), 50, said=(("ref", "news.example"),)))
    nodes.owners[0].flush(NOW)
    return nodes


def page_of(nodes: AttributeNodes, query: str) -> Any:
    return run(one(pages_of(nodes, broken_down_of(nodes, False)), LINK, "k", view_of(query.encode()), NOW))


def text_of(nodes: AttributeNodes, query: str) -> str:
    return rendered(page_of(nodes, query), view=view_of(query.encode()))


# --- bounds -----------------------------------------------------------------------------------------------------------
def test_bounds_lead_to_the_points_that_make_them(nodes: AttributeNodes) -> None:
    curve = nodes.curve("k", "ref", "last=28d&step=1d&value=news.example")
    full = [point for point in curve["points"] if point["at_most"] > point["at_least"]]
    assert sum(each["at_most"] - each["at_least"] for each in full) == curve["at_most"] - curve["at_least"]
    found = page_of(nodes, FILTER)["chart"].uncertain
    assert found.bounds == f"{curve['at_least']} to {curve['at_most']}"
    assert (len(found.unknown) + found.unknown_more, found.cut) == (len(full), [])
    for point, link in zip(full, found.unknown, strict=False):
        assert link.counts == f"{point['at_least']} to {point['at_most']}"
        alone = page_of(nodes, link.address.removeprefix("?"))["chart"]
        assert alone.uncertain.bounds == link.counts
    text = re.sub(r"<[^>]*>", "", text_of(nodes, FILTER))
    assert f"{found.bounds}: not every value is known of Tue 10 Feb 2026 (50 to 5" in text and "and 3 more" in text


def test_the_table_has_both_bounds_of_a_point(nodes: AttributeNodes) -> None:
    points = nodes.curve("k", "ref", "last=28d&step=1d&value=news.example")["points"]
    both = [{each["at_least"], each["at_most"]} for each in points]
    rows = page_of(nodes, FILTER)["chart"].rows
    assert [set(map(int, row.count.split(" to "))) for row in rows] == both


def test_a_part_of_a_kept_bucket_is_named(nodes: AttributeNodes) -> None:
    query = f"from={at('2026-02-10T14:00')}&to={at('2026-02-15T13:00')}&step=1d&by=ref&value=news.example"
    found = page_of(nodes, query)["chart"].uncertain
    assert [link.when for link in found.cut] == ["Tue 10 Feb 2026", "Sun 15 Feb 2026"]
    assert "the range has only a part of" in text_of(nodes, query)


def test_what_is_certain_has_no_such_line(nodes: AttributeNodes) -> None:
    for query in (f"from={at('2026-02-15')}&to={at('2026-02-16')}&by=ref&value=news.example", "last=28d"):
        assert page_of(nodes, query)["chart"].uncertain is None
        assert 'id="bounds"' not in text_of(nodes, query)


def test_an_uncertain_number_of_a_list_leads_to_where_its_bounds_come_from(nodes: AttributeNodes) -> None:
    values = page_of(nodes, "last=28d")
    uncertain = [row for row in values["audience"].tables[0].rows if not row.certain]
    assert uncertain
    addresses = re.findall(r'<td class="n"><a href="([^"#]*)#bounds"', text_of(nodes, "last=28d"))
    assert len(addresses) == len(uncertain)
    for address in addresses:
        assert 'id="bounds"' in text_of(nodes, address.removeprefix("?").replace("&amp;", "&"))


# --- notes ------------------------------------------------------------------------------------------------------------
NOTED = at("2026-02-20T12:20")
DAY = at("2026-02-20")
TOKYO = DAY - 9 * HOUR_S


@pytest.mark.parametrize(
    ("kind", "span", "query", "address"),
    [
        ("note", (), "last=28d&step=1d", f"?from={DAY}&to={DAY + DAY_S}"),
        ("erase", (), "last=28d&step=1d&tz=Asia/Tokyo", f"?from={TOKYO}&to={TOKYO + DAY_S}&tz=Asia%2FTokyo"),
        ("note", (), f"from={DAY}&to={DAY + DAY_S}", f"?from={NOTED - 1_200}&to={NOTED + 2_400}"),
        ("import", (), "last=2h", f"?from={NOTED - 1_200}&to={NOTED + 2_400}"),
        ("alert", (NOTED - HOUR_S, NOTED), "last=28d", f"?from={NOTED - HOUR_S}&to={NOTED}"),
        ("disavow", (DAY, NOTED), "last=28d&bots=include", f"?from={DAY}&to={NOTED}&show=bots"),
        ("disavow", (), "last=28d", "?from=0&show=bots"),
    ],
)  # fmt: skip
def test_a_note_leads_to_what_it_is_of(
    nodes: AttributeNodes, kind: str, span: tuple[int, ...], query: str, address: str
) -> None:
    note = NoteAnswer("1", NOTED, kind, "<b>", "k", None, *span)
    view = view_of(query.encode())
    curve = run(nodes.queries.curve(link_subject("k"), view.curve_query))
    noted = msgspec.structs.replace(curve, notes=[note])
    assert [(line.text, line.address) for line in noted_lines(noted, view)] == [("1: <b>", address)]
    values = page_of(nodes, query)
    values["chart"] = make_chart(noted, view, NOW)
    text = rendered(values, view=view)
    assert f'<a href="{address.replace("&", "&amp;")}">1: &lt;b&gt;</a>' in text
    page_of(nodes, address.removeprefix("?"))


def test_a_note_of_what_is_shown_leads_nowhere(nodes: AttributeNodes) -> None:
    hour = NOTED - NOTED % HOUR_S
    view = view_of(f"from={hour}&to={hour + HOUR_S}".encode())
    curve = run(nodes.queries.curve(link_subject("k"), view.curve_query))
    noted = msgspec.structs.replace(curve, notes=[NoteAnswer("1", NOTED, "note", "here")])
    assert [line.address for line in noted_lines(noted, view)] == [""]
    assert noted_lines(curve, view) == []
