"""Callers side by side on memcached: exactly the limit, whoever races whom. And the adversarial steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.connections.memcached_connection import Server
from clickcurve.limiter.backends.memcached import MAX_ATTEMPTS, MemcachedBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import EDGES_S, STRATEGIES
from testing.backend_servers import Served, shared_memcached
from tests.limiter.given import ANN, T, free, hits
from tests.limiter.places import PATIENCE_S, Place, memory, on
from tests.limiter.replay.traces import rates_of, steps, text_of
from tests.limiter.strategies.oracle import SECOND_US, Apart, FixedModel, TieredModel
from tests.limiter.strategies.test_same_answers import numbers
from tests.limiter.together import together
from tests.power import examples

pytestmark = pytest.mark.needs("memcached")

ROUNDS = 8


def backend() -> MemcachedBackend:
    return MemcachedBackend([shared_memcached().address], timeout_s=PATIENCE_S)


# --- threads ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rates", ["5/m", "5/d", "5/s, 6/m, 9/d"])
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_never_more_than_the_limit_when_clocks_differ(rates: str, place: Place) -> None:
    """By a second, so that some count in buckets that others have not."""
    limiter = place.limiter({"e": {"by": "ip", "rates": rates}})
    for number in range(ROUNDS):
        allowed: list[bool] = []
        caller = {"ip": str(number)}

        def act(thread: int, who: dict[str, str] = caller, to: list[bool] = allowed) -> None:
            to.append(limiter.hit("e", who, now=T + thread % 2).allowed)

        together(100, act)
        assert sum(allowed) == 5


# --- one race, step by step -------------------------------------------------------------------------------------------
@contextmanager
def before_each_request(monkeypatch: pytest.MonkeyPatch, act: Callable[[bytes], object]) -> Iterator[None]:
    """Calls act before each request that is not its own."""
    ask = Server.ask
    acting: list[bool] = []

    def asked(server: Server, request: bytes, *more: Any) -> Any:
        if not acting:
            acting.append(True)
            act(request)
            acting.clear()
        return ask(server, request, *more)

    with monkeypatch.context() as patched:
        patched.setattr(Server, "ask", asked)
        yield


@contextmanager
def rivals(*limits: dict[str, Any]) -> Iterator[tuple[MemcachedBackend, Limiter, Limiter]]:
    """Two limiters of the same rules that know nothing of each other, and the backend of the first."""
    with closing(backend()) as one, closing(backend()) as other:
        first, second = (Place("memcached", each).limiter({"e": list(limits)}) for each in (one, other))
        yield one, first, second


def rule(strategy: str, by: str = "ip") -> dict[str, Any]:
    return {"by": by, "rates": "10/s" if strategy == "per_second" else "10/m", "strategy": strategy}


@on(among=["memcached"])
def test_a_hit_that_loses_the_race_for_the_last_of_the_limit_is_refused(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rivals(rule(strategy)) as (backend, limiter, rival):
        hits(limiter, 9, T)
        raced = [1]
        with before_each_request(monkeypatch, lambda _: raced and hits(rival, raced.pop(), T)):
            refused = limiter.hit("e", ANN, now=T)
        assert (refused.allowed, refused.remaining) == (False, 0)
        assert refused.retry_after_s
        assert backend.measures()["memcached_raced_total"] >= 1
        assert free(limiter, T) == 0


@on(among=["memcached"])
def test_a_hit_that_lost_a_race_and_still_has_room_says_what_is_left(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rivals(rule(strategy)) as (_, limiter, rival):
        hits(limiter, 3, T)
        raced = [1, 1]
        with before_each_request(monkeypatch, lambda _: raced and hits(rival, raced.pop(), T)):
            admitted = limiter.hit("e", ANN, now=T)
        assert (admitted.allowed, admitted.remaining, admitted.bound.at_most) == (True, 4, 6)
        assert free(limiter, T) == 4


@on(among=["memcached"])
def test_a_hit_that_loses_the_race_under_one_of_its_rules_is_taken_back_from_the_other(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others were charged under that one meanwhile, so that what was there before cannot be put back."""
    with rivals(rule(strategy, "ip"), rule(strategy, "user")) as (backend, limiter, rival):
        hits(limiter, 3, T)
        same_user, same_ip = {"ip": "-", "user": ANN["user"]}, {"ip": ANN["ip"], "user": "-"}
        acts = [lambda: rival.hit("e", same_user, 7, now=T), lambda: rival.hit("e", same_ip, 2, now=T + 0.25)]
        with before_each_request(monkeypatch, lambda _: acts and acts.pop(0)()):
            refused = limiter.hit("e", ANN, now=T)
        assert (refused.allowed, refused.rule.name, refused.remaining) == (False, "e.2", 0)
        assert backend.measures()["memcached_taken_back_total"] == 1
        assert limiter.peek("e", {"ip": ANN["ip"], "user": "other"}, now=T + 0.25).remaining == 5
        assert limiter.peek("e", {"ip": "other", "user": ANN["user"]}, now=T).remaining == 0


