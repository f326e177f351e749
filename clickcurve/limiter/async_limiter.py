"""The limiter for event loops: the verbs of `clickcurve.limiter.limiter`, awaited. No verb blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

from clickcurve.limiter.backend import AsyncBackend, Immediate, Settled
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision, decide
from clickcurve.limiter.events import (
    Attempt,
    CallerListener,
    Clock,
    Event,
    Events,
    Features,
    Listener,
    kept,
    new_reservation,
)
from clickcurve.limiter.rule import Rule
from clickcurve.limiter.wait_queue import MAX_WAITING, Ask, WaitQueues


class AsyncLimiter:
    """Decides for coroutines of one event loop; everything as with `Limiter`."""

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        clock: Clock | None,
        backends: Mapping[str, AsyncBackend] | None = None,
        timer: Clock | None = None,
        max_waiting: int = MAX_WAITING,
        listener: Listener | None = None,
        caller_listener: CallerListener | None = None,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.backends: Mapping[str, AsyncBackend] = (
            {"memory": Immediate(MemoryBackend())} if backends is None else backends
        )
        self.events = Events(rules, self.backends, clock, timer, listener, caller_listener)
        self._lines = WaitQueues(max_waiting, asyncio.Event)
        self._pause = pause

    def replace(self, rules: Iterable[Rule]) -> None:
        self.events.replace(rules)

    async def hit(
        self,
        event: str,
        features: Features,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        known = self.events[event]
        decision = await self._decide(known, features, cost, now, True, explain, caller)
        self.events.report(known, features, cost, decision)
        return decision

    async def peek(
        self, event: str, features: Features, cost: int = 1, *, explain: bool = False, now: float | None = None
    ) -> Decision:
        known = self.events[event]
        return await self._decide(known, features, cost, now, False, explain or known.remembers is not None)

    async def reserve(
        self,
        event: str,
        features: Features,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        known = self.events[event]
        decision = await self._decide(known, features, cost, now, True, explain, caller, new_reservation(cost))
        self.events.report(known, features, cost, decision)
        return decision

    async def commit(
        self, event: str, reservation: str, cost: int | None = None, *, now: float | None = None
    ) -> Settled:
        return await self._settle(self.events[event], reservation, kept(reservation, cost), now)

    async def cancel(self, event: str, reservation: str, *, now: float | None = None) -> Settled:
        return await self._settle(self.events[event], reservation, 0, now)

    async def reset(self, event: str, features: Features, *, now: float | None = None) -> None:
        known = self.events[event]
        await self.backends[known.backend].reset(self.events.question(known, features, 1, now))

    async def wait(
        self, event: str, features: Features, cost: int = 1, *, wait_s: float, caller: str | None = None
    ) -> Decision:
        known = self.events[event]
        steps = self._lines.turns(self.events.question(known, features, cost, None).keys, wait_s, self.events.timer)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Ask):
                    step = steps.send(await self._decide(known, features, cost, None, step.take, False, caller))
                    continue
                if step.turn is None:
                    await self._pause(step.seconds)
                else:
                    await _turn_or_time(step.turn, step.seconds)
                step = next(steps)
        except StopIteration as ended:
            decision: Decision = ended.value
        finally:
            steps.close()
        self.events.report(known, features, cost, decision)
        return decision

    @asynccontextmanager
    async def count_failures(self, event: str, features: Features, cost: int = 1) -> AsyncIterator[Attempt]:
        known = self.events[event]
        attempt = Attempt(await self.reserve(event, features, cost))
        try:
            yield attempt
        except BaseException:
            attempt.fail()
            raise
        finally:
            if attempt.reservation is not None:
                await self._settle(known, attempt.reservation, attempt.keep, None)

    @property
    def waiting(self) -> int:
        return self._lines.waiting

    async def close(self) -> None:
        for backend in self.backends.values():
            await backend.close()

    async def _decide(
        self,
        event: Event,
        features: Features,
        cost: int,
        now: float | None,
        take: bool,
        explain: bool = False,
        caller: str | None = None,
        reservation: str | None = None,
    ) -> Decision:
        question = self.events.question(event, features, cost, now, take, explain, caller, reservation)
        return decide(question.rules, await self.backends[event.backend].decide(question), reservation)

    async def _settle(self, event: Event, reservation: str, keep: int | None, now: float | None) -> Settled:
        return await self.backends[event.backend].settle(reservation, keep, self.events.at_us(event, now))


async def _turn_or_time(turn: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(turn.wait(), seconds)
