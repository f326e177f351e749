"""The bounds of the in-process backend: how many keys, bytes and reservations, and what happens at each."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest

from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.bucket_series import BUCKET_BYTES
from clickcurve.limiter.backends.memory import KEY_BYTES, OVERFLOW_KEYS, MemoryBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import MIDNIGHT, T
from tests.limiter.replay.traces import START_US, steps
from tests.limiter.strategies.oracle import TieredModel

DAY_S = 86_400
STRATEGIES = {
    "tiered": "3/m",
    "fixed": "3/m",
    "per_second": "3/s",
    "single_counter": "3/m",
    "list": "3/m",
    "token_bucket": "3/m",
}


def who(number: int | str) -> dict[str, str]:
    return {"ip": f"10.0.0.{number}"}


def on(backend: MemoryBackend, **settings: Any) -> Limiter:
    return Limiter(
        parse_rules({"e": {"by": "ip", "rates": "3/m", **settings}}), clock=None, backends={"memory": backend}
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_flood_of_new_names_makes_no_caller_forgotten(strategy: str) -> None:
    backend = MemoryBackend(max_keys=50)
    limiter = on(backend, strategy=strategy, rates=STRATEGIES[strategy])
    for _ in range(3):
        limiter.hit("e", who("me"), now=T)
    for number in range(1_000):
        limiter.hit("e", who(number), now=T + 0.001)
    assert not limiter.hit("e", who("me"), now=T + 0.002).allowed
    assert 50 < backend.measures()["memory_keys"] <= 50 + OVERFLOW_KEYS
    assert backend.measures()["memory_overflow_total"] == 951


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_newcomers_without_room_share_limits(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickcurve.limiter.backends.memory.OVERFLOW_KEYS", 1)
    limiter = on(MemoryBackend(max_keys=2), strategy=strategy, rates=STRATEGIES[strategy])
    assert [limiter.hit("e", who(number), now=T).allowed for number in range(2)] == [True, True]
    shared = [limiter.hit("e", who(number), now=T).allowed for number in range(2, 8)]
    assert shared == [True, True, True, False, False, False]
    assert limiter.hit("e", who(0), now=T).remaining == 1


def test_a_full_table_spreads_newcomers_over_many_limits() -> None:
    """Of 500 that come after a flood nearly all get in; only those that share a key with some others wait."""
    backend = MemoryBackend(max_keys=1_000)
    limiter = on(backend, rates="5/h")
    for number in range(1_000):
        limiter.hit("e", who(f"bot{number}"), now=T)
    assert sum(limiter.hit("e", who(f"human{number}"), now=T + number / 1_000).allowed for number in range(500)) >= 490
    assert backend.measures()["memory_keys"] <= 1_000 + OVERFLOW_KEYS
    other = on(MemoryBackend(max_keys=0), rates="1/h"), on(MemoryBackend(max_keys=0), rates="1/h")
    kept = [[each.hit("e", who(number), now=T).allowed for number in range(2_000)] for each in other]
    assert kept[0] != kept[1], "who shares with whom is a secret of the process"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_whose_windows_are_empty_make_room(strategy: str) -> None:
    backend = MemoryBackend(max_keys=50)
    limiter = on(backend, strategy=strategy, rates=STRATEGIES[strategy])
    for number in range(50):
        limiter.hit("e", who(number), now=T)
    late = [limiter.hit("e", who(f"later.{number}"), now=T + 3_600) for number in range(50)]
    assert all(decision.remaining == 2 for decision in late)
    assert backend.measures()["memory_overflow_total"] == 0
    assert backend.measures()["memory_keys"] <= 50


def test_the_table_stays_near_what_lives_in_it() -> None:
    backend = MemoryBackend()
    limiter = on(backend)
    for number in range(10_000):
        limiter.hit("e", who(number), now=T + number / 10)  # some 610 live at any time
    assert backend.measures()["memory_keys"] < 3 * 630


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_of_a_clock_that_was_ahead_make_room(strategy: str) -> None:
    backend = MemoryBackend(max_keys=50)
    limiter = on(backend, strategy=strategy, rates=STRATEGIES[strategy])
    for number in range(50):
        limiter.hit("e", who(number), now=T + DAY_S)
    after = [limiter.hit("e", who(f"later.{number}"), now=T) for number in range(50)]
    assert all(decision.remaining == 2 for decision in after)
    assert backend.measures()["memory_overflow_total"] == 0
    assert backend.measures()["memory_keys"] <= 50


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_caller_of_a_moment_ago_is_not_forgotten_by_one_whose_clock_is_ahead_by_a_second(strategy: str) -> None:
    rates = STRATEGIES[strategy]
    limiter = on(MemoryBackend(max_keys=2), strategy=strategy, rates=rates)
    end = MIDNIGHT + (1 if rates.endswith("s") else 60)  # of a window of the clock
    assert [limiter.hit("e", who("me"), now=end - 0.001).allowed for _ in range(4)] == [True, True, True, False]
    limiter.hit("e", who("you"), now=end + 0.9)
    limiter.hit("e", who("them"), now=end + 0.9)
    assert not limiter.hit("e", who("me"), now=end - 0.0005).allowed


def test_many_keys_on_one_wandering_clock_never_get_too_much() -> None:
    """Keys are forgotten and made again all the time; each is held against a log that never forgets."""
    random = Random(7)
    limiter = on(MemoryBackend(max_keys=4), rates="2/s, 3/5s")
    logs: dict[int, TieredModel] = {}
    for at_us, _ in steps(random, 6_000, [1, 5]):
        number = random.randrange(12)
        model = logs.setdefault(number, TieredModel([(2, 1), (3, 5)]))
        if limiter.hit("e", who(number), now=at_us / 1_000_000).allowed and at_us > START_US:
            model.charge(at_us, 1)
            assert model.log.since(at_us, 5) <= 6  # its own three, and at most the three that are shared


def test_no_bytes_for_more_buckets_never_admits_too_much() -> None:
    backend = MemoryBackend(max_bytes=3 * KEY_BYTES + 20 * BUCKET_BYTES)
    limiter = on(backend, rates="100/h")
    model = TieredModel([(100, 3_600)])
    for second in range(8_000):
        now = MIDNIGHT + second
        if limiter.hit("e", who("me"), now=now).allowed:
            model.charge(now * 1_000_000, 1)
            assert model.log.inside(now * 1_000_000, 3_600) <= 100
    assert len(model.log._times) > 100
    measures = backend.measures()
    assert measures["memory_buckets_merged_total"] > 0
    assert measures["memory_bytes"] <= 3 * KEY_BYTES + 20 * BUCKET_BYTES
    limiter.hit("e", who("you"), now=MIDNIGHT + 8_000)
    limiter.hit("e", who("them"), now=MIDNIGHT + 8_000)
    assert backend.measures()["memory_overflow_total"] > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_byte_that_was_taken_is_given_back(strategy: str) -> None:
    backend = MemoryBackend()
    limiter = on(backend, strategy=strategy, rates=STRATEGIES[strategy].replace("3", "300"))
    random = Random(1)
    tokens = []
    for step in range(3_000):
        decision = limiter.reserve("e", who(step % 7), random.randint(1, 3), now=T + step / 3)
        tokens.append(decision.reservation)
        if step % 3 == 0 and (token := tokens[random.randrange(len(tokens))]):
            limiter.cancel("e", token, now=T + step / 3)
    for number in range(7):
        limiter.reset("e", who(number), now=T)
    assert backend.measures()["memory_bytes"] == backend.measures()["memory_keys"] == 0


def test_bytes_are_right_when_a_key_is_forgotten_while_it_is_asked_for() -> None:
    """A hit of an idle user from a new address: looking for room for the address finds the user's key idle."""
    backend = MemoryBackend()
    rules = parse_rules({"e": [{"by": "user", "rates": "30/s"}, {"by": "ip", "rates": "3/s"}]})
    limiter = Limiter(rules, clock=None, backends={"memory": backend})
    callers = [{"user": "u", "ip": f"i{step}"} for step in range(300)]
    for step, caller in enumerate(callers):
        limiter.hit("e", caller, now=T + step * 100)
    for caller in callers:
        limiter.reset("e", caller, now=T)
    assert backend.measures()["memory_keys_evicted_total"] > 250
    assert backend.measures()["memory_bytes"] == backend.measures()["memory_keys"] == 0


