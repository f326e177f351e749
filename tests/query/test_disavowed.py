"""Answers leave out hits that are called bots: totals, curves, lists, breakdowns, and why they changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clickcurve.answers.breakdowns import SumOfValues
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.disavow import call_back, disavow
from clickcurve.buckets.ladder import DAY_S, HOUR_S, fold_day
from clickcurve.keys import ALL, ALL_LINKS, group_key, group_of, group_subject, link_subject
from clickcurve.row_kinds.table import kind_of
from ingest.corrections import Corrector
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from tests.ingest.http_kit import summed
from tests.ingest.test_corrections import LINKS, READER, REFS, START, Nodes

SPAM, FINE = REFS
DAY = START // DAY_S * DAY_S
ALL_TIME = 0, 1 << 40


class Asked:
    """Questions to one of two owners of a store, some hits of which are called bots."""

    def __init__(self, folder: Path) -> None:
        self.nodes = Nodes(folder, 7)
        self.nodes.now = DAY + 20 * HOUR_S
        self.owner, self.store = self.nodes.nodes[0].owner, self.nodes.store
        self.corrected: set[str] = set()
        owner, store, is_corrected = self.owner, self.store, self.corrected.__contains__
        self.reader = Reader(store.rows, owner.pending, owner.revisit, store.ladder, is_corrected=is_corrected)

        flushes, corrected = lambda: owner.status.flushes, self.reader.corrected
        links, groups = (
            Listing(kind, store, owner.pending, buffered, flushes, is_corrected=is_corrected, corrected=corrected)
            for kind, buffered in ((LINK, owner.buffered_links), (GROUP, partial(owner.buffered_beside, group_of)))
        )
        self.queries = Queries(self.reader, links, groups, lambda: self.nodes.now)
        breakdowns = BreakdownReader(
            store.rows, owner.pending, owner.pending_breakdowns, store.ladder, BREAKDOWN, is_corrected=is_corrected
        )
        self.breakdowns = BreakdownQueries(
            breakdowns, ("ref", "country", "bot"), lambda name: 0, lambda: self.nodes.now
        )

    async def hit(self, key: str, ago_s: int, many: int, ref: str, bot: bool = False, country: str = "DE") -> None:

        moment = Moment(self.nodes.now, fold_day(self.nodes.now) * DAY_S, self.nodes.now + 300)
        said = {"ref": ref, "country": country} if ref else {}
        sent = {"key": key, "ts": self.nodes.now - ago_s, "count": many, "bot": bot, "groups": ["g"], **said}
        batch = summed(json.dumps(sent).encode(), Media.json, RequestSums(moment, reader=READER)).batch()
        assert batch is not None
        await self.owner.accept(batch)

    async def call(self, key: str, value: str = SPAM, span: tuple[int, int] = ALL_TIME, dimension: str = "ref") -> None:
        corrector = Corrector(self.owner, self.store, BREAKDOWN, lambda: self.nodes.now)
        await corrector.carry_out(key, lambda link: disavow(link, dimension, value, *span))
        self.corrected |= {key, ALL_LINKS}

    async def call_back(self, key: str, value: str = SPAM, dimension: str = "ref") -> None:
        corrector = Corrector(self.owner, self.store, BREAKDOWN, lambda: self.nodes.now)
        await corrector.carry_out(key, lambda link: call_back(link, dimension, value))

    async def close(self) -> None:
        for node in self.nodes.nodes:
            await node.owner.close()


def built(answer: Any) -> Any:
    return msgspec.to_builtins(answer)


async def everything(asked: Asked) -> list[Any]:
    """Every question, of a link, a group and all links."""
    answers: list[Any] = []
    link, queries = link_subject("a"), asked.queries
    for subject in (link, group_subject("g"), ALL):
        for bots in (b"exclude", b"include", b"only"):
            answers.append(built(await queries.total(subject, b"bots=" + bots)))
            for query in (b"last=90d&step=1d", b"last=24h&step=5m", b"last=3h&step=10m", b"last=7d&step=1h"):
                answers.append(built(await queries.curve(subject, query + b"&bots=" + bots)))
                answers.append(built(await queries.total(subject, query.partition(b"&")[0] + b"&bots=" + bots)))
        of_spam = b"last=30d&step=1d&value=" + SPAM.encode()
        for dimension in ("ref", "country"):
            by = [await asked.breakdowns.by(subject, dimension, query) for query in (b"", b"last=24h", b"last=90d")]
            answers += map(built, [*by, await asked.breakdowns.curve(subject, dimension, of_spam)])
        answers.append(built(await ChangeQueries(queries, asked.breakdowns).why(subject, b"last=7d")))
    answers.append(built(await queries.summary(link, b"")))
    for query in (b"", b"sort=key", b"last=24h", b"last=90d"):
        answers.append(built(await queries.links(query)))
        answers.append(built(await queries.groups(query)))
    answers.append(built(await queries.sum(list(LINKS), b"last=90d&step=1d")))
    return answers


async def ranked(asked: Asked, query: bytes) -> list[tuple[str, int]]:
    return [(each.key, each.count) for each in (await asked.queries.links(query)).links]


def story(
    told: Callable[[Asked], Awaitable[None]], folder: Path, make: Callable[[Path], Asked] = lambda folder: Asked(folder)
) -> None:
    async def run() -> None:
        asked = make(folder)
        await asked.owner.flush()
        await told(asked)
        await asked.close()

    asyncio.run(run())


async def some_hits(asked: Asked) -> None:
    for ago_s in (60, 3 * HOUR_S, 30 * HOUR_S, 20 * DAY_S, 60 * DAY_S):
        await asked.hit("a", ago_s, 7, SPAM)
        await asked.hit("a", ago_s, 5, FINE)
        await asked.hit("a", ago_s + 120, 2, "")
        await asked.hit("a", ago_s, 1, "", bot=True)
        await asked.hit("b", ago_s, 3, SPAM, country="FR")


def test_people_leave_called_hits_out_bots_hold_them_and_together_they_are_the_same(tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await some_hits(asked)
        await asked.call("a")
        queries, link = asked.queries, link_subject("a")
        lives = [(await queries.total(link, b"bots=" + bots)).total for bots in (b"exclude", b"include", b"only")]
        assert lives == [35, 75, 40]
        assert [(await queries.total(ALL, b"bots=" + bots)).total for bots in (b"exclude", b"only")] == [50, 40]
        assert (await queries.total(group_subject("g"), b"")).total == 85, "a group is corrected by itself"
        summary = await queries.summary(link, b"")
        assert (summary.lifetime, summary.bots, summary.today, summary.last_30d) == (35, 40, 14, 28)
        for query in (b"last=90d&step=1d", b"last=24h&step=5m", b"last=7d&step=1h", b"last=3h&step=10m"):
            people, both, bots = [
                await queries.curve(link, query + b"&bots=" + series) for series in (b"exclude", b"include", b"only")
            ]
            assert [(p.start, p.end) for p in people.points] == [(p.start, p.end) for p in bots.points]
            for point, other in zip(people.points, bots.points, strict=True):
                inside = [each.count for each in both.points if point.start <= each.start < point.end]
                assert sum(inside) == point.count + other.count
            assert people.at_least <= people.at_most <= people.total
        day = await queries.curve(link, b"last=24h&step=5m")
        wide = [point for point in day.points if point.wide]
        assert [(point.end - point.start, point.count) for point in wide] == [(HOUR_S, 5), (HOUR_S, 7)]

    story(told, tmp_path)


def test_lists_rank_by_what_is_left(tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await asked.hit("a", 60, 10, SPAM)
        await asked.hit("a", 60, 1, FINE)
        await asked.hit("b", 60, 5, FINE)
        await asked.owner.flush()
        assert await ranked(asked, b"") == await ranked(asked, b"last=24h") == [("a", 11), ("b", 5)]
        await asked.call("a")
        assert await ranked(asked, b"") == await ranked(asked, b"last=24h") == [("b", 5), ("a", 1)]
        assert await ranked(asked, b"sort=key") == [("a", 1), ("b", 5)]
        assert await ranked(asked, b"bots=include") == [("a", 11), ("b", 5)]

    story(told, tmp_path)


def test_groups_rank_by_what_is_left_too(tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await some_hits(asked)
        await asked.owner.flush()
        await asked.call(group_key("g"))
        for bots in ("exclude", "include", "only"):
            for span in ("", "&last=24h", "&last=90d"):
                listed = await asked.queries.groups(f"bots={bots}{span}".encode())
                own = await asked.queries.total(group_subject("g"), f"bots={bots}{span}".encode())
                assert [(each.key, each.count) for each in listed.groups] == [("g", own.at_most)]

    story(told, tmp_path)


@pytest.mark.parametrize("flushed", [False, True])
def test_a_list_reads_corrections_of_links_that_may_be_on_its_page(flushed: bool, tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        names = [f"k{n:02}" for n in range(30)]
        for n, name in enumerate(names):
            await asked.hit(name, 60, 100 - n, SPAM if n < 20 else FINE)
            if n:
                await asked.hit(name, 60, n, FINE)
        await asked.owner.flush()
        for name in names[:6]:
            await asked.call(name)
        if not flushed:
            await asked.hit("k29", 60, 50, FINE)
        left = {
            name: n if n < 6 else 100 + (50 if name == "k29" and not flushed else 0) for n, name in enumerate(names)
        }
        read: list[str] = []
        rows = asked.store.rows

        async def noted(key: str) -> Any:
            if kind_of(key).corrects:
                read.append(key)
            return await rows(key)

        asked.reader._rows = noted
        for query in ("", "last=24h"):
            for limit, most in ((1, 6), (5, 6), (24, 6), (29, 6), (1000, 6)):
                best = sorted(left.items(), key=lambda each: (-each[1], each[0]))[:limit]
                read.clear()
                assert await ranked(asked, f"{query}&limit={limit}".strip("&").encode()) == [
                    each for each in best if each[1]
                ], (query, limit)
                assert len(read) <= most
        read.clear()
        assert await ranked(asked, b"sort=key&limit=2&after=k01") == [("k02", 2), ("k03", 3)]
        assert len(read) == 2, "rows of what is called bots, of the page alone"
        read.clear()
        assert await ranked(asked, b"bots=include&limit=1") == [("k00", 100) if flushed else ("k29", 150)]
        assert read == []

    story(told, tmp_path)


def test_the_values_of_a_breakdown_add_up_to_what_is_left(tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await some_hits(asked)
        await asked.call("a")
        for subject in (link_subject("a"), link_subject("b"), ALL):
            for dimension in ("ref", "country"):
                for query in (b"", b"last=24h", b"last=90d&limit=1"):
                    answer = await asked.breakdowns.by(subject, dimension, query)
                    shown = sum(each.at_least for each in answer.values) + answer.not_shown.count
                    assert shown + answer.other + answer.unrecorded == answer.total
                    if not query:
                        assert answer.total == (await asked.queries.total(subject, b"")).total
        by_ref = await asked.breakdowns.by(link_subject("a"), "ref", b"")
        assert [(each.value, each.at_least, each.at_most) for each in by_ref.values] == [(FINE, 25, 25), ("", 10, 10)]
        by_country = await asked.breakdowns.by(link_subject("a"), "country", b"")
        bounds = {each.value: (each.at_least, each.at_most) for each in by_country.values}
        assert bounds["DE"][0] <= 25 <= bounds["DE"][1]
        rest = (await asked.breakdowns.by(link_subject("a"), "country", b"not=DE")).sum
        both = (await asked.breakdowns.by(link_subject("a"), "country", b"value=DE&value=")).sum
        assert isinstance(rest, SumOfValues) and isinstance(both, SumOfValues)
        assert rest.at_least <= 10 <= rest.at_most and both.at_least <= 35 == both.at_most, "there are no others"
        value = f"last=30d&step=1d&value={SPAM}".encode()
        assert (await asked.breakdowns.curve(link_subject("a"), "ref", value)).at_most == 0
        why = await ChangeQueries(asked.queries, asked.breakdowns).why(link_subject("a"), b"last=24h")
        assert why.total.after == 14
        for each in why.dimensions:
            changed = sum(cause.change for cause in each.causes) + each.not_shown.change
            assert changed + each.other + each.unrecorded == why.total.change

    story(told, tmp_path)


@pytest.mark.parametrize("flushed", [False, True])
def test_calling_back_gives_back_every_answer_as_it_was(flushed: bool, tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await some_hits(asked)
        if flushed:
            await asked.owner.flush()
        before = await everything(asked)
        await asked.call("a")
        await asked.call("b", span=(DAY - 30 * DAY_S, DAY + DAY_S))
        await asked.call("b", "FR", dimension="country")
        assert await everything(asked) != before
        await asked.call_back("b", "FR", "country")
        await asked.call_back("b")
        await asked.call_back("a")
        after = await everything(asked)
        assert after == before

    story(told, tmp_path)


def test_a_link_without_corrections_pays_nothing(tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        await some_hits(asked)
        await asked.owner.flush()
        await asked.call("a")
        read: list[str] = []
        rows = asked.store.rows

        async def noted(key: str) -> Any:
            read.append(key)
            return await rows(key)

        asked.reader._rows = noted
        await asked.queries.total(link_subject("b"), b"")
        assert read == ["b"]

    story(told, tmp_path)


def test_the_hour_of_the_page_on_bounds(tmp_path: Path) -> None:
    """Its two tables in docs/bounds.md: an hour of 13 hits, of which 8 are called."""

    async def told(asked: Asked) -> None:
        hour = asked.nodes.now // HOUR_S * HOUR_S - 3 * HOUR_S
        for minute, many, ref, country in ((10, 6, SPAM, "DE"), (20, 3, FINE, "DE"), (40, 2, SPAM, "AT")):
            await asked.hit("a", asked.nodes.now - hour - minute * 60, many, ref, country=country)
        await asked.hit("a", asked.nodes.now - hour - 50 * 60, 1, FINE, country="DE")
        await asked.hit("a", asked.nodes.now - hour - 55 * 60, 1, FINE, country="AT")
        await asked.call("a")
        link = link_subject("a")

        async def bounds(start: int, end: int, bots: str) -> tuple[int, int]:
            query = f"from={hour + start * 60}&to={hour + end * 60}&bots={bots}"
            answer = await asked.queries.total(link, query.encode())
            return answer.at_least, answer.at_most

        spans = ((0, 30), (30, 60), (0, 60))
        assert [await bounds(*span, "include") for span in spans] == [(9, 9), (4, 4), (13, 13)]
        assert [await bounds(*span, "exclude") for span in spans] == [(1, 5), (0, 4), (5, 5)]
        assert [await bounds(*span, "only") for span in spans] == [(4, 8), (0, 4), (8, 8)]
        found = {}
        for dimension, value in (("ref", SPAM), ("ref", FINE), ("country", "DE"), ("country", "AT")):
            query = f"from={hour}&to={hour + HOUR_S}&value={value}"
            (only,) = (await asked.breakdowns.by(link, dimension, query.encode())).values
            found[value] = only.at_least, only.at_most
        assert found == {SPAM: (0, 0), FINE: (5, 5), "DE": (2, 5), "AT": (0, 3)}

    story(told, tmp_path)
