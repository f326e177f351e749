"""The sources table: how far each import has come, and its keeper. Only conditional updates change it."""

from __future__ import annotations

from collections.abc import Callable

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Cql
from storage.cassandra.partitions import partition_key, stored_key_of
from storage.cassandra.statements import CREATE_SOURCE, MOVE_SOURCE, SOURCE, SOURCES
from storage.contract import Held, Source
from storage.owners import source_claimed, source_moved

ATTEMPTS = 5


class SourcesTable:
    def __init__(self, cql: Cql) -> None:
        self._cql = cql

    def all(self) -> dict[str, Source]:
        return {stored_key_of(name): Source(*source) for name, *source in self._cql.run(SOURCES)}

    def get(self, source: str) -> Source | None:
        rows = self._cql.run(SOURCE, (partition_key(source),))
        return Source(*rows[0]) if rows else None

    def move(self, source: str, held: Held, to: Source) -> None:
        """Raises its position, unless another owner keeps the source or its position is higher already."""
        self._change(source, lambda stored: source_moved(stored, held, to))

    def claim(self, source: str, held: Held, before: Source | None) -> bool:
        return self._change(source, lambda stored: source_claimed(stored, held, before))

    def _change(self, source: str, change: Callable[[Source | None], Source | None]) -> bool:
        """Replaces what is stored by what `change` makes of it; False: it makes nothing of it (`storage.owners`)."""
        key = partition_key(source)
        for attempt in range(ATTEMPTS):
            stored = self.get(source)
            new = change(stored)
            if new is None or new == stored:
                return new is not None
            values = (new.owner, new.position, new.tail, new.epoch)
            if stored is None:
                applied = self._cql.apply_if(CREATE_SOURCE, (key, *values), attempt)
            else:
                expected = (stored.owner, stored.position, stored.tail, stored.epoch)
                applied = self._cql.apply_if(MOVE_SOURCE, (*values, key, *expected), attempt)
            if applied:
                return True
        raise StoreUnavailable(f"import source {source!r} could not be changed in {ATTEMPTS} attempts")
