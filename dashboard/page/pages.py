"""What stands on each page: questions asked of the query code, and their answers as values for the templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from zoneinfo import ZoneInfo

from clickcurve.answers import CurveAnswer, KeyCount, LinksAnswer
from clickcurve.limiter.rule import Rule
from clickcurve.visible import visible
from dashboard.page.cards import Card, hits_card, other_cards, period_before
from dashboard.page.chart import LOW, Chart, in_path, make_chart, quiet_step, spark
from dashboard.page.periods import Period, offered_periods
from dashboard.page.rankings import Rankings
from dashboard.page.subject import ALL_LINKS, GROUP, LINK, PageSubject, link_or_group
from dashboard.page.values import ValueTable, Visits, value_tables, visits
from dashboard.page.view import EVER, PageView
from dashboard.pictures.axes import day_and_time, with_commas
from dashboard.pictures.curve_picture import period_words
from dashboard.questions import AskCurve, AskTotal, BrokenDown, Questions

SHOWN = 20
Values = dict[str, object]  # of a template


@dataclass(frozen=True, slots=True)
class NameRow:
    """A link or group of a list, with its curve as safe markup.

    path: its name in a path, empty for one that no browser can ask for. name: as text.
    """

    path: str
    name: str
    count: str
    spark: str


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule of the limiter in words."""

    name: str
    by: str
    rates: str
    strategy: str
    notes: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of the limiter: its rules, and what was asked and admitted in the view's range."""

    name: str
    rules: list[RuleRow]
    asked: str
    admitted: str
    refused: str
    charts: list[tuple[str, Chart]]