def test_a_long_running_key_keeps_only_what_its_windows_reach() -> None:
    backend = MemoryBackend()
    limiter = on(backend, rates="1000/h")
    for hour in range(100):
        for step in range(100):
            limiter.hit("e", who("me"), now=MIDNIGHT + hour * 3_600 + step * 36)
    assert backend.measures()["memory_bytes"] < KEY_BYTES + 50 + 3 * 100 * BUCKET_BYTES


def test_huge_costs_do_not_overflow() -> None:
    limiter = on(MemoryBackend(), rates="1000000000/s", side="lenient")
    for second in range(200):
        assert limiter.hit("e", who("me"), 999_999_999, now=MIDNIGHT + second).allowed
        assert limiter.hit("e", who("me"), 1, now=MIDNIGHT + second).remaining == 0


@pytest.mark.parametrize(
    ("settings", "hits", "most_bytes"),
    [
        ({"rates": "100/d"}, 1, 900),
        ({"rates": "100/d"}, 100, 1_800),
        ({"rates": "2/s, 5/m, 60/h, 100/d"}, 60, 1_500),
        ({"rates": "1000/d", "edge": "minute"}, 100, 1_800),
        ({"rates": "100/d", "strategy": "fixed"}, 100, 700),
        ({"rates": "100/d", "strategy": "token_bucket"}, 100, 700),
        ({"rates": "100/d", "strategy": "single_counter"}, 100, 700),
    ],
)
def test_a_key_takes_few_bytes(settings: dict[str, Any], hits: int, most_bytes: int) -> None:
    """Measured with everything: the table, the key, the meter, its numbers."""
    keys = 100
    limiter = on(MemoryBackend(), **settings)
    names = [who(number) for number in range(keys)]
    limiter.hit("e", who("first"), now=T)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for step in range(hits):
        for name in names:
            assert limiter.hit("e", name, now=T + step * 61).allowed
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / keys < most_bytes


