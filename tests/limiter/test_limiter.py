"""The verbs, for threads and for event loops, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from clickcurve.buckets.errors import EventUnknown, ParameterInvalid, RuleInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.forms import Immediate
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import ANN, T
from tests.limiter.places import Recorder

R = TypeVar("R")
RULES = parse_rules(
    {
        "login": [{"by": ["user", "ip"], "rates": "3/m, 5/h"}, {"by": [["ip", "user"]], "rates": "4/d"}],
        "names": {"by": "ip", "rates": "3/m", "strategy": "list"},
    }
)


def run(awaited: Coroutine[Any, Any, R]) -> R:
    return asyncio.run(awaited)


def clock() -> float:
    return T


@pytest.mark.parametrize("event", ["nobody", "", "login "])
def test_an_unknown_event_is_said_with_the_known_ones(event: str) -> None:
    for ask in (Limiter(RULES, clock=clock).hit, Limiter(RULES, clock=clock).peek):
        with pytest.raises(EventUnknown, match="known: login, names") as refused:
            ask(event, ANN)
        assert refused.value.status == 404
    with pytest.raises(EventUnknown):
        run(AsyncLimiter(RULES, clock=clock).hit(event, ANN))


@pytest.mark.parametrize("cost", [0, -1, 1.5, "2", 1_000_000_001, None, False])
def test_a_wrong_cost_is_refused(cost: Any) -> None:
    limiter = Limiter(RULES, clock=clock)
    for ask in (limiter.hit, limiter.peek, limiter.reserve):
        with pytest.raises(ParameterInvalid, match="the cost must be a whole number from 1"):
            ask("login", ANN, cost)
    assert limiter.peek("login", ANN).remaining == 3


def test_every_rule_needs_its_features() -> None:
    with pytest.raises(ParameterInvalid, match="needs ip and user"):
        Limiter(RULES, clock=clock).hit("login", {"user": "ann"})


def test_a_backend_that_is_not_there_is_refused_at_once() -> None:
    rules = parse_rules({"a": {"by": "ip", "rates": "5/m", "backend": "redis"}})
    with pytest.raises(RuleInvalid, match=r"limits.a: the backend 'redis' is not set up"):
        Limiter(rules, clock=clock)


def test_rules_that_do_not_fit_leave_the_old_ones() -> None:
    limiter = Limiter(RULES, clock=clock)
    rule = RULES[2]
    with pytest.raises(RuleInvalid, match="a name that no other rule"):
        limiter.replace([rule, rule])
    assert set(limiter.events.rules()) == {"login", "names"}
    limiter.replace([rule])
    assert limiter.events.rules() == {"names": (rule,)}


def test_the_clock_is_asked_when_no_time_is_given() -> None:
    moments = iter([T, T + 1, T + 61.5])
    limiter = Limiter(parse_rules({"e": {"by": "ip", "rates": "1/m"}}), clock=lambda: next(moments))
    assert [limiter.hit("e", ANN).allowed for _ in range(3)] == [True, False, True]


def test_a_listener_hears_of_all_but_peeks() -> None:
    heard: list[tuple[str, int, bool]] = []

    def listen(event: str, cost: int, decision: Decision) -> None:
        heard.append((event, cost, decision.allowed))

    limiter = Limiter(RULES, clock=clock, listener=listen)
    limiter.peek("login", ANN)
    limiter.hit("login", ANN, 2)
    limiter.reserve("login", ANN)
    limiter.hit("login", ANN)
    limiter.wait("login", ANN, wait_s=0)
    assert heard == [("login", 2, True), ("login", 1, True), ("login", 1, False), ("login", 1, False)]


def test_threads_and_event_loops_get_the_same_answers() -> None:
    plain, awaited = Limiter(RULES, clock=clock), AsyncLimiter(RULES, clock=clock)

    async def ask(verb: str, *args: Any, **kwargs: Any) -> Any:
        return await getattr(awaited, verb)(*args, **kwargs)

    for verb, args in [
        ("hit", ("login", ANN)),
        ("peek", ("login", ANN, 2)),
        ("hit", ("login", ANN, 2)),
        ("hit", ("login", ANN)),
        ("hit", ("names", ANN)),
        ("peek", ("names", ANN)),
        ("reset", ("login", ANN)),
        ("peek", ("login", ANN)),
        ("cancel", ("login", "1-none")),
        ("commit", ("login", "1-none")),
    ]:
        assert getattr(plain, verb)(*args) == run(ask(verb, *args)), verb
    plain.close()
    run(awaited.close())


def test_reservations_are_awaited_too() -> None:
    async def story() -> None:
        limiter = AsyncLimiter(RULES, clock=clock)
        first, second = await limiter.reserve("login", ANN), await limiter.reserve("login", ANN, 2)
        assert await limiter.cancel("login", first.reservation or "") is Settled.done
        assert await limiter.commit("login", second.reservation or "", 1) is Settled.done
        assert await limiter.commit("login", second.reservation or "") is Settled.ended
        assert (await limiter.peek("login", ANN)).remaining == 2

    run(story())


# --- counting only failures -------------------------------------------------------------------------------------------
def test_only_failures_count() -> None:
    limiter = Limiter(RULES, clock=clock)
    for _ in range(10):
        with limiter.count_failures("login", ANN) as attempt:
            assert attempt.allowed
    assert limiter.peek("login", ANN).remaining == 3
    with limiter.count_failures("login", ANN) as attempt:
        attempt.fail()
    with pytest.raises(KeyError), limiter.count_failures("login", ANN):
        raise KeyError("wrong password")
    assert limiter.peek("login", ANN).remaining == 1


def test_concurrent_attempts_are_all_reserved() -> None:
    limiter = Limiter(RULES, clock=clock)
    with (
        limiter.count_failures("login", ANN, 2),
        limiter.count_failures("login", ANN),
        limiter.count_failures("login", ANN) as third,
    ):
        assert not third.allowed
        assert third.decision.retry_after_s == 61 - T % 1
    assert limiter.peek("login", ANN).remaining == 3


def test_only_failures_count_in_event_loops_too() -> None:
    async def story() -> None:
        limiter = AsyncLimiter(RULES, clock=clock)
        async with limiter.count_failures("login", ANN):
            pass
        with pytest.raises(KeyError):
            async with limiter.count_failures("login", ANN):
                raise KeyError("wrong password")
        async with limiter.count_failures("login", ANN, 2) as attempt:
            attempt.fail()
        async with limiter.count_failures("login", ANN) as refused:
            assert not refused.allowed
        assert (await limiter.peek("login", ANN)).remaining == 0

    run(story())


# --- what a backend gets ----------------------------------------------------------------------------------------------
def test_a_decision_is_one_question_for_any_number_of_rules_and_rates() -> None:
    backend = Recorder()
    limiter = Limiter(RULES, clock=clock, backends={"memory": backend})
    decision = limiter.hit("login", ANN, 2, explain=True)
    assert len(backend.questions) == 1
    (question,) = backend.questions
    assert question.rules == RULES[:2]
    assert len(set(question.keys)) == 2
    assert question.at_us == int(T * 1_000_000)
    assert decision.pieces


def test_a_backend_with_a_clock_of_its_own_is_not_sent_the_time() -> None:
    seen: list[int | None] = []

    class Timed(MemoryBackend):
        keeps_time = True

        def decide(self, question: Question) -> Any:
            seen.append(question.at_us)
            return super().decide(question._replace(at_us=1_000_000))

    for asked in (None, clock):
        Limiter(RULES, clock=asked, backends={"memory": Timed()}).hit("login", ANN)
        run(AsyncLimiter(RULES, clock=asked, backends={"memory": Immediate(Timed())}).hit("login", ANN))
    assert seen == [None] * 4
    Limiter(RULES, clock=None, backends={"memory": Timed()}).hit("login", ANN, now=7)
    assert seen[-1] == 7_000_000
