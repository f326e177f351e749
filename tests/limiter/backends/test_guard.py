"""Rules are obeyed while their backend does not answer, by the form for threads and by that for event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.forms import Immediate
from clickcurve.limiter.backends.guard import AsyncGuarded, Guarded, Patience
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import parse_rules
from tests.limiter.backends.test_breaker import Hand
from tests.limiter.given import ANN, BEN, T


class Shaky(MemoryBackend):
    """Memory that can be told not to answer. charges: it counts what it is asked all the same. asked: how often."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self.charges = False
        self.asked = 0
        self.slow: Callable[[], None] | None = None

    def decide(self, question: Question) -> Sequence[Quota]:
        self._ask(lambda: super(Shaky, self).decide(question))
        return super().decide(question)

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        self._ask(lambda: super(Shaky, self).settle(reservation, keep, at_us))
        return super().settle(reservation, keep, at_us)

    def reset(self, question: Question) -> None:
        self._ask(lambda: None)
        super().reset(question)

    def _ask(self, act: Callable[[], object]) -> None:
        self.asked += 1
        if self.slow is not None:
            self.slow()
        if self.down:
            if self.charges:
                act()
            raise BackendUnavailable("it does not answer")


class Setup:
    """A limiter of each form around one shaky backend; `act("hit", ...)` asks the one that is tried."""

    def __init__(self, awaited: bool, *tables: dict[str, Any]) -> None:
        self.timer, self.shaky, self.local = Hand(), Shaky(), MemoryBackend()
        rules = parse_rules({"e": [{"by": "ip", "rates": "3/m", **table} for table in tables]})
        patience = Patience(deadline_s=0.1, failures=3, pause_s=1.0, max_pause_s=4.0)
        clocks: dict[str, Any] = {"clock": lambda: T, "timer": self.timer, "patience": patience, "local": self.local}
        self.limiter: Limiter | AsyncLimiter
        self.guard: Guarded | AsyncGuarded
        if awaited:
            self.guard = AsyncGuarded(Immediate(self.shaky), **clocks)
            self.limiter = AsyncLimiter(rules, clock=lambda: T, backends={"memory": self.guard})
        else:
            self.guard = Guarded(self.shaky, **clocks)
            self.limiter = Limiter(rules, clock=lambda: T, backends={"memory": self.guard})

    def act(self, verb: str, *given: Any, **named: Any) -> Any:
        told = getattr(self.limiter, verb)("e", *given, **named)
        return asyncio.run(_awaited(told)) if isinstance(self.limiter, AsyncLimiter) else told

    def hits(self, many: int) -> list[Decision]:
        return [self.act("hit", ANN) for _ in range(many)]

    def measured(self, name: str) -> float:
        return self.guard.measures()[name]


async def _awaited(told: Any) -> Any:
    return await told


Make = Callable[..., Setup]


@pytest.fixture(params=[False, True], ids=["threads", "event loop"])
def make(request: pytest.FixtureRequest) -> Make:
    return lambda *tables: Setup(request.param, *tables)


def fallbacks(setup: Setup) -> dict[str, float]:
    return {policy: setup.measured(f"fallback_{policy}_total") for policy in ("open", "closed", "local")}


def test_while_it_answers_nothing_is_a_fallback(make: Make) -> None:
    setup = make({"on_failure": "closed"})
    told = setup.hits(4)
    assert [each.allowed for each in told] == [True] * 3 + [False]
    assert not any(each.fallback for each in told)
    assert fallbacks(setup) == {"open": 0, "closed": 0, "local": 0}
    assert setup.measured("memory_keys") == 1


def test_open_admits(make: Make) -> None:
    setup = make({"on_failure": "open"})
    setup.shaky.down = True
    told = setup.hits(10)
    assert all(each.allowed and each.fallback for each in told)
    assert (told[0].limit, told[0].remaining, told[0].retry_after_s, told[0].bound) == (3, 3, 0.0, (0, 3))
    assert fallbacks(setup) == {"open": 10, "closed": 0, "local": 0}


def test_closed_refuses_until_it_is_tried_again(make: Make) -> None:
    setup = make({"on_failure": "closed"})
    setup.shaky.down = True
    told = setup.hits(4)
    assert not any(each.allowed for each in told)
    assert all(each.fallback and each.remaining == 0 for each in told)
    assert told[3].retry_after_s == 1.0
    assert told[3].reset_at == int(T) + 2
    setup.timer.now_s += 1.0
    assert setup.hits(1)[0].retry_after_s == 2.0
    assert fallbacks(setup) == {"open": 0, "closed": 5, "local": 0}


def test_local_decides_by_a_memory_of_its_own(make: Make) -> None:
    setup = make({"on_failure": "local"})
    assert [each.allowed for each in setup.hits(2)] == [True, True]
    setup.shaky.down = True
    told = setup.hits(5)
    assert [each.allowed for each in told] == [True] * 3 + [False] * 2
    assert all(each.fallback for each in told)
    assert setup.act("hit", BEN).remaining == 2
    assert fallbacks(setup) == {"open": 0, "closed": 0, "local": 6}


@pytest.mark.parametrize("policy", ["open", "closed", "local"])
def test_what_can_never_fit_does_not_fit_without_counts_either(make: Make, policy: str) -> None:
    setup = make({"on_failure": policy})
    setup.shaky.down = True
    told = setup.act("hit", ANN, 4)
    assert (told.allowed, told.never, told.fallback) == (False, True, True)


