"""What pages say, from answers to words: cards, rankings, charts, views, and what hits said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from clickcurve.answers import CurveAnswer, KeyCount, LinksAnswer, TotalAnswer, ValuesAnswer
from clickcurve.buckets.errors import ParameterInvalid, StoreUnavailable
from clickcurve.keys import ALL
from dashboard.page.cards import cards, change, moved
from dashboard.page.page_routes import page_routes
from dashboard.page.pages import NodeFacts, Pages
from dashboard.page.rankings import MOST, Rankings
from dashboard.page.subject import GROUP, LINK, link_or_group
from dashboard.page.templates import Templates
from dashboard.page.values import value_table
from dashboard.page.view import PageView, view_of
from dashboard.questions import BrokenDown, Questions
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import QueriedNodes

T = TypeVar("T")
NOW = int(datetime(2026, 3, 1, 12, 30, tzinfo=UTC).timestamp())
DAY_S, HOUR_S = 86_400, 3_600


def run(coroutine: Awaitable[T]) -> T:
    async def awaited() -> T:
        return await coroutine

    return asyncio.run(awaited())


def pages_of(nodes: Any, broken_down: BrokenDown | None = None) -> Pages:
    async def limit_curve(event: str, query: bytes) -> CurveAnswer:
        raise AssertionError("no rule, no question")

    return Pages(nodes.queries, limit_curve, dict, lambda: NodeFacts({}, {}, "memory", "0"), lambda: 0.0, broken_down)


def one(pages: Pages, kind: str, name: str, view: PageView, now: int) -> Awaitable[Any]:
    return pages.one(link_or_group(kind, name), view, now)


# --- totals beside the span before -----------------------------------------------------------------------------------
def test_a_span_is_beside_the_same_part_of_the_span_before() -> None:
    nodes = QueriedNodes(now=NOW)
    for ago_s, count in ((60, 1), (HOUR_S + 60, 10), (DAY_S + 5 * HOUR_S, 1_000), (DAY_S - 8 * HOUR_S, 109)):
        nodes.hit("k", NOW - ago_s, count)
    found = {card.name: card for card in run(cards(partial(nodes.queries.total, ALL), PageView(), NOW))}
    assert (found["Now"].count, found["Now"].before, found["Now"].change) == ("1", "10", "\u221290\u00a0%")
    assert found["Today"].count == "11"
    assert found["Today"].before == "1,000", "yesterday until this time, so without the evening"
    assert (found["7 days"].count, found["7 days"].before, found["7 days"].change) == ("1,120", "0", "")


def test_spans_follow_the_clocks_of_the_zone() -> None:
    vienna = ZoneInfo("Europe/Vienna")
    summer = int(datetime(2026, 3, 29, 12, tzinfo=vienna).timestamp())  # the night before had 23 hours of day
    assert summer - moved(summer, ("days", 1), vienna) == DAY_S - HOUR_S
    leap = int(datetime(2028, 2, 29, 8, tzinfo=UTC).timestamp())
    assert datetime.fromtimestamp(moved(leap, ("years", 1), ZoneInfo("UTC")), UTC) == datetime(
        2027, 2, 28, 8, tzinfo=UTC
    )
    assert moved(NOW, ("hours", 1), vienna) == NOW - HOUR_S


def total(at_least: int, at_most: int) -> TotalAnswer:
    return TotalAnswer(None, 0, 1, at_most if at_least == at_most else None, at_least, at_most, at_least == at_most)


def test_a_change_of_what_is_uncertain_is_said_with_both_bounds() -> None:
    assert change(total(110, 110), total(100, 100)) == "+10\u00a0%"
    assert change(total(110, 110), total(100, 120)) == "\u22128 to +10\u00a0%"
    assert change(total(5, 5), total(0, 3)) == change(total(5, 5), total(0, 0)) == ""
    assert change(total(0, 0), total(4, 4)) == "\u2212100\u00a0%"


def test_a_change_of_more_than_tenfold_is_said_as_how_many_times() -> None:
    assert change(total(100, 100), total(10, 10)) == "+900\u00a0%"
    assert change(total(12_500, 12_500), total(100, 100)) == "125\u00a0times"
    assert change(total(200, 200), total(10, 11)) == "18 to 20\u00a0times"
    assert change(total(100, 100), total(5, 20)) == "+400\u00a0% to 20\u00a0times"


# --- rankings -------------------------------------------------------------------------------------------------------
class Slow:
    """A ranking that is answered when the test says so."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 0.0
        self.answers: list[asyncio.Future[LinksAnswer]] = []

    async def __call__(self, query: bytes) -> LinksAnswer:
        self.asked += 1
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def answer(self, key: str) -> None:
        self.answers[-1].set_result(LinksAnswer(None, None, [KeyCount(key, 1)], True))


