"""Links with their hits of a range and of the one before: in the order of one of the counts, or of their difference.

A change is at most the greater of both counts. So no link that is in neither ranking can have changed by more than the
last of a ranking has hits; changes as small as that are not listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from clickcurve.answers.counts import LinksAnswer, TotalAnswer
from clickcurve.answers.written import Tabular
from clickcurve.keys import link_subject
from dashboard.page.compared import Compared
from dashboard.page.lists.rankings import RANKED
from dashboard.page.view import PageView
from dashboard.questions import Questions, asked_of_each

RISEN, FALLEN = "change", "-change"  # orders of the table
MANY_RANKED = 100  # of more links than RANKED: of an old range and a million flat links 200 are a walk over all


@dataclass(frozen=True, slots=True)
class ChangedLink:
    """A link, and its hits of a range and of the one before."""

    key: str
    count: int
    before: int

    @property
    def change(self) -> int:
        return self.count - self.before


@dataclass(frozen=True, slots=True)
class ChangedLinks:
    """The links with the most hits of either range.

    most: no other link has more, of the range and of the one before. exact: no kept bucket counts beyond a range.
    """

    links: Sequence[ChangedLink]
    most: tuple[int, int]
    exact: bool

    def by_change(self, order: str) -> list[ChangedLink]:
        """Returns those that rose most first, or fell most first; only those that no other link can precede."""
        sign = 1 if order == RISEN else -1
        least = self.smallest(order)
        listed = [each for each in self.links if not any(self.most) or sign * each.change > least]
        return sorted(listed, key=lambda each: (-sign * each.change, each.key))

    def smallest(self, order: str) -> int:
        """Returns the change that links which are not listed do not exceed."""
        return self.most[order != RISEN]


async def changed_links(
    questions: Questions,
    rank: Callable[[bytes], Awaitable[LinksAnswer | None]],
    view: PageView,
    compared: Compared,
) -> ChangedLinks | None:
    """Asks for both rankings, and for the totals that they lack; None while `rank` has no answer.

    While the view's range goes on, only the beginning of the period before is compared. All of it is ranked, because
    that stays the same for a day. Raises what the questions raise.
    """
    before, whole = compared.span, (compared.start, compared.end)
    names = await rank(replace(view, after="").keys_query(RANKED))
    many = RANKED if names is not None and names.after is None else MANY_RANKED
    after, was = await asyncio.gather(rank(view.ranking_query(many)), rank(view.ranking_query(many, whole)))
    if names is None or after is None or was is None:
        return None
    keys = list(dict.fromkeys(each.key for each in (*after.links, *was.links)))
    counts, exact = await _counts(questions, keys, after, many, view.count_query())
    ranked_before = was if before == whole else None
    counts_before, exact_before = await _counts(questions, keys, ranked_before, many, view.count_query(before))
    links = [ChangedLink(key, counts.get(key, 0), counts_before.get(key, 0)) for key in keys]
    return ChangedLinks(links, (_least(after, many), _least(was, many)), exact and exact_before)


async def totals_of(questions: Questions, keys: Sequence[str], query: bytes) -> dict[str, TotalAnswer]:
    """Asks for the total of each link."""
    answers = await asked_of_each(questions.total, list(map(link_subject, keys)), query)
    return dict(zip(keys, answers, strict=True))


async def _counts(
    questions: Questions, keys: Sequence[str], ranking: LinksAnswer | None, many: int, query: bytes
) -> tuple[Mapping[str, int], bool]:
    """Returns the hits of links, and whether they are exact: those of a ranking if there is one, else totals.

    Both count a kept bucket whole that the range cuts. Links that a shorter ranking lacks have none.
    """
    counts = {} if ranking is None else {each.key: each.count for each in ranking.links}
    if ranking is not None and len(ranking.links) < many:
        return counts, ranking.exact
    totals = await totals_of(questions, [key for key in keys if key not in counts], query)
    exact = (ranking is None or ranking.exact) and all(each.exact for each in totals.values())
    return counts | {key: each.at_most for key, each in totals.items()}, exact


def _least(ranking: LinksAnswer, many: int) -> int:
    return ranking.links[-1].count if len(ranking.links) == many else 0


class ChangedLinksAnswer(Tabular, frozen=True):
    """Links as CSV with their hits of [start, end), of the range before, and the difference."""

    COLUMNS = ("key", "count", "before", "change")
    LIST = "links"

    start: int
    end: int
    links: list[ChangedLink]
