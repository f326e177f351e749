"""The offset of a source only rises, whoever asks for it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from clickcurve.buckets.errors import ImportOutOfStep
from ingest.batch import SourceStep
from ingest.imports.offsets import Offsets
from storage.contract import Held
from storage.memory_store import MemoryStore
from tests.storage.stores import record

T = TypeVar("T")
STEP = SourceStep("log", 0, 10, "a")


async def test_a_question_that_the_store_answers_late_takes_no_step_back() -> None:
    store, calls, answers = MemoryStore(), 0, asyncio.Event()
    assert store.create_owner(record(1))

    async def in_thread(call: Callable[[], T]) -> T:
        nonlocal calls
        calls += 1
        is_first, found = calls == 1, call()
        if is_first:
            await answers.wait()
        return found

    offsets = Offsets(store, lambda: Held(1, 1, "h1"), in_thread)
    asked = asyncio.create_task(offsets.where("log"))
    await asyncio.sleep(0)
    async with offsets.step(STEP):
        pass
    answers.set()
    assert (await asked).position == 10
    with pytest.raises(ImportOutOfStep, match="the offset of the source is 10"):
        async with offsets.step(STEP):
            pass
