"""Nodes whose hits say something: a memory store, owners that flush counts and breakdowns into it, and every raw hit.

An owner here is the least that satisfies the reader of breakdowns: a list of hits, and flushes with numbers that write
both rows of a link at once.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from clickcurve.answers.written import as_csv
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder, BreakdownDelta
from clickcurve.buckets.breakdowns.parts import apply_parts, joined_parts, parts_due, separate_parts
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, group_key, link_key, link_of
from clickcurve.pending import Pending, PendingBreakdown
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from storage.contract import OPEN, Held, OwnerRecord, SavedRow
from storage.memory_store import MemoryStore
from tests.query.queried_nodes import decoded, subject


@dataclass(frozen=True)
class AttributeHit:
    """said: a value for each dimension that was on when it was accepted, empty if it said nothing."""

    key: str
    t: int
    count: int = 1
    bot: bool = False
    said: tuple[tuple[str, str], ...] = ()
    visitor: int | None = None
    groups: tuple[str, ...] = ()

    @property
    def minute(self) -> int:
        return self.t - self.t % 60


@dataclass
class Hits:
    """What an owner accepted for one flush."""

    hits: list[AttributeHit] = field(default_factory=list)
    openings: dict[str, int] = field(default_factory=dict)  # key -> a count without dates
    flush: int | None = None

    def of(self, stored: str) -> list[AttributeHit]:
        return [hit for hit in self.hits if stored in (link_key(hit.key), ALL_LINKS, *map(group_key, hit.groups))]

    def counts(self, stored: str) -> Delta:
        opening = sum(self.openings.values()) if stored == ALL_LINKS else self.openings.get(link_of(stored) or "", 0)
        return counts_of(self.of(stored))._replace(opening=opening)

    def rows(self) -> set[str]:
        return {ALL_LINKS, *map(link_key, self.openings)}.union(
            *((link_key(hit.key), *map(group_key, hit.groups)) for hit in self.hits)
        )


def counts_of(hits: Iterable[AttributeHit]) -> Delta:
    series: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for hit in hits:
        minutes = series[hit.bot]
        minutes[hit.minute] = minutes.get(hit.minute, 0) + hit.count
    return Delta(*series)


def words_of(hits: Iterable[AttributeHit]) -> BreakdownDelta:
    values: dict[str, dict[int, dict[str, int]]] = {}
    visitors: dict[int, set[int]] = {}
    known: dict[int, int] = {}
    for hit in hits:
        hour, day = hit.t // HOUR_S * HOUR_S, hit.t // DAY_S * DAY_S
        for name, value in hit.said:
            of_hour = values.setdefault(name, {}).setdefault(hour, {})
            of_hour[value] = of_hour.get(value, 0) + hit.count
        if hit.bot:
            continue
        if hit.said and hit.visitor is not None:
            visitors.setdefault(day, set()).add(hit.visitor)
            known[day] = known.get(day, 0) + hit.count
    return BreakdownDelta(values, visitors, known)


class AttributeOwner:
    """Accepts hits; `begin` and `complete` are the two ends of a flush."""

    def __init__(self, store: MemoryStore, number: int, ladder: Ladder, bounded: BoundedLadder) -> None:
        self.number = number
        self.flushes = 0
        self._store, self._ladder, self._bounded = store, ladder, bounded
        self._held = Held(number, 1, f"holder {number}")
        self._waiting = Hits()
        self._taken: Hits | None = None
        store.create_owner(OwnerRecord(number, 1, self._held.holder, f"journal {number}", "", OPEN, 0, 0))

    def accept(self, hit: AttributeHit) -> None:
        self._waiting.hits.append(hit)

    def opening(self, key: str, count: int) -> None:
        self._waiting.openings[key] = count

    def _buffers(self) -> list[Hits]:
        return [self._waiting] if self._taken is None else [self._taken, self._waiting]

    def pending(self, stored: str) -> list[Pending]:
        return [
            Pending(lambda: self.number, partial(getattr, each, "flush"), each.counts(stored))
            for each in self._buffers()
        ]

    def pending_breakdowns(self, stored: str) -> list[PendingBreakdown]:
        counts_key = stored.removeprefix(breakdown_key(""))
        return [
            PendingBreakdown(
                lambda: self.number, partial(getattr, each, "flush"), partial(words_of, list(each.of(counts_key)))
            )
            for each in self._buffers()
        ]

    def erase(self, key: str, at_us: int) -> None:
        for each in self._buffers():  # those of all links stay
            each.hits = [replace(hit, key="\x7ferased") if hit.key == key else hit for hit in each.hits]
        self._store.erase([link_key(key)], at_us)
        self._store.erase([breakdown_key(key)], at_us)

    def begin(self, now: int, fold: Iterable[str] = ()) -> None:
        """Take what waits and write its rows; they stay pending under the flush's number."""
        number = self.flushes + 1
        assert self._store.begin(self._held, self.flushes, number, now)
        self._taken, self._waiting = self._waiting, Hits()
        self._taken.flush = number
        rows: dict[str, SavedRow] = {}
        day = fold_day(now)
        folded = set(map(link_key, fold))
        for counts_key in folded | self._taken.rows():
            hits = self._taken.of(counts_key)
            words_key = breakdown_of(counts_key)
            own = self._store.load_own(self.number, [counts_key, words_key])
            counts, words = own.get(counts_key), own.get(words_key)
            row = decode(counts.data) if counts and counts.data else EMPTY
            row = apply(
                row, self._taken.counts(counts_key), number, day, counts.erased_at if counts else 0, self._ladder
            )
            bounds = upper_bounds_of(row, self._ladder) if link_of(counts_key) is not None else None
            rows[counts_key] = SavedRow(encode(row), next_due(row, self._ladder), upper_bounds=bounds)
            delta = words_of(hits)
            before = separate_parts(words.data) if words and words.data else None
            if delta.values or (counts_key in folded and before is not None):
                parts = apply_parts(before, delta, number, day, words.erased_at if words else 0, self._bounded)
                rows[words_key] = SavedRow(joined_parts(parts), parts_due(parts, self._bounded))
        self._store.save_own(self._held, number, rows, {})

    def complete(self) -> None:
        self._taken = None
        self.flushes += 1

    def flush(self, now: int, fold: Iterable[str] = ()) -> None:
        self.begin(now, fold)
        self.complete()


