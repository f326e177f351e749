"""What a link without corrections pays, in calls of the store: nothing at a question, one look at a note at a flush."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, END_OF_TIME
from query.breakdowns.reader import BreakdownReader
from query.reader import Reader
from server.corrections.rules import DisavowRule
from storage.memory_store import MemoryStore
from tests.server.correcting_server import NOW, CorrectingServer


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


@pytest.mark.parametrize("others", [False, True])
def test_a_link_without_corrections_pays_one_look_at_a_note(tmp_path: Path, others: bool) -> None:
    """others: another link has a rule, and a value was erased."""

    async def story() -> None:
        server = CorrectingServer(tmp_path, CountedStore())
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
