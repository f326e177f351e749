"""What can be listed, links and groups: which stored keys are theirs, their rows, and hits that are not stored yet.

Of hits that wait there can be 300,000 links: they are gone through in steps, and the event loop has its turn in
between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from clickcurve.buckets.measures import Measure, measured
from clickcurve.buckets.row import Row
from clickcurve.keys import AS_GIVEN, FIRST_GROUP, KeyForm, group_key, group_of, link_key, link_of
from clickcurve.pending import Pending
from storage.contract import Store, StoredLink

# Stored keys of links that begin with NUL come first, then rows that are no link's, then all other links.
_FIRST_LINKS, _AFTER_OTHERS = "\0\0", "\x01"
STEP = 1_000  # some 0.1 ms

# Yields tables of the names of links or groups that have hits which may not be in the store. The most that these may be
# is the sum of what all tables say of a name. It may be taken in steps, and the tables are the caller's.
Buffered: TypeAlias = Callable[[], Iterable[dict[str, int]]]
NameOf: TypeAlias = Callable[[str], str | None]
BufferedBeside: TypeAlias = Callable[[NameOf], Iterable[dict[str, int]]]
Stamp: TypeAlias = tuple[str, int, int]
Walk: TypeAlias = Callable[[str | None, int, int | None], list[tuple[str, StoredLink]]]
T = TypeVar("T")


class KeyKind(NamedTuple):
    """Rows that have names.

    stored_of: name -> stored key. name_of: stored key -> name, None for other rows. starts: from each of these on, in
    order, stored keys of the kind stand side by side. are_few: as groups, not as links.
    """

    stored_of: Callable[[str], str]
    name_of: NameOf
    starts: tuple[str, ...]
    are_few: bool = False

    def counting(self, measure: Measure) -> KeyKind:
        """Returns the rows of an event, or of its values, beside these rows of clicks."""

        def name_of(stored: str) -> str | None:
            counted, clicks = measured(stored)
            return self.name_of(clicks) if counted == measure else None

        starts = tuple(map(measure.row, self.starts))
        return KeyKind(lambda name: measure.row(self.stored_of(name)), name_of, starts, self.are_few)

    def start_after(self, stored: str) -> str | None:
        """Returns where stored keys of the kind may stand after one of another kind; None: nowhere."""
        return next((start for start in self.starts if start > stored), None)


class NamesWithin(NamedTuple):
    """The names that a list is about: those that begin with a prefix; with `only`, the one that is the prefix."""

    prefix: str = ""
    only: bool = False

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, str)
        return name == self.prefix if self.only else name.startswith(self.prefix)

    def narrowed(self, prefix: str) -> NamesWithin | None:
        """Returns those of them that begin with another prefix too; None: there are none."""
        if self.prefix.startswith(prefix):
            return self
        return NamesWithin(prefix) if prefix.startswith(self.prefix) and not self.only else None


ALL_NAMES = NamesWithin()
LINK = KeyKind(link_key, link_of, (_FIRST_LINKS, _AFTER_OTHERS))
GROUP = KeyKind(group_key, group_of, (FIRST_GROUP,), are_few=True)


# --- hits that are not stored yet -------------------------------------------------------------------------------------
class WorkerPending(NamedTuple):
    """What one worker has accepted and not flushed, by stored key; stamp: another one after each of its flushes."""

    stamp: Stamp
    pending: Mapping[str, Sequence[Pending]]


AskOtherWorkers: TypeAlias = Callable[[], Awaitable[Sequence[WorkerPending]]]


async def nobody() -> Sequence[WorkerPending]:
    """Returns what other workers hold where there are none, or where they are not asked."""
    return ()


# --- rows -------------------------------------------------------------------------------------------------------------
class ReadCorrected(Protocol):
    """Reads the row of a stored key if some of its hits are called bots; else None. Is `query.reader.Reader`'s."""

    async def __call__(self, key: str, now: int, *, since: int = 0) -> Row | None: ...


