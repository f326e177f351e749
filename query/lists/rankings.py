"""Rankings of links, or of groups: the keys with the most hits, over their life or a range.

The stored counts of the best come from the store's bounds of all links, greatest first: links are read until no other
one can be among the best. A store that keeps no bounds is walked, a page at a time in a worker thread. Links count what
is left of them where hits are called bots: the bounds say so too. Either is kept with each row's marks until an owner
flushes, this one or any other: each flush writes the row of all links last, so that row tells. This owner's pending
hits are then added by the marks, as for one row, so a ranking has them at once; and so are those of other workers,
where they are asked.

Not all links are known. Any other one has at most others_most, so it is read only if its pending hits could lift it
into the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.breakdowns.answers import whole_buckets
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.ranges import Bots, between, total
from clickcurve.buckets.row import Delta, Row
from clickcurve.buckets.upper_bounds import MOST
from clickcurve.keys import ALL_LINKS, moved_key
from clickcurve.pending import Pending
from clickcurve.waiting import in_thread, locked
from query.lists.listed_rows import (
    ALL_NAMES,
    STEP,
    ListedRows,
    NamesWithin,
    Stamp,
    by_stored_key,
    in_steps,
    summed_in_steps,
)
from query.parameters import Parameters, resolve_range
from query.reader import HEAD, naming, row_without_called, stored, with_pending
from query.total import lifetime
from storage.contract import StoredLink
from storage.rankings import Ranking

Counts: TypeAlias = dict[str, "StoredCount"]  # by stored key
Flushes: TypeAlias = tuple[int, frozenset[Stamp]]  # how many of the owner's are complete, and other workers' stamps

# Of a kept ranking: its range, series, fold day and names.
_Key: TypeAlias = tuple[tuple[int, int] | None, Bots, int, NamesWithin]

_KEPT = 10_000  # links that are kept of a walk, or as many as are asked for
_RANKINGS = 8  # rankings kept
_SLOW_S = 1.0  # a ranking that took longer serves for as long as it took: owners may flush more often than one is made
_FRESH_S = 15  # what else changes shows after this long at the latest: which links have rules, on another worker
_READS = 100  # links that are read before it has, or before the next look whether they are enough


@dataclass(frozen=True, slots=True)
class RankedKeys:
    """The range in epoch seconds (None: over the links' lives), and links by count, most first, ties by key.

    exact: all counts are those of the range. Else some are those of the kept buckets that it touches.
    """

    start: int | None
    end: int | None
    links: list[tuple[str, int]]
    exact: bool


class StoredCount(NamedTuple):
    """What is stored of a link: its count, its rows' marks, and whether all that is counted is of the range."""

    hits: int
    marks: Mapping[int, int]
    exact: bool = True


NOTHING_STORED = StoredCount(0, {})


@dataclass(frozen=True)
class _Counter:
    """Counts rows: the kept buckets that the range touches, or without one their lives."""

    range: tuple[int, int] | None
    bots: Bots
    now: int
    ladder: Ladder

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """Those buckets, as of `now`."""
        return None if self.range is None else whole_buckets(*self.range, fold_day(self.now), self.ladder)

    def corrected(self, row: Row, marks: Mapping[int, int] = MappingProxyType({})) -> StoredCount:
        """Returns the count of a current row some hits of which are called bots."""
        if self.range is None:
            return StoredCount(lifetime(row, self.bots), marks)
        span = total(row, *self.range, self.bots, self.ladder)
        return StoredCount(span.total, marks, span.at_least == span.total)

    def link(self, link: StoredLink, moved: StoredLink | None = None, pending: Sequence[Pending] = ()) -> StoredCount:
        """Returns the count of a stored link, with pending hits that its rows do not have.

        moved: what is stored of its hits that are called bots.
        """
        if moved is not None:
            since = HEAD if self.range is None else 0
            called, whole = (stored(each, self.now, self.ladder, since=since) for each in (moved, link))
            row = with_pending(whole.row, pending, whole.marks, self.ladder)
            return self.corrected(row_without_called(row, called.row, since, self.ladder), whole.marks)
        whole = stored(link, self.now, self.ladder, since=HEAD if self.span is None else self.span[0])
        row = with_pending(whole.row, pending, whole.marks, self.ladder)
        if self.range is None or self.span is None:
            return StoredCount(lifetime(row, self.bots), whole.marks)
        if row.last is None or row.last < self.span[0]:
            return StoredCount(0, whole.marks)
        span = self.span
        if row.fold_day > fold_day(self.now):  # a clock went back: wider buckets are kept of this row
            span = whole_buckets(*self.range, row.fold_day, self.ladder)
        (count,) = between(row, span, self.bots)
        exact = not count or span == self.range or total(row, *self.range, self.bots, self.ladder).at_least == count
        return StoredCount(count, whole.marks, exact)

    def most(self, link: StoredLink, moved: StoredLink | None = None) -> StoredCount:
        """Returns the most that a stored link can count, by the heads of its rows alone. moved: as of `link`."""
        whole = stored(link, self.now, self.ladder, since=HEAD)
        if self.span and (whole.row.last is None or whole.row.last < self.span[0]):
            return StoredCount(0, whole.marks)
        row = whole.row
        if moved is not None:
            row = row_without_called(row, stored(moved, self.now, self.ladder, since=HEAD).row, HEAD, self.ladder)
        return StoredCount(lifetime(row, self.bots), whole.marks)

    def with_pending(self, stored: StoredCount, pending: Sequence[Pending]) -> StoredCount:
        """Returns the count with the pending hits that the stored rows do not have."""
        missing = [each.delta for each in pending if each.is_missing(stored.marks)]
        return stored._replace(hits=stored.hits + sum(map(self._delta, missing)))

    def _delta(self, delta: Delta) -> int:
        count, span = 0, self.span
        if self.bots is not Bots.only:
            count += _sum_of(delta.people, span) + (0 if span else delta.opening)
        if self.bots is not Bots.exclude:
            count += _sum_of(delta.bots, span)
        return count


def _sum_of(minutes: Mapping[int, int], span: tuple[int, int] | None) -> int:
    if span is None:
        return sum(minutes.values())
    low, high = span
    return sum(count for minute, count in minutes.items() if low <= minute < high)


class _Found(NamedTuple):
    """The best by what was counted, most first: as many as were asked for, or all that count anything.

    counts: theirs, and of others. pending: hits that are counted in there and may not be stored. is_whole: no hits are
    left out that were flushed since the store was read.
    """

    best: list[tuple[str, int]]
    counts: Counts
    pending: Mapping[str, Sequence[Pending]]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Best:
    """The stored counts of the best links, best first, at least `best` of them; no other has more than others_most.

    flushes: those that were complete before the store was read, and all_links the row of all links then. at: when that
    was, epoch seconds. serves_until: until then it may be used after any flush, by the event loop's clock.
    """

    flushes: Flushes
    all_links: StoredLink
    at: int
    serves_until: float
    best: int
    counts: Counts
    others_most: int

    def is_fresh(self, flushes: Flushes, all_links: StoredLink, now: int) -> bool:
        """Returns whether no flush is complete since it."""
        return self.flushes == flushes and all_links == self.all_links and 0 <= now - self.at < _FRESH_S


@dataclass(eq=False)
class Rankings:
    """Answers `GET /v1/links`, or the same of groups."""

    rows: ListedRows

    def __post_init__(self) -> None:
        self._rankings: dict[_Key, _Best] = {}
        self._forgotten = 0
        self._walking = asyncio.Lock()

    def forget_rankings(self) -> None:
        """Makes the next question walk again: a link was erased."""
        self._rankings.clear()
        self._forgotten += 1

    async def best(self, parameters: Parameters, now: int, within: NamesWithin = ALL_NAMES) -> RankedKeys:
        """Returns the best `parameters.limit` of these links. Raises StoreUnavailable, RowCorrupt."""
        range_ = resolve_range(parameters, now, 0)
        counter, limit = _Counter(range_, parameters.bots, now, self.rows.store.ladder()), parameters.limit
        found = await self._counted(counter, limit, within)
        counts = {key: found.counts[key] for key, _ in found.best}
        for key, several in found.pending.items():
            if key in counts and self._is_corrected(counter, key):  # what is left of a bucket does not just add up
                counts[key] = await self._link(counter, key, several)
        best = self._best(counts, limit)
        exact = found.is_whole and all(counts[key].exact for key, _ in best)
        exact = exact and await self._stay_exact(counter, [key for key, _ in best], found.pending)
        start, end = range_ or (None, None)
        return RankedKeys(start, end, [(self.rows.name(key), count) for key, count in best], exact)

    async def counts_of(self, names: Sequence[str], parameters: Parameters, now: int) -> dict[str, int]:
        """Returns what these names count, over the range as `best` counts it. Raises StoreUnavailable, RowCorrupt."""
        counter = _Counter(resolve_range(parameters, now, 0), parameters.bots, now, self.rows.store.ladder())
        keys = {name: self.rows.kind.stored_of(name) for name in names}
        pending = {key: self.rows.pending(key) for key in keys.values()}
        called = [moved_key(key) for key in pending if self._is_corrected(counter, key)]

        def counted() -> dict[str, int]:
            store, nothing = self.rows.store, StoredLink(0, ())
            moved = store.links(called) if called else {}
            links = store.links([*pending])
            return {
                name: counter.link(links.get(key, nothing), moved.get(moved_key(key)), pending[key]).hits
                for name, key in keys.items()
            }

        return await in_thread("counting listed rows", counted)

    def _is_corrected(self, counter: _Counter, key: str) -> bool:
        return counter.bots is not Bots.include and self.rows.is_corrected(key)

    async def _link(self, counter: _Counter, key: str, pending: Sequence[Pending]) -> StoredCount:
        """Returns the count of a link as it is stored now, with these pending hits."""
        # What is called bots first: the hits of which it is said are in the row that is read after it.
        moved = await self.rows.store.rows(moved_key(key)) if self._is_corrected(counter, key) else None
        return counter.link(await self.rows.store.rows(key), moved, pending)

    async def _counted(self, counter: _Counter, limit: int, within: NamesWithin) -> _Found:
        """Returns the best so many by what was counted, whatever is called bots since."""
        others = await self.rows.other_workers()
        stamps = frozenset(each.stamp for each in others)
        others_pending = {
            key: several for key, several in by_stored_key(others).items() if self.rows.name(key) in within
        }
        while True:
            flushes = self.rows.flushes()
            ranking, is_fresh = await self._ranking(counter, limit, stamps, within)
            pending = await self._pending_of_best(ranking, limit, others_pending, within)
            # A flush that is complete has left the pending hits, so stored counts from before it miss what it moved.
            if not is_fresh or flushes == self.rows.flushes():
                break
        counts = dict(islice(ranking.counts.items(), limit))
        beyond = []
        async for some in in_steps(pending.items(), _READS):
            for key, several in some:
                stored = ranking.counts.get(key)
                if stored is None and ranking.others_most:
                    beyond.append(key)
                else:
                    counts[key] = counter.with_pending(stored or NOTHING_STORED, several)
        threshold = _threshold(self._best(counts, limit), limit)
        for at, key in enumerate(beyond):
            if ranking.others_most + counter.with_pending(NOTHING_STORED, pending[key]).hits >= threshold:
                counts[key] = await self._link(counter, key, pending[key])
            if at % _READS == _READS - 1:
                await asyncio.sleep(0)
        return _Found(self._best(counts, limit), counts, pending, is_fresh)

    async def _stay_exact(
        self, counter: _Counter, best: Sequence[str], pending: Mapping[str, Sequence[Pending]]
    ) -> bool:
        """Returns whether exact counts stay so with the pending hits, which may lie on the other side of a cut."""
        if counter.span == counter.range:
            return True
        for key in best:
            if key in pending and not (await self._link(counter, key, pending[key])).exact:
                return False
        return True

    async def _pending_of_best(
        self, ranking: _Best, limit: int, others: Mapping[str, Sequence[Pending]], within: NamesWithin
    ) -> dict[str, Sequence[Pending]]:
        """Returns the pending hits of every link that they could lift to the count of the last of the best."""
        stored = [(key, each.hits) for key, each in islice(ranking.counts.items(), limit) if each.hits]
        threshold = _threshold(stored, limit)
        pending: dict[str, Sequence[Pending]] = dict(others)
        most = await summed_in_steps(self.rows.buffered())
        lifted: list[str] = []
        async for names in in_steps(most.items(), 10 * STEP):
            lifted += [name for name, hits in names if hits >= threshold - ranking.others_most and name in within]
        async for counted in in_steps(ranking.counts.items()):
            named = ((self.rows.name(key), each.hits) for key, each in counted)
            lifted += [name for name, count in named if name in most and count + most[name] >= threshold]
        async for keys in in_steps({*map(self.rows.kind.stored_of, lifted), *others}, _READS):
            for key in keys:
                if several := self.rows.pending(key):
                    pending[key] = [*others.get(key, ()), *several]
        return pending

    async def _ranking(
        self, counter: _Counter, limit: int, stamps: frozenset[Stamp], within: NamesWithin
    ) -> tuple[_Best, bool]:
        """Returns a ranking to be used with pending hits taken by now, and whether no flush is complete since it."""
        key = (counter.range, counter.bots, fold_day(counter.now), within)
        async with locked(self._walking, "walking over all links"):
            ranking = self._rankings.get(key)
            flushes, forgotten = (self.rows.flushes(), stamps), self._forgotten
            all_links = await self.rows.store.rows(ALL_LINKS)
            began = asyncio.get_running_loop().time()
            if ranking and ranking.best >= limit:
                is_fresh = ranking.is_fresh(flushes, all_links, counter.now)
                if is_fresh or began < ranking.serves_until:
                    return ranking, is_fresh
            by_bounds = None
            if self.rows.ranked is not None:
                by_bounds = await in_thread("ranking links", self._by_bounds, counter, limit, within)
            kept = max(_KEPT, limit)
            counts, others_most = by_bounds or await self._walked(counter, within, kept)
            ended = asyncio.get_running_loop().time()
            serves_until = 2 * ended - began if ended - began > _SLOW_S else ended
            best = limit if by_bounds else kept
            ranking = _Best(flushes, all_links, counter.now, serves_until, best, counts, others_most)
            if forgotten == self._forgotten:
                if len(self._rankings) >= _RANKINGS:
                    self._rankings.clear()
                self._rankings[key] = ranking
            return ranking, True

    def _by_bounds(self, counter: _Counter, limit: int, within: NamesWithin) -> tuple[Counts, int] | None:
        """Returns stored counts, the best first, and the most that any other link has; None without candidates.

        Runs in a thread.
        """
        assert self.rows.ranked is not None
        since = counter.span[0] if counter.span else None
        prefix = self.rows.kind.stored_of(within.prefix)
        asked = Ranking(since, counter.bots is not Bots.only, counter.bots is not Bots.exclude, prefix)
        counts: Counts = {}
        with self.rows.ranked(asked) as links:
            candidates = None if links is None else links.candidates()
            if links is None or candidates is None:
                return None
            start, step = 0, limit
            while start < len(candidates.links):
                some = candidates.links[start : start + step]
                stored = links.links([key for key, _ in some])
                moved = links.links([moved_key(key) for key, _ in some if self._is_corrected(counter, key)])
                for key, _ in some:
                    counts[key] = self._read(key, stored[key], moved, counter.link)
                if _is_settled(counts, limit, *some[-1]):
                    return self._in_order(counts), some[-1][1]
                start, step = start + step, max(_READS, len(counts) // 4)
            most, key = candidates.rest
            if not most or _is_settled(counts, limit, key, most):
                return self._in_order(counts), most
            return None

    def _read(
        self,
        key: str,
        link: StoredLink,
        moved: Mapping[str, StoredLink],
        count: Callable[[StoredLink, StoredLink | None], StoredCount],
    ) -> StoredCount:
        try:
            return count(link, moved.get(moved_key(key)))
        except RowCorrupt as error:
            raise naming(error, key, link) from error

    def _in_order(self, counts: Counts) -> Counts:
        order = sorted(counts, key=lambda key: (-counts[key].hits, self.rows.name(key)))
        return {key: counts[key] for key in order}

    async def _walked(self, counter: _Counter, within: NamesWithin, kept: int) -> tuple[Counts, int]:
        """Returns the best stored counts, best first, and the greatest that was left out."""
        counts: Counts = {}
        others_most = 0
        after: str | None = None
        while True:
            after, page = await in_thread("reading a page of links", self._page, after, counter, others_most, within)
            counts.update(page)
            if after is None or len(counts) >= 2 * kept:
                counts = self._in_order(counts)
                left_out = next(islice(counts.values(), kept, None), NOTHING_STORED)
                others_most = max(others_most, left_out.hits)
                counts = dict(islice(counts.items(), kept))
            if after is None:
                return counts, others_most

    def _page(self, after: str | None, counter: _Counter, least: int, within: NamesWithin) -> tuple[str | None, Counts]:
        """Returns the counts of one page, and the key to go on after; None at the end. Runs in a thread.

        Leaves links out that have less than `least`, as far as their heads tell: most links are small or quiet.
        """
        # A hit of the range was accepted in it or later, or up to five minutes before it: a day is more than enough.
        since_day = fold_day(counter.span[0]) - 1 if counter.span else None
        links = self.rows.walk(within)(after, self.rows.walked_at_once, since_day)
        names = ((key, self.rows.kind.name_of(key)) for key, _ in links)
        wanted = {key for key, name in names if name is not None and name in within}
        corrected = [moved_key(key) for key, _ in links if key in wanted and self._is_corrected(counter, key)]
        moved = self.rows.store.links(corrected) if corrected else {}
        counts = {}
        for key, link in links:
            if key not in wanted:
                continue
            most = self._read(key, link, moved, counter.most)
            if most.hits >= least:
                counts[key] = self._read(key, link, moved, counter.link) if most.hits else most
        return (links[-1][0] if len(links) == self.rows.walked_at_once else None), counts

    def _best(self, counts: Counts, limit: int) -> list[tuple[str, int]]:
        """Returns the greatest counts above 0, ties by key."""
        return [(key, each.hits) for key, each in islice(self._in_order(counts).items(), limit) if each.hits > 0]


def _is_settled(counts: Counts, limit: int, key: str, most: int) -> bool:
    """Returns whether no link after this key, by the most that each can count, is among the best."""
    best = nsmallest(limit, ((-each.hits, name) for name, each in counts.items()))
    return most < MOST and len(best) == limit and best[-1] <= (-most, key)


def _threshold(best: Sequence[tuple[str, int]], limit: int) -> int:
    """Returns the least count that may be among the best."""
    return best[-1][1] if len(best) == limit else 1
