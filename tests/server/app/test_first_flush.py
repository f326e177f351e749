"""The flush at a start, when the store takes its time."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path
from threading import Event

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from server.app import startup
from server.settings.reading import read_settings
from storage.contract import OwnerRecord
from storage.memory_store import MemoryStore


class SlowAtFirst(MemoryStore):
    """Its first question is answered when `asked` is set, with an error."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = Event()
        self.asked = 0

    def owners(self) -> list[OwnerRecord]:
        self.asked += 1
        if self.asked == 1:
            self.answer.wait()
            raise StoreUnavailable("the store gave no answer")
        return super().owners()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_first_flush_that_fails_late_is_logged_like_one_that_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = SlowAtFirst()
    monkeypatch.setattr(startup, "open_store", lambda *_, **__: store)
    monkeypatch.setattr(startup, "CLAIM_S", 0)

    async def start_and_stop() -> None:
        async with startup.running(read_settings({"data": str(tmp_path), "store": "memory://"}, {}), [0]) as started:
            store.answer.set()
            await started.owner.flush()  # behind the first one
            async with asyncio.timeout(60):
                while warnings(caplog)[-1] != "first flush failed":
                    await asyncio.sleep(0.01)

    with caplog.at_level(logging.INFO):
        asyncio.run(start_and_stop())
        gc.collect()
    assert warnings(caplog) == ["first flush unfinished", "first flush failed"]
