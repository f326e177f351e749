"""Waiting for a lock or a thread, with an end: a question that cannot go on is refused, and does not wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from clickcurve.buckets.errors import ClickcurveError

WAIT_S = 30.0
_COMPUTING = ThreadPoolExecutor(4, "computing")  # each more makes the event loop wait longer for the interpreter

P = ParamSpec("P")
T = TypeVar("T")


class TookTooLong(ClickcurveError, status=503, title="took too long"):
    """What a question waits for has not come within WAIT_S."""


@asynccontextmanager
async def locked(lock: asyncio.Lock, what: str) -> AsyncIterator[None]:
    """Holds a lock; raises TookTooLong if others hold it for longer than WAIT_S. what: what they do meanwhile."""
    try:
        async with asyncio.timeout(WAIT_S):
            await lock.acquire()
    except TimeoutError:
        raise TookTooLong(f"other requests are {what} for more than {WAIT_S:g} s") from None
    try:
        yield
    finally:
        lock.release()


async def in_thread(what: str, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a call in a thread; raises TookTooLong if that takes longer than WAIT_S: the thread is left to its end."""
    return await _run(None, what, partial(call, *args, **kwargs))


async def computed(what: str, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a call that needs a processor and nothing else, as `in_thread` does.

    It has threads of its own, so that a store that hangs, and with it all threads that ask it, holds up no page.
    """
    return await _run(_COMPUTING, what, partial(call, *args, **kwargs))


async def _run(threads: ThreadPoolExecutor | None, what: str, call: Callable[[], T]) -> T:
    def called() -> T:
        try:
            return call()
        except StopIteration as error:  # no future takes it: its waiter would never wake
            raise RuntimeError("the call ended with StopIteration") from error

    end = asyncio.timeout(WAIT_S)
    try:
        async with end:
            return await asyncio.get_running_loop().run_in_executor(threads, partial(copy_context().run, called))
    except TimeoutError:
        if not end.expired():
            raise
        raise TookTooLong(f"{what} takes more than {WAIT_S:g} s") from None
