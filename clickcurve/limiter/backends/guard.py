"""What is decided when a backend does not answer: each rule says so itself (`on_failure`).

    open      the hit is admitted, and counted nowhere
    closed    it is refused until the backend is tried again
    local     a memory of this process decides, which knows only what it admitted itself in such times

Such a decision is a **fallback**: its quotas say so, and it is counted. All rules of an event are still one decision,
all or nothing: where a closed rule refuses, nothing is counted locally either. What is known without any counts holds
as ever: a hit that costs more than the limit never fits.

A backend that fails several times in a row is left alone for a while (`breaker`), so that an outage costs no more than
a few deadlines. A question without an answer may have been counted all the same: too much, never too little. The
backend does not hear later of what a fallback decided.

A reservation that a fallback made is settled where it was made: `local` in memory; `open` was counted nowhere, and is
unknown. So is one of a backend that cannot be reached now; its hit stays counted until its windows are over. Only
`reset`, which people ask for by hand, raises BackendUnavailable.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from threading import Lock

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import AsyncBackend, Backend, Question, Settled
from clickcurve.limiter.backends.breaker import Breaker
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import quota_without_counts
from clickcurve.limiter.events import Clock
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import FAILURES
from clickcurve.times import SECOND_US


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


class _Guard:
    """What both forms share: the breaker, the fallback decisions, the counts."""

    def __init__(self, clock: Clock, timer: Clock, patience: Patience, local: MemoryBackend | None) -> None:
        self._clock, self._timer, self._patience = clock, timer, patience
        self._breaker = Breaker(timer, patience.failures, patience.pause_s, patience.max_pause_s)
        self._local = local or MemoryBackend()
        self._counting = Lock()
        self._fallbacks: Counter[str] = Counter()
        self._failures = self._settles_lost = 0

    def _failed(self) -> None:
        with self._counting:
            self._failures += 1
        self._breaker.failed()

    def _lost(self) -> Settled:
        with self._counting:
            self._settles_lost += 1
        return Settled.unknown

    def _decide_without(self, question: Question) -> Sequence[Quota]:
        rules, at_us = question.rules, self._at_us(question.at_us)
        with self._counting:
            self._fallbacks.update({rule.on_failure for rule in rules})
        retry_s = ceil(max(self._breaker.left_s(), self._patience.pause_s) * 1_000) / 1_000
        quotas = [quota_without_counts(rule, question.cost, at_us / SECOND_US, retry_s) for rule in rules]
        locally = [n for n, rule in enumerate(rules) if rule.on_failure == "local"]
        if locally:
            refused = any(not (quotas[n].fits or rule.shadow) for n, rule in enumerate(rules) if n not in locally)
            asked = question._replace(
                rules=tuple(rules[n] for n in locally),
                keys=tuple(question.keys[n] for n in locally),
                overflow=tuple(question.overflow[n] for n in locally),
                at_us=at_us,
                take=question.take and not refused,
            )
            for n, quota in zip(locally, self._local.decide(asked), strict=True):
                quotas[n] = quota._replace(fallback=True)
        return quotas

    def _settle_here(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return self._local.settle(reservation, keep, self._at_us(at_us))

    def _at_us(self, at_us: int | None) -> int:
        return int(self._clock() * SECOND_US) if at_us is None else at_us

    def _measured(self, of_backend: Mapping[str, float]) -> Mapping[str, float]:
        return {
            **of_backend,
            **{f"blind_{policy}_total": self._fallbacks[policy] for policy in FAILURES},
            "failures_total": self._failures,
            "settles_lost_total": self._settles_lost,
            "breaker_open": int(self._breaker.is_open),
            "breaker_opened_total": self._breaker.opened,
        }


class Guarded(_Guard):
    """`Backend` around another, for threads. clock: epoch seconds, for what is decided here. timer: seconds that never
    step back.

    A thread cannot be interrupted: the backend has time limits of its own. An answer after the deadline is taken, but
    counts as a failure too.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        patience: Patience = PATIENCE,
        local: MemoryBackend | None = None,
    ) -> None:
        super().__init__(clock, timer, patience, local)
        self._backend = backend

    @property
    def keeps_time(self) -> bool:
        return self._backend.keeps_time

    def decide(self, question: Question) -> Sequence[Quota]:
        if self._breaker.lets():
            with suppress(BackendUnavailable), self._watched():
                return self._backend.decide(question)
        return self._decide_without(question)

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        here = self._settle_here(reservation, keep, at_us)
        # A question that failed may have been counted there all the same: it is taken back there too.
        if self._breaker.lets():
            with suppress(BackendUnavailable), self._watched():
                there = self._backend.settle(reservation, keep, at_us)
                return there if here is Settled.unknown else here
        return self._lost() if here is Settled.unknown else here

    def reset(self, question: Question) -> None:
        self._local.reset(question)
        with self._watched():
            self._backend.reset(question)

    def measures(self) -> Mapping[str, float]:
        return self._measured(self._backend.measures())

    def close(self) -> None:
        self._backend.close()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Surrounds a call: reports to the breaker how it went."""
        began_s = self._timer()
        try:
            yield
        except BackendUnavailable:
            self._failed()
            raise
        except BaseException:
            self._breaker.gave_up()
            raise
        if self._timer() - began_s > self._patience.deadline_s:
            self._failed()
        else:
            self._breaker.answered()


class AsyncGuarded(_Guard):
    """`AsyncBackend` around another, as `Guarded`. A call that is not over by the deadline is broken off."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        patience: Patience = PATIENCE,
        local: MemoryBackend | None = None,
    ) -> None:
        super().__init__(clock, timer, patience, local)
        self._backend = backend

    @property
    def keeps_time(self) -> bool:
        return self._backend.keeps_time

    async def decide(self, question: Question) -> Sequence[Quota]:
        # As `_in_time`, without the price of a context of its own for every hit.
        if self._breaker.lets():
            try:
                async with asyncio.timeout(self._patience.deadline_s):
                    quotas = await self._backend.decide(question)
            except (TimeoutError, BackendUnavailable):
                self._failed()
            except BaseException:
                self._breaker.gave_up()
                raise
            else:
                self._breaker.answered()
                return quotas
        return self._decide_without(question)

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        here = self._settle_here(reservation, keep, at_us)
        if self._breaker.lets():
            with suppress(BackendUnavailable):
                async with self._in_time():
                    there = await self._backend.settle(reservation, keep, at_us)
                    return there if here is Settled.unknown else here
        return self._lost() if here is Settled.unknown else here

    async def reset(self, question: Question) -> None:
        self._local.reset(question)
        async with self._in_time():
            await self._backend.reset(question)

    def measures(self) -> Mapping[str, float]:
        return self._measured(self._backend.measures())

    async def close(self) -> None:
        await self._backend.close()

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Surrounds a call: breaks it off at the deadline, and reports to the breaker how it went."""
        try:
            async with asyncio.timeout(self._patience.deadline_s):
                yield
        except TimeoutError:
            self._failed()
            raise BackendUnavailable(f"no answer within {self._patience.deadline_s} s") from None
        except BackendUnavailable:
            self._failed()
            raise
        except BaseException:
            self._breaker.gave_up()
            raise
        self._breaker.answered()
