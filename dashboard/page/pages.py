"""What stands on each page: questions asked of the query code, and their answers as values for the templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from zoneinfo import ZoneInfo

from clickcurve.access import access
from clickcurve.answers.breakdowns import WhyAnswer
from clickcurve.answers.counts import CurveAnswer, KeyCount, LinksAnswer, TotalAnswer
from clickcurve.answers.written import Tabular
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import HOUR_S
from clickcurve.keys import ALL, Subject, group_subject
from clickcurve.limiter.rule import Rule
from clickcurve.visible import visible
from clickcurve.waiting import computed
from dashboard.page.audience.differences import Difference, Ranges, difference_beside, is_fair, ranges_asked
from dashboard.page.audience.hours import week_hours
from dashboard.page.audience.values import ValueTable, filter_of, filtered_curve, value_tables
from dashboard.page.card_curves import LinkCounts, card_curves_of, cards_of, chosen_of
from dashboard.page.chart import DRAWING, HEIGHT, LOW, Chart, fitting_step, in_path, make_chart
from dashboard.page.compared import compared_of
from dashboard.page.event_cards import question_of, shows_of
from dashboard.page.lists.event_columns import (
    NO_COLUMNS,
    EventColumns,
    columns_of_each,
    sorted_by,
    with_events,
)
from dashboard.page.lists.linked import PATIENCE_S, links_of_points
from dashboard.page.lists.names import Beside, domain_and_name, name_rows
from dashboard.page.lists.rankings import RANKED, Rankings
from dashboard.page.lists.table import LinkTable
from dashboard.page.panels import columns_of, panels_of
from dashboard.page.periods import offered_periods
from dashboard.page.several.several_page import SeveralPage
from dashboard.page.shown import Shown
from dashboard.page.view import PageView
from dashboard.pictures.axes import day_and_time, with_commas
from dashboard.pictures.curve_picture import period_words
from dashboard.questions import GROUP, LINK, AskCurve, BrokenDown, CountedEvents, Questions, kind_of, link_or_group

SHOWN = 10
_LIVE = b"last=5m"
_ACCEPTING = ("open", "unclaimed")  # states of an owner
Values = dict[str, object]  # of a template


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
    """What hits said, and what changed: of a server that does not break hits down, nothing.

    columns: what came of the clicks of the values of a whole list.
    """

    tables: list[ValueTable]
    difference: Difference | None = None
    columns: EventColumns = NO_COLUMNS


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node. workers: a journal -> its numbers by their names on /metrics; states by journal."""

    workers: Mapping[str, Mapping[str, float]]
    states: Mapping[str, str]
    store: str
    version: str