def test_tokens_that_are_taken_back_late_are_less_what_has_come_in_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the hit the bucket might have been full meanwhile: it never holds more than it would then."""
    with rivals(rule("token_bucket", "ip"), rule("fixed", "user")) as (_, limiter, rival):
        acts = [
            lambda: rival.hit("e", {"ip": "-", "user": ANN["user"]}, 10, now=T),
            lambda: rival.hit("e", {"ip": ANN["ip"], "user": "-"}, now=T + 9),
        ]
        with before_each_request(monkeypatch, lambda _: acts and acts.pop(0)()):
            assert not limiter.hit("e", ANN, 2, now=T).allowed
        # Full again after 12 s, it held 9.5 after 9 s; the rival's took one; 0.5 of the two can be given back.
        assert limiter.peek("e", {"ip": ANN["ip"], "user": "other"}, now=T + 9).remaining == 9
        assert limiter.peek("e", {"ip": ANN["ip"], "user": "other"}, now=T + 14.9).remaining == 9
        assert limiter.peek("e", {"ip": ANN["ip"], "user": "other"}, now=T + 15.1).remaining == 10


@on(among=["memcached"])
def test_a_hit_that_loses_every_race_is_refused_in_the_end(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time by one that is taken back before it looks again, so that there is always room when it looks."""
    with rivals(rule(strategy)) as (backend, limiter, rival):
        hits(limiter, 5, T)

        def act(_: bytes) -> None:
            rival.cancel("e", rival.reserve("e", ANN, now=T).reservation or "", now=T)

        with before_each_request(monkeypatch, act):
            refused = limiter.hit("e", ANN, now=T)
        assert (refused.allowed, refused.retry_after_s, refused.remaining) == (False, 0.001, 5)
        measures = backend.measures()
        assert measures["memcached_gave_up_total"] == 1
        assert MAX_ATTEMPTS - 3 < measures["memcached_raced_total"] <= MAX_ATTEMPTS
        assert free(limiter, T) == 5


@on(among=["memcached"])
def test_a_reset_in_the_middle_of_a_hit(strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hit is counted after it, and what was counted before it is not."""
    with rivals(rule(strategy)) as (_, limiter, rival):
        hits(limiter, 9, T)
        resets = [1]
        with before_each_request(monkeypatch, lambda _: resets and resets.pop() and rival.reset("e", ANN, now=T)):
            assert limiter.hit("e", ANN, now=T).remaining == 9
        assert free(limiter, T) == 9


# --- what was seen before ---------------------------------------------------------------------------------------------
def test_a_hit_takes_one_request_where_this_process_was_the_last_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more where another one was; a refusal takes one, and rests on what that read."""
    with rivals({**rule("fixed"), "rates": "15/m"}) as (_, limiter, rival):
        asked: list[bytes] = []
        with before_each_request(monkeypatch, asked.append):

            def requests(limiter: Limiter) -> int:
                asked.clear()
                limiter.hit("e", ANN, now=T)
                return len(asked)

            assert [requests(limiter) for _ in range(3)] == [1, 1, 1]
            assert [requests(rival) for _ in range(3)] == [2, 1, 1]
            assert [requests(limiter) for _ in range(3)] == [3, 1, 1]
            # Where both write in turns, each reads along with what it writes, until that holds.
            assert [requests(each) for each in (rival, limiter) * 3] == [3, 3, 2, 2, 2, 2]
            assert not hits(limiter, 1, T)[0]
            assert [requests(limiter), requests(rival)] == [1, 1]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["hit", "hit", "hit", "peek", "reserve", "cancel", "commit", "reset"]),
        st.integers(1, 4),
        st.sampled_from([0.0, 0.0, 0.3, 2.0, 31.0, -20.0]),
    ),
    max_size=30,
)


