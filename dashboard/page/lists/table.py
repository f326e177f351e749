"""The table of all links: by hits, change, an event, or their keys, or those that a search finds; page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from msgspec import UNSET

from clickcurve.answers.counts import CurveAnswer, KeyCount, LinksAnswer
from clickcurve.answers.written import Tabular
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.visible import visible
from dashboard.page.changes import Change, difference
from dashboard.page.compared import Compared
from dashboard.page.event_cards import question_of
from dashboard.page.lists.changed import (
    FALLEN,
    RISEN,
    ChangedLink,
    ChangedLinks,
    ChangedLinksAnswer,
    changed_links,
    totals_of,
)
from dashboard.page.lists.rankings import RANKED, Rankings
from dashboard.page.view import EVENT, PageView
from dashboard.pictures.axes import with_commas
from dashboard.questions import Questions

LINES = 30
BY_HITS, BY_KEY = "", "key"
_SORTS = (BY_HITS, "hits", BY_KEY, RISEN, FALLEN)

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class TablePage:
    """A page of the table. links: None while they are being ranked; order: one of _SORTS, "" by hits, or an event.

    has_hits: the counts of links are their hits. changes: of each link, None where they are still to be asked for.
    previous and following are views, empty where there is none; note: what to know of the end of the page; sum_note:
    of a prefix, the hits of all its links.
    """

    links: Sequence[KeyCount] | None
    order: str
    has_hits: bool = True
    changes: Sequence[Change] | None = None
    previous: str = ""
    following: str = ""
    note: str = ""
    sum_note: str = ""


class LinksByEventAnswer(Tabular, frozen=True):
    """Links as CSV with their hits of [start, end), and what they are sorted by: an event, or the sum of its values."""

    LIST = "links"

    start: int
    end: int
    order: str
    links: list[tuple[str, int, int]]

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns, such as `key`, `count`, `sale_value`."""
        kind, _, event = self.order.partition(":")
        return "key", "count", event if kind + ":" == EVENT else f"{event}_value"

    def lines(self) -> Iterable[Sequence[object]]:
        """Returns a link a line."""
        return self.links


@dataclass(eq=False)
class LinkTable:
    """Answers for the table of a view. Raises ParameterInvalid and what the questions raise.

    of_events: by what of events an address may sort.
    """

    questions: Questions
    rankings: Rankings[LinksAnswer]
    of_events: Sequence[str] = ()

    async def page(self, view: PageView, compared: Compared | None) -> TablePage:
        """Returns a page. compared: with what; without it nothing is sorted by change."""
        order = self._order_of(view, compared)
        if order == BY_KEY:
            return _by_key(view, await self.questions.links(view.keys_query(LINES)))
        is_changed = order in (RISEN, FALLEN)
        number = _number(view.page, 2 * RANKED if is_changed else RANKED)  # by change both rankings are listed
        if compared is None or not is_changed:
            many = RANKED if view.prefix else min(number * LINES + 1, RANKED)
            ranking = await self.rankings.ranking(self._ranking_query(view, many, order))
            return TablePage(None, order) if ranking is None else _ranked(view, ranking, order, number)
        changed = await changed_links(self.questions, self.rankings.ranking, view, compared)
        return TablePage(None, order) if changed is None else _by_change(view, changed, order, number)

    async def csv(self, view: PageView, curve: CurveAnswer, compared: Compared | None) -> Tabular:
        """Returns the first lines of the table, as many as can be ranked. curve: of the view's range."""
        order, ask = self._order_of(view, compared), self.questions
        if compared is not None and order in (RISEN, FALLEN):
            changed = await changed_links(ask, ask.links, view, compared)
            lines = [] if changed is None else changed.by_change(order)
            return ChangedLinksAnswer(curve.start, curve.end, lines)
        is_by_key = order == BY_KEY
        names = await ask.links(view.keys_query(RANKED) if is_by_key else self._ranking_query(view, RANKED, order))
        keys = [each.key for each in names.links]
        counts = {each.key: each.count for each in names.links}
        of_event = {each.key: each.count if each.value is UNSET else each.value for each in names.links}
        if order != BY_HITS:
            counts = {key: each.at_most for key, each in (await totals_of(ask, keys, view.count_query())).items()}
        if order in self.of_events:
            lines_of = [(key, counts[key], of_event[key]) for key in keys]
            return LinksByEventAnswer(curve.start, curve.end, order, lines_of)
        if compared is None:
            return LinksAnswer(curve.start, curve.end, [KeyCount(key, counts[key]) for key in keys], names.exact)
        before = await totals_of(ask, keys, view.count_query(compared.span))
        lines = [ChangedLink(key, counts[key], before[key].at_most) for key in keys]
        return ChangedLinksAnswer(curve.start, curve.end, lines)

    def _order_of(self, view: PageView, compared: Compared | None) -> str:
        """Returns the order of the table; raises ParameterInvalid for one that is not known."""
        known = (*_SORTS, *self.of_events)
        if view.sort not in known:
            rule = f"one of {', '.join(filter(None, known))}"
            raise ParameterInvalid(f"sort {view.sort!r} is not known", field="sort", value=view.sort, rule=rule)
        if view.q:
            return BY_KEY
        return BY_HITS if view.sort == "hits" or (compared is None and view.sort in (RISEN, FALLEN)) else view.sort

    def _ranking_query(self, view: PageView, many: int, order: str) -> bytes:
        query = view.ranking_query(many)
        return query if order == BY_HITS else query + question_of(order).encode()


