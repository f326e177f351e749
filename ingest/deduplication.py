"""Deduplication: a hit or a batch that carries an id counts once within the window.

The claim in the store, at the flush, decides which repeat counts, for every owner the same way. What happens here, when
the hit comes, makes the receipt right and the answer fresh: a repeat waits until the first is settled, and an id that
is buffered or already claimed is a duplicate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clickcurve.buckets.errors import JournalBehind, StoreUnavailable, shown
from ingest.hit import sent_id
from storage.contract import Store

IDS_PER_TURN = 2_000  # that are looked up among the buffered ones, some 2 ms


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer for a batch's ids: `duplicates` were counted before.

    `settled`: no other owner can have claimed the others, so they may be in answers at once.
    """

    duplicates: frozenset[str]
    settled: bool


class Deduplication:
    """Judges the ids of batches when they come.

    `buffered` returns the accept stamp of a buffered id. `alone`: no other owner writes this store. Stamps and
    window_us are in microseconds.
    """

    def __init__(
        self, store: Store, buffered: Callable[[str], int | None], alone: bool, window_us: int, stamp: Callable[[], int]
    ) -> None:
        self._store = store
        self._buffered = buffered
        self._alone = alone and not store.shared
        self._window_us = window_us
        self._stamp = stamp
        self._under_way: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def under_way(self, ids: Sequence[str]) -> AsyncIterator[Judged]:
        """Yields the judgement of these ids; until the block ends, requests with one of them wait.

        Raises JournalBehind for an id that was accepted before the window and is not claimed, if others may claim it.
        All ids are taken at once, so no two requests can wait for each other.
        """
        while others := [self._under_way[id_] for id_ in ids if id_ in self._under_way]:
            await asyncio.wait(others)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.update(dict.fromkeys(ids, done))
        try:
            yield await self._judge(ids)
        finally:
            for id_ in ids:
                self._under_way.pop(id_, None)
            done.set_result(None)

    async def _judge(self, ids: Sequence[str]) -> Judged:
        since_us = self._stamp() - self._window_us
        duplicates: set[str] = set()
        for start in range(0, len(ids), IDS_PER_TURN):
            some = ids[start : start + IDS_PER_TURN]
            buffered = {id_: stamp for id_ in some if (stamp := self._buffered(id_)) is not None}
            duplicates |= {id_ for id_, stamp in buffered.items() if stamp >= since_us}
            if not self._alone and (waiting := buffered.keys() - duplicates):
                raise _not_claimed(min(waiting))
            if len(ids) > IDS_PER_TURN:
                await asyncio.sleep(0)
        try:
            duplicates |= await self._store.claimed([id_ for id_ in ids if id_ not in duplicates], since_us)
        except StoreUnavailable:
            return Judged(frozenset(duplicates), settled=False)  # the claim at flush decides
        return Judged(frozenset(duplicates), self._alone)


def _not_claimed(id_: str) -> JournalBehind:
    """Returns the answer to a new use of an id whose first use is not stored: one flush claims an id for one time."""
    return JournalBehind(
        f"hits with the id {shown(sent_id(id_))!r} wait for the store since two days ago; try again later"
    )
