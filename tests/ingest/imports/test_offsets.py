"""The offset of a source only rises, whoever asks for it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from clickcurve.access import ALL_ACCESS, Access, begin_access
from clickcurve.buckets.errors import ImportElsewhere, ImportOutOfStep
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
    asked = asyncio.create_task(offsets.kept("log"))
    await asyncio.sleep(0)
    async with offsets.step(STEP):
        pass
    answers.set()
    assert (await asked).position == 10
    with pytest.raises(ImportOutOfStep, match="the offset of the source is 10"):
        async with offsets.step(STEP):
            pass


async def at_once(call: Callable[[], T]) -> T:
    return call()


async def test_a_question_writes_and_keeps_nothing() -> None:
    store = MemoryStore()
    assert store.create_owner(record(1))
    offsets = Offsets(store, lambda: Held(1, 1, "h1"), at_once)
    for number in range(100):
        assert (await offsets.kept(f"source-{number}")).position == 0
        assert store.source(f"source-{number}") is None
    assert not offsets._known
    async with offsets.step(STEP):
        pass
    assert (await offsets.kept("log")).position == 10
    kept = store.source("log")
    assert kept is not None and kept.owner == 1, "a step makes the source this owner's"


@pytest.mark.parametrize("prefix", ["", "acme/"])
async def test_another_owner_is_named_to_those_who_run_the_server_alone(prefix: str) -> None:
    store = MemoryStore()
    for number in (1, 2):
        assert store.create_owner(record(number))
    async with Offsets(store, lambda: Held(1, 1, "h1"), at_once).step(STEP):
        pass
    other = Offsets(store, lambda: Held(2, 1, "h2"), at_once)
    begin_access(Access(prefix, "acme", "t1") if prefix else ALL_ACCESS)
    keeper = store.owner(1)
    assert keeper is not None and keeper.place
    for asked in (other.kept("log"), other.step(STEP).__aenter__()):
        with pytest.raises(ImportElsewhere) as refused:
            await asked
        assert (keeper.place in refused.value.detail) == (not prefix)
        assert ("owner" in refused.value.detail) == (not prefix)