def test_all_rules_of_an_event_are_one_decision_then_too(make: Make) -> None:
    """What a closed rule refuses no local rule counts, and what a local rule refuses is refused."""
    setup = make({"on_failure": "local"}, {"on_failure": "closed"})
    setup.shaky.down = True
    assert not any(each.allowed for each in setup.hits(5))
    assert setup.local.measures()["memory_keys"] == 0
    both = make({"on_failure": "local"}, {"on_failure": "open"}, {"on_failure": "local", "rates": "2/m"})
    both.shaky.down = True
    told = both.hits(3)
    assert [each.allowed for each in told] == [True, True, False]
    assert told[2].rule.name == "e.3"
    assert fallbacks(both) == {"open": 3, "closed": 0, "local": 3}


def test_a_closed_rule_in_shadow_mode_refuses_nothing(make: Make) -> None:
    setup = make({"on_failure": "local"}, {"on_failure": "closed", "shadow": True})
    setup.shaky.down = True
    told = setup.hits(4)
    assert [each.allowed for each in told] == [True] * 3 + [False]
    assert [each.shadow for each in told] == [True] * 3 + [False]


def test_it_is_left_alone_after_three_failures_and_asked_again_after_a_pause(make: Make) -> None:
    setup = make({"on_failure": "open"})
    setup.shaky.down = True
    setup.hits(50)
    assert setup.shaky.asked == 3
    assert (setup.measured("failures_total"), setup.measured("breaker_open")) == (3, 1)
    setup.timer.now_s += 1.0
    setup.hits(50)
    assert setup.shaky.asked == 4
    setup.timer.now_s += 2.0
    setup.shaky.down = False
    told = setup.hits(4)
    assert [each.fallback for each in told] == [False] * 4
    assert [each.allowed for each in told] == [True] * 3 + [False]
    assert setup.measured("breaker_open") == 0


def test_trap_14_what_was_decided_without_it_is_not_sent_again(make: Make) -> None:
    """The backend counted the hit and its answer was lost: one hit there, one here, and no more when it is back."""
    setup = make({"on_failure": "local"})
    setup.shaky.down = setup.shaky.charges = True
    assert setup.hits(1)[0].remaining == 2
    setup.shaky.down = False
    assert setup.act("peek", ANN).remaining == 2
    assert setup.shaky.asked == 2


def test_a_reservation_that_a_fallback_made_is_settled_where_it_was_made(make: Make) -> None:
    setup = make({"on_failure": "local"})
    setup.shaky.down = True
    decision = setup.act("reserve", ANN, 3)
    assert (decision.allowed, decision.fallback) == (True, True)
    assert not setup.hits(1)[0].allowed
    assert setup.act("cancel", decision.reservation) is Settled.done
    assert setup.act("cancel", decision.reservation) is Settled.ended
    assert setup.hits(1)[0].remaining == 2


def test_one_that_was_counted_there_and_here_is_taken_back_there_and_here(make: Make) -> None:
    setup = make({"on_failure": "local"})
    setup.shaky.down = setup.shaky.charges = True
    decision = setup.act("reserve", ANN, 3)
    setup.shaky.down = False
    assert setup.act("peek", ANN).remaining == 0
    assert setup.act("cancel", decision.reservation) is Settled.done
    assert setup.act("peek", ANN).remaining == 3
    setup.shaky.down = True
    assert setup.act("peek", ANN).remaining == 3


def test_one_that_was_counted_nowhere_is_unknown(make: Make) -> None:
    setup = make({"on_failure": "open"})
    setup.shaky.down = True
    decision = setup.act("reserve", ANN)
    setup.shaky.down = False
    assert setup.act("cancel", decision.reservation) is Settled.unknown


def test_one_that_was_made_there_is_unknown_while_it_does_not_answer(make: Make) -> None:
    setup = make({"on_failure": "closed"})
    decision = setup.act("reserve", ANN, 2)
    setup.shaky.down = True
    assert setup.act("cancel", decision.reservation) is Settled.unknown
    assert setup.measured("settles_lost_total") == 1
    setup.shaky.down = False
    assert setup.act("peek", ANN).remaining == 1


def test_a_reset_that_cannot_be_done_says_so(make: Make) -> None:
    setup = make({"on_failure": "local"})
    setup.shaky.down = True
    setup.hits(3)
    with pytest.raises(BackendUnavailable):
        setup.act("reset", ANN)
    assert setup.hits(1)[0].allowed  # here it was done
    setup.shaky.down = False
    setup.timer.now_s += 4.0
    setup.hits(3)
    setup.act("reset", ANN)
    assert setup.hits(1)[0].remaining == 2


def test_an_answer_after_the_deadline_is_taken_but_is_a_failure() -> None:
    setup = Setup(False, {"on_failure": "closed"})

    def late() -> None:
        setup.timer.now_s += 0.2

    setup.shaky.slow = late
    assert [each.fallback for each in setup.hits(4)] == [False] * 3 + [True]


def test_an_event_loop_breaks_off_a_call_at_the_deadline() -> None:
    setup = Setup(True, {"on_failure": "closed"})

    class Stuck(Immediate):
        async def decide(self, question: Question) -> Sequence[Quota]:
            await asyncio.Event().wait()
            return ()

    guard = AsyncGuarded(
        Stuck(setup.shaky), clock=lambda: T, timer=setup.timer, patience=Patience(deadline_s=0.001, failures=2)
    )
    limiter = AsyncLimiter(setup.limiter.events.rules()["e"], clock=lambda: T, backends={"memory": guard})

    async def act() -> list[Decision]:
        return [await limiter.hit("e", ANN) for _ in range(5)]

    assert all(each.fallback and not each.allowed for each in asyncio.run(act()))
    assert guard.measures()["failures_total"] == 2
