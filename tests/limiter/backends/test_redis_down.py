"""Redis is killed and suspended in the middle of a run: nobody sees an error, each rule's policy is obeyed, what was
decided by fallback is counted, and when Redis is back it decides again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Condition, Thread
from typing import Any

import pytest

from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backends.guard import AsyncGuarded, Guarded, Patience
from clickcurve.limiter.backends.redis import AsyncRedisBackend, RedisBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import FAILURES, Rule, parse_rules
from testing.backend_servers import Served, redis_server

pytestmark = pytest.mark.needs("redis")

ANN = {"ip": "10.0.0.1"}
LIMIT = 1_000_000_000
LOCAL_LIMIT = 7
TIMEOUT_S = 1.0
PATIENCE = Patience(deadline_s=TIMEOUT_S, failures=3, pause_s=0.05, max_pause_s=0.2)
WITHIN_S = 600.0
CLOCKS: Mapping[str, Any] = {"clock": time.time, "timer": time.monotonic, "patience": PATIENCE}


def rules() -> tuple[Rule, ...]:
    """An event for each policy; the one that is `local` has few places, so that it is seen to refuse."""
    limits = {"open": LIMIT, "closed": LIMIT, "local": LOCAL_LIMIT}
    return parse_rules(
        {
            policy: {"by": "ip", "rates": f"{limit}/h", "on_failure": policy, "backend": "redis"}
            for policy, limit in limits.items()
        }
    )


class Run:
    """What was decided, event by event, in order."""

    def __init__(self) -> None:
        self.told: dict[str, list[Decision]] = {policy: [] for policy in FAILURES}
        self.errors: list[BaseException] = []
        self.over = False
        self._changed = Condition()

    def tell(self, policy: str, decision: Decision) -> None:
        with self._changed:
            self.told[policy].append(decision)
            self._changed.notify_all()

    def until(self, fallback: bool, many: int = 30) -> None:
        """Wait for so many decisions of each event that are fallbacks, or are not, from now on."""
        with self._changed:
            seen = {policy: len(told) for policy, told in self.told.items()}

            def happened() -> bool:
                return bool(self.errors) or all(
                    sum(each.fallback is fallback for each in self.told[policy][seen[policy] :]) >= many
                    for policy in FAILURES
                )

            assert self._changed.wait_for(happened, WITHIN_S)
        assert self.errors == []

    def of(self, policy: str, fallback: bool) -> list[Decision]:
        return [each for each in self.told[policy] if each.fallback is fallback]


@contextmanager
def threads(url: str) -> Iterator[tuple[Run, Guarded]]:
    guard = Guarded(RedisBackend(url, timeout_s=TIMEOUT_S), **CLOCKS)
    limiter = Limiter(rules(), clock=time.time, backends={"redis": guard})
    run = Run()

    def ask(policy: str) -> None:
        try:
            while not run.over:
                run.tell(policy, limiter.hit(policy, ANN))
        except BaseException as error:
            run.errors.append(error)

    asking = [Thread(target=ask, args=(policy,)) for policy in FAILURES for _ in range(2)]
    for each in asking:
        each.start()
    try:
        yield run, guard
    finally:
        run.over = True
        for each in asking:
            each.join()
        limiter.close()


@contextmanager
def event_loop(url: str) -> Iterator[tuple[Run, AsyncGuarded]]:
    """Six tasks in an event loop of another thread."""
    run = Run()
    made: list[AsyncGuarded] = []

    async def ask(limiter: AsyncLimiter, policy: str) -> None:
        while not run.over:
            run.tell(policy, await limiter.hit(policy, ANN))
            await asyncio.sleep(0)

    async def act() -> None:
        made.append(AsyncGuarded(AsyncRedisBackend(url, timeout_s=None), **CLOCKS))
        limiter = AsyncLimiter(rules(), clock=time.time, backends={"redis": made[0]})
        await asyncio.gather(*(ask(limiter, policy) for policy in FAILURES for _ in range(2)))
        await limiter.close()

    def go() -> None:
        try:
            asyncio.run(act())
        except BaseException as error:
            run.errors.append(error)

    running = Thread(target=go)
    running.start()
    run.until(fallback=False, many=1)
    try:
        yield run, made[0]
    finally:
        run.over = True
        running.join()


Form = Callable[[str], Any]
FORMS = pytest.mark.parametrize("form", [threads, event_loop], ids=["threads", "event loop"])


def obeyed(run: Run, guard: Guarded | AsyncGuarded) -> None:
    """After the run: what was decided by fallback is what each policy says, and all of it is counted."""
    assert all(each.allowed for each in run.of("open", fallback=True))
    for each in run.of("closed", fallback=True):
        assert not each.allowed
        assert each.retry_after_s
    assert sum(each.allowed for each in run.of("local", fallback=True)) == LOCAL_LIMIT
    measured = guard.measures()
    for policy in FAILURES:
        assert measured[f"fallback_{policy}_total"] == len(run.of(policy, fallback=True))


@FORMS
def test_redis_is_killed_in_the_middle_of_a_run(form: Form) -> None:
    with redis_server() as server:
        with form(server.url) as (run, guard):
            run.until(fallback=False)
            server.kill()
            run.until(fallback=True)
            assert guard.measures()["breaker_open"] == 1
            server.start()
            run.until(fallback=False)
        obeyed(run, guard)
        # It came back empty: of `local`'s places there were as many again.
        assert LOCAL_LIMIT < sum(each.allowed for each in run.of("local", fallback=False)) <= 2 * LOCAL_LIMIT


@FORMS
def test_redis_is_suspended_in_the_middle_of_a_run(form: Form) -> None:
    with redis_server() as server:
        with form(server.url) as (run, guard):
            run.until(fallback=False)
            server.suspend()
            run.until(fallback=True)
            server.resume()
            run.until(fallback=False)
        obeyed(run, guard)
        # Nothing was sent twice: of the hits whose answer never came each counts once at most.
        for policy in ("open", "closed"):
            admitted = sum(each.allowed for each in run.of(policy, fallback=False))
            assert admitted <= used(server, policy) <= admitted + guard.measures()["failures_total"]
        assert sum(each.allowed for each in run.of("local", fallback=False)) <= LOCAL_LIMIT


def used(server: Served, policy: str) -> int:
    limiter = Limiter(rules(), clock=None, backends={"redis": RedisBackend(server.url, timeout_s=WITHIN_S)})
    try:
        return LIMIT - limiter.peek(policy, ANN).remaining
    finally:
        limiter.close()


def test_trap_14_a_question_whose_answer_never_came_is_not_sent_again() -> None:
    with redis_server() as server:
        guard = Guarded(RedisBackend(server.url, timeout_s=0.2), **CLOCKS)
        limiter = Limiter(rules(), clock=time.time, backends={"redis": guard})
        assert limiter.hit("closed", ANN).allowed
        server.suspend()
        assert limiter.hit("closed", ANN).fallback
        server.resume()
        assert used(server, "closed") in (1, 2)
        limiter.close()
