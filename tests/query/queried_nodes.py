"""Nodes to ask: a memory store, owners that flush into it, a hand-moved clock, and a plain list of every hit.

The owners here are the least that satisfies a reader: a buffer, flushes with numbers, and `pending` in between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from clickcurve.answers.written import as_json
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import CLICKS, Ladder, fold_day
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import ALL, ALL_LINKS, Subject, group_key, group_subject, link_key, link_of, link_subject
from clickcurve.pending import Pending
from query.lists.listed_rows import GROUP, LINK, KeyKind
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from storage.contract import OPEN, Held, OwnerRecord, SavedRow, Store
from storage.memory_store import MemoryStore

T = TypeVar("T")


async def unnoted(what: str, subject: str) -> None:
    """Stands for an audit log that nobody reads."""


async def unmarked(of: Subject, text: str) -> None:
    """Stands for notes that nobody reads."""


@dataclass(frozen=True)
class Hit:
    key: str
    t: int
    count: int = 1
    bot: bool = False
    groups: tuple[str, ...] = ()


@dataclass
class Buffered:
    people: dict[str, dict[int, int]] = field(default_factory=dict)
    bots: dict[str, dict[int, int]] = field(default_factory=dict)
    openings: dict[str, int] = field(default_factory=dict)
    flush: int | None = None  # the number of the flush that took it

    def keys(self) -> set[str]:
        return {*self.people, *self.bots, *self.openings}

    def has(self, key: str) -> bool:
        return key in self.people or key in self.bots or key in self.openings

    def delta(self, key: str) -> Delta:
        return Delta(self.people.get(key, {}), self.bots.get(key, {}), self.openings.get(key, 0))

    def add(self, key: str, minute: int, count: int, bot: bool) -> None:
        minutes = (self.bots if bot else self.people).setdefault(key, {})
        minutes[minute] = minutes.get(minute, 0) + count


class FakeOwner:
    """Counts into a buffer under stored keys; `begin` and `complete` are the two ends of a flush."""

    def __init__(self, store: Store, number: int, ladder: Ladder) -> None:
        self.number = number
        self.flushes = 0
        self.revisits: set[str] = set()
        self._store = store
        self._ladder = ladder
        self._held = Held(number, 1, f"holder {number}")
        self._buffer = Buffered()
        self._taken: Buffered | None = None
        store.create_owner(OwnerRecord(number, 1, self._held.holder, f"journal {number}", "", OPEN, 0, 0))

    def hit(self, hit: Hit) -> None:
        minute = hit.t - hit.t % 60
        for key in (link_key(hit.key), ALL_LINKS, *map(group_key, hit.groups)):
            self._buffer.add(key, minute, hit.count, hit.bot)

    def other(self, stored: str, t: int, count: int) -> None:
        """Of a row that is no link's."""
        self._buffer.add(stored, t - t % 60, count, bot=False)

    def opening(self, key: str, count: int) -> None:
        for stored in (link_key(key), ALL_LINKS):
            self._buffer.openings[stored] = self._buffer.openings.get(stored, 0) + count

    def pending(self, key: str) -> list[Pending]:
        buffers = [self._buffer] if self._taken is None else [self._taken, self._buffer]
        return [Pending(lambda: self.number, partial(getattr, b, "flush"), b.delta(key)) for b in buffers if b.has(key)]

    def buffered(self, kind: KeyKind) -> list[dict[str, int]]:
        keys = self._buffer.keys() | (self._taken.keys() if self._taken else set())
        names = {name: self.pending(key) for key in keys if (name := kind.name_of(key)) is not None}
        return [{name: _most(each.delta)} for name, several in names.items() for each in several]

    def revisit(self, keys: Iterable[str]) -> None:
        self.revisits.update(keys)

    def erase(self, key: str, at_us: int) -> None:
        for series in (self._buffer.people, self._buffer.bots):
            series.pop(link_key(key), None)
        self._buffer.openings.pop(link_key(key), None)
        self._store.erase([link_key(key)], at_us)

    def begin(self, now: int, keys: Iterable[str] = ()) -> None:
        """Take the buffer and write its rows; the hits stay pending under the flush's number."""
        number = self.flushes + 1
        assert self._store.begin(self._held, self.flushes, number, now)
        self._taken, self._buffer = self._buffer, Buffered()
        self._taken.flush = number
        rows = {}
        for key in {*self._taken.keys(), *self.revisits, *keys}:
            own = self._store.load_own(self.number, [key]).get(key)
            row = decode(own.data) if own and own.data else EMPTY
            erased_at = own.erased_at if own else 0
            row = apply(row, self._taken.delta(key), number, fold_day(now), erased_at, self._ladder)
            bounds = None if link_of(key) is None else upper_bounds_of(row, self._ladder)
            rows[key] = SavedRow(encode(row), next_due(row, self._ladder), upper_bounds=bounds)
        self.revisits.clear()
        self._store.save_own(self._held, number, rows, {})

    @property
    def is_flushing(self) -> bool:
        return self._taken is not None

    def complete(self) -> None:
        self._taken = None
        self.flushes += 1

    def flush(self, now: int, keys: Iterable[str] = ()) -> None:
        self.begin(now, keys)
        self.complete()


