"""Keys in their order: which links there are, page by page, with what was counted of each in its life.

The order is that of the characters, which is that of the bytes of UTF-8. A page is the first keys of the store from
some key on, and this owner's pending hits: taken before the store is read, as for one row, so that a key is never
missed. Links that were erased and not hit since are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TypeAlias

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import EMPTY, Pending, Row
from clickcurve.keys import link_key, link_of
from query.parameters import Parameters
from query.reader import HEAD, stored, unstored
from query.total import lifetime
from storage.contract import StoredLink

InOrder: TypeAlias = Callable[[str, int], list[tuple[str, StoredLink]]]

_SLICE = 10_000  # buffered keys that are looked at before the event loop has its turn
# Stored keys of links that begin with NUL come first, then rows that are no link's, then all other links.
_FIRST, _AFTER_OTHERS = "\0\0", "\x01"


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Links in the order of their keys, each with its count; after: the key to go on after, None at the end."""

    links: list[tuple[str, int]]
    after: str | None


class KeyList:
    """Answers `GET /v1/links?sort=key`.

    in_order and ladder are the store's; pending is the owner's, of a stored key; buffered the links for which it has
    any.
    """

    def __init__(
        self,
        in_order: InOrder,
        pending: Callable[[str], Sequence[Pending]],
        buffered: Callable[[], Iterable[str]],
        ladder: Callable[[], Ladder],
    ) -> None:
        self._in_order = in_order
        self._pending = pending
        self._buffered = buffered
        self._ladder = ladder
        self._reading = asyncio.Lock()  # one page at a time: on a cluster each reads all keys

    async def page(self, parameters: Parameters, now: int) -> KeyPage:
        """Returns the first `parameters.limit` links from where the parameters say. Raises StoreUnavailable."""
        prefix, wanted = parameters.prefix, parameters.limit + 1
        start = prefix if parameters.after is None else max(prefix, f"{parameters.after}\0")
        many = wanted
        while True:
            pending = await self._first_pending(prefix, start, many)
            async with self._reading:
                found = await asyncio.to_thread(self._found, prefix, start, wanted, pending, now)
            if len(pending) < many or (len(found) == wanted and found[-1][0] <= max(pending)):
                break
            many *= 2  # some of them were erased meanwhile and count nothing, so later ones may be on the page
        links = [(key, lifetime(row, parameters.bots)) for key, row in found[: parameters.limit]]
        return KeyPage(links, links[-1][0] if len(found) == wanted else None)

    async def _first_pending(self, prefix: str, start: str, many: int) -> dict[str, Sequence[Pending]]:
        """Returns the pending hits of the first so many links that have any."""
        links = iter(list(self._buffered()))
        first: list[str] = []
        while some := list(islice(links, _SLICE)):
            first = nsmallest(many, {*first, *(key for key in some if key >= start and key.startswith(prefix))})
            await asyncio.sleep(0)
        return {key: self._pending(link_key(key)) for key in first}

    def _found(
        self, prefix: str, start: str, wanted: int, pending: Mapping[str, Sequence[Pending]], now: int
    ) -> list[tuple[str, Row]]:
        """Returns the first links that count anything, with their rows' heads. Runs in a thread."""
        found: dict[str, Row] = {}
        marks: dict[str, Mapping[int, int]] = {}
        ladder = self._ladder()
        at: str | None = link_key(start) if start else _FIRST
        while at is not None and len(found) < wanted:
            asked = wanted - len(found)
            keys = self._in_order(at, asked)
            at = f"{keys[-1][0]}\0" if len(keys) == asked else None
            for stored_key, link in keys:
                key = link_of(stored_key)
                if key is None:
                    at = _AFTER_OTHERS
                    break
                if not key.startswith(prefix):
                    at = None
                    break
                whole = stored(link, now, ladder, since=HEAD)
                marks[key] = whole.marks
                if _counts(whole.row):
                    found[key] = whole.row
        for key, several in pending.items():
            row = unstored(several, marks.get(key, {}), found.get(key, EMPTY), ladder)
            if _counts(row):
                found[key] = row
        return nsmallest(wanted, found.items())


def _counts(row: Row) -> bool:
    return bool(row.lifetime or row.bots)
