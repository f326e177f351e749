"""The two lists of one kind of rows, over one store and one owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from clickcurve.buckets.row import Pending
from query.lists.key_kind import GROUP, KeyKind
from query.lists.key_list import KeyList, KeyPage
from query.lists.other_workers import AskOtherWorkers, nobody
from query.lists.rankings import RankedKeys, Rankings
from query.lists.steps import Buffered
from query.parameters import BY_KEY, Parameters
from storage.contract import Store, StoredLink


class Listing:
    """Answers `GET /v1/links`, or `GET /v1/groups`.

    pending is the owner's, of a stored key; buffered the names for which it has any, with parts of the most;
    flushes a number that rises whenever a flush is complete. other_workers: asks for their pending hits of this kind.
    """

    def __init__(
        self,
        kind: KeyKind,
        store: Store,
        pending: Callable[[str], Sequence[Pending]],
        buffered: Buffered,
        flushes: Callable[[], int],
        other_workers: AskOtherWorkers = nobody,
    ) -> None:
        self.kind = kind
        walk, ranked = (_walk_of_groups(store), None) if kind is GROUP else (store.walk, store.ranked)
        self.rankings = Rankings(
            kind, walk, ranked, store.rows, pending, buffered, flushes, store.ladder, other_workers
        )
        self.keys = KeyList(kind, store, pending, buffered, other_workers)

    async def list(self, parameters: Parameters, now: int) -> RankedKeys | KeyPage:
        """Returns names by their hits, or a page of them in their order, as the parameters say."""
        if parameters.sort == BY_KEY:
            return await self.keys.page(parameters, now)
        return await self.rankings.best(parameters, now)


def _walk_of_groups(store: Store) -> Callable[[str | None, int, int | None], list[tuple[str, StoredLink]]]:
    """Returns a walk over the rows of groups alone: those of links are many more."""

    def walk(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        groups = store.in_order(GROUP.starts[0] if after is None else f"{after}\0", limit)
        return list(takewhile(lambda each: GROUP.name_of(each[0]) is not None, groups))

    return walk
