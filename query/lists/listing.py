"""The two lists of one kind of rows, over one store and one owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile

from clickcurve.access import access
from clickcurve.buckets.row import Pending
from query.lists.corrected_rows import ReadCorrected, nothing_corrected
from query.lists.key_kind import ALL_NAMES, GROUP, LINK, KeyKind, NamesWithin
from query.lists.key_list import KeyList, KeyPage
from query.lists.other_workers import AskOtherWorkers, WorkerPending, nobody
from query.lists.rankings import RankedKeys, Rankings, Walk
from query.lists.steps import Buffered
from query.parameters import BY_KEY, Parameters, resolve_range
from storage.contract import Store, StoredLink


class Listing:
    """Answers `GET /v1/links`, or `GET /v1/groups`.

    pending is the owner's, of a stored key; buffered the names for which it has any, with parts of the most;
    flushes a number that rises whenever a flush is complete. other_workers: asks for their pending hits of this kind,
    others_within for those of names that begin with a prefix, or raises StoreUnavailable if it cannot hear all.
    corrected: reads rows with hits that are called bots.
    """

    def __init__(
        self,
        kind: KeyKind,
        store: Store,
        pending: Callable[[str], Sequence[Pending]],
        buffered: Buffered,
        flushes: Callable[[], int],
        other_workers: AskOtherWorkers = nobody,
        others_within: Callable[[str], Awaitable[Sequence[WorkerPending]]] | None = None,
        corrected: ReadCorrected = nothing_corrected,
    ) -> None:
        self.kind = kind
        ranked = None if kind is GROUP else store.ranked
        walk = partial(walk_of, store, kind)
        self.rankings = Rankings(
            kind, walk, ranked, store.rows, pending, buffered, flushes, store.ladder, other_workers, corrected
        )
        self.keys = KeyList(kind, store, pending, buffered, other_workers, corrected)
        self._others_within = others_within

    async def list(self, parameters: Parameters, now: int) -> RankedKeys | KeyPage:
        """Returns names by their hits, or a page of them in their order, as the parameters say."""
        if parameters.sort == BY_KEY:
            return await self.page(parameters, now)
        return await self.best(parameters, now)

    async def page(self, parameters: Parameters, now: int) -> KeyPage:
        """Returns a page of the names that the request may see, in their order."""
        within = self._within(parameters)
        return KeyPage([], None) if within is None else await self.keys.page(parameters, now, within)

    async def first(self, prefix: str, limit: int, now: int, after: str | None = None) -> KeyPage:
        """Returns the first names that begin with a prefix, those that another worker alone knows yet included.

        They may be fewer, with more behind them, where many were erased.
        """
        parameters = Parameters(prefix=prefix, limit=limit, after=after)
        others = () if self._others_within is None else await self._others_within(prefix)
        return await self.keys.page(parameters, now, NamesWithin(prefix), others, may_end_early=True)

    async def best(self, parameters: Parameters, now: int) -> RankedKeys:
        """Returns the names with the most hits of those that the request may see."""
        within = self._within(parameters)
        if within is None:
            start, end = resolve_range(parameters, now, 0) if parameters.ranged else (None, None)
            return RankedKeys(start, end, [], True)
        return await self.rankings.best(parameters, now, within)

    def _within(self, parameters: Parameters) -> NamesWithin | None:
        """Returns the names that are asked for and may be seen; None: there are none."""
        allowed, within = access(), ALL_NAMES
        if allowed.prefix:
            within = NamesWithin(allowed.group, only=True) if self.kind is GROUP else NamesWithin(allowed.prefix)
        return within.narrowed(parameters.prefix)


def walk_of(store: Store, kind: KeyKind, within: NamesWithin) -> Walk:
    """Returns a walk over the rows of these names, and as few others as the store can do with.

    Groups stand side by side, and so do names with a prefix, in a store that keeps the order of keys. A cluster goes
    through all of its keys for each page in that order, so there all links are walked once, in its own.
    """
    if kind is LINK and (store.shared or not within.prefix):
        return store.walk

    def is_there(each: tuple[str, StoredLink]) -> bool:
        name = kind.name_of(each[0])
        return name is not None and name.startswith(within.prefix)

    def walk(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        start = kind.stored_of(within.prefix) if within.prefix else kind.starts[0]
        return list(takewhile(is_there, store.in_order(start if after is None else f"{after}\0", limit)))

    return walk
