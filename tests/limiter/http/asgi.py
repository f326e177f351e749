"""Applications without a server: asked over ASGI by whatever peer the test wants; and a backend that is down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import AsyncBackend, Question, Settled
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import parse_rules

NOW = 1_709_204_800
ANN, BEN = "203.0.113.7", "203.0.113.8"


class Down:
    """A backend that never answers; `up` lends it another one's answers."""

    keeps_time = False
    server_of = None

    def __init__(self) -> None:
        self.up: MemoryBackend | None = None

    def _backend(self) -> MemoryBackend:
        if self.up is None:
            raise BackendUnavailable("nobody is there")
        return self.up

    async def decide(self, question: Question) -> Sequence[Quota]:
        return self._backend().decide(question)

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return self._backend().settle(reservation, keep, at_us)

    async def reset(self, question: Question) -> None:
        self._backend().reset(question)

    def measures(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None:
        return


class Time:
    """A clock that is moved by hand."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def limiter(limits: Mapping[str, Any], backend: AsyncBackend | None = None, clock: Time | None = None) -> AsyncLimiter:
    backends = None if backend is None else {"memory": backend}
    return AsyncLimiter(parse_rules(limits), clock=clock or Time(), backends=backends)


def ask(
    app: Any, method: str = "POST", path: str = "/", times: int = 1, peer: str = ANN, **more: Any
) -> list[httpx.Response]:
    """So many requests, one after the other."""

    async def talk() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, client=(peer, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as client:
            return [await client.request(method, path, **more) for _ in range(times)]

    return asyncio.run(talk())


def statuses(answers: Sequence[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]
