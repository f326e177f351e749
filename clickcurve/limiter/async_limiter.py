"""The limiter for event loops, and the verbs of both limiters: no verb blocks the loop.

    # By the user if there is one, else by the address; not by both together.
    limiter = AsyncLimiter(parse_rules({"login": {"by": ["user", "ip"], "rates": "5/m, 20/h"}}))
    decision = await limiter.hit("login", {"user": "ann", "ip": "203.0.113.7"})
    if not decision.allowed:
        ...  # decision.retry_after_s, decision.limit, decision.remaining, decision.reset_at

`events` makes the questions and `decision` reads the answers; a verb is what lies between: the call of the backend.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from clickcurve.limiter.backend import AsyncBackend, Settled
from clickcurve.limiter.backends.forms import Immediate
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision, LimitReached, combine_quotas
from clickcurve.limiter.events import (
    Attempt,
    CallerListener,
    Clock,
    Event,
    Events,
    Features,
    Listener,
    held_as,
    new_reservation,
    parse_kept,
)
from clickcurve.limiter.rule import ALL, IMPLIED, Rule, rules_of_rates
from clickcurve.limiter.wait_queue import MAX_WAITING, TaskTurn, Turn, WaitQueues

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class AsyncLimiter:
    """Decides for the tasks of one event loop.

    rules: those of `parse_rules`; or rates alone, such as "5/m": then event and features may be left out, and all share
    the limit, unless the features have a `key`. backends: by the name that rules give (default: memory). clock: epoch
    seconds, None if every backend keeps time. timer: seconds that never step back, for deadlines (default: the clock).
    max_waiting: how many may wait at once. listener: hears every decision but peeks. caller_listener: the same by
    caller, under rules that keep a history of callers. pause: passes the seconds of a waiter, which pauses on what
    make_turn makes until it is the first.

    `now` is for replays and tests. Every verb raises EventUnknown for an event without a rule, ParameterInvalid for
    a missing feature or a wrong cost, and BackendUnavailable.
    """

    def __init__(
        self,
        rules: Iterable[Rule] | str,
        *,
        clock: Clock | None = time.time,
        backends: Mapping[str, AsyncBackend] | None = None,
        timer: Clock | None = None,
        max_waiting: int = MAX_WAITING,
        listener: Listener | None = None,
        caller_listener: CallerListener | None = None,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        make_turn: Callable[[], Turn] = TaskTurn,
    ) -> None:
        self.backends: Mapping[str, AsyncBackend] = (
            {"memory": Immediate(MemoryBackend())} if backends is None else backends
        )
        rules = rules_of_rates(rules) if isinstance(rules, str) else rules
        self.events = Events(rules, self.backends, clock, timer, listener, caller_listener)
        self._queues = WaitQueues(max_waiting, make_turn, pause)

    async def hit(
        self,
        event: str = IMPLIED,
        features: Features = ALL,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        """Decides whether this hit may pass, and counts it if so.

        caller: the name that a rule that is a list remembers (default: the values that the key is made of). explain:
        fills the decision's pieces and callers.
        """
        rules_of_event = self.events.of(event, features)
        decision = await self._decide(rules_of_event, features, cost, now, True, explain, caller)
        self.events.report(rules_of_event, features, cost, decision)
        return decision

    async def peek(
        self,
        event: str = IMPLIED,
        features: Features = ALL,
        cost: int = 1,
        *,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        """Decides whether this hit would pass, and counts nothing. Of a list the decision names the callers."""
        rules_of_event = self.events.of(event, features)
        return await self._decide(
            rules_of_event, features, cost, now, False, explain or rules_of_event.remembers is not None
        )

    async def reserve(
        self,
        event: str = IMPLIED,
        features: Features = ALL,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        """Decides as `hit` does; `decision.reservation` is for `commit` or `cancel`. Not ended, the hit counts."""
        rules_of_event = self.events.of(event, features)
        reservation = new_reservation(rules_of_event, features, cost)
        decision = await self._decide(rules_of_event, features, cost, now, True, explain, caller, reservation)
        self.events.report(rules_of_event, features, cost, decision)
        return decision

    async def commit(
        self, event: str, reservation: str, cost: int | None = None, *, now: float | None = None
    ) -> Settled:
        """Keeps the reserved hit; with a cost, so much of it. More than was reserved is ParameterInvalid."""
        return await self.settle(self.events[event], reservation, parse_kept(reservation, cost), now)

    async def cancel(self, event: str, reservation: str, *, now: float | None = None) -> Settled:
        """Takes the reserved hit out of the very buckets that it was counted in."""
        return await self.settle(self.events[event], reservation, 0, now)

    async def settle(self, event: Event, reservation: str, keep: int | None, now: float | None = None) -> Settled:
        """Ends a reservation where the event kept it: `keep` of its cost stays counted, None for all.

        It belongs to its event: under another one it is unknown.
        """
        reservation_key = held_as(event, reservation)
        return await self.backends[event.backend].settle(reservation_key, keep, self.events.at_us(event, now))

    async def reset(self, event: str = IMPLIED, features: Features = ALL, *, now: float | None = None) -> None:
        """Forgets what this caller has used up under the event's rules."""
        rules_of_event = self.events.of(event, features)
        if rules_of_event.rules:
            await self.backends[rules_of_event.backend].reset(self.events.question(rules_of_event, features, 1, now))

    async def wait(
        self,
        event: str = IMPLIED,
        features: Features = ALL,
        cost: int = 1,
        *,
        wait_s: float,
        caller: str | None = None,
    ) -> Decision:
        """Waits up to wait_s until the hit fits, first come, first served.

        Refuses at once if the wait would exceed wait_s, or if max_waiting callers already wait.
        """
        rules_of_event = self.events.of(event, features)

        async def ask(take: bool) -> Decision:
            return await self._decide(rules_of_event, features, cost, None, take, False, caller)

        if rules_of_event.rules:
            keys = self.events.question(rules_of_event, features, cost, None).keys
            decision = await self._queues.wait(keys, wait_s, self.events.timer, ask)
        else:
            decision = await ask(True)
        self.events.report(rules_of_event, features, cost, decision)
        return decision

    def limited(
        self,
        event: str = IMPLIED,
        features: Callable[..., Features] | None = None,
        *,
        cost: int = 1,
        wait_s: float | None = None,
    ) -> Callable[[Callable[Parameters, Awaitable[Answer]]], Callable[Parameters, Coroutine[Any, Any, Answer]]]:
        """Decorates a coroutine function so that a call that is refused raises LimitReached, and is not run.

        features: makes those of a call, of its arguments. wait_s: so long a call waits until it fits.
        """

        def decorate(
            function: Callable[Parameters, Awaitable[Answer]],
        ) -> Callable[Parameters, Coroutine[Any, Any, Answer]]:
            if not iscoroutinefunction(function):
                raise TypeError("AsyncLimiter.limited needs a coroutine function; use Limiter for others")

            @wraps(function)
            async def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
                given = ALL if features is None else features(*args, **kwargs)
                ask = self.hit(event, given, cost) if wait_s is None else self.wait(event, given, cost, wait_s=wait_s)
                decision = await ask
                if not decision.allowed:
                    raise LimitReached(decision)
                return await function(*args, **kwargs)

            return run

        return decorate

    @asynccontextmanager
    async def count_failures(self, event: str, features: Features, cost: int = 1) -> AsyncIterator[Attempt]:
        """Counts the block only if it says so (`fail`) or raises.

        The hit is reserved meanwhile, so that a burst of concurrent attempts cannot pass together. A block that is not
        `allowed` should do nothing.
        """
        rules_of_event = self.events[event]
        attempt = Attempt(await self.reserve(event, features, cost))
        try:
            yield attempt
        except BaseException:
            attempt.fail()
            raise
        finally:
            if attempt.reservation is not None:
                await self.settle(rules_of_event, attempt.reservation, attempt.keep)

    @property
    def waiting(self) -> int:
        """How many callers wait now."""
        return self._queues.waiting

    def replace(self, rules: Iterable[Rule]) -> None:
        """Takes other rules from now on; RuleInvalid leaves the old. Counts go on where a rule counts as before."""
        self.events.replace(rules)

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
        if not event.rules:
            return self.events.without_rules(event, now)
        reservation_key = None if reservation is None else held_as(event, reservation)
        question = self.events.question(event, features, cost, now, take, explain, caller, reservation_key)
        return combine_quotas(question.rules, await self.backends[event.backend].decide(question), reservation)
