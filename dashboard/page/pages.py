"""What stands on each page: questions asked of the query code, and their answers as values for the templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from clickcurve.limiter.rule import Rule
from clickcurve.visible import visible
from dashboard.answers import READ_CURVE, READ_LINK, Answers, CurveAnswer, Divisions
from dashboard.page.cards import Card, cards
from dashboard.page.chart import LOW, Chart, link_path, make_chart, spark
from dashboard.page.rankings import READ_LINKS, CountedLink, LinksAnswer, Rankings
from dashboard.page.values import ValueTable, Visits, value_tables, visits
from dashboard.page.view import View
from dashboard.pictures.axes import day_and_time, with_commas
from dashboard.pictures.curve_picture import curve_sentence

SHOWN = 20
Values = dict[str, object]  # of a template


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link of a list: its path, its name as text, its count, and its curve as safe markup."""

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

    divisions: None where hits are not divided. limit_curve: what was asked of an event of the limiter or admitted;
    rules: those of each event. visitors: whether days of visitors are kept.
    """

    def __init__(
        self,
        answers: Answers,
        limit_curve: Callable[[str, bytes], Awaitable[tuple[str, bytes]]],
        rules: Callable[[], Mapping[str, Sequence[Rule]]],
        node: Callable[[], NodeFacts],
        divisions: Divisions | None = None,
        visitors: bool = False,
    ) -> None:
        self._answers = answers
        self._limit_curve = limit_curve
        self._rules = rules
        self._node = node
        self._divisions = divisions
        self._visitors = visitors
        self._rankings = Rankings(answers.links)

    async def overview(self, view: View, now: int) -> Values:
        """Returns all links together, and a list: the links with the most hits, or those that begin as searched for."""
        curve = await self._curve(None, view)
        if curve.first_hit is None and not view.q and not await self._has_any():
            return {"first_run": True}
        found, numbers = await asyncio.gather(self._found(view), cards(self._answers, None, view, now))
        more = "" if found is None or found.after is None else view.address(after=found.after)
        return {
            "first_run": False,
            "cards": numbers,
            "chart": make_chart(curve, view, now),
            "ranked": not view.q,
            "listed_span": view.span or "all time",
            "links": None if found is None else await self._rows(found.links, view),
            "more": more,
        }

    async def _has_any(self) -> bool:
        """Returns whether any link has a hit, of bots or imported without a date too."""
        return bool(READ_LINKS((await self._answers.links(b"sort=key&limit=1&bots=include"))[1]).links)

    async def _found(self, view: View) -> LinksAnswer | None:
        if view.q:
            asked = {"sort": "key", "prefix": view.q, "limit": SHOWN, "bots": view.bots, "after": view.after}
            query = urlencode({name: value for name, value in asked.items() if value}).encode()
            return READ_LINKS((await self._answers.links(query))[1])
        asked = {"last": view.span, "limit": SHOWN, "tz": view.tz, "bots": view.bots}
        return await self._rankings.ranking(urlencode({k: v for k, v in asked.items() if v}).encode())

    async def _rows(self, links: Sequence[CountedLink], view: View) -> list[LinkRow]:
        curves = await asyncio.gather(*(self._curve(each.key, view) for each in links))
        return [
            LinkRow(link_path(each.key), visible(each.key), with_commas(each.count), spark(curve))
            for each, curve in zip(links, curves, strict=True)
        ]

    async def link(self, key: str, view: View, now: int) -> Values:
        """Returns a link: its life, its curve, its bots apart, and what its hits said."""
        curve, numbers, summary = await asyncio.gather(
            self._curve(key, view), cards(self._answers, key, view, now), self._answers.summary(key, b"")
        )
        life = READ_LINK(summary[1])
        zone = ZoneInfo(curve.tz)
        bots = None
        if life.bots and view.bots in ("", "exclude"):
            bots = await self._curve(key, view, b"bots=only")
        return {
            "key": visible(key),
            "path": link_path(key),
            "lifetime": with_commas(life.lifetime),
            "opening": with_commas(life.opening) if life.opening else "",
            "bots": with_commas(life.bots) if life.bots else "",
            "first_hit": "" if life.first_hit is None else day_and_time(life.first_hit, zone),
            "last_hit": "" if life.last_hit is None else day_and_time(life.last_hit, zone),
            "known": bool(life.lifetime or life.bots),
            "cards": numbers,
            "chart": make_chart(curve, view, now),
            "bots_chart": None if bots is None else make_chart(bots, view, now, LOW),
            **await self._said(key, view, now),
        }

    async def _said(self, key: str, view: View, now: int) -> Values:
        """Returns what hits said. The section is empty for a server that does not divide hits."""
        tables: list[ValueTable] = []
        days: Visits | None = None
        if self._divisions is not None:
            tables = [each for each in await value_tables(self._divisions, key, view) if each.spoken]
            days = await visits(self._divisions, key, view, now) if self._visitors else None
        return {"tables": tables, "visits": days}

    async def limits(self, view: View, now: int) -> Values:
        """Returns the limiter's events, by name."""
        rules = self._rules()
        return {"events": [await self._event(name, rules[name], view, now) for name in sorted(rules)]}

    async def _event(self, name: str, rules: Sequence[Rule], view: View, now: int) -> EventRow:
        query = view.curve_query
        asked, admitted = await asyncio.gather(
            *(self._limit_curve(name, query + b"&outcome=" + outcome) for outcome in (b"asked", b"admitted"))
        )
        curves = [READ_CURVE(asked[1]), READ_CURVE(admitted[1])]
        charts = [(word, make_chart(curve, view, now, LOW)) for word, curve in zip(("asked", "admitted"), curves, strict=True)]
        refused = max(0, curves[0].total - curves[1].total)
        counts = (with_commas(each) for each in (curves[0].total, curves[1].total, refused))
        return EventRow(name, [rule_row(rule) for rule in rules], *counts, charts)

    def node(self) -> Values:
        """Returns the state of this machine's workers and of the store."""
        facts = self._node()
        return {"workers": facts.workers, "states": facts.states, "store": facts.store, "version": facts.version}

    async def _curve(self, key: str | None, view: View, more: bytes = b"") -> CurveAnswer:
        query = view.curve_query + (b"&" + more if more else b"")
        return READ_CURVE((await self._answers.curve(key, query))[1])


def rule_row(rule: Rule) -> RuleRow:
    """Says a rule in words."""
    by = " or ".join(" with ".join(names) for names in rule.by)
    notes = [word for word, holds in (("only watched (shadow)", rule.shadow), ("optional", rule.optional)) if holds]
    notes += [f"answers {rule.status}"] if rule.status != 429 else []
    return RuleRow(rule.name, by, ", ".join(map(str, rule.rates)), f"{rule.strategy} on {rule.backend}", ", ".join(notes))


