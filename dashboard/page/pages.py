"""What stands on each page: questions asked of the query code, and their answers as values for the templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from zoneinfo import ZoneInfo

from clickcurve.limiter.rule import Rule
from clickcurve.visible import visible
from dashboard.answers import READ_CURVE, READ_LINK, Answers, CurveAnswer, Divided
from dashboard.page.cards import cards
from dashboard.page.chart import LOW, Chart, in_path, make_chart, spark
from dashboard.page.rankings import READ_NAMES, CountedName, NamesAnswer, Rankings
from dashboard.page.subject import GROUP, LINK, PageSubject, all_links, link_or_group
from dashboard.page.values import value_tables, visits
from dashboard.page.view import PageView
from dashboard.pictures.axes import day_and_time, with_commas
from dashboard.pictures.curve_picture import length_words

SHOWN = 20
Values = dict[str, object]  # of a template
NOTHING_SAID: Values = {"tables": [], "visits": None}


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
class NodeFacts:
    """What is known of a node. workers: a journal -> its numbers by their names on /metrics; states by journal."""

    workers: Mapping[str, Mapping[str, float]]
    states: Mapping[str, str]
    store: str
    version: str


class Pages:
    """Makes the values of pages. `now` is epoch seconds.

    limit_curve: what was asked of an event of the limiter or admitted; rules: those of each event. divided: None where
    hits are not divided.
    """

    def __init__(
        self,
        answers: Answers,
        limit_curve: Callable[[str, bytes], Awaitable[tuple[str, bytes]]],
        rules: Callable[[], Mapping[str, Sequence[Rule]]],
        node: Callable[[], NodeFacts],
        clock: Callable[[], float],
        divided: Divided | None = None,
    ) -> None:
        self._answers = answers
        self._limit_curve = limit_curve
        self._rules = rules
        self._node = node
        self._divided = divided
        self._links = Rankings(answers.links, clock)
        self._groups = Rankings(answers.groups, clock)

    async def overview(self, view: PageView, now: int) -> Values:
        """Returns all links together, and a list: the links with the most hits, or those that begin as searched for."""
        subject = all_links(self._answers)
        view, curve = await _view_and_curve(subject.curve, view, now)
        if curve.first_hit is None and not view.q and not await self._has_any():
            return {"first_run": True}
        ranking = view.ranking_query(SHOWN)
        found, groups, numbers = await asyncio.gather(
            self._found(view), self._groups.ranking(ranking), cards(subject, view, now)
        )
        return {
            "first_run": False,
            "cards": numbers,
            "chart": make_chart(curve, view, now),
            "listed_span": f"last {length_words(view.span)}" if view.span else "all time",
            "links": None if found is None else await self._rows(LINK, found.links, view),
            "groups": [] if groups is None else await self._rows(GROUP, groups.groups, view),
            "more": "" if found is None or found.after is None else view.address(after=found.after),
            **(NOTHING_SAID if view.q else await self._said(subject, view, now)),
        }

    async def _has_any(self) -> bool:
        """Returns whether any link has a hit, of bots or imported without a date too."""
        return bool(READ_NAMES((await self._answers.links(b"sort=key&limit=1&bots=include"))[1]).links)

    async def _found(self, view: PageView) -> NamesAnswer | None:
        if view.q:
            return READ_NAMES((await self._answers.links(view.search_query(SHOWN)))[1])
        return await self._links.ranking(view.ranking_query(SHOWN))

    async def _rows(self, kind: str, names: Sequence[CountedName], view: PageView) -> list[NameRow]:
        subjects = [self.subject(kind, each.key) for each in names]
        curves = await asyncio.gather(*(subject.curve(view.curve_query) for subject in subjects))
        return [
            NameRow(in_path(each.key), visible(each.key), with_commas(each.count), spark(curve))
            for each, curve in zip(names, curves, strict=True)
        ]

    def subject(self, kind: str, name: str) -> PageSubject:
        return link_or_group(self._answers, kind, name)

    async def one(self, subject: PageSubject, view: PageView, now: int) -> Values:
        """Returns a link or a group: its life, its curve, its bots apart, and what its hits said."""
        assert subject.summary is not None
        (view, curve), numbers, summary = await asyncio.gather(
            _view_and_curve(subject.curve, view, now), cards(subject, view, now), subject.summary(b"")
        )
        life = READ_LINK(summary[1])
        zone = ZoneInfo(curve.tz)
        bots = None
        if life.bots and view.bots in ("", "exclude"):
            bots = await subject.curve(view.with_bots("only").curve_query)
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
            "cards": numbers,
            "chart": make_chart(curve, view, now),
            "bots_chart": None if bots is None else make_chart(bots, view, now, LOW),
            **await self._said(subject, view, now),
        }

    async def _said(self, subject: PageSubject, view: PageView, now: int) -> Values:
        """Returns what hits said: nothing on a server that does not divide hits, or where none said anything."""
        if self._divided is None:
            return NOTHING_SAID
        tables = [each for each in await value_tables(self._divided, subject, view) if each.spoken]
        return {
            "tables": tables,
            "visits": await visits(self._divided, subject, view, now) if self._divided.visitors else None,
        }

    async def limits(self, view: PageView, now: int) -> Values:
        """Returns the limiter's events, by name."""
        rules = self._rules()
        return {"events": [await self._event(name, rules[name], view, now) for name in sorted(rules)]}

    async def _event(self, name: str, rules: Sequence[Rule], view: PageView, now: int) -> EventRow:
        async def curve_of(outcome: bytes, query: bytes) -> CurveAnswer:
            return READ_CURVE((await self._limit_curve(name, query + b"&outcome=" + outcome))[1])

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


async def _view_and_curve(
    ask: Callable[[bytes], Awaitable[CurveAnswer]], view: PageView, now: int
) -> tuple[PageView, CurveAnswer]:
    """Asks for the view's curve; of all time from the first hit on, which the view then knows too."""
    curve = await ask(view.curve_query)
    begun = view.begun_at(curve.first_hit, now)
    return begun, curve if begun is view else await ask(begun.curve_query)


def rule_row(rule: Rule) -> RuleRow:
    """Says a rule in words."""
    by = " or ".join(" with ".join(names) for names in rule.by)
    notes = [word for word, holds in (("only watched (shadow)", rule.shadow), ("optional", rule.optional)) if holds]
    notes += [f"answers {rule.status}"] if rule.status != 429 else []
    return RuleRow(
        rule.name, by, ", ".join(map(str, rule.rates)), f"{rule.strategy} on {rule.backend}", ", ".join(notes)
    )
