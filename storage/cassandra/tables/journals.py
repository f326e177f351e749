"""Journals in the cluster: the tables frames, fences and beats, and what a begin records in owners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

from storage.cassandra.cql import Cql, Statement, Values
from storage.cassandra.statements import (
    A_FRAME,
    APPEND,
    BEAT,
    BEATS,
    BEGIN_NAMING,
    DONE,
    DROP_PIECE,
    FENCE,
    FRAMES,
    JOURNAL,
    JOURNALS,
    RAISE_FENCE,
)
from storage.cassandra.tables.owners import change_record
from storage.contract import Held, OwnerRecord
from storage.journals import EMPTYING, IN_STORE, FramePlace, JournalRecord
from storage.owners import begun_naming, done_with

PART_BYTES = 64 * 1024  # of a frame in one request
PARTS_PER_PAGE = 64  # that a read of frames asks for at once, 4 MiB
_OF_OWNER = 8  # columns of JOURNAL that are those of any owner

Change: TypeAlias = Callable[[JournalRecord | None], JournalRecord | None]  # see storage.owners


class CassandraJournals:
    """Implements `Journals`. begins: does what the store does around the begin of a flush, which it is given."""

    def __init__(self, cql: Cql, begins: Callable[[Held, int, Callable[[], bool]], bool]) -> None:
        self._cql = cql
        self._begins = begins

    # --- frames ---------------------------------------------------------------------------------------------------
    async def append(self, place: FramePlace, frame: bytes) -> None:
        parts = [frame[at : at + PART_BYTES] for at in range(0, len(frame), PART_BYTES)] or [b""]
        writes = [self._cql.ask(APPEND, (*place, n, len(parts), part)) for n, part in enumerate(parts)]
        if len(writes) == 1:
            await writes[0]
            return
        for outcome in await asyncio.gather(*writes, return_exceptions=True):  # none is under way after an error
            if isinstance(outcome, BaseException):
                raise outcome

    async def fence(self, owner: int) -> int:
        rows = await self._cql.ask(FENCE, (owner,))
        return int(rows[0][0]) if rows else 0

    def raise_fence(self, owner: int, epoch: int) -> None:
        self._cql.run(RAISE_FENCE, (epoch, epoch, owner))

    def frames(self, owner: int, after: int) -> dict[int, bytes]:
        found: dict[int, dict[int, bytes]] = {}
        lengths: dict[int, int] = {}
        for piece in count():
            rows = [row for page in self._cql.pages(FRAMES, (owner, after, piece), PARTS_PER_PAGE) for row in page]
            if not rows:
                break
            for number, part, parts, data in rows:
                found.setdefault(number, {})[part] = data
                lengths[number] = parts
        whole = (number for number in sorted(found) if len(found[number]) == lengths[number])
        return {number: b"".join(found[number][part] for part in range(lengths[number])) for number in whole}

    def drop(self, owner: int, after: int) -> None:
        pieces = next(piece for piece in count() if not self._cql.run(A_FRAME, (owner, after, piece)))
        # The last one first: after a fault the next call finds those that are left. And one more, where a frame that
        # never counted may lie.
        for piece in range(pieces, -1, -1):
            self._cql.run(DROP_PIECE, (owner, after, piece))

    # --- owners' records --------------------------------------------------------------------------------------------
    def record(self, owner: int) -> JournalRecord | None:
        return next(map(_record_of, self._cql.run(JOURNAL, (owner,))), None)

    def records(self) -> list[JournalRecord]:
        # One read at quorum: each worker asks every other second, and 1,000 serial reads would take it that long.
        found = map(_record_of, self._cql.run(JOURNALS))
        in_store = (each for each in found if each.record.journal in (IN_STORE, EMPTYING))
        return sorted(in_store, key=lambda each: each.record.owner)

    def begin(self, held: Held, previous: int, flush: int, at: int, fold_day: int, frames: str) -> bool:
        values = (flush, at, previous, fold_day, frames, held.owner, held.epoch, held.holder, previous)

        def change(stored: JournalRecord | None) -> JournalRecord | None:
            return begun_naming(stored, held, previous, flush, at, fold_day, frames)

        return self._begins(held, flush, lambda: self._change(held.owner, change, BEGIN_NAMING, values))

    def done(self, held: Held, flush: int) -> bool:
        values = (flush, held.owner, held.epoch, held.holder, flush)
        return self._change(held.owner, lambda stored: done_with(stored, held, flush), DONE, values)

    def _change(self, owner: int, change: Change, update: Statement, values: Values) -> bool:
        return change_record(self._cql, update, values, owner, lambda: self.record(owner), change)

    # --- beats ------------------------------------------------------------------------------------------------------
    def beat(self, holder: str, count: int) -> None:
        self._cql.run(BEAT, (holder, count, count))

    def beats(self) -> dict[str, int]:
        return dict(self._cql.run(BEATS))


def _record_of(row: tuple[Any, ...]) -> JournalRecord:
    previous, fold_day, frames, done = row[_OF_OWNER:]
    return JournalRecord(OwnerRecord(*row[:_OF_OWNER]), previous or 0, fold_day or 0, frames or "", done or 0)
