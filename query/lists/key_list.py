"""Keys in their order: which links or groups there are, page by page, with what was counted of each in its life.

The order is that of the characters, which is that of the bytes of UTF-8. A page is the first keys of the store from
some key on, and this owner's pending hits, with those of other workers where they are asked: taken before the store is
read, as for one row, so that a key is never missed. Links that were erased and not hit since are left out.

A search looks at all keys from some key on, so many at most, and a deletion at so many rows: those that were erased are
there still. Where a page ends because of that, the next one goes on behind the last key that was looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain

from clickcurve.buckets.row import EMPTY, Row
from clickcurve.keys import contains
from clickcurve.pending import Pending
from clickcurve.waiting import in_thread, locked
from query.lists.listed_rows import ALL_NAMES, ListedRows, NamesWithin, WorkerPending, by_stored_key, in_steps
from query.parameters import Parameters
from query.reader import HEAD, stored, with_pending
from query.total import lifetime
from storage.contract import FoundLinks

LOOKED_AT = 1_000_000  # keys of one search: some 0.5 s of SQLite
READ = 20_000  # rows of a page that may end before it has found so many: some 0.5 s of SQLite
_READ_MORE = 100  # rows, where those that were read count too little
READ_SHARED = 10_000  # of a store that goes through all of its keys first: these are read at once


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys in their order, each with its count; after: the key to go on after, None at the end."""

    links: list[tuple[str, int]]
    after: str | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which keys are asked for: those of some names from `start` on that contain a text."""

    start: str
    within: NamesWithin
    text: str

    @classmethod
    def by(cls, parameters: Parameters, within: NamesWithin) -> _Wanted:
        prefix, after = within.prefix, parameters.after
        return cls(prefix if after is None else max(prefix, f"{after}\0"), within, parameters.contains)

    def has(self, key: str) -> bool:
        is_here = key >= self.start and key in self.within
        return is_here and (not self.text or contains(key, self.text))


@dataclass(eq=False)
class KeyList:
    """Answers `GET /v1/links?sort=key`, or the same of groups. looked_at: keys of one search, at most."""

    rows: ListedRows
    looked_at: int = LOOKED_AT

    def __post_init__(self) -> None:
        self._reading = asyncio.Lock()  # one page at a time: on a cluster each reads all keys

    async def page(
        self,
        parameters: Parameters,
        now: int,
        within: NamesWithin = ALL_NAMES,
        others: Sequence[WorkerPending] | None = None,
        may_end_early: bool = False,
    ) -> KeyPage:
        """Returns the first `parameters.limit` of these keys from where the parameters say; a search may find fewer.

        others: what other workers hold; None: they are asked. may_end_early: before so many are found, where too many
        count nothing. Raises StoreUnavailable.
        """
        read = (READ_SHARED if self.rows.store.shared else READ) if may_end_early else None
        wanted, many = _Wanted.by(parameters, within), parameters.limit + 1
        first = many
        while True:
            pending = await self._first_pending(wanted, first, others)
            async with locked(self._reading, "listing keys"):
                rows, last = await in_thread("listing keys", self._found, wanted, many, pending, now, read)
            end = rows[-1][0] if len(rows) == many else last
            if len(pending) < first or (end is not None and end <= max(pending)):
                break
            first *= 2  # some of them were erased meanwhile and count nothing, so later ones may be on the page
        links = []
        for key, row in rows[: parameters.limit]:
            corrected = await self.rows.corrected(self.rows.kind.stored_of(key), now, since=HEAD)
            links.append((key, lifetime(row if corrected is None else corrected, parameters.bots)))
        return KeyPage(links, links[-1][0] if len(rows) == many else last)

    async def _first_pending(
        self, wanted: _Wanted, many: int, others_pending: Sequence[WorkerPending] | None
    ) -> dict[str, Sequence[Pending]]:
        """Returns the pending hits of the first so many keys that have any."""
        others_pending = await self.rows.other_workers() if others_pending is None else others_pending
        others = {self.rows.name(stored): pending for stored, pending in by_stored_key(others_pending).items()}
        keys = chain(chain.from_iterable(self.rows.buffered()), others)
        first: list[str] = []
        async for some in in_steps(keys):
            first = nsmallest(many, {*first, *filter(wanted.has, some)})
        return {key: [*others.get(key, ()), *self.rows.pending(self.rows.kind.stored_of(key))] for key in first}

    def _found(
        self, wanted: _Wanted, many: int, pending: Mapping[str, Sequence[Pending]], now: int, most: int | None
    ) -> tuple[list[tuple[str, Row]], str | None]:
        """Returns the first keys that count anything, with their rows' heads. Runs in a thread. most: rows to read.

        Also returns the last key that was looked at, if the search ended before it found so many; else None.
        """
        rows: dict[str, Row] = {}
        marks: dict[str, Mapping[int, int]] = {}
        store, kind = self.rows.store, self.rows.kind
        ladder, name_of = store.ladder(), kind.name_of
        at: str | None = kind.stored_of(wanted.start) if wanted.start else kind.starts[0]
        last: str | None = None
        looked_at, size = 0, most if most is not None and store.shared else many
        while at is not None and last is None and len(rows) < many:
            read = self._read(wanted, at, size)
            looked_at += len(read.links)
            at = None if read.last is None else f"{read.last}\0"
            for stored_key, link in read.links:
                key = name_of(stored_key)
                if key is None:
                    at = kind.start_after(stored_key)
                    break
                if key not in wanted.within:
                    at = None
                    break
                if wanted.text and not contains(key, wanted.text):
                    continue  # the NUL that a stored key has before a name with one matched
                whole = stored(link, now, ladder, since=HEAD)
                marks[key] = whole.marks
                if _counts(whole.row):
                    rows[key] = whole.row
            else:
                is_end = len(read.links) < size or (most is not None and looked_at >= most)
                if read.last is not None and is_end:  # it has looked at as many as it may
                    last = name_of(read.last)
                    at = kind.start_after(read.last) if last is None else at
                    if last is not None and last > wanted.within.prefix and last not in wanted.within:
                        last = at = None  # it is behind all that begin so
            if not store.shared:
                size = max(many - len(rows), _READ_MORE)  # the last ones are not read row by row among erased ones
        for key, several in pending.items():
            row = with_pending(rows.get(key, EMPTY), several, marks.get(key, {}), ladder)
            if _counts(row) and (last is None or key <= last):
                rows[key] = row
        return nsmallest(many, rows.items()), last

    def _read(self, wanted: _Wanted, start: str, size: int) -> FoundLinks:
        if wanted.text:
            prefix = self.rows.kind.stored_of(wanted.within.prefix) if wanted.within.prefix else ""
            return self.rows.store.containing(wanted.text, start, size, self.looked_at, prefix)
        links = self.rows.store.in_order(start, size)
        return FoundLinks(links, links[-1][0] if len(links) == size else None)


def _counts(row: Row) -> bool:
    return bool(row.lifetime or row.bots)
