"""Waiting until a hit fits: in order of arrival, until a deadline, in bounded queues. No test waits for time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Semaphore, Thread
from typing import Any

import pytest

from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import ANN, BEN, T

RULES = parse_rules({"e": {"by": "ip", "rates": "1/s", "strategy": "token_bucket"}})


class Time:
    """A clock that a pause moves."""

    def __init__(self) -> None:
        self.now = T
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)
        await asyncio.sleep(0)


def waits(**options: Any) -> tuple[Limiter, Time]:
    time = Time()
    return Limiter(RULES, clock=time, **{"pause": time.pause, **options}), time


def test_a_hit_that_fits_does_not_wait() -> None:
    limiter, time = waits()
    assert limiter.wait("e", ANN, wait_s=5).allowed
    assert time.pauses == []


def test_a_waiter_pauses_for_just_as_long_as_it_takes() -> None:
    limiter, time = waits()
    assert all(limiter.wait("e", ANN, wait_s=5).allowed for _ in range(4))
    assert time.pauses == [1.0, 1.0, 1.0]
    assert limiter.waiting == 0


def test_a_hit_that_would_fit_after_the_deadline_is_refused_at_once() -> None:
    limiter, time = waits()
    limiter.wait("e", ANN, wait_s=0)
    refused = limiter.wait("e", ANN, wait_s=0.9)
    assert (refused.allowed, refused.retry_after_s, time.pauses) == (False, 1.0, [])
    assert limiter.wait("e", ANN, wait_s=1.0).allowed


def test_what_can_never_pass_does_not_wait() -> None:
    limiter, time = waits()
    never = limiter.wait("e", ANN, 2, wait_s=1e9)
    assert (never.allowed, never.never, time.pauses) == (False, True, [])


def test_other_callers_wait_in_queues_of_their_own() -> None:
    limiter, _ = waits()
    assert limiter.wait("e", ANN, wait_s=0).allowed
    assert limiter.wait("e", BEN, wait_s=0).allowed


def until(holds: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if holds():
            return
        Event().wait(0.001)
    raise AssertionError("it never came to hold")


class Gate(Time):
    """Pauses end one by one, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.open = Semaphore(0)

    def pause(self, seconds: float) -> None:
        self.open.acquire()
        super().pause(seconds)


