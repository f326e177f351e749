"""What pages say, from answers to words: cards, rankings, charts, views, and what hits said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

import msgspec
import pytest
from fastapi import FastAPI

from clickcurve.answers.breakdowns import ValuesAnswer
from clickcurve.answers.counts import CurveAnswer, KeyCount, LinksAnswer
from clickcurve.buckets.errors import ParameterInvalid, StoreUnavailable
from dashboard.page.audience.values import value_table
from dashboard.page.cards import Card
from dashboard.page.changes import Change, Count, about, change_of, count_of
from dashboard.page.lists.rankings import MOST, Rankings
from dashboard.page.page_routes import page_routes
from dashboard.page.pages import NodeFacts, Pages
from dashboard.page.periods import Length, after_last_day, length_of, offered_periods
from dashboard.page.templates import Templates
from dashboard.page.view import PageView, view_of
from dashboard.questions import GROUP, LINK, BrokenDown, Questions, link_or_group
from query.breakdowns.why import ChangeQueries
from testing.asgi import ask_app
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


def broken_down_of(nodes: AttributeNodes, visitors: bool) -> BrokenDown:
    why = ChangeQueries(nodes.queries, nodes.breakdowns).why
    return BrokenDown(nodes.breakdowns, why, nodes.breakdowns.dimensions, visitors)


def one(pages: Pages, kind: str, name: str, view: PageView, now: int) -> Awaitable[Any]:
    return pages.one(link_or_group(kind, name), view, now)


# --- the range beside the one before ----------------------------------------------------------------------------------
UTC_ZONE = ZoneInfo("UTC")


def at(text: str, zone: ZoneInfo = UTC_ZONE) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


def cards_of(nodes: QueriedNodes, query: bytes) -> dict[str, Card]:
    values: Any = run(one(pages_of(nodes), LINK, "k", view_of(query), NOW))
    return {card.name: card for card in values["cards"]}


def test_a_range_is_beside_the_same_part_of_the_one_before() -> None:
    nodes = QueriedNodes(now=NOW)
    for ago_s, count in ((60, 1), (HOUR_S + 60, 10), (DAY_S + 5 * HOUR_S, 1_000), (DAY_S - 8 * HOUR_S, 109)):
        nodes.hit("k", NOW - ago_s, count)
    today = cards_of(nodes, b"last=1d")["Hits"]
    assert (today.count.text, today.change.way) == ("11", "down")
    assert today.note == "1,000 before", "without the evening of yesterday"
    values: Any = run(one(pages_of(nodes), LINK, "k", view_of(b"last=1d"), NOW))
    assert values["compared_with"] == "compared with 28 Feb 2026 until 12:31", "the end of the minute"
    hour = cards_of(nodes, b"last=60m")["Hits"]
    assert (hour.count.text, hour.change.text) == ("1", "\u221290\u00a0%")
    week = cards_of(nodes, b"last=7d")["Hits"]
    assert (week.count.text, week.change.text) == ("1,120", "new")


def test_a_month_is_beside_the_whole_month_before() -> None:
    nodes = QueriedNodes(now=NOW)
    for day, count in (("2025-12-31", 5), ("2026-01-01", 40), ("2026-01-31", 60), ("2026-02-28", 50)):
        nodes.hit("k", at(f"{day}T12:00"), count)
    february = cards_of(nodes, b"from=2026-02-01&to=2026-02-28&compare=before_exact")["Hits"]
    assert (february.count.text, february.note) == ("50", "100 before")
    assert (february.change.text, february.change.way) == ("\u221250\u00a0%", "down")
    this = cards_of(nodes, b"last=1mo&compare=before_exact")["Hits"]
    assert this.note == "0 before"


def test_all_time_is_beside_nothing() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60)
    hits = cards_of(nodes, b"from=0")["Hits"]
    assert (hits.count.text, hits.change.text, hits.note) == ("1", "", "in this range")


def test_lengths_follow_the_clocks_of_the_zone() -> None:
    vienna = ZoneInfo("Europe/Vienna")
    summer = at("2026-03-29T12:00", vienna)  # the night before had 23 hours of day
    assert summer - Length(1, "days").back(summer, vienna) == DAY_S - HOUR_S
    assert Length(12, "months").back(at("2028-02-29T08:00"), UTC_ZONE) == at("2027-02-28T08:00")
    assert Length(1, "months").forward(at("2026-01-31T00:00"), UTC_ZONE) == at("2026-02-28T00:00")
    assert Length(HOUR_S, "seconds").back(NOW, vienna) == NOW - HOUR_S
    assert length_of(at("2026-03-01", vienna), at("2026-05-01", vienna), vienna) == Length(2, "months")
    assert length_of(at("2026-03-01"), at("2026-03-29"), UTC_ZONE) == Length(28, "days")
    assert length_of(at("2026-03-01"), at("2026-03-01T06:00"), UTC_ZONE) == Length(6 * HOUR_S, "seconds")


def test_a_change_is_one_number_with_its_bounds_beside_it() -> None:
    assert change_of((100, 100), (110, 110)) == Change("+10\u00a0%", "up")
    assert change_of((100, 120), (110, 110)) == Change("0\u00a0%", "", "\u22128\u00a0% to +10\u00a0%")
    assert change_of((4, 4), (0, 0)) == Change("\u2212100\u00a0%", "down")
    assert change_of((10, 10), (63, 63)) == Change("\u00d7\u00a06.3", "up")
    assert change_of((100, 100), (12_500, 12_500)).text == "\u00d7\u00a0125"
    assert change_of((0, 0), (5, 5)) == Change("new", "up") and change_of((0, 0), (0, 0)) == Change("")


def test_bounds_within_one_percent_are_one_number() -> None:
    assert count_of(51, 51) == Count("51")
    assert count_of(12_968, 12_979) == Count("about 12,973", "12,968 to 12,979")
    assert count_of(50, 52) == Count("50 to 52") and about(50, 52) == Count("about 51", "50 to 52")


def test_a_range_is_compared_as_the_address_says() -> None:
    nodes = QueriedNodes(now=NOW)
    for day, count in (("2025-02-10", 7), ("2025-12-31", 5), ("2026-01-10", 40), ("2026-02-10", 50)):
        nodes.hit("k", at(f"{day}T12:00"), count)
    asked = b"from=2026-02-01&to=2026-02-28"
    for compare, note in (
        (b"", "40 before, compared with 4 Jan - 31 Jan 2026"),
        (b"&compare=before", "40 before, compared with 4 Jan - 31 Jan 2026"),
        (b"&compare=before_exact", "40 before, compared with 1 Jan - 31 Jan 2026"),
        (b"&compare=year", "7 before, compared with 2 Feb - 1 Mar 2025"),
        (b"&compare=2025-12-01", "5 before, compared with 1 Dec - 31 Dec 2025"),
    ):
        view = view_of(asked + compare)
        values: Any = run(one(pages_of(nodes), LINK, "k", view, NOW))
        assert f"{values['cards'][0].note}, {values['compared_with']}" == note
        assert "polyline" in values["chart"].svg, "a line over the bars"
        assert compare.decode() in view.address(tz="Asia/Tokyo"), "it goes along"
    alone: Any = run(one(pages_of(nodes), LINK, "k", view_of(asked + b"&compare=none"), NOW))
    assert alone["cards"][0].note == "in this range" and "polyline" not in alone["chart"].svg
    with pytest.raises(ParameterInvalid, match="compare 'cats' is not known"):
        run(one(pages_of(nodes), LINK, "k", view_of(b"compare=cats"), NOW))


# --- periods --------------------------------------------------------------------------------------------------------
def test_the_last_day_of_an_address_belongs_to_the_range() -> None:
    nodes = QueriedNodes(now=NOW)
    for day in (27, 28):
        nodes.hit("k", at(f"2026-02-{day}T23:59"), day)
    values: Any = run(one(pages_of(nodes), LINK, "k", view_of(b"from=2026-02-01&to=2026-02-28"), NOW))
    assert values["chart"].sentence == "55 hits, 1 Feb - 28 Feb 2026"
    assert (str(values["chart"].first_day), str(values["chart"].last_day)) == ("2026-02-01", "2026-02-28")
    for written, end in (
        ("2026-02-28", "2026-03-01"),
        ("20260228", "2026-03-01"),
        ("2026-12", "2027-01-01"),
        ("2026-02-28T00:00", "2026-02-28T00:00"),
        ("1772280000", "1772280000"),
        ("2026-02-30", "2026-02-30"),
        ("", ""),
    ):
        assert after_last_day(written) == end


@pytest.mark.parametrize("tz", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_every_offered_period_is_shown_as_it_is_called(tz: str) -> None:
    nodes, zone = QueriedNodes(now=NOW), ZoneInfo(tz)
    nodes.hit("k", NOW - 500 * DAY_S)
    shown = {}
    for period in offered_periods(NOW, zone):
        view = PageView(last=period.last, start=period.start, end=period.end, tz=tz)
        values: Any = run(one(pages_of(nodes), LINK, "k", view, NOW))
        shown[period.name] = values["chart"].sentence.partition(" hits, ")[2].removesuffix(f" ({tz})")
    assert shown["Yesterday"] == "28 Feb 2026" and shown["Last month"] == "1 Feb - 28 Feb 2026"
    assert shown["Last 7 days"] == "23 Feb - 1 Mar 2026, so far" and shown["This month"] == "1 Mar 2026, so far"
    assert shown["Today"] == "1 Mar 2026, so far" and shown["This year"] == "since 1 Jan 2026"
    assert shown["Last 12 months"] == "since 1 Apr 2025", "no week or month that is not over is called its last day"


def test_earlier_and_later_go_by_whole_periods() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60)
    values: Any = run(one(pages_of(nodes), LINK, "k", view_of(b"from=2026-01-01&to=2026-01-31"), NOW))
    assert values["chart"].earlier == "?from=2025-12-01&to=2025-12-31"
    assert values["chart"].later == "?from=2026-02-01&to=2026-02-28"


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


def test_a_ranking_that_fails_after_the_page_went_on_without_it_says_so_at_the_next_look() -> None:
    async def told() -> None:
        slow = Slow()
        rankings = Rankings(slow, lambda: slow.now, patience_s=0.001)
        assert await rankings.ranking(b"a") is None
        slow.answer("first")
        assert keys(await rankings.ranking(b"a")) == ["first"]
        slow.now = 1.0
        assert keys(await rankings.ranking(b"a")) == ["first"], "the one before, while another is made"
        slow.answers[-1].set_exception(StoreUnavailable("down"))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await rankings.ranking(b"a")
        assert keys(await rankings.ranking(b"a")) == ["first"] and slow.asked == 3, "and it is asked again"
        slow.answer("third")
        assert keys(await rankings.ranking(b"a")) == ["third"]

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
    ("age_s", "begins"), [(600, "2026-03-01T12:00"), (9 * DAY_S, "2026-02-20"), (300 * DAY_S, "2025-05-01")]
)
def test_all_time_begins_with_the_hour_day_or_month_of_the_first_hit(age_s: int, begins: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for t in (NOW - age_s, NOW):
        nodes.hit("k", t)
    view = view_of(b"from=0")
    values: Any
    for values in (run(one(pages_of(nodes), LINK, "k", view, NOW)), run(pages_of(nodes).overview(view, NOW))):
        chart = values["chart"]
        assert (str(chart.first_day), chart.sentence.partition(",")[0]) == (begins[:10], "2 hits")
        assert chart.start == at(begins)
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
    app.include_router(page_routes(pages, Templates(), lambda: NOW, lambda scope: False, lambda scope: True, lambda: 0))

    for path in ("/", "/links/a%2Fb", "/groups/g"):
        answer = ask_app(app, "GET", path)
        assert answer.status_code == 503 and answer.headers["content-type"].startswith("text/html")
        assert "the store does not answer" in answer.text and 'data-live="5"' in answer.text
        assert "Trying again" in answer.text and 'href="system"' in answer.text.replace("../", "")


# --- the node -------------------------------------------------------------------------------------------------------
def test_each_worker_says_how_it_is_and_what_is_wrong_stands_out() -> None:
    well = {
        "store_up": 1, "flush_lag_seconds": 3.2, "flush_stuck": 0, "buffered_hits": 12, "flush_hits": 0,
        "flush_rows": 0, "flush_seconds": 0, "flushes_total": 0, "failed_flushes_total": 0, "journal_bytes": 3_500,
        "journal_limit_bytes": 1 << 30, "buffer_bytes": 9 << 20, "buffer_limit_bytes": 1 << 29, "damaged_rows": 0,
    }  # fmt: skip
    ill = {**well, "store_up": 0, "flush_stuck": 1, "damaged_rows": 2, "flushes_total": 7, "failed_flushes_total": 3}
    in_cluster = {name: value for name, value in well.items() if name != "journal_limit_bytes"}
    workers = {"journal-1": well, "journal-2": ill, "journal-3": in_cluster}
    states = {"journal-1": "open", "journal-2": "fenced", "journal-3": "open"}
    facts = NodeFacts(workers, states, "sqlite", "1")
    pages = Pages(cast(Questions, Down()), Down().limit_curve, dict, lambda: facts, float)
    text = Templates().render("system.html", root="", view=PageView(), signed_in=False, shared=False, **pages.node())
    first, second, third = (re.sub(r"\s+", " ", part) for part in re.split("journal-[23]", text))
    for words in (
        '"good">yes</dd>',
        '"good">up</dd>',
        "Something is wrong",
        "<dd>none yet</dd>",
        "3 KiB of 1,024 MiB",
        "9 MiB of 512 MiB",
    ):
        assert words in first, words
    for words in ("no: fenced", '"bad">down', "3 s: stuck", "7, 3 failed", '"bad">2</dd>', "0 hits into 0 rows"):
        assert words in second, words
    assert "Journal in the cluster</dt><dd>3 KiB</dd>" in third, "no disk's limit holds for it"


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
    shown = {"root": "../", "view": PageView(), "signed_in": False, "shared": False, "base": "", **more}
    return Templates().render("one.html", **shown, **values)


@pytest.mark.parametrize(("kind", "name"), [(LINK, "k"), (GROUP, "g")])
def test_a_page_shows_what_hits_said_when_the_server_divides_them(
    attribute_nodes: AttributeNodes, kind: str, name: str
) -> None:
    broken_down = broken_down_of(attribute_nodes, True)
    values: Any = run(one(pages_of(attribute_nodes, broken_down), kind, name, PageView(), NOW))
    assert [table.title for table in values["audience"].tables] == ["Referrers", "Countries", "Devices"]
    text = rendered(values)
    assert "Daily visitors" in text and "added up" in text
    assert "news.example" in text and "Direct or unknown" in text and "Before this was recorded" in text
    assert "&lt;b&gt;evil.example" in text and "<b>evil" not in text


def test_parts_of_a_table_are_the_total(attribute_nodes: AttributeNodes) -> None:
    broken_down = broken_down_of(attribute_nodes, False)
    values: Any = run(one(pages_of(attribute_nodes, broken_down), LINK, "k", PageView(), NOW))
    asked = attribute_nodes.by("k", "ref", "last=30d&limit=10")
    (table,) = [each for each in values["audience"].tables if each.dimension == "ref"]
    certain = [int(row.count.text.partition(" to ")[0].replace(",", "")) for row in table.rows]
    assert sum(certain) == asked["total"] == attribute_nodes.total("k", "last=30d")["total"]
    assert "Daily visitors" not in {card.name for card in values["cards"]}, "none are kept"


def test_without_divisions_or_words_there_is_no_such_section(attribute_nodes: AttributeNodes) -> None:
    broken_down = broken_down_of(attribute_nodes, False)
    for pages, name in ((pages_of(attribute_nodes), "k"), (pages_of(attribute_nodes, broken_down), "silent")):
        values: Any = run(one(pages, LINK, name, PageView(), NOW))
        assert values["audience"].tables == [] and "Audience" not in rendered(values)


def values_answer(parts: dict[str, object]) -> ValuesAnswer:
    whole = {"key": None, "from": None, "to": None, "shown": 0, "exact": True}
    return msgspec.convert({**whole, **parts}, ValuesAnswer)


def test_bounds_of_a_value_are_both_shown() -> None:
    body = {
        "dimension": "tag.team", "total": 30, "other": 4, "unrecorded": 0, "not_shown": {"values": 1_200, "count": 9},
        "values": [{"value": "a", "at_least": 10, "at_most": 14}, {"value": "", "at_least": 7, "at_most": 7}],
    }  # fmt: skip
    table = value_table(values_answer(body))
    assert [(row.text, row.count.text) for row in table.rows] == [
        ("a", "10 to 14"),
        ("(not given)", "7"),
        ("1,200 more", "9"),
        ("Other values", "4"),
    ]
    assert table.title == "team" and table.spoken
    assert [row.share for row in table.rows] == ["", "23\u00a0%", "30\u00a0%", "13\u00a0%"]


@pytest.mark.parametrize(
    ("start", "text"), [(None, "Other values, and all before 2026-02-01 UTC"), (1_769_904_000, "Other values")]
)
def test_the_page_says_from_when_on_values_are_kept(start: int | None, text: str) -> None:
    body = {"dimension": "ref", "total": 4, "other": 4, "unrecorded": 0, "not_shown": {"values": 0, "count": 0}}
    kept: dict[str, object] = {"from": start, "to": start, "values": [], "kept_since": 1_769_904_000}
    (row,) = value_table(values_answer({**body, **kept})).rows
    assert row.text == text


@pytest.mark.parametrize(
    ("count", "total", "share"), [(1, 1_000, "<1"), (1, 40, "3"), (999, 1_000, "99"), (7, 7, "100"), (0, 0, "0")]
)
def test_a_share_claims_neither_all_nor_nothing_of_what_is_nearly_so(count: int, total: int, share: str) -> None:
    body = {"dimension": "ref", "total": total, "other": 0, "unrecorded": 0, "not_shown": {"values": 0, "count": 0}}
    values = [{"value": "a", "at_least": count, "at_most": count}]
    (row,) = value_table(values_answer({**body, "values": values})).rows
    assert row.share == f"{share}\u00a0%"


def test_all_links_together_show_what_hits_said(attribute_nodes: AttributeNodes) -> None:
    pages = pages_of(attribute_nodes, broken_down_of(attribute_nodes, True))
    values: Any = run(pages.overview(PageView(), NOW))
    assert [table.title for table in values["audience"].tables] == ["Referrers", "Countries", "Devices"]
    assert "Daily visitors" not in {card.name for card in values["cards"]}, "a visitor is one of a link"


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
