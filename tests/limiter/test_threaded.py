"""A blocking backend lent to an event loop: same answers, bounded, and closed without leaving anybody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.forms import Threaded
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import parse_rules
from testing.backend_servers import shared_memcached
from tests.limiter.given import ANN, BEN, T
from tests.limiter.places import PATIENCE_S

TEN = {"by": "ip", "rates": "10/m"}


class Held(MemoryBackend):
    """Memory that answers when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.asked = Event(), Event()

    def decide(self, question: Question) -> Sequence[Quota]:
        self.asked.set()
        self.go.wait()
        return super().decide(question)


def limiter(backend: Threaded, name: str = "memory") -> AsyncLimiter:
    return AsyncLimiter(parse_rules({"e": {**TEN, "backend": name}}), backends={name: backend}, clock=None)


async def every_verb(lent: Threaded, name: str) -> None:
    limited = limiter(lent, name)
    told = await asyncio.gather(*(limited.hit("e", ANN, now=T) for _ in range(25)))
    assert sum(decision.allowed for decision in told) == 10
    held = await limited.reserve("e", BEN, 4, now=T)
    assert held.reservation is not None
    assert (await limited.peek("e", BEN, now=T)).remaining == 6
    assert await limited.cancel("e", held.reservation, now=T) is Settled.done
    await limited.reset("e", ANN, now=T)
    assert (await limited.peek("e", ANN, now=T)).remaining == 10
    assert lent.measures()["limiter_calls_under_way"] == 0
    assert not lent.keeps_time
    await limited.close()


def test_a_loop_is_lent_memory() -> None:
    asyncio.run(every_verb(Threaded(MemoryBackend()), "memory"))


@pytest.mark.needs("memcached")
def test_a_loop_is_lent_memcached() -> None:
    backend = MemcachedBackend([shared_memcached().address], timeout_s=PATIENCE_S)
    asyncio.run(every_verb(Threaded(backend, threads=3), "memcached"))


async def test_the_loop_goes_on_and_the_queue_is_bounded() -> None:
    backend = Held()
    lent = Threaded(backend, threads=1, max_queued=2)
    limited = limiter(lent)
    hits = [asyncio.create_task(limited.hit("e", ANN, now=T)) for _ in range(3)]
    await asyncio.to_thread(backend.asked.wait)
    assert lent.measures()["limiter_calls_under_way"] == 3
    with pytest.raises(BackendUnavailable, match="3 calls"):
        await limited.hit("e", ANN, now=T)
    backend.go.set()
    assert [decision.remaining for decision in await asyncio.gather(*hits)] == [9, 8, 7]
    await limited.close()


async def test_a_call_that_waits_when_it_is_closed_raises() -> None:
    backend = Held()
    limited = limiter(Threaded(backend, threads=1))
    first, second = (asyncio.create_task(limited.hit("e", ANN, now=T)) for _ in range(2))
    await asyncio.to_thread(backend.asked.wait)
    closing = asyncio.create_task(limited.close())
    with pytest.raises(BackendUnavailable, match="closed"):
        await second
    backend.go.set()
    await closing
    assert (await first).allowed
    with pytest.raises(BackendUnavailable, match="closed"):
        await limited.hit("e", ANN, now=T)


async def test_a_call_that_is_cancelled_while_it_queues_is_not_counted() -> None:
    backend = Held()
    limited = limiter(Threaded(backend, threads=1))
    first, second = (asyncio.create_task(limited.hit("e", ANN, now=T)) for _ in range(2))
    await asyncio.to_thread(backend.asked.wait)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    backend.go.set()
    await first
    assert (await limited.peek("e", ANN, now=T)).remaining == 9
    await limited.close()
