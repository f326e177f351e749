"""What a link without corrections pays, in calls of the store: nothing at a question, one look at a note at a flush."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, fold_day
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from query.breakdowns.reader import BreakdownReader
from query.reader import Reader
from server.corrections.erasing import Erasing
from server.corrections.rules import DisavowRule
from server.corrections.runner import Corrections
from server.tokens.audit import AuditLog
from storage.erased_words import ErasureBook, KnownWords
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.http_kit import summed

NOW = 1_770_000_000
READER = ProfileReader(("ref",), country_reader("off"), ReferrerReader())


class CountedStore:
    """Remembers the names of its calls, in order; the ladder is no request."""

    def __init__(self) -> None:
        self._store = MemoryStore(CLICKS)
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if not callable(real) or name == "ladder":
            return real

        def call(*args: Any, **named: Any) -> Any:
            self.asked.append(name)
            return real(*args, **named)

        return call

    async def by(self, asks: Callable[[], Awaitable[object]]) -> list[str]:
        """The names of the calls that something makes."""
        self.asked.clear()
        await asks()
        return list(self.asked)


class Server:
    """What a worker has for corrections, over a counted store."""

    def __init__(self, folder: Path) -> None:
        self.store: Any = CountedStore()
        self.book = ErasureBook(self.store)
        known = partial(KnownWords(self.book).read, lambda: float(NOW))
        self.owner = OwnerProcess(
            folder, self.store, lambda: float(NOW), alone=False, disk=TrackedDisk(), erased_words=known
        ).owner
        self.corrections = Corrections.of(self.owner, self.store, BREAKDOWN, lambda: NOW)
        self.erasing = Erasing(
            self.owner,
            self.store,
            BREAKDOWN,
            AuditLog(self.store, lambda: float(NOW)),
            lambda: float(NOW),
            True,
            list,
            self.corrections.refresh,
        )

    async def hit(self, link: str, ref: str) -> None:
        body = json.dumps({"key": link, "ref": ref}).encode()
        moment = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
        batch = summed(body, Media.json, RequestSums(moment, reader=READER)).batch()
        assert batch is not None
        await self.owner.accept(batch)

    async def follow(self) -> None:
        for _ in range(3):
            await self.corrections.refresh()
            await self.erasing.refresh()
            await self.owner.flush()


@pytest.mark.parametrize("others", [False, True])
def test_a_link_without_corrections_pays_one_look_at_a_note(tmp_path: Path, others: bool) -> None:
    """others: another link has a rule, and a value was erased."""

    async def story() -> None:
        server = Server(tmp_path)
        for link in ("quiet", "other"):
            await server.hit(link, "spam.example")
        await server.owner.flush()
        if others:
            server.corrections.book.add(DisavowRule("other", "ref", "spam.example", 0, END_OF_TIME, NOW))
            server.book.add(server.book.meant("ref", "ann.example", None, NOW))
        await server.follow()
        store, is_corrected = server.store, server.corrections.is_corrected
        assert is_corrected("other") == others
        assert [each.done_at for each in server.book.all()] == [NOW] * others

        pending = server.owner.pending, server.owner.pending_breakdowns
        counts = Reader(store.rows, pending[0], server.owner.revisit, store.ladder, is_corrected=is_corrected)
        parts = BreakdownReader(store.rows, *pending, store.ladder, BREAKDOWN, is_corrected=is_corrected)
        assert await store.by(lambda: counts.row("quiet", NOW)) == ["rows"]
        assert await store.by(lambda: parts.read("quiet", NOW, ("ref",))) == ["rows", "rows"]
        if others:
            assert len(await store.by(lambda: counts.row("other", NOW))) > 1, "the search sees what a link pays"

        assert await store.by(server.corrections.refresh) == ["noted"]
        assert await store.by(server.erasing.refresh) == ["noted"]
        await server.hit("quiet", "fine.example")
        asked = await store.by(server.owner.flush)
        assert asked.count("noted") == 1 and "notes" not in asked
        await server.owner.release()

    asyncio.run(story())