def test_too_many_reservations_let_the_oldest_lapse_and_stay_counted() -> None:
    backend = MemoryBackend(max_reservations=3)
    limiter = on(backend, rates="10/m")
    tokens = [limiter.reserve("e", who("me"), now=T).reservation or "" for _ in range(4)]
    assert [limiter.cancel("e", token, now=T) for token in tokens] == [
        Settled.unknown,
        Settled.done,
        Settled.done,
        Settled.done,
    ]
    assert limiter.peek("e", who("me"), now=T).remaining == 9
    assert backend.measures()["memory_reservations_lapsed_early_total"] == 1


def test_a_reservation_lapses_with_its_window() -> None:
    backend = MemoryBackend()
    limiter = on(backend)
    token = limiter.reserve("e", who("me"), now=T).reservation or ""
    assert limiter.cancel("e", token, now=T + 62) is Settled.unknown
    limiter.reserve("e", who("me"), now=T + 200)
    assert backend.measures()["memory_reservations"] == 1


def test_a_caller_that_was_forgotten_meanwhile_gets_nothing_back() -> None:
    backend = MemoryBackend(max_keys=2)
    limiter = on(backend, strategy="fixed")
    token = limiter.reserve("e", who("me"), 2, now=MIDNIGHT + 59).reservation or ""
    for number in range(10):
        limiter.hit("e", who(number), now=MIDNIGHT + 60)
    limiter.hit("e", who("me"), now=MIDNIGHT + 60)
    before = limiter.peek("e", who("me"), now=MIDNIGHT + 60)
    limiter.cancel("e", token, now=MIDNIGHT + 60)
    assert limiter.peek("e", who("me"), now=MIDNIGHT + 60) == before
