"""A view of one value, changes beside the period before, and why a range differs from it: the numbers are the API's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clickcurve.answers.breakdowns import WhyAnswer
from clickcurve.buckets.errors import ClickcurveError, DimensionUnknown, ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_subject
from dashboard.page.audience.differences import difference_of, explained_sentence, totals_sentence
from dashboard.page.view import PageView, view_of
from dashboard.questions import GROUP, LINK
from tests.dashboard.page.test_pages import NOW, UTC_ZONE, at, broken_down_of, one, pages_of, rendered, run
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes


@pytest.fixture
def nodes() -> AttributeNodes:
    """January and February 2026: one referrer grew, one fell, one is new; all hits are of one country."""
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0})
    for day, counts in (("2026-01-10", (100, 40, 0)), ("2026-02-10", (300, 10, 25)), ("2026-02-28", (6, 0, 0))):
        for value, count in zip(("news.example", "old.example", "<i>new"), counts, strict=True):
            if count:
                said = (("ref", value), ("country", "AT"))
                nodes.accept(AttributeHit("k", at(f"{day}T12:00"), count, said=said, groups=("g",)))
    nodes.owners[0].flush(NOW)
    return nodes


def page_of(nodes: AttributeNodes, query: str, kind: str = LINK) -> Any:
    name = "k" if kind == LINK else "g"
    return run(one(pages_of(nodes, broken_down_of(nodes, visitors=True)), kind, name, view_of(query.encode()), NOW))


def overview_of(nodes: AttributeNodes, query: str) -> Any:
    return run(pages_of(nodes, broken_down_of(nodes, visitors=True)).overview(view_of(query.encode()), NOW))


FEBRUARY = "from=2026-02-01&to=2026-02-28"
ASKED = f"from={at('2026-02-01')}&to={at('2026-03-01')}"


# --- one value --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", ["news.example", "<i>new", "never.example", ""])
def test_the_curve_and_the_cards_of_a_filter_are_those_of_its_value(nodes: AttributeNodes, value: str) -> None:
    asked = nodes.curve("k", "ref", f"{ASKED}&step=1d&value={value}")
    for values in (
        page_of(nodes, f"{FEBRUARY}&by=ref&value={value}"),
        page_of(nodes, f"{FEBRUARY}&by=ref&value={value}", GROUP),
        overview_of(nodes, f"{FEBRUARY}&by=ref&value={value}"),
    ):
        certain = sum(point["at_least"] for point in asked["points"])
        assert sum(int(row.count.replace(",", "")) for row in values["chart"].rows) == certain
        hits, share = values["cards"]
        assert hits.count.text == str(certain) and asked["exact"]
        assert share.name == "Share" and share.note == "of 341 hits of people"
        assert values["audience"].difference is None


def test_a_filter_is_beside_the_period_before_and_leads_out_again(nodes: AttributeNodes) -> None:
    values = page_of(nodes, f"{FEBRUARY}&by=ref&value=news.example&compare=before")
    assert values["cards"][0].note == "100 before"
    assert values["cards"][0].change.text == "\u00d7\u00a03.1" and "polyline" in values["chart"].svg
    assert (values["filter"].name, values["filter"].value) == ("Referrer", "news.example")
    assert values["filter"].off == f"?{FEBRUARY}&compare=before"
    assert values["chart"].earlier == "?from=2026-01-01&to=2026-01-31&compare=before&by=ref&value=news.example"
    view = view_of(f"{FEBRUARY}&by=ref&value=news.example".encode())
    text = rendered(values, view=view)
    assert "how often two values come together is not kept" in text
    assert 'href="?from=2026-02-01&amp;to=2026-02-28&amp;by=country&amp;value=AT"' in text, "each value is a link"
    assert text.count('aria-current="true"><bdi>news.example') == 1
    assert "by/ref/curve?from=2026-02-01&amp;to=2026-03-01&amp;value=news.example&amp;format=csv" in text
    assert "curve.svg" not in text, "pictures are of all hits"


def test_old_hours_of_a_value_are_drawn_as_long_as_they_are_kept(nodes: AttributeNodes) -> None:
    values = page_of(nodes, "last=7d&by=ref&value=news.example")
    assert {row.end - row.start for row in values["chart"].rows} == {DAY_S}, "hours are kept for two days"
    assert "wide" not in values["chart"].legend
    assert {row.end - row.start for row in page_of(nodes, "last=24h&by=ref&value=news.example")["chart"].rows} == {
        HOUR_S
    }


@pytest.mark.parametrize(
    ("query", "error"),
    [("by=cats&value=x", DimensionUnknown), ("by=&value=x", ParameterInvalid), ("value=x", ParameterInvalid)],
)
def test_a_filter_that_is_wrong_says_so(nodes: AttributeNodes, query: str, error: type[ClickcurveError]) -> None:
    with pytest.raises(error):
        page_of(nodes, query)


def test_a_server_that_breaks_nothing_down_has_no_filter(nodes: AttributeNodes) -> None:
    with pytest.raises(ParameterInvalid, match="does not break hits down"):
        run(one(pages_of(nodes), LINK, "k", view_of(b"by=ref&value=x"), NOW))


def test_the_address_of_a_filter_keeps_what_hits_gave_none(nodes: AttributeNodes) -> None:
    view = PageView(last="7d", bots="only").filtered("ref", "")
    assert view == "?last=7d&by=ref&value="
    assert view_of(view[1:].encode()) == PageView(last="7d", by="ref", values=("",))
    assert view_of(b"last=7d&by=ref") == view_of(b"last=7d&by=ref&value="), "as addresses were once"
    assert view_of(b"by=tag.a&value=%20b%20").values == (" b ",), "as it was given"


SEVERAL = "by=ref&value=news.example&value=old.example"


@pytest.mark.parametrize("asked", ["value=news.example&value=old.example", "not=news.example", "not=news.example&not="])
def test_a_filter_may_have_several_values_and_leave_some_out(nodes: AttributeNodes, asked: str) -> None:
    curve = nodes.curve("k", "ref", f"{ASKED}&step=1d&{asked}")
    for values in (page_of(nodes, f"{FEBRUARY}&by=ref&{asked}"), overview_of(nodes, f"{FEBRUARY}&by=ref&{asked}")):
        hits, share = values["cards"]
        assert hits.count.text == str(curve["at_least"]) and curve["exact"]
        assert share.note == "of 341 hits of people"


def test_each_value_of_a_filter_has_a_chip_that_removes_it(nodes: AttributeNodes) -> None:
    view = view_of(f"{FEBRUARY}&{SEVERAL}".encode())
    assert view.address() == f"?{FEBRUARY}&{SEVERAL}"
    values = page_of(nodes, f"{FEBRUARY}&{SEVERAL}")
    assert values["filter"].value == "news.example, old.example"
    assert [(each.value, each.off) for each in values["filter"].chips] == [
        ("news.example", f"?{FEBRUARY}&by=ref&value=old.example"),
        ("old.example", f"?{FEBRUARY}&by=ref&value=news.example"),
    ]
    text = rendered(values, view=view)
    assert text.count('class="chip"') == 2 and text.count('aria-current="true"><bdi>') == 2
    more = "by=ref&amp;value=news.example&amp;value=old.example&amp;value=%3Ci%3Enew"
    assert text.count(more) == 1, "the third is shown too"
    assert 'name="value" value="old.example"' in text, "the forms of the page keep the filter"
    (chip,) = page_of(nodes, "by=ref&not=news.example")["filter"].chips
    assert (chip.is_left_out, chip.off) == (True, "?")
    view = view_of(b"by=ref&not=news.example")
    text = rendered(page_of(nodes, "by=ref&not=news.example"), view=view)
    assert "Referrer is not: <bdi>news.example</bdi>" in text
    assert "by=ref&amp;not=news.example&amp;not=old.example" in text, "and leave out one more"


def test_a_filter_names_no_more_than_a_key_may_have() -> None:
    many = "&".join(["by=ref", *(f"not={n:0100d}" for n in range(10))])
    assert len(view_of(many.encode()).left_out) == 10
    with pytest.raises(ParameterInvalid, match="1,100 characters"):
        view_of(f"{many}&value={'x' * 100}".encode())
    for query in (b"not=x", b"by=&not=x"):
        with pytest.raises(ParameterInvalid, match="not is given without its dimension"):
            view_of(query)


# --- changes of rows --------------------------------------------------------------------------------------------------
def changes_of(values: Any) -> dict[str, str]:
    (table,) = [each for each in values["audience"].tables if each.dimension == "ref"]
    return {row.value: row.change.text for row in table.rows if not row.rest}


def test_compared_lists_have_a_change_in_each_row(nodes: AttributeNodes) -> None:
    values = page_of(nodes, f"{FEBRUARY}&compare=before")
    assert changes_of(values) == {
        "news.example": "\u00d7\u00a03.1",
        "<i>new": "new",
        "old.example": "\u221275\u00a0%",
    }
    assert changes_of(page_of(nodes, FEBRUARY)) == changes_of(values), "with the period before, if nothing is said"
    assert set(changes_of(page_of(nodes, f"{FEBRUARY}&compare=none")).values()) == {""}
    (link,) = overview_of(nodes, f"{FEBRUARY}&compare=before")["links"]
    assert link.change.text == "+144\u00a0%", "341 and 140"
    (group,) = overview_of(nodes, f"{FEBRUARY}&compare=before")["groups"]
    assert group.change == link.change


def test_a_change_that_is_not_certain_is_not_said(nodes: AttributeNodes) -> None:
    """Of 8 to 12 January only weeks of values are kept: perhaps none of the 100 hits was on one of these days."""
    outside = at("2026-01-06"), at("2026-01-17")
    for t in outside:
        nodes.accept(AttributeHit("k", t, 100, said=(("ref", "else.example"),)))
    values = page_of(nodes, "from=2026-02-08&to=2026-02-12&compare=2026-01-08")
    assert changes_of(values) == {"news.example": "", "<i>new": "new", "old.example": ""}
    asked = nodes.breakdowns.bounds_in(link_subject("k"), "ref", ["news.example"], (at("2026-01-08"), at("2026-01-13")))
    assert run(asked) == [(0, 100)]


# --- why --------------------------------------------------------------------------------------------------------------
def test_what_changed_is_the_answer_of_the_question_why(nodes: AttributeNodes) -> None:
    before = f"before_from={at('2026-01-01')}&before_to={at('2026-02-01')}"
    answer = run(nodes_why(nodes, f"{ASKED}&{before}&limit=3"))
    exact = f"{FEBRUARY}&compare=before_exact"
    for values in (page_of(nodes, exact), page_of(nodes, exact, GROUP)):
        found = values["audience"].difference
        assert found.sentence == "1 Feb - 28 Feb 2026 had 341 hits, 201 more than 1 Jan - 31 Jan 2026."
        assert found == difference_of(answer, view_of(exact.encode()), UTC_ZONE)
        assert [row.text for row in found.causes["Referrers"]] == ["old.example", "news.example", "<i>new"]
        text = rendered(values)
        assert "What changed" in text and "100 \u2192 306" in text and "<i>new" not in text
    assert page_of(nodes, f"{FEBRUARY}&bots=include")["audience"].difference is None, "causes are of people"
    assert page_of(nodes, "from=0")["audience"].difference is None
    links = overview_of(nodes, FEBRUARY)["audience"].difference.causes["Links"]
    assert [(row.text, row.change.text, row.address) for row in links] == [("k", "+201", f"links/k?{FEBRUARY}")]


async def nodes_why(nodes: AttributeNodes, query: str) -> WhyAnswer:
    return await broken_down_of(nodes, visitors=True).why(link_subject("k"), query.encode())


def test_what_explains_most_is_said_with_the_values_that_moved_that_way() -> None:
    def answer(before: int, after: int, explains: float) -> WhyAnswer:
        causes = [
            {"value": "a", "change": 9, "at_least": 9, "at_most": 9, "before": 0, "after": 9},
            {"value": "", "change": -3, "at_least": -4, "at_most": -2, "before": 9, "after": 6},
        ]
        rest = {"not_shown": {"values": 0, "change": 0}, "other": 0, "unrecorded": 0}
        body = {
            "key": None, "from": at("2026-02-10"), "to": at("2026-02-12"), "same_length": False, "exact": True,
            "before": {"from": at("2026-02-07"), "to": at("2026-02-10")}, "by_link": [],
            "total": {"before": before, "after": after, "change": after - before},
            "dimensions": [{"dimension": "ref", "explains": explains, "causes": causes, **rest}],
        }  # fmt: skip
        return msgspec.convert(body, WhyAnswer)

    assert explained_sentence(answer(10, 16, 0.92)) == "Referrers explain 92\u00a0% of it: a +9."
    falls = "Referrers explain 60\u00a0% of it: Direct or unknown about \u22123."
    assert explained_sentence(answer(16, 10, 0.6)) == falls
    assert explained_sentence(answer(10, 16, 0.4)) == ""
    assert totals_sentence(answer(10, 1, 1.0), UTC_ZONE) == (
        "10 Feb - 11 Feb 2026 had 1 hit, 9 fewer than 7 Feb - 9 Feb 2026. "
        "The two ranges are not equally long: old days are kept as weeks or months."
    )
    assert "as many as" in totals_sentence(answer(10, 10, 1.0), UTC_ZONE)
    assert difference_of(answer(0, 5, 1.0), PageView(), UTC_ZONE) is None, "nothing was before"