class AttributeNodes:
    """Ask owner 1's node; hits may go to any owner. `since` says when each dimension was switched on."""

    def __init__(
        self,
        now: int,
        since: dict[str, int],
        owners: int = 1,
        bounded: BoundedLadder = BREAKDOWN,
        ladder: Ladder = CLICKS,
    ) -> None:
        self.now = now
        self._stamp_us = 0
        self.since = since
        self.bounded = bounded
        self.store = MemoryStore(ladder)
        self.owners = [AttributeOwner(self.store, number, ladder, bounded) for number in range(1, owners + 1)]
        self.hits: list[AttributeHit] = []
        self.everything: list[AttributeHit] = []  # erased ones too
        mine = self.owners[0]
        self.reader = BreakdownReader(
            self.store.rows, mine.pending, mine.pending_breakdowns, self.store.ladder, bounded
        )
        self.breakdowns = BreakdownQueries(self.reader, tuple(since), since.__getitem__, lambda: self.now + 0.5)
        links, groups = (Listing(kind, self.store, mine.pending, tuple, lambda: mine.flushes) for kind in (LINK, GROUP))
        reader = Reader(self.store.rows, mine.pending, lambda keys: None, self.store.ladder)
        self.queries = Queries(reader, links, groups, lambda: self.now + 0.5)

    def accept(self, hit: AttributeHit, owner: int = 1) -> None:
        if hit.t < self.now - self.now % DAY_S - DAY_S:
            hit = replace(hit, visitor=None)  # the salt of its day is gone
        self.hits.append(hit)
        self.everything.append(hit)
        self.owners[owner - 1].accept(hit)

    def erase(self, key: str) -> None:
        self._stamp_us = max(self._stamp_us + 1, self.now * 1_000_000)  # two of one second are two
        for owner in self.owners:
            owner.erase(key, self._stamp_us)
        self.hits = [hit for hit in self.hits if hit.key != key]

    # --- the truth -----------------------------------------------------------------------------------------------
    def of(self, key: str | None, dimension: str, start: int | None, end: int | None) -> list[AttributeHit]:
        """The hits of whole minutes in [start, end) that a dimension divides; None: those of the whole life."""
        hits = self.everything if key is None else [hit for hit in self.hits if hit.key == key]
        low, high = (0, 2**40) if start is None or end is None else (start, end)
        return [hit for hit in hits if low <= hit.minute < high and hit.bot == (dimension == "bot")]

    def truth(self, hits: Sequence[AttributeHit], dimension: str) -> tuple[Counter[str], int]:
        """The count of each value, and how many hits are of before the dimension was on and recorded nothing."""
        values: Counter[str] = Counter()
        unrecorded = 0
        for hit in hits:
            answer = dict(hit.said).get(dimension)
            if answer is None and hit.minute < self.since[dimension]:
                unrecorded += hit.count
            else:
                values[answer or ""] += hit.count
        return values, unrecorded

    # --- asking, as a caller does --------------------------------------------------------------------------------
    def by(self, key: str | None, dimension: str, query: str = "") -> dict[str, Any]:
        return decoded(self.breakdowns.by(subject(key), dimension, query.encode()))

    def by_csv(self, key: str | None, dimension: str, query: str = "") -> list[list[str]]:
        answer = asyncio.run(self.breakdowns.by(subject(key), dimension, query.encode()))
        return list(csv.reader(io.StringIO(as_csv(answer).decode(), newline="")))

    def curve(self, key: str | None, dimension: str, query: str) -> dict[str, Any]:
        return decoded(self.breakdowns.curve(subject(key), dimension, query.encode()))

    def visitors(self, key: str, query: str = "") -> dict[str, Any]:
        return decoded(self.breakdowns.visitors(subject(key), query.encode()))

    def total(self, key: str | None, query: str = "") -> dict[str, Any]:
        return decoded(self.queries.total(subject(key), query.encode()))