@dataclass(eq=False)
class Pages:
    """Makes the values of pages. `now` is epoch seconds.

    limit_curve: what was asked of an event of the limiter or admitted; rules: those of each event. clock: in seconds,
    for how long a ranking takes. broken_down: None where hits are not broken down. hosts_in_key: keys begin with their
    hosts. home_tz: the zone where an address names none; empty for UTC. events: None where none are counted.
    """

    questions: Questions
    limit_curve: Callable[[str, bytes], Awaitable[CurveAnswer]]
    rules: Callable[[], Mapping[str, Sequence[Rule]]]
    facts: Callable[[], NodeFacts]
    clock: Callable[[], float]
    broken_down: BrokenDown | None = None
    hosts_in_key: bool = False
    home_tz: str = ""
    events: CountedEvents | None = None

    def __post_init__(self) -> None:
        self.several = SeveralPage(self.questions, self.broken_down)
        self._links = Rankings(self.questions.links, self.clock)
        self._linked = Rankings(partial(links_of_points, self.questions), self.clock, PATIENCE_S)
        self._table = LinkTable(self.questions, self._links, shows_of(self.events))
        self._groups = Rankings(self.questions.groups, self.clock)
        self._why_all = None if self.broken_down is None else Rankings(partial(self.broken_down.why, ALL), self.clock)

    async def overview(self, view: PageView, now: int) -> Values:
        """Returns all links together, and the links and groups with the most hits."""
        shown = await self._shown(ALL, view, now, noted=True, with_events=True)
        view, curve = shown.view, shown.curve
        if curve.first_hit is None and not await self._has_any():
            return {"first_run": True}
        ranking = view.ranking_query(SHOWN)
        links, groups = await asyncio.gather(
            self._links.ranking(view.ranking_query(RANKED)), self._groups.ranking(ranking)
        )
        rows = partial(name_rows, self.questions, view=view, beside=shown.beside, hosts_in_key=self.hosts_in_key)
        top_links = [] if links is None else links.links[:SHOWN]
        top_groups = [] if groups is None else groups.groups
        return {
            "first_run": False,
            **await self._common(shown, None if links is None else await self._link_counts(shown, links)),
            "range": period_words(curve),
            "links": None if links is None else await rows(LINK, top_links),
            "groups": await rows(GROUP, top_groups),
            "link_columns": await self._event_columns(shown, LINK, top_links),
            "group_columns": await self._event_columns(shown, GROUP, top_groups),
            "ranking": view.ranking_query(RANKED).decode(),
        }

    async def table(self, view: PageView, now: int) -> Values:
        """Returns a page of the table of all links."""
        shown = await self._shown(ALL, view.unfiltered(), now, with_events=True)
        view, curve = shown.view, shown.curve
        chart = await computed(DRAWING, make_chart, curve, view, now)
        page = await self._table.page(view, shown.compared)
        rows = None
        if page.links is not None:
            beside = Beside(curve.total, None if shown.compared is None else shown.compared.span)
            rows = await name_rows(
                self.questions, LINK, page.links, view, beside, page.has_hits, self.hosts_in_key, page.changes
            )
        return {
            "chart": chart,
            "periods": offered_periods(now, ZoneInfo(curve.tz)),
            "range": period_words(curve),
            "page": page,
            "links": rows,
            "link_columns": await self._event_columns(shown, LINK, page.links or [], is_whole=True),
            "by_event": sorted_by(page.order) if page.order in shows_of(self.events) else "",
            "changes": shown.compared is not None,
            "compared_with": shown.compared_words,
            "domain": visible(view.prefix[:-1]) if self.hosts_in_key and view.prefix.find("/") > 0 else "",
            "domain_group": await self._domain_group(view),
        }

    async def _event_columns(
        self, shown: Shown, kind: str, names: Sequence[KeyCount], is_whole: bool = False
    ) -> EventColumns:
        """Asks what came of the clicks of each link or group of a list."""
        subjects = [link_or_group(kind, each.key) for each in names]
        return await columns_of_each(shown.events, subjects, shown.view, is_whole)

    async def _link_counts(self, shown: Shown, links: LinksAnswer) -> LinkCounts:
        """Asks how many links had hits before, and in each point; of a server with more than are ranked, nothing."""
        if len(links.links) >= RANKED or shown.view.by:
            return LinkCounts(links)
        before = None
        if shown.before is not None:
            start, until = shown.before
            until = max(start + 60, until - until % HOUR_S)  # of what goes on, an hour's questions are one
            before = await self._links.ranking(shown.view.ranking_query(RANKED, (start, until)))
        return LinkCounts(links, before, await self._linked.ranking(shown.view.curve_query))

    async def _domain_group(self, view: PageView) -> str:
        """Returns the address of the shown domain's group; "" if it counts nothing that may be seen."""
        host, slash, rest = view.prefix.partition("/")
        if not (self.hosts_in_key and host and slash) or rest or access().group not in ("", host):
            return ""
        answer = await self.questions.total(group_subject(host), b"bots=include")
        return f"groups/{in_path(host)}{view.of_one()}" if answer.total else ""

    async def table_csv(self, view: PageView, now: int) -> tuple[Tabular, ZoneInfo]:
        """Returns the first lines of the table of all links, and the zone of the view."""
        shown = await self._shown(ALL, view.unfiltered(), now)
        return await self._table.csv(shown.view, shown.curve, shown.compared), ZoneInfo(shown.curve.tz)

    async def table_of(self, subject: Subject, table: str, dimension: str, query: bytes) -> Tabular:
        """Returns the numbers of a table of a page. table: `curve`, `hours`, `visitors`, `why`, or a dimension's name.

        Without a dimension `curve` is that of all hits, as are `hours`. Raises ParameterInvalid, also where hits
        are not broken down, and what the questions raise.
        """
        if table == "curve" and not dimension:
            return await self.questions.curve(subject, query)
        if table == "hours" and not dimension:
            return await self.questions.hours(subject, query)
        if self.broken_down is None:
            raise ParameterInvalid("this server does not break hits down", field="table", value=table, rule="curve")
        questions = self.broken_down.questions
        if dimension:
            return await (questions.curve if table == "curve" else questions.by)(subject, dimension, query)
        if table == "why":
            return await self.broken_down.why(subject, query)
        return await questions.visitors(subject, query)

    async def _has_any(self) -> bool:
        """Returns whether any link has a hit, of bots or imported without a date too."""
        return bool((await self.questions.links(b"sort=key&limit=1&bots=include")).links)

    async def one(
        self, subject: Subject, view: PageView, now: int, noted: bool = True, with_events: bool = True
    ) -> Values:
        """Returns a link or a group: its life, its curve, its bots, and what its hits said.

        noted: with notes; with_events: with what came of its clicks. No stranger sees the former, and the latter alone
        who was given it.
        """
        shown, life = await asyncio.gather(
            self._shown(subject, view, now, noted, with_events), self.questions.summary(subject, b"")
        )
        view, zone = shown.view, ZoneInfo(shown.curve.tz)
        kind, name = kind_of(subject), subject.name or ""
        domain, name_in_domain = domain_and_name(name, view, self.hosts_in_key and kind == LINK)
        return {
            "kind": kind,
            "name": visible(name),
            "domain": domain,
            "name_in_domain": name_in_domain,
            "path": in_path(name),
            "lifetime": with_commas(life.lifetime),
            "opening": with_commas(life.opening) if life.opening else "",
            "bots": with_commas(life.bots) if life.bots else "",
            "first_hit": "" if life.first_hit is None else day_and_time(life.first_hit, zone),
            "last_hit": "" if life.last_hit is None else day_and_time(life.last_hit, zone),
            "known": bool(life.lifetime or life.bots),
            **await self._common(shown),
        }

    async def _shown(
        self, subject: Subject, view: PageView, now: int, noted: bool = False, with_events: bool = False
    ) -> Shown:
        """Asks for what a page shows first; raises ParameterInvalid. noted, with_events: as of `one`."""
        ask: AskCurve = partial(self.questions.curve, subject)
        if noted:
            ask = _with_notes(ask)
        if view.by:
            ask = filtered_curve(self.broken_down, subject, view.by)
        view, curve = await _view_and_curve(ask, view, now)
        compared = compared_of(self.questions.before, curve, view, now)
        was: CurveAnswer | TotalAnswer | None = None
        if compared is not None and view.by:
            was = await ask(view.curve_query_of(compared.start, compared.until, curve.step))
        elif compared is not None:
            was = await self.questions.total(subject, view.count_query(compared.span))
        return Shown(subject, view, curve, compared, was, ask, now, self.events if with_events else None)

    async def _common(self, shown: Shown, links: LinkCounts | None = None) -> Values:
        """Returns what stands on the pages of links, groups and all links alike. links: of all links alone."""
        view = shown.view
        audience, hours, live, found = await asyncio.gather(
            self._audience(shown),
            week_hours(self.questions, shown),
            self.questions.total(shown.subject, _LIVE),
            card_curves_of(self.questions, self.broken_down, shown, links),
        )
        many = 1 if links is None else min(SHOWN, len(links.links.links))
        has_links = shown.subject == ALL and not view.list
        drawn = chosen_of(found, view.show)
        earlier = None if drawn.earlier is None else await drawn.earlier()
        curve = shown.curve if drawn.curve is None else drawn.curve
        return {
            "cards": await cards_of(found, shown),
            "periods": offered_periods(shown.now, ZoneInfo(shown.curve.tz)),
            "filter": filter_of(view),
            "hides_few": self.broken_down is not None and self.broken_down.hides_few,
            "chart": await computed(
                DRAWING, make_chart, curve, shown.view, shown.now, HEIGHT, drawn.noun, None, earlier, drawn.unit
            ),
            "drawn": drawn,
            "asked": question_of(drawn.show) if drawn.show in shows_of(shown.events) else "",
            "live": with_commas(live.at_most),
            "audience": audience,
            "columns": columns_of(panels_of(many if has_links else None, audience.tables, audience.difference, hours)),
            "compared": shown.before is not None,
            "compared_with": shown.compared_words,
        }

    async def _audience(self, shown: Shown) -> Audience:
        """Returns what hits said, with the tables of those dimensions alone of which any hit said something.
        Those of bots are there in any case: that none came is an answer.

        Causes are of all hits, so a page with a filter has none, and one that lists all values has no room for them.
        """
        if self.broken_down is None:
            return Audience([])
        asked = value_tables(self.broken_down, shown.subject, shown.view, shown.before)
        tables = [each for each in await asked if each.spoken or each.of_bots]
        if shown.view.list and tables:
            is_apart = self.broken_down.hides_few or tables[0].of_bots  # nothing comes of the clicks of bots
            events = None if is_apart else shown.events
            table, columns = await with_events(tables[0], events, shown.subject, shown.view)
            return Audience([table], None, columns)
        whole = shown.view.by or shown.view.list
        return Audience(tables, None if whole else await self._difference(shown))

    async def _difference(self, shown: Shown) -> Difference | None:
        """Returns why the range differs from the one before; None where that is not known, or not known yet."""
        asked = ranges_asked(shown.view, shown.curve, shown.compared, shown.now)
        if asked is None:
            return None
        answer = await self._why(shown, asked)
        if answer is not None and not is_fair(answer, asked) and (weeks := asked.whole_weeks()) is not None:
            answer = await self._why(shown, weeks)
        if answer is None:
            return None
        return difference_beside(answer, asked, shown.change, shown.view, ZoneInfo(shown.curve.tz))

    async def _why(self, shown: Shown, ranges: Ranges) -> WhyAnswer | None:
        """Asks for the causes between two ranges; None where hits are not broken down, or they are not known yet."""
        query = ranges.query(shown.curve.tz)
        if self.broken_down is None or self._why_all is None:
            return None
        return await (
            self._why_all.ranking(query) if shown.subject == ALL else self.broken_down.why(shown.subject, query)
        )

    async def limits(self, view: PageView, now: int) -> Values:
        """Returns the limiter's events, by name."""
        rules = self.rules()
        events = [await self._event(name, rules[name], view, now) for name in sorted(rules)]
        zone = ZoneInfo(view.zone_name or "UTC")  # the questions have judged it
        return {"events": events, "periods": offered_periods(now, zone)}

    async def _event(self, name: str, rules: Sequence[Rule], view: PageView, now: int) -> EventRow:
        async def curve_of(outcome: bytes, query: bytes) -> CurveAnswer:
            return await self.limit_curve(name, query + b"&outcome=" + outcome)

        view, asked = await _view_and_curve(partial(curve_of, b"asked"), view, now)
        admitted = await curve_of(b"admitted", view.curve_query)
        charts = [
            (word, await computed(DRAWING, make_chart, curve, view, now, LOW, "decision", beside=asked))
            for word, curve in (("asked", asked), ("admitted", admitted))
        ]
        return EventRow(
            name,
            list(map(rule_row, rules)),
            with_commas(asked.total),
            with_commas(admitted.total),
            with_commas(max(0, asked.total - admitted.total)),
            charts,
        )

    def node(self) -> Values:
        """Returns the state of this machine's workers and of the store."""
        facts = self.facts()
        troubled = any(
            not numbers["store_up"]
            or numbers["flush_stuck"]
            or numbers["damaged_rows"]
            or facts.states[name] not in _ACCEPTING
            for name, numbers in facts.workers.items()
        )
        return {
            "workers": facts.workers,
            "states": facts.states,
            "accepting": _ACCEPTING,
            "troubled": troubled,
            "store": facts.store,
            "program": facts.version,
        }


def _with_notes(ask: AskCurve) -> AskCurve:
    """Returns the same question with what is noted beside the hits."""
    return lambda query: ask(query + b"&notes=true")


async def _view_and_curve(ask: AskCurve, view: PageView, now: int) -> tuple[PageView, CurveAnswer]:
    """Asks for the view's curve: of all time from the first hit on, and by a step that fits it; the view says so."""
    curve = await ask(view.curve_query)
    shown = view.begun_at(curve.first_hit, now)
    if shown is not view:
        curve = await ask(shown.curve_query)
    step = "" if view.step else fitting_step(curve)
    if step:
        shown = replace(shown, page_step=step)
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