def test_threads_are_let_in_in_order_of_arrival() -> None:
    gate = Gate()
    limiter = Limiter(RULES, clock=gate, pause=gate.pause)
    limiter.hit("e", ANN)
    passed: list[int] = []

    def wait(number: int) -> None:
        if limiter.wait("e", ANN, wait_s=60).allowed:
            passed.append(number)

    threads = [Thread(target=wait, args=(number,)) for number in range(5)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until(lambda many=number: limiter.waiting == many)  # type: ignore[misc]
    for number in range(1, 6):
        gate.open.release()
        until(lambda many=number: len(passed) == many)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert passed == [0, 1, 2, 3, 4]
    assert gate.pauses == pytest.approx([1.0] * 5, abs=0.002)


def test_a_full_queue_refuses_at_once() -> None:
    gate = Gate()
    limiter = Limiter(RULES, clock=gate, pause=gate.pause, max_waiting=1)
    limiter.hit("e", ANN)
    limiter.hit("e", BEN)
    first = Thread(target=limiter.wait, args=("e", ANN), kwargs={"wait_s": 60})
    first.start()
    until(lambda: limiter.waiting == 1)
    assert not limiter.wait("e", ANN, wait_s=60).allowed
    assert not limiter.wait("e", BEN, wait_s=60).allowed  # the bound is for all lines together
    assert limiter.wait("e", {"ip": "free"}, wait_s=60).allowed
    gate.open.release()
    first.join()
    assert limiter.waiting == 0


def test_no_later_caller_overtakes() -> None:
    gate = Gate()
    limiter = Limiter(RULES, clock=gate, pause=gate.pause)
    limiter.hit("e", ANN)
    first = Thread(target=limiter.wait, args=("e", ANN), kwargs={"wait_s": 60})
    first.start()
    until(lambda: limiter.waiting == 1)
    gate.now += 5  # there is a place now, and who stands first has not asked again
    refused = limiter.wait("e", ANN, wait_s=0)
    assert not refused.allowed
    gate.open.release()
    first.join()


def test_a_waiter_that_fails_leaves_the_queue() -> None:
    class Broken(Exception):
        pass

    def pause(seconds: float) -> None:
        raise Broken

    limiter, _ = waits(pause=pause)
    limiter.hit("e", ANN)
    with pytest.raises(Broken):
        limiter.wait("e", ANN, wait_s=60)
    assert limiter.waiting == 0


def test_without_a_clock_or_a_timer_waiting_is_an_error() -> None:
    rules = parse_rules({"e": {"by": "ip", "rates": "1/s", "strategy": "token_bucket"}})
    with pytest.raises(ValueError, match="needs a timer"):
        Limiter(rules, clock=None).wait("e", ANN, wait_s=1)


def test_deadlines_are_kept_by_the_timer_not_by_the_clock() -> None:
    time, timer = Time(), Time()

    def pause(seconds: float) -> None:
        time.now -= 0.01  # the clock does not go on
        timer.now += seconds

    limiter = Limiter(RULES, clock=time, timer=timer, pause=pause)
    limiter.hit("e", ANN)
    refused = limiter.wait("e", ANN, wait_s=10)
    assert not refused.allowed
    assert timer.now <= T + 10


def test_who_waits_while_the_clock_is_set_back_waits_no_longer() -> None:
    time, timer = Time(), Time()

    def pause(seconds: float) -> None:
        time.now -= 86_400
        timer.now += seconds

    limiter = Limiter(RULES, clock=time, timer=timer, pause=pause)
    limiter.hit("e", ANN)
    assert limiter.wait("e", ANN, wait_s=10).allowed
    assert timer.now <= T + 1


# --- event loops ------------------------------------------------------------------------------------------------------
def test_coroutines_are_let_in_in_order_of_arrival() -> None:
    async def story() -> list[int]:
        time = Time()
        limiter = AsyncLimiter(RULES, clock=time, pause=time.pause_async)
        passed: list[int] = []

        async def wait(number: int) -> None:
            if (await limiter.wait("e", ANN, wait_s=60)).allowed:
                passed.append(number)

        await asyncio.gather(*map(wait, range(6)))
        assert limiter.waiting == 0
        return passed

    assert asyncio.run(story()) == [0, 1, 2, 3, 4, 5]


def test_coroutines_have_deadlines_and_a_bounded_queue() -> None:
    async def story() -> list[bool]:
        time = Time()
        limiter = AsyncLimiter(RULES, clock=time, pause=time.pause_async, max_waiting=2)
        told = await asyncio.gather(*(limiter.wait("e", ANN, wait_s=60) for _ in range(5)))
        assert not (await limiter.wait("e", ANN, wait_s=0.5)).allowed
        return [decision.allowed for decision in told]

    assert asyncio.run(story()) == [True, True, True, False, False]


async def test_a_coroutine_that_is_cancelled_leaves_the_queue_to_the_next() -> None:
    time = Time()
    stuck = asyncio.Event()

    async def pause(seconds: float) -> None:
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        time.pause(seconds)

    limiter = AsyncLimiter(RULES, clock=time, pause=pause)
    await limiter.hit("e", ANN)
    first = asyncio.create_task(limiter.wait("e", ANN, wait_s=60))
    await stuck.wait()
    second = asyncio.create_task(limiter.wait("e", ANN, wait_s=60))
    await asyncio.sleep(0)
    assert limiter.waiting == 2
    first.cancel()
    assert (await second).allowed
    assert limiter.waiting == 0


async def test_a_deadline_passes_while_others_are_in_front() -> None:
    time = Time()
    limiter = AsyncLimiter(RULES, clock=time, timer=asyncio.get_running_loop().time, pause=lambda _: gone.wait())
    gone = asyncio.Event()
    await limiter.hit("e", ANN)
    first = asyncio.create_task(limiter.wait("e", ANN, wait_s=60))
    await asyncio.sleep(0)
    assert not (await limiter.wait("e", ANN, wait_s=0.01)).allowed
    assert limiter.waiting == 1
    time.now += 5
    gone.set()
    assert (await first).allowed
