"""The table of all links: by their hits, by their keys, or those that a search finds; page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from clickcurve.answers import KeyCount, LinksAnswer
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.visible import visible
from dashboard.page.lists.rankings import Rankings
from dashboard.page.view import PageView

LINES = 30
RANKED = 1_000  # as many links as can be asked for by their hits
BY_KEY = "key"
_SORTS = ("", "hits", BY_KEY)


@dataclass(frozen=True, slots=True)
class TablePage:
    """A page of the table. links: None while they are being ranked; is_ranking: the counts are those of the range.

    previous and following are views, empty where there is none; note: what to know of the end of the page.
    """

    links: Sequence[KeyCount] | None
    is_ranking: bool
    previous: str = ""
    following: str = ""
    note: str = ""


async def table_page(
    view: PageView, ask: Callable[[bytes], Awaitable[LinksAnswer]], rankings: Rankings[LinksAnswer]
) -> TablePage:
    """Asks for a page of the table. Raises ParameterInvalid and what the questions raise."""
    if view.sort not in _SORTS:
        raise ParameterInvalid(f"sort {view.sort!r} is not known", field="sort", value=view.sort, rule="hits or key")
    if view.q or view.sort == BY_KEY:
        return _by_key(view, await ask(view.keys_query(LINES)))
    number = _number(view.page)
    ranking = await rankings.ranking(view.ranking_query(min(number * LINES + 1, RANKED)))
    return TablePage(None, is_ranking=True) if ranking is None else _by_hits(view, ranking, number)


def _by_key(view: PageView, answer: LinksAnswer) -> TablePage:
    after = answer.after if isinstance(answer.after, str) else None
    note = ""
    if after is not None and len(answer.links) < LINES:
        note = f"The search looked at the links up to {visible(after)} and can go on."
    return TablePage(
        answer.links,
        is_ranking=False,
        previous=view.address(after="") if view.after else "",
        following="" if after is None else view.address(after=after),
        note=note,
    )


def _by_hits(view: PageView, answer: LinksAnswer, number: int) -> TablePage:
    first, end = (number - 1) * LINES, number * LINES
    is_more = len(answer.links) > end
    note = f"Only the first {RANKED:,} links are ranked; by their keys, all are listed." if end >= RANKED else ""
    return TablePage(
        answer.links[first:end],
        is_ranking=True,
        previous=view.address(page=str(number - 1) if number > 2 else "") if number > 1 else "",
        following=view.address(page=str(number + 1)) if is_more else "",
        note=note,
    )


def _number(text: str) -> int:
    most = -(-RANKED // LINES)
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most):
        rule = f"a whole number from 1 to {most}"
        raise ParameterInvalid(f"page {text!r} is not there", field="page", value=text, rule=rule)
    return int(text)
