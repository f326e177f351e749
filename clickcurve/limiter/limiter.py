"""The limiter for threads: events, their rules, and the verbs.

    limiter = Limiter(parse_rules({"login": {"by": ["user", "ip"], "rates": "5/m, 20/h"}}), clock=time.time)
    decision = limiter.hit("login", {"user": "ann", "ip": "203.0.113.7"})
    if not decision.allowed:
        ...  # decision.retry_after_s, decision.limit, decision.remaining, decision.reset_at

`async_limiter` has the same verbs for event loops. The two put the same questions (`events`), read the answers in the
same way (`decision`) and wait by the same steps (`wait_queue`); what is left here and there is the one call that
blocks, or is awaited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from clickcurve.limiter.backend import Backend, Settled
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


class Limiter:
    """Decides for threads; a call may block as long as its backend does.

    backends: by the name that rules give (default: memory). clock: epoch seconds, None if every backend keeps time.
    timer: seconds that never step back, for deadlines (default: the clock). max_waiting: how many may wait at once.
    listener: told of every decision but peeks. caller_listener: the same by caller, under rules that keep a history of
    callers. pause: how a waiter passes seconds.

    `now` is for replays and tests. Every verb raises EventUnknown for an event without a rule, ParameterInvalid for
    a missing feature or a wrong cost, and BackendUnavailable.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        clock: Clock | None,
        backends: Mapping[str, Backend] | None = None,
        timer: Clock | None = None,
        max_waiting: int = MAX_WAITING,
        listener: Listener | None = None,
        caller_listener: CallerListener | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.backends: Mapping[str, Backend] = {"memory": MemoryBackend()} if backends is None else backends
        self.events = Events(rules, self.backends, clock, timer, listener, caller_listener)
        self._lines = WaitQueues(max_waiting, threading.Event)
        self._pause = pause or threading.Event().wait

    def replace(self, rules: Iterable[Rule]) -> None:
        """Takes other rules from now on; RuleInvalid leaves the old. Counts go on where a rule counts as before."""
        self.events.replace(rules)

    def hit(
        self,
        event: str,
        features: Features,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        """May this hit pass? If so it is counted. caller: who hits, for a rule that is a list (default: the values that
        the key is made of)."""
        known = self.events[event]
        question = self.events.question(known, features, cost, now, True, explain, caller)
        decision = decide(question.rules, self.backends[known.backend].decide(question))
        self.events.report(known, features, cost, decision)
        return decision

    def peek(
        self, event: str, features: Features, cost: int = 1, *, explain: bool = False, now: float | None = None
    ) -> Decision:
        """Would this hit pass? Nothing is counted. The callers of a list are told."""
        known = self.events[event]
        return self._decide(known, features, cost, now, False, explain or known.remembers is not None)

    def reserve(
        self,
        event: str,
        features: Features,
        cost: int = 1,
        *,
        caller: str | None = None,
        explain: bool = False,
        now: float | None = None,
    ) -> Decision:
        """A hit that can be taken back: `decision.reservation` is for `commit` or `cancel`. Not ended, it counts."""
        known = self.events[event]
        decision = self._decide(known, features, cost, now, True, explain, caller, new_reservation(cost))
        self.events.report(known, features, cost, decision)
        return decision

    def commit(self, event: str, reservation: str, cost: int | None = None, *, now: float | None = None) -> Settled:
        """The reserved hit stands; with a cost, so much of it. More than was reserved is ParameterInvalid."""
        return self._settle(self.events[event], reservation, kept(reservation, cost), now)

    def cancel(self, event: str, reservation: str, *, now: float | None = None) -> Settled:
        """The reserved hit never was: it is taken out of the very buckets that it was counted in."""
        return self._settle(self.events[event], reservation, 0, now)

    def reset(self, event: str, features: Features, *, now: float | None = None) -> None:
        """Forget what this caller has used up under the event's rules."""
        known = self.events[event]
        self.backends[known.backend].reset(self.events.question(known, features, 1, now))

    def wait(
        self, event: str, features: Features, cost: int = 1, *, wait_s: float, caller: str | None = None
    ) -> Decision:
        """A hit that waits up to wait_s for its place, in order of arrival. Refused is who would wait longer, at once,
        and who finds max_waiting others waiting."""
        known = self.events[event]
        line = self.events.question(known, features, cost, None).keys
        steps = self._lines.turns(line, wait_s, self.events.timer)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Ask):
                    step = steps.send(self._decide(known, features, cost, None, step.take, False, caller))
                else:
                    step.turn.wait(step.seconds) if step.turn is not None else self._pause(step.seconds)
                    step = next(steps)
        except StopIteration as ended:
            decision: Decision = ended.value
        finally:
            steps.close()
        self.events.report(known, features, cost, decision)
        return decision

    @contextmanager
    def count_failures(self, event: str, features: Features, cost: int = 1) -> Iterator[Attempt]:
        """Counts the block only if it fails: it says so, or raises. The place is held meanwhile, so that a burst of
        tries side by side cannot pass together. A block that is not `allowed` should do nothing."""
        known = self.events[event]
        attempt = Attempt(self.reserve(event, features, cost))
        try:
            yield attempt
        except BaseException:
            attempt.fail()
            raise
        finally:
            if attempt.reservation is not None:
                self._settle(known, attempt.reservation, attempt.keep, None)

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._lines.waiting

    def close(self) -> None:
        for backend in self.backends.values():
            backend.close()

    def _decide(
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
        return decide(question.rules, self.backends[event.backend].decide(question), reservation)

    def _settle(self, event: Event, reservation: str, keep: int | None, now: float | None) -> Settled:
        return self.backends[event.backend].settle(reservation, keep, self.events.at_us(event, now))