# Of each example another one, since the server is that of all.
CALLERS = count()


@pytest.fixture(scope="module")
def served() -> Served:
    return shared_memcached()


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(40))
@given(steps=STEPS)
def test_two_processes_by_what_they_saw_before_answer_as_one_memory(
    served: Served, strategy: str, steps: list[tuple[int, str, int, float]]
) -> None:
    """So what was seen before never admits one too many, and never refuses wrongly."""
    rules = {"e": [rule(strategy), {**rule(strategy, "user"), "rates": "6/s" if strategy == "per_second" else "6/m"}]}
    caller = str(next(CALLERS))
    features, now = {"ip": caller, "user": caller}, T
    backends = [MemcachedBackend([served.address], timeout_s=PATIENCE_S) for _ in range(2)]
    with memory() as reference, closing(backends[0]), closing(backends[1]):
        both = [Place("memcached", each).limiter(rules) for each in backends]
        truth = reference.limiter(rules)
        tokens: list[tuple[str, str]] = []
        latest = now
        for who, verb, cost, later_s in steps:
            now = max(now + later_s, latest - 1)  # clocks that differ by more than a second count apart
            latest = max(now, latest)
            if verb == "reset":
                both[who].reset("e", features, now=now)
                truth.reset("e", features, now=now)
            elif verb in ("cancel", "commit"):
                if tokens:
                    ends: list[Settled] = [
                        getattr(limiter, verb)("e", token, now=now)
                        for limiter, token in zip((both[who], truth), tokens[cost % len(tokens)], strict=True)
                    ]
                    assert ends[0] is ends[1]
            else:
                answers = [getattr(each, verb)("e", features, cost, now=now) for each in (both[who], truth)]
                assert numbers(answers[0]) == numbers(answers[1])
                if answers[0].reservation is not None:
                    tokens.append((answers[0].reservation, answers[1].reservation))


# --- adversarial steps ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("side", ["strict", "lenient"])
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_tiered_never_admits_too_much_or_refuses_wrongly(place: Place, side: str, seed: int) -> None:
    """2,000 steps each, 12,000 in all."""
    random = Random(f"memcached {side} {seed}")
    for edge, many in (("second", 800), ("second", 800), ("minute", 250), ("hour", 150)):
        rates = rates_of(random, EDGES_S[edge])
        models = Apart(partial(TieredModel, rates, EDGES_S[edge], side == "strict"))
        limiter = place.limiter({edge: {"by": "ip", "rates": text_of(rates), "edge": edge, "side": side}})
        caller = {"ip": f"{many} {random.random()}"}
        for at_us, cost in steps(random, many, [window_s for _, window_s in rates]):
            model = models.of(at_us)
            assert isinstance(model, TieredModel)
            decision = limiter.hit(edge, caller, cost, now=at_us / SECOND_US)
            assert model.fits(at_us, cost) <= decision.allowed <= model.fits(at_us, cost, forgotten=True)
            if decision.allowed:
                model.charge(at_us, cost)
            at_least, at_most = decision.bound
            assert at_least <= model.log.inside(at_us, decision.window_s)
            assert model.log.inside(at_us, decision.window_s, forgotten=True) <= at_most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_fixed_does_what_its_model_does(place: Place, seed: int) -> None:
    """4,000 steps each, 12,000 in all."""
    random = Random(f"memcached fixed {seed}")
    for number in range(2):
        rates = rates_of(random)
        models = Apart(partial(FixedModel, rates))
        limiter = place.limiter({"e": {"by": "ip", "rates": text_of(rates), "strategy": "fixed"}})
        for at_us, cost in steps(random, 2_000, [window_s for _, window_s in rates]):
            model = models.of(at_us)
            decision = limiter.hit("e", {"ip": str(number)}, cost, now=at_us / SECOND_US)
            assert decision.allowed is model.fits(at_us, cost), (at_us, cost, decision)
            if decision.allowed:
                model.charge(at_us, cost)