@dataclass(frozen=True, slots=True)
class Audience:
    """What hits said, and their visitors: of a server that does not break hits down, nothing."""

    tables: list[ValueTable]
    visits: Visits | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node. workers: a journal -> its numbers by their names on /metrics; states by journal."""

    workers: Mapping[str, Mapping[str, float]]
    states: Mapping[str, str]
    store: str
    version: str


class Pages:
    """Makes the values of pages. `now` is epoch seconds.

    limit_curve: what was asked of an event of the limiter or admitted; rules: those of each event. broken_down: None
    where hits are not broken down.
    """

    def __init__(
        self,
        questions: Questions,
        limit_curve: Callable[[str, bytes], Awaitable[CurveAnswer]],
        rules: Callable[[], Mapping[str, Sequence[Rule]]],
        node: Callable[[], NodeFacts],
        clock: Callable[[], float],
        broken_down: BrokenDown | None = None,
    ) -> None:
        self._questions = questions
        self._limit_curve = limit_curve
        self._rules = rules
        self._node = node
        self._broken_down = broken_down
        self._links = Rankings(questions.links, clock)
        self._groups = Rankings(questions.groups, clock)

    async def overview(self, view: PageView, now: int) -> Values:
        """Returns all links together, and a list: the links with the most hits, or those that begin as searched for."""
        view, curve = await _view_and_curve(self.curve_of(ALL_LINKS), view, now)
        if curve.first_hit is None and not view.q and not await self._has_any():
            return {"first_run": True}
        ranking = view.ranking_query(SHOWN)
        audience = Audience([]) if view.q else await self._audience(ALL_LINKS, view, curve, now)
        links, groups, numbers = await asyncio.gather(
            self._listed(view), self._groups.ranking(ranking), self._cards(ALL_LINKS, view, curve, audience, now)
        )
        after = links.after if links is not None else None
        return {
            "first_run": False,
            "cards": numbers,
            "periods": _periods(curve, now),
            "chart": make_chart(curve, view, now, earlier=await self._earlier(ALL_LINKS, view, curve, now)),
            "range": period_words(curve, ZoneInfo(curve.tz)),
            "links": None if links is None else await self._rows(LINK, links.links, view),
            "groups": [] if groups is None else await self._rows(GROUP, groups.groups, view),
            "more": view.address(after=after) if isinstance(after, str) else "",
            "audience": audience,
        }

    def curve_of(self, subject: PageSubject) -> AskCurve:
        """Returns the question for a subject's curve."""
        return partial(self._questions.curve, subject.asked)

    def total_of(self, subject: PageSubject) -> AskTotal:
        """Returns the question for a subject's total."""
        return partial(self._questions.total, subject.asked)

    async def _has_any(self) -> bool:
        """Returns whether any link has a hit, of bots or imported without a date too."""
        return bool((await self._questions.links(b"sort=key&limit=1&bots=include")).links)

    async def _listed(self, view: PageView) -> LinksAnswer | None:
        if view.q:
            return await self._questions.links(view.search_query(SHOWN))
        return await self._links.ranking(view.ranking_query(SHOWN))

    async def _rows(self, kind: str, names: Sequence[KeyCount], view: PageView) -> list[NameRow]:
        subjects = [link_or_group(kind, each.key) for each in names]
        curves = await asyncio.gather(*(self.curve_of(subject)(view.curve_query) for subject in subjects))
        return [
            NameRow(in_path(each.key), visible(each.key), with_commas(each.count), spark(curve))
            for each, curve in zip(names, curves, strict=True)
        ]

    async def one(self, subject: PageSubject, view: PageView, now: int) -> Values:
        """Returns a link or a group: its life, its curve, its bots, and what its hits said."""
        (view, curve), life = await asyncio.gather(
            _view_and_curve(self.curve_of(subject), view, now), self._questions.summary(subject.asked, b"")
        )
        zone = ZoneInfo(curve.tz)
        audience = await self._audience(subject, view, curve, now)
        bots = None
        if life.bots and view.bots in ("", "exclude"):
            bots = await self.curve_of(subject)(view.with_bots("only").curve_query)
        return {
            "kind": subject.kind,
            "name": visible(subject.name),
            "path": in_path(subject.name),
            "lifetime": with_commas(life.lifetime),
            "opening": with_commas(life.opening) if life.opening else "",
            "bots": with_commas(life.bots) if life.bots else "",
            "first_hit": "" if life.first_hit is None else day_and_time(life.first_hit, zone),
            "last_hit": "" if life.last_hit is None else day_and_time(life.last_hit, zone),
            "known": bool(life.lifetime or life.bots),
            "cards": await self._cards(subject, view, curve, audience, now),
            "periods": _periods(curve, now),
            "chart": make_chart(curve, view, now, earlier=await self._earlier(subject, view, curve, now)),
            "bots_chart": None if bots is None else make_chart(bots, view, now, LOW),
            "audience": audience,
        }

    async def _cards(
        self, subject: PageSubject, view: PageView, curve: CurveAnswer, audience: Audience, now: int
    ) -> list[Card]:
        """Returns the numbers of the view's range, beside those of the period before."""
        ask, compared = self.total_of(subject), period_before(curve, view, now)
        before = None if compared is None else await ask(view.count_query(compared.start, compared.until))
        bots = await ask(view.with_bots("only").count_query()) if view.bots in ("", "exclude") else None
        return [hits_card(curve, before, compared), *other_cards(bots, audience.visits, audience.tables)]

    async def _earlier(self, subject: PageSubject, view: PageView, curve: CurveAnswer, now: int) -> CurveAnswer | None:
        """Returns the curve that the view compares with, None if it has none."""
        compared = period_before(curve, view, now)
        if compared is None or not view.compare:
            return None
        query = view.curve_query_of(compared.start, compared.end, curve.step)
        return await self.curve_of(subject)(query)

    async def _audience(self, subject: PageSubject, view: PageView, curve: CurveAnswer, now: int) -> Audience:
        """Returns what hits said, with the tables of those dimensions alone of which any hit said something."""
        if self._broken_down is None:
            return Audience([])
        tables = [each for each in await value_tables(self._broken_down, subject, view) if each.spoken]
        if not self._broken_down.visitors:
            return Audience(tables)
        return Audience(tables, await visits(self._broken_down, subject, view, curve, now))

    async def limits(self, view: PageView, now: int) -> Values:
        """Returns the limiter's events, by name."""
        rules = self._rules()
        events = [await self._event(name, rules[name], view, now) for name in sorted(rules)]
        return {
            "events": events,
            "periods": offered_periods(now, ZoneInfo(view.tz or "UTC"), EVER),
        }  # the questions have judged the zone

    async def _event(self, name: str, rules: Sequence[Rule], view: PageView, now: int) -> EventRow:
        async def curve_of(outcome: bytes, query: bytes) -> CurveAnswer:
            return await self._limit_curve(name, query + b"&outcome=" + outcome)

        view, asked = await _view_and_curve(partial(curve_of, b"asked"), view, now)
        curves = [asked, await curve_of(b"admitted", view.curve_query)]
        charts = [
            (word, make_chart(curve, view, now, LOW, "decision", beside=asked))
            for word, curve in zip(("asked", "admitted"), curves, strict=True)
        ]
        totals = curves[0].total, curves[1].total, max(0, curves[0].total - curves[1].total)
        counts = dict(zip(("asked", "admitted", "refused"), map(with_commas, totals), strict=True))
        return EventRow(name, [rule_row(rule) for rule in rules], charts=charts, **counts)

    def node(self) -> Values:
        """Returns the state of this machine's workers and of the store."""
        facts = self._node()
        return {"workers": facts.workers, "states": facts.states, "store": facts.store, "program": facts.version}


def _periods(curve: CurveAnswer, now: int) -> list[Period]:
    return offered_periods(now, ZoneInfo(curve.tz), EVER)


async def _view_and_curve(ask: AskCurve, view: PageView, now: int) -> tuple[PageView, CurveAnswer]:
    """Asks for the view's curve: of all time from the first hit on, of few hits by longer steps; the view says so."""
    curve = await ask(view.curve_query)
    shown = view.begun_at(curve.first_hit, now)
    if shown is not view:
        curve = await ask(shown.curve_query)
    step = "" if view.step else quiet_step(curve)
    if step:
        shown = replace(shown, quiet_step=step)
        curve = await ask(shown.curve_query)
    return shown, curve


def rule_row(rule: Rule) -> RuleRow:
    """Says a rule in words."""
    by = " or ".join(" with ".join(names) for names in rule.by)
    notes = [word for word, holds in (("only watched (shadow)", rule.shadow), ("optional", rule.optional)) if holds]
    notes += [f"answers {rule.status}"] if rule.status != 429 else []
    return RuleRow(
        rule.name, by, ", ".join(map(str, rule.rates)), f"{rule.strategy} on {rule.backend}", ", ".join(notes)
    )
