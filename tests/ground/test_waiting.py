"""Waiting for a lock or a thread: it has an end, and what fails gives back what it held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from clickcurve import waiting
from clickcurve.waiting import TookTooLong, computed, in_thread, locked


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what never comes; what comes has its time."""
    monkeypatch.setattr(waiting, "WAIT_S", 0.05)


async def test_a_lock_that_is_not_given_back_refuses_those_that_wait(short: None) -> None:
    lock = asyncio.Lock()
    async with locked(lock, "working"):
        with pytest.raises(TookTooLong, match=r"other requests are working for more than 0.05 s") as refused:
            async with locked(lock, "working"):
                raise AssertionError
    assert (refused.value.status, lock.locked()) == (503, False)


async def test_a_thread_that_does_not_end_refuses_its_question_and_gives_the_lock_back(short: None) -> None:
    ended = threading.Event()
    lock = asyncio.Lock()
    with pytest.raises(TookTooLong, match="counting takes more than"):
        async with locked(lock, "counting"):
            await in_thread("counting", ended.wait)
    assert not lock.locked()
    ended.set()


async def test_what_needs_a_processor_alone_is_done_while_threads_that_ask_a_store_hang(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    for _ in range(4):
        with pytest.raises(TookTooLong):
            await in_thread("asking", ended.wait)
    monkeypatch.undo()
    assert await computed("adding", int, "11", base=2) == 3
    ended.set()


@pytest.mark.parametrize("in_thread", [in_thread, computed])
async def test_what_a_thread_raises_comes_out(in_thread: Callable[..., Awaitable[object]]) -> None:
    def raises(error: Exception) -> None:
        raise error

    for error, seen in ((KeyError(), KeyError), (TimeoutError(), TimeoutError), (StopIteration(), RuntimeError)):
        with pytest.raises(seen):
            await in_thread("raising", raises, error)
    assert await in_thread("adding", int, "11", base=2) == 3
