"""What is decided when a backend does not answer: each rule says so itself (`on_failure`).

    open      the hit is admitted, and counted nowhere
    closed    it is refused until the backend is tried again
    local     a memory of this process decides, which knows only what it admitted itself in such times

Such a decision is a **fallback**: its quotas say so, and it is counted. All rules of an event are still one decision,
all or nothing: where a closed rule refuses, nothing is counted locally either. What is known without any counts holds
as ever: a hit that costs more than the limit never fits.

A backend that fails several times in a row is left alone for a while (`breaker`), so that an outage costs no more than
a few deadlines; each node of a cluster by itself, so that the others go on deciding. A question without an answer may
have been counted all the same: too much, never too little. The backend does not hear later of what a fallback decided.

A reservation that a fallback made is settled where it was made: `local` in memory; `open` was counted nowhere, and is
unknown. So is one of a backend that cannot be reached now; its hit stays counted until its windows are over. Only
`reset`, which people ask for by hand, raises BackendUnavailable.

`Guarded` is the same for threads (`blocking`); only the deadline differs. A task is broken off at it. A thread cannot
be: its backend has time limits of its own, and an answer after the deadline is taken, but counts as a failure too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Any, TypeVar

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import AsyncBackend, Backend, Question, Settled
from clickcurve.limiter.backends.breaker import Breaker
from clickcurve.limiter.backends.forms import Around, Immediate, blocking
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import quota_without_counts
from clickcurve.limiter.events import Clock
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import FAILURES
from clickcurve.times import SECOND_US

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take, and when and how long a failing backend is left alone.

    failures: so many in a row open the breaker. pause_s: at first; each pause without an answer doubles it, up to
    max_pause_s.
    """

    deadline_s: float = 0.1
    failures: int = 3
    pause_s: float = 0.5
    max_pause_s: float = 10.0


PATIENCE = Patience()
# Servers of a cluster are known by their addresses, which may change for ever.
MAX_BREAKERS = 1_000


class AsyncGuarded(Around[AsyncBackend]):
    """`AsyncBackend` around another.

    clock: epoch seconds, for what is decided here. timer: seconds that never step back. deadline: what breaks off a
    call after so many seconds.
    """

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        patience: Patience = PATIENCE,
        local: MemoryBackend | None = None,
        deadline: Callable[[float], AbstractAsyncContextManager[object]] = asyncio.timeout,
    ) -> None:
        super().__init__(backend)
        self._clock, self._timer, self._patience, self._deadline = clock, timer, patience, deadline
        self._breakers = {"": self._new_breaker()}
        self._local = local or MemoryBackend()
        self._counting = Lock()
        self._fallbacks: Counter[str] = Counter()
        self._failures = self._settles_lost = 0

    async def decide(self, question: Question) -> Sequence[Quota]:
        breaker = self._breaker(question.keys[0])
        if breaker.lets():
            with suppress(BackendUnavailable):
                return await self._in_time(self._backend.decide(question), breaker)
        return self._decide_without(question, breaker)

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        here = self._local.settle(reservation, keep, self._at_us(at_us))
        # A question that failed may have been counted there all the same: it is taken back there too.
        breaker = self._breaker(reservation)
        if breaker.lets():
            with suppress(BackendUnavailable):
                there = await self._in_time(self._backend.settle(reservation, keep, at_us), breaker)
                return there if here is Settled.unknown else here
        if here is Settled.unknown:
            with self._counting:
                self._settles_lost += 1
        return here

    async def reset(self, question: Question) -> None:
        self._local.reset(question)
        await self._in_time(self._backend.reset(question), self._breaker(question.keys[0]))

    def measures(self) -> Mapping[str, float]:
        breakers = list(self._breakers.values())
        fallbacks = {policy: self._fallbacks[policy] for policy in FAILURES}
        return {
            **super().measures(),
            **{f"fallback_{policy}_total": count for policy, count in fallbacks.items()},
            **{f"blind_{policy}_total": count for policy, count in fallbacks.items()},  # the name until 0.2
            "failures_total": self._failures,
            "settles_lost_total": self._settles_lost,
            "breaker_open": int(any(breaker.is_open for breaker in breakers)),
            "breaker_opened_total": sum(breaker.opened for breaker in breakers),
        }

    async def close(self) -> None:
        await self._backend.close()

    def _breaker(self, name: str) -> Breaker:
        """Returns the breaker of the server that decides about a key or a reservation."""
        server_of = self._backend.server_of
        if server_of is None:
            return self._breakers[""]
        server = server_of(name)
        breaker = self._breakers.get(server)
        if breaker is None:
            with self._counting:
                if len(self._breakers) >= MAX_BREAKERS:
                    self._breakers = {"": self._breakers[""]}
                breaker = self._breakers.setdefault(server, self._new_breaker())
        return breaker

    def _new_breaker(self) -> Breaker:
        patience = self._patience
        return Breaker(self._timer, patience.failures, patience.pause_s, patience.max_pause_s)

    async def _in_time(self, call: Coroutine[Any, Any, Answer], breaker: Breaker) -> Answer:
        """Awaits a call until the deadline, and reports to the breaker how it went. BackendUnavailable if in vain."""
        began_s, deadline_s = self._timer(), self._patience.deadline_s
        try:
            async with self._deadline(deadline_s):
                answer = await call
        except (TimeoutError, BackendUnavailable) as error:
            self._failed(breaker)
            if isinstance(error, TimeoutError):
                raise BackendUnavailable(f"no answer within {deadline_s} s") from None
            raise
        except BaseException:
            breaker.gave_up()
            raise
        if self._timer() - began_s > deadline_s:
            self._failed(breaker)
        else:
            breaker.answered()
        return answer

    def _failed(self, breaker: Breaker) -> None:
        with self._counting:
            self._failures += 1
        breaker.failed()

    def _at_us(self, at_us: int | None) -> int:
        return int(self._clock() * SECOND_US) if at_us is None else at_us

    def _decide_without(self, question: Question, breaker: Breaker) -> Sequence[Quota]:
        rules, at_us = question.rules, self._at_us(question.at_us)
        with self._counting:
            self._fallbacks.update({rule.on_failure for rule in rules})
        retry_s = ceil(max(breaker.left_s(), self._patience.pause_s) * 1_000) / 1_000
        quotas = [quota_without_counts(rule, question.cost, at_us / SECOND_US, retry_s) for rule in rules]
        locally = [n for n, rule in enumerate(rules) if rule.on_failure == "local"]
        if locally:
            refused = any(not (quotas[n].fits or rule.shadow) for n, rule in enumerate(rules) if n not in locally)
            asked = question._replace(
                rules=tuple(rules[n] for n in locally),
                keys=tuple(question.keys[n] for n in locally),
                at_us=at_us,
                take=question.take and not refused,
            )
            for n, quota in zip(locally, self._local.decide(asked), strict=True):
                quotas[n] = quota._replace(fallback=True)
        return quotas


class Guarded(Around[AsyncGuarded]):
    """`Backend` around another, for threads: `AsyncGuarded`, each call run to its end in the thread that asks."""

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        patience: Patience = PATIENCE,
        local: MemoryBackend | None = None,
    ) -> None:
        self._awaited = AsyncGuarded(
            Immediate(backend), clock=clock, timer=timer, patience=patience, local=local, deadline=nullcontext
        )
        super().__init__(self._awaited)

    decide = blocking(AsyncGuarded.decide)
    settle = blocking(AsyncGuarded.settle)
    reset = blocking(AsyncGuarded.reset)
    close = blocking(AsyncGuarded.close)