def keys(found: LinksAnswer | None) -> list[str] | None:
    return None if found is None else [each.key for each in found.links]


def test_a_page_never_waits_for_a_slow_ranking() -> None:
    async def told() -> None:
        slow = Slow()
        rankings = Rankings(slow, lambda: slow.now, patience_s=0.001)
        assert await rankings.ranking(b"a") is None and await rankings.ranking(b"a") is None
        assert slow.asked == 1, "the second asks for the same"
        slow.now = 2.0
        slow.answer("first")
        assert keys(await rankings.ranking(b"a")) == ["first"]
        slow.now = 41.0
        assert keys(await rankings.ranking(b"a")) == ["first"] and slow.asked == 1, "it took 2 s and serves for 40"
        slow.now = 43.0
        assert keys(await rankings.ranking(b"a")) == ["first"] and slow.asked == 2, "the one before"
        slow.answer("second")
        assert keys(await rankings.ranking(b"a")) == ["second"]

    run(told())


def test_a_ranking_that_fails_says_so_and_is_asked_again() -> None:
    async def told() -> None:
        slow = Slow()
        rankings = Rankings(slow, lambda: 0.0, patience_s=10.0)
        asked = asyncio.ensure_future(rankings.ranking(b"a"))
        while not slow.answers:
            await asyncio.sleep(0)
        slow.answers[0].set_exception(StoreUnavailable("down"))
        with pytest.raises(StoreUnavailable):
            await asked
        asked = asyncio.ensure_future(rankings.ranking(b"a"))
        while slow.asked < 2:
            await asyncio.sleep(0)
        slow.answer("k")
        assert keys(await asked) == ["k"]

    run(told())


def test_only_so_many_rankings_are_made_at_once() -> None:
    async def told() -> None:
        slow = Slow()
        rankings = Rankings(slow, lambda: 0.0, patience_s=0.0001)
        for number in range(MOST + 5):
            assert await rankings.ranking(b"%d" % number) is None
        assert slow.asked == MOST
        for waiting in slow.answers:
            waiting.cancel()

    run(told())


# --- views ----------------------------------------------------------------------------------------------------------
def test_an_address_is_read_and_written_back() -> None:
    view = view_of(b"last=7d&tz=Asia%2FTokyo&bots=include&q=a+b%26c")
    assert view_of(view.address()[1:].encode()) == view
    assert view.address(start="1", end="2") == "?from=1&to=2&tz=Asia%2FTokyo&bots=include&q=a+b%26c"
    assert view_of(b"") == PageView() and PageView().span == "30d" and view_of(b"from=0").span == ""
    for wrong in (b"x=1", b"last=1d&last=1d", b"limit=9"):
        with pytest.raises(ParameterInvalid):
            view_of(wrong)


