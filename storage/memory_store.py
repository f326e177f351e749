"""The store without a disk: the reference for what the contract means, and a server that forgets.

Everything is a dict under one lock. It is held for microseconds, but longer by walks, which go through all keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from heapq import nsmallest
from threading import RLock
from uuid import uuid4

from clickcurve.buckets.candidates import NOBODY, CutoffsByPrefix, open_cutoffs
from clickcurve.buckets.corrected_bounds import corrected_bounds_in
from clickcurve.buckets.ladder import CLICKS, Ladder
from clickcurve.buckets.prefixes import ALL_KEYS, is_of_links
from clickcurve.buckets.upper_bounds import UpperBounds, most_since
from clickcurve.keys import contains, corrected_key, counts_key, link_of, moved_key
from clickcurve.row_kinds.table import apart, kind_of
from storage.contract import (
    FoundLinks,
    Held,
    OwnerRecord,
    OwnRow,
    Save,
    SavedRow,
    Source,
    Store,
    StoredLink,
    StoredRow,
    first_after,
)
from storage.memory_journals import MemoryJournals
from storage.owners import begun, check_fence, claimed, closed, source_claimed, source_moved
from storage.rankings import JOINED, Candidates, Ranking
from storage.view import View


class MemoryStore(Store):
    shared = False
    replay_us: int | None = None
    links_per_load = 500

    def __init__(self, ladder: Ladder = CLICKS) -> None:
        self._ladder = ladder
        self._lock = RLock()
        self._uuid = str(uuid4())
        self._owners: dict[int, OwnerRecord] = {}
        self._rows: dict[str, dict[int, SavedRow]] = {}
        self._corrected: dict[str, UpperBounds] = {}  # of links some hits of which are called bots
        self._erased: dict[str, int] = {}
        self._ids: dict[str, dict[tuple[int, int], int]] = {}  # id -> (owner, flush) -> accepted_us
        self._sources: dict[str, Source] = {}
        self._notes: dict[str, str] = {}
        self._journals = MemoryJournals(self._lock, self._owners)

    def uuid(self) -> str:
        return self._uuid

    def ladder(self) -> Ladder:
        return self._ladder

    # --- owners ---------------------------------------------------------------------------------------------------
    def owners(self) -> list[OwnerRecord]:
        with self._lock:
            return [self._owners[owner] for owner in sorted(self._owners)]

    def owner(self, owner: int) -> OwnerRecord | None:
        return self._owners.get(owner)

    def create_owner(self, record: OwnerRecord) -> bool:
        with self._lock:
            return self._owners.setdefault(record.owner, record) == record

    def claim(self, before: OwnerRecord, after: OwnerRecord, *, rewrites: bool = False) -> bool:
        return self._change(before.owner, lambda stored: claimed(stored, before, after, rewrites))

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        return self._change(held.owner, lambda stored: begun(stored, held, previous, flush, at))

    def close_owner(self, held: Held) -> bool:
        return self._change(held.owner, lambda stored: closed(stored, held))

    def journals(self) -> MemoryJournals:
        return self._journals

    def _change(self, owner: int, change: Callable[[OwnerRecord | None], OwnerRecord | None]) -> bool:
        with self._lock:
            after = change(self._owners.get(owner))
            if after is not None:
                self._owners[owner] = after
            return after is not None

    # --- a flush --------------------------------------------------------------------------------------------------
    def claim_ids(self, held: Held, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        mine = (held.owner, flush)
        with self._lock:
            check_fence(held, flush, self._owners.get(held.owner))
            taken = set()
            for id_, accepted_us in ids.items():
                claims = self._ids.setdefault(id_, {})
                if mine not in claims and any(abs(accepted_us - other) <= window_us for other in claims.values()):
                    taken.add(id_)
                else:
                    claims.setdefault(mine, accepted_us)
            return taken

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        with self._lock:
            own = {}
            for key in keys:
                row, erased_at = self._rows.get(key, {}).get(owner), self._erased.get(counts_key(key), 0)
                if row is not None or erased_at:
                    data, bounds = (None, None) if row is None else (row.whole, row.upper_bounds)
                    own[key] = OwnRow(data, erased_at, bounds)
            return own

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        with self._lock:
            check_fence(held, flush, self._owners.get(held.owner))
            for key, row in rows.items():
                self._rows.setdefault(key, {})[held.owner] = row
            for link in {corrected_key(key) for key in apart(rows)[0]}:
                moved = moved_key(link)
                if link_of(link) is not None and moved in self._rows:
                    self._corrected[link] = corrected_bounds_in(self._link(link), self._link(moved), self._ladder)
            for name, source in sources.items():
                if (at := source_moved(self._sources.get(name), held, source)) is not None:
                    self._sources[name] = at

    def save_together(self, saves: Sequence[tuple[Held, int, Mapping[str, SavedRow]]]) -> None:
        with self._lock:
            for held, flush, _ in saves:
                check_fence(held, flush, self._owners.get(held.owner))
            for held, flush, rows in saves:
                self.save_own(held, flush, rows, {})

    def saving(self, held: Held, flush: int) -> AbstractContextManager[Save]:
        return nullcontext(lambda rows: self.save_own(held, flush, rows, {}))

    # --- erasing, ids, sources ------------------------------------------------------------------------------------
    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str] = ()) -> None:
        with self._lock:
            for key in map(counts_key, (*keys, *last)):
                self._erased[key] = max(at_us, self._erased.get(key, 0))

    def newest_erasure(self) -> int:
        return max(self._erased.values(), default=0)

    def forget_ids(self, before_us: int) -> None:
        with self._lock:
            for id_, claims in list(self._ids.items()):
                self._ids[id_] = {whose: stamp for whose, stamp in claims.items() if stamp >= before_us}
                if not self._ids[id_]:
                    del self._ids[id_]

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        with self._lock:
            return self._notes.setdefault(name, value)

    def change_note(self, name: str, before: str, after: str) -> str | None:
        with self._lock:
            if self._notes.get(name) == before:
                self._notes[name] = after
            return self._notes.get(name)

    def drop_notes(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._notes.pop(name, None)

    def notes(self, prefix: str = "") -> dict[str, str]:
        with self._lock:
            return {name: value for name, value in self._notes.items() if name.startswith(prefix)}

    def noted(self, name: str) -> str | None:
        with self._lock:
            return self._notes.get(name)

    def source(self, source: str) -> Source | None:
        return self._sources.get(source)

    def claim_source(self, source: str, held: Held, before: Source | None) -> bool:
        with self._lock:
            after = source_claimed(self._sources.get(source), held, before)
            if after is not None:
                self._sources[source] = after
            return after is not None

    # --- reading --------------------------------------------------------------------------------------------------
    async def rows(self, key: str) -> StoredLink:
        with self._lock:
            return self._link(key)

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        with self._lock:
            return {id_ for id_ in ids if any(stamp >= since_us for stamp in self._ids.get(id_, {}).values())}

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        with self._lock:
            own = {key: rows[owner].due_day for key, rows in self._rows.items() if owner in rows}
            late = [key for key, day in own.items() if day is not None and day <= fold_day]
            return nsmallest(limit, (key for key in late if key >= first_after(after)))

    def in_order(self, start: str, limit: int) -> list[tuple[str, StoredLink]]:
        with self._lock:
            keys = nsmallest(limit, (key for key in self._rows if key >= start and not kind_of(key).beside_counts))
            return [(key, self._link(key)) for key in keys]

    def containing(self, text: str, start: str, limit: int, most: int, prefix: str) -> FoundLinks:
        with self._lock:
            within = (key for key in self._rows if key.startswith(prefix) and not kind_of(key).beside_counts)
            keys = nsmallest(most, (key for key in within if key >= start))
            matching = [key for key in keys if contains(key, text)][:limit]
            last = matching[-1] if len(matching) == limit else keys[-1] if len(keys) == most else None
            return FoundLinks([(key, self._link(key)) for key in matching], last)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        with self._lock:
            return {key: self._link(key) for key in keys if key in self._rows}

    @contextmanager
    def ranked(self, ranking: Ranking) -> Iterator[MemoryRanked | None]:
        asked = ranking.since, ranking.people, ranking.bots
        if not is_of_links(ranking.prefix):
            yield None  # events are saved without bounds here
            return
        with self._lock:
            most: Counter[str] = Counter()
            links = [key for key in self._rows if link_of(key) is not None and key.startswith(ranking.prefix)]
            for (key, _), bounds in self.upper_bounds(links, ALL_KEYS).items():
                most[key] += most_since(bounds, *asked)
            yield MemoryRanked(most, self._link)

    def upper_bounds(self, keys: Sequence[str], prefix: str) -> dict[tuple[str, int], UpperBounds]:
        one_by_one = [key for key in keys if key not in self._corrected]
        rows = [(key, owner, row.upper_bounds) for key in one_by_one for owner, row in self._rows.get(key, {}).items()]
        bounds_by_row = {(key, owner): bounds for key, owner, bounds in rows if bounds is not None}
        return bounds_by_row | {(key, JOINED): self._corrected[key] for key in keys if key in self._corrected}

    def cutoffs(self, owner: int) -> CutoffsByPrefix:
        """Returns open cutoffs: every row with a count passes them."""
        return open_cutoffs()

    @contextmanager
    def view(self) -> Iterator[MemoryView]:
        seen = MemoryView()
        with self._lock:
            seen._notes = dict(self._notes)
            seen._owners, seen._erased, seen._sources = dict(self._owners), dict(self._erased), dict(self._sources)
            seen._ids = {id_: dict(claims) for id_, claims in self._ids.items()}
            seen._rows = {key: dict(rows) for key, rows in self._rows.items()}
            seen._corrected = dict(self._corrected)
        yield seen

    def _link(self, key: str) -> StoredLink:
        rows = sorted(self._rows.get(key, {}).items())
        return StoredLink(
            self._erased.get(counts_key(key), 0), tuple(StoredRow(owner, row.whole) for owner, row in rows)
        )


class MemoryRanked:
    """Links by their bounds, of a store that stays locked meanwhile; they are sorted for each question."""

    def __init__(self, bounds: Mapping[str, int], link: Callable[[str], StoredLink]) -> None:
        self._bounds = bounds
        self._link = link

    def candidates(self) -> Candidates:
        some = (each for each in self._bounds.items() if each[1])
        return Candidates(sorted(some, key=lambda each: (-each[1], each[0])), NOBODY)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return {key: self._link(key) for key in keys}


class MemoryView(MemoryStore, View):
    """A copy of the store as of one moment, with what only a view shows."""

    def walk(self, after: str | None, limit: int, since_day: int | None = None) -> list[tuple[str, StoredLink]]:
        start = first_after(after)
        return [(key, self._link(key)) for key in nsmallest(limit, (key for key in self._rows if key >= start))]

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        links = ((key, self._link(key)) for key in keys)
        return {key: link for key, link in links if link.rows or link.erased_at}

    def ranked_prefixes(self) -> list[str]:
        return [ALL_KEYS]

    def count_rows(self, breakdowns: bool) -> int:
        return sum(len(rows) for key, rows in self._rows.items() if breakdowns or not kind_of(key).beside_counts)

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        some = nsmallest(limit, (id_ for id_ in self._ids if id_ >= first_after(after)))
        return [(id_, max(self._ids[id_].values())) for id_ in some]

    def sources(self) -> dict[str, Source]:
        return dict(self._sources)
