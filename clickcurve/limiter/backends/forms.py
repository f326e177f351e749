"""One form of a backend made of the other: for programs of threads, for programs of an event loop.

Immediate    a backend that never blocks, in the form that an event loop awaits
Threaded     any backend that blocks, in that form: its calls run in a few threads of their own
blocking     a method that is awaited, for threads: so what both forms do is written once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import AsyncBackend, Backend, Question, Settled
from clickcurve.limiter.quota import Quota

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")
Wrapped = TypeVar("Wrapped", bound=Backend | AsyncBackend)
Awaited = TypeVar("Awaited", covariant=True)

THREADS = 8
MAX_QUEUED = 1_000


class Around(Generic[Wrapped]):
    """Another form of a backend: what nobody waits for is the backend's own."""

    def __init__(self, backend: Wrapped) -> None:
        self._backend = backend

    @property
    def keeps_time(self) -> bool:
        return self._backend.keeps_time

    @property
    def server_of(self) -> Callable[[str], str] | None:
        return self._backend.server_of

    def measures(self) -> Mapping[str, float]:
        return self._backend.measures()


class Immediate(Around[Backend]):
    """A backend that never blocks, such as memory, in the form that an event loop awaits."""

    async def decide(self, question: Question) -> Sequence[Quota]:
        return self._backend.decide(question)

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return self._backend.settle(reservation, keep, at_us)

    async def reset(self, question: Question) -> None:
        self._backend.reset(question)

    async def close(self) -> None:
        self._backend.close()


class Threaded(Around[Backend]):
    """`AsyncBackend` around any `Backend`.

    threads: how many calls run at once; the others queue in order of arrival, and one that finds max_queued before it
    raises BackendUnavailable. Cancelling a call that has begun does not stop it: it may still be counted. One that has
    not begun never begins.
    """

    def __init__(self, backend: Backend, threads: int = THREADS, max_queued: int = MAX_QUEUED) -> None:
        super().__init__(backend)
        self._pool = ThreadPoolExecutor(threads, "limiter")
        self._most = threads + max_queued
        self._lock = Lock()
        self._under_way = 0

    async def decide(self, question: Question) -> Sequence[Quota]:
        return await self._run(lambda: self._backend.decide(question))

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return await self._run(lambda: self._backend.settle(reservation, keep, at_us))

    async def reset(self, question: Question) -> None:
        await self._run(lambda: self._backend.reset(question))

    def measures(self) -> Mapping[str, float]:
        return {**super().measures(), "limiter_calls_under_way": self._under_way}

    async def close(self) -> None:
        """Waits for the calls that have begun; the others raise BackendUnavailable."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._pool.shutdown)
        self._backend.close()

    async def _run(self, call: Callable[[], Answer]) -> Answer:
        with self._lock:
            if self._under_way >= self._most:
                raise BackendUnavailable(f"{self._under_way} calls of the limiter are under way already")
            self._under_way += 1
        try:
            future = self._pool.submit(call)
        except RuntimeError:
            self._end()
            raise BackendUnavailable("the limiter's backend is closed") from None
        future.add_done_callback(self._end)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if future.cancelled() and task is not None and not task.cancelling():
                raise BackendUnavailable("the limiter's backend was closed") from None
            raise

    def _end(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1


class Blocks(Protocol[Awaited]):
    """What has a form for threads: `_awaited` is the form that is awaited, over parts that block."""

    @property
    def _awaited(self) -> Awaited: ...


def blocking(
    verb: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Any, Parameters], Answer]:
    """Makes the method for threads of one that is awaited.

    What it awaits blocks the thread and never suspends, so the coroutine ends with its first step and needs no event
    loop.
    """

    @wraps(verb)
    def run(self: Blocks[Any], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        coroutine = verb(self._awaited, *args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer
        coroutine.close()
        raise RuntimeError(f"{verb.__name__} waited for something that does not block")

    return run