@pytest.mark.parametrize(
    ("age_s", "begins"), [(600, "2026-03-01T12:00"), (9 * DAY_S, "2026-02-20T00:00"), (300 * DAY_S, "2025-05-01T00:00")]
)
def test_all_time_begins_with_the_hour_day_or_month_of_the_first_hit(age_s: int, begins: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for t in (NOW - age_s, NOW):
        nodes.hit("k", t)
    view = view_of(b"from=0")
    values: Any
    for values in (run(one(pages_of(nodes), LINK, "k", view, NOW)), run(pages_of(nodes).overview(view, NOW))):
        chart = values["chart"]
        assert (chart.start_text, chart.said.partition(",")[0]) == (begins, "2 hits")
        assert chart.earlier == f"?from={2 * chart.start - NOW // 60 * 60 - 60}&to={chart.start}"
    assert "from=0" in view.begun_at(NOW - age_s, NOW).address(), "the address stays that of all time"
    assert view_of(b"from=0&to=9").begun_at(NOW, NOW) == view_of(b"from=0&to=9")


# --- errors -----------------------------------------------------------------------------------------------------------
class Down:
    """Answers while the store is down."""

    def __getattr__(self, name: str) -> Any:
        async def ask(*_: object) -> Any:
            raise StoreUnavailable("the store does not answer")

        return ask


def test_a_page_that_cannot_be_answered_now_says_so_and_tries_again() -> None:
    async def no_curve(event: str, query: bytes) -> CurveAnswer:
        raise AssertionError(event)

    pages = Pages(cast(Questions, Down()), no_curve, dict, lambda: NodeFacts({}, {}, "memory", "0"), lambda: 0.0)
    app = FastAPI()
    app.include_router(page_routes(pages, Templates(), lambda: NOW, lambda scope: False, lambda: 0))

    async def asked(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://node") as client:
            return await client.get(path)

    for path in ("/", "/links/a%2Fb", "/groups/g"):
        answer = run(asked(path))
        assert answer.status_code == 503 and answer.headers["content-type"].startswith("text/html")
        assert "the store does not answer" in answer.text and 'data-live="5"' in answer.text
        assert "tries again" in answer.text and 'href="limits"' in answer.text.replace("../", "")


# --- the node -------------------------------------------------------------------------------------------------------
def test_each_worker_says_how_it_is_and_what_is_wrong_stands_out() -> None:
    well = {
        "store_up": 1, "flush_lag_seconds": 3.2, "flush_stuck": 0, "buffered_hits": 12, "flush_hits": 0,
        "flush_rows": 0, "flush_seconds": 0, "flushes_total": 0, "failed_flushes_total": 0, "journal_bytes": 3_500,
        "journal_limit_bytes": 1 << 30, "buffer_bytes": 9 << 20, "buffer_limit_bytes": 1 << 29, "damaged_rows": 0,
    }  # fmt: skip
    ill = {**well, "store_up": 0, "flush_stuck": 1, "damaged_rows": 2, "flushes_total": 7, "failed_flushes_total": 3}
    workers = {"journal-1": well, "journal-2": ill}
    states = {"journal-1": "open", "journal-2": "fenced"}
    facts = NodeFacts(workers, states, "sqlite", "1")
    pages = Pages(cast(Questions, Down()), Down().limit_curve, dict, lambda: facts, float)
    text = Templates().render("node.html", root="", view=PageView(), signed_in=False, shared=False, **pages.node())
    first, second = (re.sub(r"\s+", " ", part) for part in text.split("journal-2"))
    for words in ("<dd>yes</dd>", '"good">up</dd>', "<dd>none yet</dd>", "3 KiB of 1,024 MiB", "9 MiB of 512 MiB"):
        assert words in first, words
    for words in ("no: fenced", '"bad">down', "3 s: stuck", "7, failed 3", '"bad">2</dd>', "0 hits into 0 rows"):
        assert words in second, words


# --- groups and what hits said ------------------------------------------------------------------------------------
SINCE = {"ref": NOW - 20 * DAY_S, "country": NOW - 20 * DAY_S, "device": 0}


@pytest.fixture(scope="module")
def attribute_nodes() -> AttributeNodes:
    nodes = AttributeNodes(NOW, SINCE)
    for day in range(30):
        for value, count in (("news.example", 5), ("", 3), ("<b>evil.example", 1)):
            said = (("ref", value), ("country", "AT"), ("device", "phone"))
            nodes.accept(
                AttributeHit("k", NOW - day * DAY_S, count, False, said if day < 20 else said[2:], day % 3, ("g",))
            )
    nodes.accept(AttributeHit("silent", NOW - 60))
    return nodes


def rendered(values: dict[str, Any], **more: Any) -> str:
    shown = {"root": "../", "view": PageView(), "signed_in": False, "shared": False, **more}
    return Templates().render("one.html", **shown, **values)


@pytest.mark.parametrize(("kind", "name"), [(LINK, "k"), (GROUP, "g")])
def test_a_page_shows_what_hits_said_when_the_server_divides_them(
    attribute_nodes: AttributeNodes, kind: str, name: str
) -> None:
    broken_down = BrokenDown(attribute_nodes.breakdowns, tuple(SINCE), True)
    values = run(one(pages_of(attribute_nodes, broken_down), kind, name, PageView(), NOW))
    assert [table.title for table in values["tables"]] == ["Referrers", "Countries", "Devices"]
    text = rendered(values)
    assert "Visitors" in text and "visitor-days" in text
    assert "news.example" in text and "(direct or not given)" in text and "before this was recorded" in text
    assert "&lt;b&gt;evil.example" in text and "<b>evil" not in text


def test_parts_of_a_table_are_the_total(attribute_nodes: AttributeNodes) -> None:
    broken_down = BrokenDown(attribute_nodes.breakdowns, tuple(SINCE), False)
    values: Any = run(one(pages_of(attribute_nodes, broken_down), LINK, "k", PageView(), NOW))
    asked = attribute_nodes.by("k", "ref", "last=30d&limit=10")
    (table,) = [each for each in values["tables"] if each.dimension == "ref"]
    certain = [int(row.count.partition(" to ")[0].replace(",", "")) for row in table.rows]
    assert sum(certain) == asked["total"] == attribute_nodes.total("k", "last=30d")["total"]
    assert values["visits"] is None, "none are kept"


def test_without_divisions_or_words_there_is_no_such_section(attribute_nodes: AttributeNodes) -> None:
    broken_down = BrokenDown(attribute_nodes.breakdowns, tuple(SINCE), False)
    for pages, name in ((pages_of(attribute_nodes), "k"), (pages_of(attribute_nodes, broken_down), "silent")):
        values = run(one(pages, LINK, name, PageView(), NOW))
        assert values["tables"] == [] and "Who and from where" not in rendered(values)


def values_answer(parts: dict[str, object]) -> ValuesAnswer:
    whole = {"key": None, "from": None, "to": None, "shown": 0, "exact": True}
    return msgspec.convert({**whole, **parts}, ValuesAnswer)


def test_bounds_of_a_value_are_both_shown() -> None:
    body = {
        "dimension": "tag.team", "total": 30, "other": 4, "unrecorded": 0, "not_shown": {"values": 1_200, "count": 9},
        "values": [{"value": "a", "at_least": 10, "at_most": 14}, {"value": "", "at_least": 7, "at_most": 7}],
    }  # fmt: skip
    table = value_table(values_answer(body))
    assert [(row.text, row.count) for row in table.rows] == [
        ("a", "10 to 14"),
        ("(not given)", "7"),
        ("1,200 more", "9"),
        ("other", "4"),
    ]
    assert table.title == "team" and table.spoken
    assert [row.share for row in table.rows] == ["", "23\u00a0%", "30\u00a0%", "13\u00a0%"]


@pytest.mark.parametrize(
    ("count", "total", "share"), [(1, 1_000, "<1"), (1, 40, "3"), (999, 1_000, "99"), (7, 7, "100"), (0, 0, "0")]
)
def test_a_share_claims_neither_all_nor_nothing_of_what_is_nearly_so(count: int, total: int, share: str) -> None:
    body = {"dimension": "ref", "total": total, "other": 0, "unrecorded": 0, "not_shown": {"values": 0, "count": 0}}
    values = [{"value": "a", "at_least": count, "at_most": count}]
    (row,) = value_table(values_answer({**body, "values": values})).rows
    assert row.share == f"{share}\u00a0%"


def test_all_links_together_show_what_hits_said_but_not_beside_a_search(attribute_nodes: AttributeNodes) -> None:
    pages = pages_of(attribute_nodes, BrokenDown(attribute_nodes.breakdowns, tuple(SINCE), True))
    values: Any = run(pages.overview(PageView(), NOW))
    assert [table.title for table in values["tables"]] == ["Referrers", "Countries", "Devices"]
    assert values["visits"].count != "0"
    assert run(pages.overview(PageView(q="k"), NOW))["tables"] == []


def test_every_question_has_an_answer_in_far_years_and_zones() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", 0)
    nodes.hit("k", NOW)
    asked: list[Callable[[PageView], Awaitable[Any]]] = [
        lambda view: one(pages_of(nodes), LINK, "k", view, NOW),
        lambda view: pages_of(nodes).overview(view, NOW),
    ]
    for ask in asked:
        for query in (b"from=0", b"to=2500-01-01", b"from=9997-01-01&to=9998-12-30&tz=Pacific/Apia", b"to=0"):
            values: Any = run(ask(view_of(query)))
            assert "<svg" in values["chart"].svg
