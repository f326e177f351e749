"""The thread that a journal writes in: its calls in turn, each answered, and none after its end."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from clickcurve.buckets.errors import JournalBroken
from ingest.journal.commit_thread import CommitThread


def wait_for(event: threading.Event) -> None:
    event.wait()


async def test_calls_are_made_in_turn_in_one_thread_that_is_not_the_loops() -> None:
    thread, made = CommitThread("t"), list[tuple[int, threading.Thread]]()

    def make(number: int) -> None:
        made.append((number, threading.current_thread()))

    await asyncio.gather(*(thread.call(partial(make, number)) for number in range(100)))
    assert [number for number, _ in made] == [*range(100)]
    (other,) = {where for _, where in made}
    assert other is not threading.current_thread()
    thread.end()
    other.join()


async def test_a_call_that_raises_says_so_and_the_next_is_made() -> None:
    def fails() -> None:
        raise OSError(5, "no disk")

    thread = CommitThread("t")
    failed, made = thread.call(fails), thread.call(lambda: None)
    with pytest.raises(OSError, match="no disk"):
        await failed
    await made
    thread.end()


async def test_what_was_asked_for_before_the_end_is_made_and_nothing_after_it() -> None:
    thread, go, made = CommitThread("t"), threading.Event(), list[int]()
    held, last = thread.call(partial(wait_for, go)), thread.call(lambda: made.append(1))
    thread.end()
    with pytest.raises(JournalBroken, match="closed"):
        thread.call(lambda: made.append(2))
    go.set()
    await asyncio.gather(held, last)
    assert made == [1]


def test_a_loop_that_is_closed_meanwhile_keeps_nobody_from_being_answered() -> None:
    thread, go = CommitThread("t"), threading.Event()

    async def leave() -> None:
        thread.call(partial(wait_for, go))

    async def ask() -> None:
        go.set()
        await thread.call(lambda: None)

    asyncio.run(leave())
    asyncio.run(ask())
    thread.end()
