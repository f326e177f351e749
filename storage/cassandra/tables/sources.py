"""The sources table: how far each import has come, and its keeper. Only conditional updates change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Cql
from storage.cassandra.partitions import partition_key, stored_key_of
from storage.cassandra.statements import CREATE_SOURCE, MOVE_SOURCE, SOURCE, SOURCES
from storage.contract import Held, Source

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

        def wanted(stored: Source | None) -> Source | None:
            start = stored or Source(held.owner, 0, "")
            if start.owner != held.owner or start.position > to.position:
                return None
            return Source(held.owner, to.position, to.tail, held.epoch)

        self._change(source, wanted)

    def claim(self, source: str, held: Held, before: Source | None) -> bool:
        def wanted(stored: Source | None) -> Source | None:
            if stored != before:
                return None
            return replace(before or Source(held.owner, 0, ""), owner=held.owner, epoch=held.epoch)

        stored = self._change(source, wanted)
        return stored is not None and (stored.owner, stored.epoch) == (held.owner, held.epoch)

    def _change(self, source: str, wanted: Callable[[Source | None], Source | None]) -> Source | None:
        """Replaces what is stored by what `wanted` makes of it (None: no change); returns what is stored then."""
        key = partition_key(source)
        for attempt in range(ATTEMPTS):
            stored = self.get(source)
            new = wanted(stored)
            if new is None or new == stored:
                return stored
            values = (new.owner, new.position, new.tail, new.epoch)
            if stored is None:
                applied = self._cql.apply_if(CREATE_SOURCE, (key, *values), attempt)
            else:
                expected = (stored.owner, stored.position, stored.tail, stored.epoch)
                applied = self._cql.apply_if(MOVE_SOURCE, (*values, key, *expected), attempt)
            if applied:
                return new
        raise StoreUnavailable(f"import source {source!r} could not be changed in {ATTEMPTS} attempts")
