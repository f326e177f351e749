"""Top links, or groups: the keys with the most hits, over their life or a range.

The stored counts come from a walk over the whole store, a page at a time in a worker thread; the best of them are
cached with each row's marks until the owner's next flush, or for some seconds, because other owners flush too.
This owner's pending hits are then added by the marks, as for one row, so a ranking has them at once; and so are those
of other workers, where they are asked: then their flushes end a ranking as well.

Not all links are cached. A link beyond the cached ones has at most the smallest count among them, so such a link is
read again only if its pending hits could lift it into the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Delta, Pending, Row
from query.lists.elsewhere import AskElsewhere, HeldElsewhere, Stamp, by_stored_key, nobody
from query.lists.kind import Kind
from query.parameters import Parameters, resolve_range
from query.reader import HEAD, naming, stored
from query.total import lifetime
from storage.contract import StoredLink

Walk: TypeAlias = Callable[[str | None, int, int | None], list[tuple[str, StoredLink]]]
Counts: TypeAlias = dict[str, tuple[int, Mapping[int, int]]]  # stored key -> its stored count, its rows' marks
Flushes: TypeAlias = tuple[int, frozenset[Stamp]]  # how many of the owner's are complete, and the others' stamps

_KEPT = 10_000  # links that a ranking keeps; at least as many as may be asked for
_RANKINGS = 8  # rankings kept
_FRESH_S = 15  # other owners' flushes show after this long at the latest
_SLICE = 100  # keys that are looked at before the event loop has its turn


@dataclass(frozen=True, slots=True)
class Top:
    """The range in epoch seconds (None: over the links' lives), and links by count, most first, ties by key."""

    start: int | None
    end: int | None
    links: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class _Counter:
    """Counts rows: their lives, or the kept buckets that start in `span`."""

    span: tuple[int, int] | None
    bots: Bots
    now: int
    ladder: Ladder

    def link(self, link: StoredLink) -> tuple[int, Mapping[int, int]]:
        """Returns a stored link's count, and its rows' marks."""
        if self.span:
            # Most links are quiet: their heads alone say that nothing is in the range.
            heads = [decode_header(each.data) for each in link.rows]
            if all(head.last is None or head.last < self.span[0] for head in heads):
                return 0, {each.owner: head.mark for each, head in zip(link.rows, heads, strict=True)}
        found = stored(link, self.now, self.ladder, since=self.span[0] if self.span else HEAD)
        return self._row(found.row), found.marks

    def _row(self, row: Row) -> int:
        return between(row, self.span, self.bots)[0] if self.span else lifetime(row, self.bots)

    def pending(self, pending: Sequence[Pending], marks: Mapping[int, int]) -> int:
        """Returns the count of the pending hits that rows with these marks do not have."""
        return sum(self._delta(each.delta) for each in pending if each.is_missing(marks.get(each.owner, 0)))

    def _delta(self, delta: Delta) -> int:
        count = 0
        if self.bots is not Bots.only:
            count += self._minutes(delta.people) + (0 if self.span else delta.opening)
        if self.bots is not Bots.exclude:
            count += self._minutes(delta.bots)
        return count

    def _minutes(self, minutes: Mapping[int, int]) -> int:
        if not self.span:
            return sum(minutes.values())
        low, high = self.span
        return sum(count for minute, count in minutes.items() if low <= minute < high)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The stored counts of the best links, best first; no other link has more than others_most.

    flushes: those that were complete before the walk began. at: when that was, epoch seconds.
    """

    flushes: Flushes
    at: int
    counts: Counts
    others_most: int


class TopLinks:
    """Answers `GET /v1/links`, or the same of groups.

    walk, rows and ladder are the store's. pending is the owner's, of a stored key; buffered the links for which it has
    any; flushes a number that rises whenever a flush is complete. elsewhere asks other workers.
    """

    def __init__(
        self,
        kind: Kind,
        walk: Walk,
        rows: Callable[[str], Awaitable[StoredLink]],
        pending: Callable[[str], Sequence[Pending]],
        buffered: Callable[[], Iterable[str]],
        flushes: Callable[[], int],
        ladder: Callable[[], Ladder],
        elsewhere: AskElsewhere = nobody,
    ) -> None:
        self._kind = kind
        self._walk = walk
        self._rows = rows
        self._pending = pending
        self._buffered = buffered
        self._flushes = flushes
        self._elsewhere = elsewhere
        self._ladder = ladder
        self._rankings: dict[tuple[tuple[int, int] | None, Bots, int], _Ranking] = {}
        self._forgotten = 0
        self._walking = asyncio.Lock()

    def forget_rankings(self) -> None:
        """Makes the next question walk again: a link was erased."""
        self._rankings.clear()
        self._forgotten += 1

    async def top(self, parameters: Parameters, now: int) -> Top:
        """Returns the best `parameters.limit` links. Raises StoreUnavailable, RowCorrupt."""
        span = resolve_range(parameters, now, None) if parameters.ranged else None
        counter = _Counter(self._kept_span(span, now), parameters.bots, now, self._ladder())
        # The pending hits come first and the stored counts after them, as for one row. A flush that is complete has
        # left the pending hits, so stored counts from before it must not be used with pending hits from after it.
        others = await self._elsewhere()
        pending = await self._all_pending(others)
        ranking = await self._ranking(counter, frozenset(each.stamp for each in others))
        counts = {key: count for key, (count, _) in islice(ranking.counts.items(), parameters.limit)}
        beyond = []
        for key, several in pending.items():
            known = ranking.counts.get(key)
            if known is None and ranking.others_most:
                beyond.append(key)
            else:
                count, marks = known or (0, {})
                counts[key] = count + counter.pending(several, marks)
        best = self._best(counts, parameters.limit)
        threshold = best[-1][1] if len(best) == parameters.limit else 1
        for at, key in enumerate(beyond):
            if ranking.others_most + counter.pending(pending[key], {}) >= threshold:
                count, marks = counter.link(await self._rows(key))
                counts[key] = count + counter.pending(pending[key], marks)
            if at % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        start, end = span or (None, None)
        return Top(start, end, [(self._name(key), count) for key, count in self._best(counts, parameters.limit)])

    def _kept_span(self, span: tuple[int, int] | None, now: int) -> tuple[int, int] | None:
        """Returns the kept buckets that a range touches: one that it cuts counts whole, as in a summary."""
        if span is None:
            return None
        day = fold_day(now)
        ladder = self._ladder()
        return ladder.kept(span[0], day)[0], ladder.kept(span[1] - 1, day)[1]

    async def _all_pending(self, others: Sequence[HeldElsewhere]) -> dict[str, Sequence[Pending]]:
        """Returns the pending hits of every link that has any."""
        pending: dict[str, Sequence[Pending]] = dict(by_stored_key(others))
        for at, link in enumerate(list(self._buffered())):
            key = self._kind.stored_of(link)
            if several := self._pending(key):
                pending[key] = [*pending.get(key, ()), *several]
            if at % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return pending

    async def _ranking(self, counter: _Counter, stamps: frozenset[Stamp]) -> _Ranking:
        """Returns a ranking that may be used with pending hits taken by now: no flush is complete since it."""
        key = (counter.span, counter.bots, fold_day(counter.now))
        async with self._walking:
            found = self._rankings.get(key)
            if found and found.flushes == (self._flushes(), stamps) and 0 <= counter.now - found.at < _FRESH_S:
                return found
            flushes, forgotten = (self._flushes(), stamps), self._forgotten
            counts, others_most = await self._walked(counter)
            ranking = _Ranking(flushes, counter.now, counts, others_most)
            if forgotten == self._forgotten:
                if len(self._rankings) >= _RANKINGS:
                    self._rankings.clear()
                self._rankings[key] = ranking
            return ranking

    async def _walked(self, counter: _Counter) -> tuple[Counts, int]:
        """Returns the best stored counts, best first, and the greatest that was left out."""
        counts: Counts = {}
        others_most = 0
        after: str | None = None
        while True:
            after, found = await asyncio.to_thread(self._page, after, counter)
            counts.update(found)
            if after is None or len(counts) >= 2 * _KEPT:
                counts, left_out = self._pruned(counts)
                others_most = max(others_most, left_out)
            if after is None:
                return counts, others_most

    def _page(self, after: str | None, counter: _Counter) -> tuple[str | None, Counts]:
        """Returns the counts of one page, and the key to go on after; None at the end. Runs in a thread."""
        # A hit of the range was accepted in it or later, or up to five minutes before it: a day is more than enough.
        since_day = fold_day(counter.span[0]) - 1 if counter.span else None
        links = self._walk(after, self._kind.page, since_day)
        counts = {}
        for key, link in links:
            if self._kind.name_of(key) is not None:
                try:
                    counts[key] = counter.link(link)
                except RowCorrupt as error:
                    raise naming(error, key, link) from error
        return (links[-1][0] if len(links) == self._kind.page else None), counts

    def _name(self, key: str) -> str:
        return self._kind.name_of(key) or ""

    def _best(self, counts: Mapping[str, int], limit: int) -> list[tuple[str, int]]:
        """Returns the greatest counts above 0, ties by key."""
        some = [(key, count) for key, count in counts.items() if count > 0]
        some.sort(key=lambda each: (-each[1], self._name(each[0])))
        return some[:limit]

    def _pruned(self, counts: Counts) -> tuple[Counts, int]:
        """Returns the best of the counts, best first, and the greatest that was left out."""
        order = sorted(counts, key=lambda key: (-counts[key][0], self._name(key)))
        left_out = counts[order[_KEPT]][0] if len(order) > _KEPT else 0
        return {key: counts[key] for key in order[:_KEPT]}, left_out
