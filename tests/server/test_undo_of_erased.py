"""A rule whose value was erased is undone as a whole: also what an owner has called that has not confirmed yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clickcurve.buckets.breakdowns.erased import ERASED
from clickcurve.buckets.ladder import END_OF_TIME
from query.reader import Reader
from server.corrections.rules import DisavowRule
from storage.memory_store import MemoryStore
from tests.server.correcting_server import NOW, CorrectingServer

WORD = "ann.example"


async def people(server: CorrectingServer) -> int:
    """The hits of the link that are not called bots, by its rows, whichever rules are noted."""
    owner, store = server.owner, server.store
    reader = Reader(store.rows, owner.pending, owner.revisit, store.ladder, is_corrected=lambda key: True)
    row = await reader.row("a", NOW)
    return row.lifetime - (row.disavowed.total if row.disavowed is not None else 0)


def test_an_undo_waits_until_every_owner_knows_the_value_by_its_new_name(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        here, there = (CorrectingServer(tmp_path / name, store, name == "there") for name in ("here", "there"))
        for server in (here, there):
            await server.owner.flush()
        rule = DisavowRule("a", "ref", WORD, 0, END_OF_TIME, NOW)
        for server, count in ((here, 5), (there, 3)):  # each has called what it counted, one after the other
            await server.hit("a", WORD, count)
            await server.owner.flush()
            server.corrections.book.add(rule)
            for _ in range(3):
                await here.corrections.refresh()
                await there.corrections.refresh()
            if server is here:
                await here.owner.close()
        here.start()
        await here.owner.flush()
        assert await people(there) == 0

        there.book.add(there.book.meant("ref", WORD, None, NOW))
        await there.erasing.refresh()
        (erasure,) = there.book.all()
        assert there.book.waiting(erasure) == [here.owner.status.owner]
        (renamed,) = there.corrections.book.all()
        assert renamed.rule.value == ERASED + erasure.id
        there.corrections.book.undo(renamed.rule.id)
        for _ in range(3):
            await there.corrections.refresh()
        await here.erasing.refresh()
        for _ in range(3):
            there.now += 60
            await there.erasing.refresh()
            await there.corrections.refresh()
        assert there.corrections.book.all() == [] and there.book.all()[0].done_at is not None
        assert await people(there) == 8
        for server in (here, there):
            await server.owner.release()

    asyncio.run(story())