def _most(delta: Delta) -> int:
    return sum(delta.people.values()) + sum(delta.bots.values()) + delta.opening


class QueriedNodes:
    """Ask owner 1's node; hits may go to any owner."""

    def __init__(self, owners: int = 1, now: int = 0, ladder: Ladder = CLICKS, store: Store | None = None) -> None:
        self.now = now
        self._stamp_us = 0
        self.ladder = ladder
        self.store = store or MemoryStore(ladder)
        self.owners = [FakeOwner(self.store, number, ladder) for number in range(1, owners + 1)]
        self.hits: list[Hit] = []
        self.everything: list[Hit] = []  # erased ones too
        mine = self.owners[0]
        self.reader = Reader(self.store.rows, mine.pending, mine.revisit, self.store.ladder)
        self.links, self.groups = (
            Listing(kind, self.store, mine.pending, partial(mine.buffered, kind), lambda: mine.flushes)
            for kind in (LINK, GROUP)
        )
        self.queries = Queries(self.reader, self.links, self.groups, lambda: self.now + 0.5)

    def hit(
        self, key: str, t: int, count: int = 1, bot: bool = False, owner: int = 1, groups: tuple[str, ...] = ()
    ) -> None:
        hit = Hit(key, t, count, bot, groups)
        self.hits.append(hit)
        self.everything.append(hit)
        self.owners[owner - 1].hit(hit)

    def flush(self) -> None:
        for owner in self.owners:
            owner.flush(self.now)

    def fold(self) -> None:
        """Every owner visits every row it may have."""
        keys = {ALL_LINKS, *(link_key(hit.key) for hit in self.hits)}
        for owner in self.owners:
            owner.flush(self.now, keys)

    def erase(self, key: str) -> None:
        self._stamp_us = max(self._stamp_us + 1, self.now * 1_000_000)
        for owner in self.owners:
            owner.erase(key, self._stamp_us)
        self.hits = [hit for hit in self.hits if hit.key != key]
        self.queries.rows_erased()

    async def erase_rows(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.erase(link_of(key) or "")

    def counted(self, key: str | None, start: int, end: int, bots: Bots = Bots.exclude) -> int:
        """The truth: hits of whole minutes in [start, end)."""
        return self._sum(
            self.everything if key is None else [hit for hit in self.hits if hit.key == key], start, end, bots
        )

    def grouped(self, name: str, start: int, end: int, bots: Bots = Bots.exclude) -> int:
        """The truth of a group, which no erasure reduces."""
        return self._sum([hit for hit in self.everything if name in hit.groups], start, end, bots)

    @staticmethod
    def _sum(hits: Iterable[Hit], start: int, end: int, bots: Bots) -> int:
        wanted = {Bots.exclude: (False,), Bots.only: (True,), Bots.include: (False, True)}[bots]
        return sum(hit.count for hit in hits if start <= hit.t - hit.t % 60 < end and hit.bot in wanted)

    # --- asking, as a caller does --------------------------------------------------------------------------------
    def total(self, key: str | None, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.total(subject(key), query.encode()))

    def curve(self, key: str | None, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.curve(subject(key), query.encode()))

    def summary(self, key: str, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.summary(link_subject(key), query.encode()))

    def top(self, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.links(query.encode()))

    def top_groups(self, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.groups(query.encode()))

    def group(self, name: str, question: str = "", query: str = "") -> dict[str, Any]:
        ask: dict[str, Callable[[Subject, bytes], Coroutine[Any, Any, object]]] = {
            "": self.queries.summary,
            "total": self.queries.total,
            "curve": self.queries.curve,
        }
        return decoded(ask[question](group_subject(name), query.encode()))

    def sum(self, keys: list[str], query: str = "") -> dict[str, Any]:
        return decoded(self.queries.sum(keys, query.encode()))


def subject(key: str | None) -> Subject:
    """A link, or all links (None)."""
    return ALL if key is None else link_subject(key)


class Limits:
    """A limiter's rules, as routes know them. The digest of a caller is its text, backwards."""

    def __init__(self, *rules: str) -> None:
        self.rules = rules

    def events(self) -> Collection[str]:
        return self.rules

    def caller(self, text: str) -> str:
        if "=" not in text:
            raise ParameterInvalid("no caller", field="caller", value=text)
        return text[::-1]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def decoded(answer: Coroutine[Any, Any, object]) -> dict[str, Any]:
    """What a program reads of an answer."""
    return dict(json.loads(as_json(run(answer))))
