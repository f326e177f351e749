"""An owner's own rows in the table of rows: read through a cache, and written with pinned stamps.

What an owner read or wrote last is what is stored, as only it writes its rows. So a row is in the cache while that is
known, and out of it from the moment that a write of it is sent until the write is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

from clickcurve.keys import breakdown_of, counts_key
from clickcurve.row_kinds.table import apart
from storage.cassandra.cql import Cql
from storage.cassandra.partitions import (
    both_of_rows,
    link_of_rows,
    partition_of,
    stored_key_of,
    writes_of,
)
from storage.cassandra.row_cache import CachedRow, RowCache
from storage.cassandra.statements import LOAD_OWN, LOAD_OWN_BY
from storage.cassandra.tables.day_index import DayIndex
from storage.cassandra.tables.erasures import Erasures
from storage.contract import Held, OwnRow, SavedRow, StoredLink


class OwnRows:
    def __init__(self, cql: Cql, days: DayIndex, erasures: Erasures, cache_bytes: int) -> None:
        self._cql = cql
        self._days = days
        self._erasures = erasures
        self._cache = RowCache(cache_bytes)
        self._look_lock = Lock()
        self._looked: set[int] = set()  # owners whose flush under way has looked for erasures
        self._erased_at: dict[int, dict[str, int]] = {}  # of the keys that a flush under way has read

    def flush_begins(self, owner: int) -> None:
        with self._look_lock:
            self._looked.discard(owner)
            self._erased_at.pop(owner, None)

    # --- reading --------------------------------------------------------------------------------------------------
    def load(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        self._look_for_erasures(owner)
        rows: dict[str, OwnRow] = {}
        erased_at: dict[str, int] = {}
        missing: list[str] = []
        for key in keys:
            kept = self._cache.get(owner, key)
            if kept is None:
                missing.append(key)
            else:
                rows[key] = OwnRow(kept.data, kept.erased_at)
        for key, link in self._read(owner, missing):
            erased_at[key] = link.erased_at
            if link.rows:
                self._cache.put(owner, key, CachedRow(link.rows[0].data, link.erased_at))
            if link.rows or link.erased_at:
                rows[key] = _own_row(link)
        self._erased_at.setdefault(owner, {}).update(erased_at)
        return dict(_knowing_erasures(rows, erased_at)) if any(erased_at.values()) else rows

    def read(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        """Returns rows as they are stored now, past the cache."""
        links = dict(self._read(owner, keys))
        rows = {key: _own_row(link) for key, link in links.items() if link.rows or link.erased_at}
        return dict(_knowing_erasures(rows, {key: link.erased_at for key, link in links.items()}))

    def _read(self, owner: int, keys: Sequence[str]) -> Iterator[tuple[str, StoredLink]]:
        """Yields these rows of an owner. A breakdown is read together with its row of counts."""
        wanted = frozenset(keys)
        counts_keys, breakdown_keys = apart(keys)
        plain = [key for key in counts_keys if breakdown_of(key) not in wanted]
        wanted_of = (LOAD_OWN, plain), (LOAD_OWN_BY, breakdown_keys)
        work = [(statement, [(partition_of(key), owner) for key in some]) for statement, some in wanted_of]
        counts, both = self._cql.run_all(work)
        yield from zip(plain, map(link_of_rows, counts), strict=True)
        for key, rows in zip(breakdown_keys, both, strict=True):
            counts_beside, breakdown = both_of_rows(rows)
            yield key, breakdown
            if counts_key(key) in wanted:
                yield counts_key(key), counts_beside

    def _look_for_erasures(self, owner: int) -> None:
        """Drops cached rows of links that were erased; once in each flush, before its first row."""
        with self._look_lock:  # so that no owner's flush goes on with rows that another one's is about to drop
            if owner in self._looked:
                return
            erased = self._erasures.look()
            if erased is None:
                self._cache.clear()
            for key in erased or ():
                self.drop(stored_key_of(key))
            self._looked.add(owner)

    # --- writing --------------------------------------------------------------------------------------------------
    def send(self, held: Held, stamp: int, rows: Mapping[str, SavedRow]) -> Callable[[], None]:
        """Sends these rows, after listing them by day; returns what waits until they are durable, or raises."""
        before = {key: self._take_from_cache(held.owner, key) for key in rows}
        self._days.note(held, stamp, rows, before)  # before the rows: each that is there is listed
        written = self._cql.send_all(list(writes_of(rows, stamp, held.owner)))

        def ended() -> None:
            written()
            for key, row in rows.items():
                kept = before[key]
                if kept is not None:
                    days = row.due_day, row.touched_day if row.touched_day is not None else kept.touched_day
                    self._cache.put(held.owner, key, CachedRow(row.whole, kept.erased_at, *days))

        return ended

    def _take_from_cache(self, owner: int, key: str) -> CachedRow | None:
        """Takes a row out of the cache. None if the erasure of its link is not known."""
        kept = self._cache.take(owner, key)
        if kept is not None:
            return kept
        erased_at = self._erased_at.get(owner, {}).pop(key, None)
        return None if erased_at is None else CachedRow(b"", erased_at)

    # --- forgetting -----------------------------------------------------------------------------------------------
    def drop(self, key: str) -> None:
        """Forgets both rows of the link with this stored key, of all owners."""
        for row in (key, breakdown_of(key)):
            self._cache.drop_link(row)
            for erased_at in list(self._erased_at.values()):
                erased_at.pop(row, None)

    def drop_owner(self, owner: int) -> None:
        self.flush_begins(owner)
        self._cache.drop_owner(owner)

    def measures(self) -> dict[str, float]:
        return {
            "row_cache_hits_total": self._cache.hits,
            "row_cache_misses_total": self._cache.misses,
            "row_cache_bytes": self._cache.bytes,
        }


def _own_row(link: StoredLink) -> OwnRow:
    return OwnRow(link.rows[0].data if link.rows else None, link.erased_at)


def _knowing_erasures(rows: Mapping[str, OwnRow], erased_at: Mapping[str, int]) -> Iterator[tuple[str, OwnRow]]:
    """Yields these rows, with the newer of the erasures that a link's counts and its breakdown know of.

    One of them may have been in the cache. Else a link that is erased in the middle of a flush kept hits in its
    breakdown that its counts had lost.
    """
    for key, row in rows.items():
        other = breakdown_of(key) if counts_key(key) == key else counts_key(key)
        other_erased_at = erased_at.get(other, 0)
        yield key, row if other_erased_at <= row.erased_at else OwnRow(row.data, other_erased_at)
