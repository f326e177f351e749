"""Links with their hits of a range and of the one before: in the order of one of the counts, or of their difference.

A change is at most the greater of both counts. So no link that is in neither ranking can have changed by more than the
last of a ranking has hits; changes as small as that are not listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clickcurve.answers import LinksAnswer, Tabular
from clickcurve.keys import link_subject
from dashboard.page.lists.rankings import RANKED
from dashboard.page.view import PageView, TimeSpan
from dashboard.questions import Questions

RISEN, FALLEN = "change", "-change"  # orders of the table
_AT_ONCE = 100  # totals


@dataclass(frozen=True, slots=True)
class TwoRanges:
    """What to ask of a range and of the one before, which both have ends: for rankings, and for a link's total."""

    ranking: bytes
    total: bytes
    ranking_before: bytes
    total_before: bytes

    @classmethod
    def of(cls, view: PageView, before: TimeSpan) -> TwoRanges:
        """Makes the questions. An end of `before` within a minute is taken as that minute's, for the sake of reuse."""
        span = before[0], max(before[0] + 60, before[1] - before[1] % 60)
        return cls(
            view.ranking_query(RANKED),
            view.count_query(),
            view.ranking_query(RANKED, span),
            view.count_query(span),
        )


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

    def by_hits(self) -> list[ChangedLink]:
        """Returns those with hits in the range, the most first."""
        with_hits = [each for each in self.links if each.count and each.count >= self.most[0]]
        return sorted(with_hits, key=lambda each: (-each.count, each.key))[:RANKED]

    def by_change(self, order: str) -> list[ChangedLink]:
        """Returns those that rose most first, or fell most first; only those that no other link can precede."""
        sign = 1 if order == RISEN else -1
        least = self.smallest(order)
        listed = [each for each in self.links if not any(self.most) or sign * each.change > least]
        return sorted(listed, key=lambda each: (-sign * each.change, each.key))

    def smallest(self, order: str) -> int:
        """Returns the change that links which are not listed do not exceed."""
        return self.most[order != RISEN]


async def changed_links(questions: Questions, ranges: TwoRanges) -> ChangedLinks:
    """Asks for both rankings, and for the totals that they lack. Raises what the questions raise."""
    after, before = await asyncio.gather(questions.links(ranges.ranking), questions.links(ranges.ranking_before))
    keys = [each.key for each in after.links]
    keys += sorted({each.key for each in before.links}.difference(keys))
    counts = await _completed(questions, keys, after, ranges.total)
    counts_before = await _completed(questions, keys, before, ranges.total_before)
    links = [ChangedLink(key, counts.get(key, 0), counts_before.get(key, 0)) for key in keys]
    return ChangedLinks(links, (_least(after), _least(before)), after.exact and before.exact)


async def counts_of(questions: Questions, keys: Sequence[str], query: bytes) -> dict[str, int]:
    """Asks for the total of each link, as rankings count: a kept bucket that the range cuts counts whole."""
    counts: dict[str, int] = {}
    for first in range(0, len(keys), _AT_ONCE):
        some = keys[first : first + _AT_ONCE]
        totals = await asyncio.gather(*(questions.total(link_subject(key), query) for key in some))
        counts.update((key, total.at_most) for key, total in zip(some, totals, strict=True))
        await asyncio.sleep(0)
    return counts


async def _completed(
    questions: Questions, keys: Iterable[str], ranking: LinksAnswer, query: bytes
) -> Mapping[str, int]:
    counts = {each.key: each.count for each in ranking.links}
    if len(ranking.links) < RANKED:
        return counts
    return counts | await counts_of(questions, [key for key in keys if key not in counts], query)


def _least(ranking: LinksAnswer) -> int:
    return ranking.links[-1].count if len(ranking.links) == RANKED else 0


class ChangedLinksAnswer(Tabular, frozen=True):
    """Links as CSV with their hits of [start, end), of the range before, and the difference."""

    COLUMNS = ("key", "count", "before", "change")

    start: int
    end: int
    links: list[ChangedLink]

    def lines(self) -> Iterator[Sequence[object]]:
        """Yields the links."""
        return ((each.key, each.count, each.before, each.change) for each in self.links)