async def nothing_corrected(key: str, now: int, *, since: int = 0) -> Row | None:
    """Returns None: no hits are called bots."""
    return None


@dataclass(eq=False)
class ListedRows:
    """Rows of a kind, over one store and one owner.

    pending is the owner's, of a stored key; buffered the names for which it has any, with parts of the most;
    flushes a number that rises whenever a flush is complete. other_workers: asks for their pending hits of this kind,
    others_within for those of names that begin with a prefix, or raises StoreUnavailable if it cannot hear all.
    is_corrected tells of which stored keys some hits may be called bots, and corrected reads the row of such a key.
    key_form: of the names. buffered_beside: as `buffered`, of rows that are no link's, given what names them.
    """

    kind: KeyKind
    store: Store
    pending: Callable[[str], Sequence[Pending]]
    buffered: Buffered
    flushes: Callable[[], int]
    other_workers: AskOtherWorkers = nobody
    others_within: Callable[[str], Awaitable[Sequence[WorkerPending]]] | None = None
    is_corrected: Callable[[str], bool] = lambda stored: False
    corrected: ReadCorrected = nothing_corrected
    key_form: KeyForm = AS_GIVEN
    buffered_beside: BufferedBeside | None = None

    def __post_init__(self) -> None:
        self.ranked = None if self.kind.are_few else self.store.ranked
        # Rows of a walk that are read at once. Groups are few, and a store that has no order goes through all of its
        # keys for each page.
        self.walked_at_once = 1_000 if self.kind.are_few else 100

    def name(self, stored: str) -> str:
        """Returns the name of a row of this kind."""
        return self.kind.name_of(stored) or ""

    def stored(self, name: str) -> str:
        """Returns the stored key of a row of this kind."""
        return self.kind.stored_of(name)

    def walk(self, within: NamesWithin) -> Walk:
        """Returns a walk that meets all rows of these names."""
        return walk_of(self.store, self.kind, within)


def walk_of(store: Store, kind: KeyKind, within: NamesWithin) -> Walk:
    """Returns a walk over the rows of these names, and as few others as the store can do with.

    Groups stand side by side, and so do names with a prefix, in a store that keeps the order of keys. A cluster goes
    through all of its keys for each page in that order, so there all links are walked once, in its own.
    """
    if not kind.are_few and (store.shared or (kind is LINK and not within.prefix)):
        return store.walk

    def walk(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        at = f"{after}\0" if after else kind.stored_of(within.prefix) if within.prefix else kind.starts[0]
        page: list[tuple[str, StoredLink]] = []
        while len(page) < limit and (some := store.in_order(at, limit - len(page))):
            for key, link in some:
                name = kind.name_of(key)
                if name is None:
                    break
                if not name.startswith(within.prefix):
                    return page
                page.append((key, link))
            else:
                at = f"{key}\0"
                continue
            following = kind.start_after(key)
            if following is None:
                return page
            at = following
        return page

    return walk


def by_stored_key(workers: Iterable[WorkerPending]) -> dict[str, list[Pending]]:
    """Returns the pending hits of several workers by stored key."""
    pending_of: dict[str, list[Pending]] = {}
    for worker in workers:
        for stored, pending in worker.pending.items():
            pending_of.setdefault(stored, []).extend(pending)
    return pending_of


async def in_steps(values: Iterable[T], size: int = STEP) -> AsyncIterator[list[T]]:
    """Yields the values in lists, after each of which the loop has its turn."""
    rest = iter(values)
    while some := list(islice(rest, size)):
        yield some
        await asyncio.sleep(0)


async def summed_in_steps(tables: Iterable[dict[str, int]]) -> dict[str, int]:
    """Returns the sum of each name's counts, in the first table that has any."""
    sums: dict[str, int] = {}
    for table in tables:
        if not sums:
            sums = table
            await asyncio.sleep(0)
            continue
        async for some in in_steps(table.items()):
            for name, count in some:
                sums[name] = sums.get(name, 0) + count
    return sums
