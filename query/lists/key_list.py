"""Keys in their order: which links or groups there are, page by page, with what was counted of each in its life.

The order is that of the characters, which is that of the bytes of UTF-8. A page is the first keys of the store from
some key on, and this owner's pending hits, with those of other workers where they are asked: taken before the store is
read, as for one row, so that a key is never missed. Links that were erased and not hit since are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from typing import TypeAlias

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import EMPTY, Pending, Row
from clickcurve.waiting import in_thread, locked
from query.lists.key_kind import ALL_NAMES, KeyKind, NamesWithin
from query.lists.other_workers import AskOtherWorkers, by_stored_key
from query.lists.steps import Buffered, in_steps
from query.parameters import Parameters
from query.reader import HEAD, stored, with_pending
from query.total import lifetime
from storage.contract import StoredLink

InOrder: TypeAlias = Callable[[str, int], list[tuple[str, StoredLink]]]


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys in their order, each with its count; after: the key to go on after, None at the end."""

    links: list[tuple[str, int]]
    after: str | None


class KeyList:
    """Answers `GET /v1/links?sort=key`, or the same of groups.

    in_order and ladder are the store's; pending is the owner's, of a stored key; buffered the keys for which it has
    any; other_workers asks for theirs.
    """

    def __init__(
        self,
        kind: KeyKind,
        in_order: InOrder,
        pending: Callable[[str], Sequence[Pending]],
        buffered: Buffered,
        ladder: Callable[[], Ladder],
        other_workers: AskOtherWorkers,
    ) -> None:
        self._kind = kind
        self._in_order = in_order
        self._pending = pending
        self._buffered = buffered
        self._ladder = ladder
        self._other_workers = other_workers
        self._reading = asyncio.Lock()  # one page at a time: on a cluster each reads all keys

    async def page(self, parameters: Parameters, now: int, within: NamesWithin = ALL_NAMES) -> KeyPage:
        """Returns the first `parameters.limit` of these keys from where the parameters say.

        Raises StoreUnavailable.
        """
        prefix, wanted = within.prefix, parameters.limit + 1
        start = prefix if parameters.after is None else max(prefix, f"{parameters.after}\0")
        many = wanted
        while True:
            pending = await self._first_pending(within, start, many)
            async with locked(self._reading, "listing keys"):
                found = await in_thread("listing keys", self._found, within, start, wanted, pending, now)
            if len(pending) < many or (len(found) == wanted and found[-1][0] <= max(pending)):
                break
            many *= 2  # some of them were erased meanwhile and count nothing, so later ones may be on the page
        links = [(key, lifetime(row, parameters.bots)) for key, row in found[: parameters.limit]]
        return KeyPage(links, links[-1][0] if len(found) == wanted else None)

    async def _first_pending(self, within: NamesWithin, start: str, many: int) -> dict[str, Sequence[Pending]]:
        """Returns the pending hits of the first so many keys that have any."""
        others = {self._name(stored): held for stored, held in by_stored_key(await self._other_workers()).items()}
        keys = chain(chain.from_iterable(self._buffered()), others)
        first: list[str] = []
        async for some in in_steps(keys):
            first = nsmallest(many, {*first, *(key for key in some if key >= start and key in within)})
        return {key: [*others.get(key, ()), *self._pending(self._kind.stored_of(key))] for key in first}

    def _name(self, stored: str) -> str:
        return self._kind.name_of(stored) or ""

    def _found(
        self, within: NamesWithin, start: str, wanted: int, pending: Mapping[str, Sequence[Pending]], now: int
    ) -> list[tuple[str, Row]]:
        """Returns the first keys that count anything, with their rows' heads. Runs in a thread."""
        found: dict[str, Row] = {}
        marks: dict[str, Mapping[int, int]] = {}
        ladder = self._ladder()
        at: str | None = self._kind.stored_of(start) if start else self._kind.starts[0]
        while at is not None and len(found) < wanted:
            asked = wanted - len(found)
            keys = self._in_order(at, asked)
            at = f"{keys[-1][0]}\0" if len(keys) == asked else None
            for stored_key, link in keys:
                key = self._kind.name_of(stored_key)
                if key is None:
                    at = self._kind.start_after(stored_key)
                    break
                if key not in within:
                    at = None
                    break
                whole = stored(link, now, ladder, since=HEAD)
                marks[key] = whole.marks
                if _counts(whole.row):
                    found[key] = whole.row
        for key, several in pending.items():
            row = with_pending(found.get(key, EMPTY), several, marks.get(key, {}), ladder)
            if _counts(row):
                found[key] = row
        return nsmallest(wanted, found.items())


def _counts(row: Row) -> bool:
    return bool(row.lifetime or row.bots)