def _by_key(view: PageView, answer: LinksAnswer) -> TablePage:
    after = answer.after if isinstance(answer.after, str) else None
    note = ""
    if after is not None and len(answer.links) < LINES:
        note = f"The search looked at the links up to {visible(after)} and can go on."
    return TablePage(
        answer.links,
        BY_KEY,
        view.is_ever,
        previous=view.address(after="") if view.after else "",
        following="" if after is None else view.address(after=after),
        note=note,
    )


def _ranked(view: PageView, answer: LinksAnswer, order: str, number: int) -> TablePage:
    """Returns a page of a ranking, by hits or by an event."""
    is_last = number * LINES >= RANKED
    note = f"Only the first {RANKED:,} links are ranked. Sorted by their keys, all are listed." if is_last else ""
    has_hits = order == BY_HITS
    sum_note = _sum_note(answer) if view.prefix and has_hits else ""
    page = TablePage(_of_page(answer.links, number), order, has_hits, note=note, sum_note=sum_note)
    return _numbered(page, len(answer.links), view, number)


def _sum_note(answer: LinksAnswer) -> str:
    """Says what all links of a prefix have, or those that are ranked."""
    total, many = sum(each.count for each in answer.links), len(answer.links)
    if many == RANKED:
        return f"The first {many:,} links have {with_commas(total)} hits."
    return f"{with_commas(total)} {'hit' if total == 1 else 'hits'} on {many:,} {'link' if many == 1 else 'links'}."


def _by_change(view: PageView, changed: ChangedLinks, order: str, number: int) -> TablePage:
    lines = changed.by_change(order)
    shown = _of_page(lines, number)
    notes = []
    if any(changed.most) and len(lines) <= number * LINES:
        most = changed.smallest(order)
        notes.append(f"Links that {'gained' if order == RISEN else 'lost'} {most:,} hits or fewer are not listed.")
    if not changed.exact:
        notes.append("Hours, days or weeks that a range cuts count whole.")
    page = TablePage(
        [KeyCount(each.key, each.count) for each in shown],
        order,
        changes=[difference(each.before, each.count) for each in shown],
        note=" ".join(notes),
    )
    return _numbered(page, len(lines), view, number)


def _numbered(page: TablePage, many: int, view: PageView, number: int) -> TablePage:
    """Returns a page with the addresses of its neighbours. many: the lines of all pages."""
    previous = view.address(page=str(number - 1) if number > 2 else "") if number > 1 else ""
    following = view.address(page=str(number + 1)) if many > number * LINES else ""
    return replace(page, previous=previous, following=following)


def _of_page(lines: Sequence[Line], number: int) -> Sequence[Line]:
    return lines[(number - 1) * LINES : number * LINES]


def _number(text: str, lines: int) -> int:
    """Reads the number of a page of so many lines."""
    most = -(-lines // LINES)
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most):
        rule = f"a whole number from 1 to {most}"
        raise ParameterInvalid(f"page {text!r} is not there", field="page", value=text, rule=rule)
    return int(text)
