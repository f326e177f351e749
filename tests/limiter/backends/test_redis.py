"""What only Redis has: one script for each decision, keys that end, its own clock, connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.redis import AsyncRedisBackend, RedisBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from testing.backend_servers import Served, redis_server, shared_redis
from testing.server import free_port
from tests.limiter.given import ANN, BEN, MIDNIGHT, T, hits, ten
from tests.limiter.places import PATIENCE_S, Place, memory, on
from tests.limiter.strategies.test_same_answers import numbers
from tests.limiter.together import together

pytestmark = pytest.mark.needs("redis")

ON_REDIS = ("redis",)


@pytest.fixture
def server() -> Served:
    return shared_redis()


@pytest.fixture
def redis(server: Served) -> Iterator[Place]:
    backend = RedisBackend(server.url, timeout_s=PATIENCE_S)
    yield Place("redis", backend)
    backend.close()


def calls(server: Served) -> dict[str, int]:
    """How often each command was run since the server was emptied."""
    told = server.ask(b"INFO commandstats").decode()
    return {name: int(many) for name, many in re.findall(r"cmdstat_([a-z|]+):calls=([0-9]+)", told)}


def keys(server: Served) -> list[bytes]:
    return re.findall(rb"\$[0-9]+\r\n([^\r]+)\r\n", server.ask(b"KEYS *"))


def lives_ms(server: Served) -> list[int]:
    """How long each key has left: -1 for one that has no end."""
    told = server.ask(
        b"EVAL \"local t = {} for _, k in ipairs(redis.call('KEYS', '*')) do t[#t+1] = redis.call('PTTL', k) end "
        b'return t" 0'
    )
    return [int(each) for each in re.findall(rb":(-?[0-9]+)\r\n", told)]


# --- one script -------------------------------------------------------------------------------------------------------
def test_a_decision_is_one_call_however_many_rules_and_rates(server: Served, redis: Place) -> None:
    limiter = redis.limiter(
        {
            "e": [
                {"by": "ip", "rates": "2/s, 5/m, 10/h, 100/d"},
                {"by": "user", "rates": "3/m, 60/h", "strategy": "fixed"},
                {"by": "user", "rates": "9/m", "strategy": "token_bucket"},
                {"by": "ip", "rates": "9/h", "strategy": "list"},
            ]
        }
    )
    limiter.cancel("e", limiter.reserve("e", BEN).reservation or "")
    server.ask(b"CONFIG RESETSTAT")
    limiter.hit("e", ANN)
    limiter.peek("e", ANN)
    limiter.cancel("e", limiter.reserve("e", BEN).reservation or "")
    assert calls(server)["evalsha"] == 4
    assert "eval" not in calls(server)


def test_a_server_that_has_lost_the_scripts_gets_them_again_and_counts_once(server: Served, redis: Place) -> None:
    limiter = ten(redis, "tiered")
    for expected in (9, 8, 7):
        server.ask(b"SCRIPT FLUSH")
        assert limiter.hit("e", ANN).remaining == expected
        assert limiter.hit("e", BEN).remaining == expected


def test_a_long_history_answers_as_memory_does(redis: Place, server: Served) -> None:
    """Of a series of more than some 500 buckets only those are read that matter; it is cut when half of it is over."""
    random = Random("a long history")
    rules = {"e": {"by": "ip", "rates": "20/m, 3000/d", "side": "lenient"}}
    with memory() as reference:
        limiters = redis.limiter(rules), reference.limiter(rules)
        held: list[tuple[str, str]] = []
        now = float(MIDNIGHT)
        for step in range(6_000):
            now += random.choice((1, 7, 31, 60))
            verb, more = "hit", {"explain": step % 500 == 0}
            if step % 40 == 0:
                verb = "reserve"
            cost = random.randint(1, 2)
            one, other = (getattr(each, verb)("e", ANN, cost, now=now, **more) for each in limiters)
            assert one.quota == other.quota, step
            if one.reservation is not None and other.reservation is not None:
                held.append((one.reservation, other.reservation))
            if step % 40 == 30 and held:
                pair = held.pop(random.randrange(len(held)))
                ends = [each.cancel("e", token, now=now) for each, token in zip(limiters, pair, strict=True)]
                assert ends[0] is ends[1]
    (series,) = [key for key in keys(server) if b"held" not in key]
    assert int(server.ask(b'STRLEN "' + series + b'"')[1:]) > 2 * 4_096
    server.ask(b'PEXPIRE "' + series + b'" 60000')
    now += limiters[0].peek("e", ANN, now=now).retry_after_s or 0.0
    assert limiters[0].hit("e", ANN, now=now).allowed
    assert int(server.ask(b'PTTL "' + series + b'"')[1:]) > 86_000_000


def test_sums_may_grow_beyond_what_is_kept_of_them(redis: Place) -> None:
    rules = {"e": {"by": "ip", "rates": "1000000000/2s"}}
    with memory() as reference:
        limiters = redis.limiter(rules), reference.limiter(rules)
        for step in range(40):
            told = [each.hit("e", ANN, 400_000_000, explain=True, now=T + step) for each in limiters]
            assert numbers(told[0]) == numbers(told[1])


def test_a_list_takes_many_places_at_once(redis: Place) -> None:
    limiter = redis.limiter({"e": {"by": "ip", "rates": "10000/h", "strategy": "list"}})
    for cost, many in ((1_000, 1_000), (2_500, 3_500), (6_499, 9_999), (2, 9_999), (1, 10_000)):
        limiter.hit("e", ANN, cost, caller="ü" * 300, now=T)
        assert limiter.peek("e", ANN, now=T).callers == ("ü" * 256,) * many


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rates", [{"rates": "10/m", "burst": 25}, {"rates": "5/20s, 12/m, 40/h"}])
def test_token_buckets_are_given_back_what_memory_gives_back(redis: Place, rates: dict[str, Any], seed: int) -> None:
    """Many open reservations of one key, ended in any order."""
    random = Random(f"tokens {seed}")
    rules = {"e": {"by": "ip", "strategy": "token_bucket", **rates}}
    with memory() as reference:
        limiters = redis.limiter(rules), reference.limiter(rules)
        held: list[list[str]] = []
        now = T
        for _ in range(500):
            now += random.choice((0, 0.5, 3, 11, -0.25))
            if held and random.random() < 0.45:
                tokens, keep = held.pop(random.randrange(len(held))), random.choice((0, 0, 1, None))
                for each, token in zip(limiters, tokens, strict=True):
                    each.commit("e", token, keep, now=now)
            cost = random.randint(1, 4)
            told = [each.reserve("e", ANN, cost, now=now) for each in limiters]
            assert told[0].quota == told[1].quota
            if told[0].allowed:
                held.append([each.reservation or "" for each in told])


# --- keys -------------------------------------------------------------------------------------------------------------
@on(among=ON_REDIS)
def test_trap_11_keys_without_an_end(strategy: str, place: Place, server: Served) -> None:
    """After every verb each key has an end, and not a later one than its rule says."""
    limiter = ten(place, strategy)
    rule = parse_rules({"e": {"by": "ip", "rates": "10/s" if strategy == "per_second" else "10/m"}})[0]
    reservation = limiter.reserve("e", ANN, 3).reservation or ""
    other = limiter.reserve("e", BEN).reservation or ""
    for act in (
        lambda: limiter.hit("e", ANN),
        lambda: limiter.commit("e", reservation, 1),
        lambda: limiter.cancel("e", other),
        lambda: limiter.hit("e", ANN, 11),
        lambda: limiter.peek("e", BEN, explain=True),
        lambda: limiter.hit("e", BEN),
        lambda: limiter.reset("e", ANN),
    ):
        act()
        assert lives_ms(server)
        assert all(0 < life_ms <= (rule.ttl_s + 2) * 1_000 for life_ms in lives_ms(server))


@on(among=ON_REDIS)
def test_what_counts_nothing_leaves_no_key(strategy: str, place: Place, server: Served) -> None:
    limiter = ten(place, strategy)
    limiter.peek("e", ANN, explain=True)
    limiter.hit("e", ANN, 11)
    limiter.reserve("e", ANN, 11)
    limiter.cancel("e", "1-" + "0" * 32)
    limiter.reset("e", ANN)
    assert keys(server) == []


def test_trap_2_a_life_of_more_than_thirty_days(redis: Place, server: Served) -> None:
    limiter = redis.limiter({"e": {"by": "ip", "rates": "5/366d", "strategy": "fixed"}})
    assert hits(limiter, 6, T) == [True] * 5 + [False]
    day_ms = 86_400_000
    assert [each // day_ms for each in lives_ms(server)] == [366]


def test_trap_3_a_window_of_one_second_outlives_that_second(redis: Place, server: Served) -> None:
    """The time is the server's; fine buckets live as long as any window that has such, in a reloaded rule too."""
    limiter = redis.limiter({"e": {"by": "ip", "rates": "5/s"}})
    limiter.hit("e", ANN)
    assert 20_000 < lives_ms(server)[0] <= 22_000


def test_trap_4_a_key_that_is_gone_is_begun_again(redis: Place, server: Served) -> None:
    """Between two hits, and between a hit and its refund: nobody finds less than nothing."""
    for strategy in ("tiered", "fixed", "single_counter", "list", "token_bucket"):
        limiter = ten(redis, strategy)
        reservation = limiter.reserve("e", ANN, 4, now=T).reservation or ""
        lost = [key for key in keys(server) if b"held" not in key]
        for key in lost:
            assert server.ask(b'DEL "' + key + b'"') == b":1\r\n"
        assert limiter.reserve("e", ANN, now=T).remaining == 9
        assert limiter.cancel("e", reservation, now=T) is Settled.done
        assert limiter.peek("e", ANN, now=T).remaining == 9
        server.empty()


def test_trap_15_resetting_looks_through_no_keys(redis: Place, server: Served) -> None:
    limiter = ten(redis, "tiered")
    limiter.hit("e", ANN)
    server.ask(b"CONFIG RESETSTAT")
    limiter.reset("e", ANN)
    assert calls(server).keys() - {"config|resetstat", "info"} == {"del"}


# --- time -------------------------------------------------------------------------------------------------------------
def test_the_time_is_that_of_the_server(server: Served, redis: Place) -> None:
    """Whatever the clock of the limiter says, which other backends go by."""
    limiter = redis.limiter({"e": {"by": "ip", "rates": "5/m", "strategy": "single_counter"}}, clock=lambda: 7.0)

    def time_s() -> int:
        return int(re.findall(rb"\$[0-9]+\r\n([0-9]+)\r\n", server.ask(b"TIME"))[0])

    before = time_s()
    told = limiter.hit("e", ANN)
    assert before + 60 <= told.reset_at <= time_s() + 61


# --- side by side -----------------------------------------------------------------------------------------------------
def test_trap_1_a_race_while_the_window_before_still_counts(redis: Place) -> None:
    limiter = redis.limiter({"e": {"by": "ip", "rates": "5/2s, 8/m"}})
    for moment, many in ((T, 5), (T + 3, 3), (T + 10, 0)):
        allowed: list[bool] = []
        together(20, lambda _, now=moment, told=allowed: told.append(limiter.hit("e", ANN, now=now).allowed))  # type: ignore[misc]
        assert sum(allowed) == many


def test_there_are_no_more_connections_than_were_asked_for(server: Served) -> None:
    backend = RedisBackend(server.url, timeout_s=PATIENCE_S, max_connections=3)
    limiter = Place("redis", backend).limiter({"e": {"by": "ip", "rates": "1000/m"}})
    together(30, lambda _: hits(limiter, 10, T).clear())
    match = re.search(rb"connected_clients:([0-9]+)", server.ask(b"INFO clients"))
    assert match is not None
    assert int(match[1]) <= 3 + 1
    assert limiter.peek("e", ANN, now=T).remaining == 700
    backend.close()


async def test_connections_that_the_server_has_closed_are_made_anew(server: Served) -> None:
    """A server that ends idle connections, or was started again: nobody's question is lost by it."""
    blocking = RedisBackend(server.url, timeout_s=PATIENCE_S)
    limiter = Place("redis", blocking).limiter({"e": {"by": "ip", "rates": "1000/m"}})
    for expected in (999, 998, 997):
        assert limiter.hit("e", ANN, now=T).remaining == expected
        assert server.ask(b"CLIENT KILL TYPE normal").startswith(b":1")
    assert blocking.measures() == {"redis_connections_made_total": 3, "redis_failures_total": 0}
    limiter.close()
    backend = AsyncRedisBackend(server.url, timeout_s=PATIENCE_S)
    rules = parse_rules({"e": {"by": "ip", "rates": "1000/m", "backend": "redis"}})
    awaiting = AsyncLimiter(rules, clock=None, backends={"redis": backend})
    for expected in (996, 995, 994):
        assert (await awaiting.hit("e", ANN, now=T)).remaining == expected
        assert server.ask(b"CLIENT KILL TYPE normal").startswith(b":1")
        while backend._pipe is not None and backend._pipe.is_open:
            await asyncio.sleep(0)
    assert backend.measures() == {"redis_connections_made_total": 3, "redis_failures_total": 0}
    await awaiting.close()


async def test_many_questions_are_under_way_on_one_connection(server: Served) -> None:
    """Answers of all sizes, refusals and errors come to those who asked."""
    backend = AsyncRedisBackend(server.url, timeout_s=PATIENCE_S)
    rules = parse_rules({"e": {"by": "ip", "rates": "2/m", "backend": "redis"}})
    limiter = AsyncLimiter(rules, clock=None, backends={"redis": backend})
    server.ask(b"SCRIPT FLUSH")
    told = await asyncio.gather(
        *(limiter.hit("e", {"ip": str(n // 3)}, explain=n % 2 == 0, now=T + n % 3 / 2) for n in range(900))
    )
    # Who has to send the script once more comes a little later: which two of three get in is open.
    for first in range(0, 900, 3):
        of_one = told[first : first + 3]
        assert sorted((each.allowed, each.remaining) for each in of_one) == [(False, 0), (True, 0), (True, 1)]
    assert [bool(each.pieces) for each in told] == [True, False] * 450
    assert backend.measures()["redis_connections_made_total"] == 1
    await limiter.close()


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("url", ["", "127.0.0.1:6379", "http://127.0.0.1", "redis://127.0.0.1/?wrong=1"])
@pytest.mark.parametrize("kind", [RedisBackend, AsyncRedisBackend])
def test_a_text_that_is_not_an_address_is_refused_at_once(kind: Any, url: str) -> None:
    with pytest.raises(SettingInvalid, match="not an address of a Redis"):
        kind(url)


def test_a_cluster_is_refused() -> None:
    # Its other port would be 10,000 higher, and there may be none.
    with redis_server("--cluster-enabled", "yes", "--cluster-port", str(free_port())) as cluster:
        limiter = Place("redis", RedisBackend(cluster.url, timeout_s=PATIENCE_S)).limiter(
            {"e": {"by": "ip", "rates": "5/m"}}
        )
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="Redis Cluster"):
                limiter.hit("e", ANN)

        async def ask() -> None:
            rules = parse_rules({"e": {"by": "ip", "rates": "5/m", "backend": "redis"}})
            backend = AsyncRedisBackend(cluster.url, timeout_s=PATIENCE_S)
            await AsyncLimiter(rules, clock=None, backends={"redis": backend}).hit("e", ANN)

        with pytest.raises(BackendUnavailable, match="Redis Cluster"):
            asyncio.run(ask())


def test_a_server_without_room_is_one_that_does_not_answer() -> None:
    with redis_server() as server:
        limiter = ten(Place("redis", RedisBackend(server.url, timeout_s=PATIENCE_S)), "tiered")
        assert limiter.hit("e", ANN, now=T).remaining == 9
        server.ask(b"CONFIG SET maxmemory 1")
        with pytest.raises(BackendUnavailable, match="maxmemory"):
            limiter.hit("e", ANN, now=T)
        server.ask(b"CONFIG SET maxmemory 0")
        assert limiter.hit("e", ANN, now=T).remaining == 8


# --- event loops ------------------------------------------------------------------------------------------------------
def test_a_hundred_tasks_get_exactly_the_five_places_there_are(server: Served) -> None:
    async def ask() -> list[bool]:
        rules = parse_rules({"e": {"by": "ip", "rates": "5/m", "backend": "redis"}})
        backend = AsyncRedisBackend(server.url, timeout_s=PATIENCE_S, max_asked=10)
        limiter = AsyncLimiter(rules, clock=None, backends={"redis": backend})
        told = await asyncio.gather(*(limiter.hit("e", ANN, now=T) for _ in range(100)))
        await limiter.reset("e", ANN)
        told += await asyncio.gather(*(limiter.hit("e", ANN, now=T) for _ in range(100)))
        await limiter.close()
        return [decision.allowed for decision in told]

    assert sum(asyncio.run(ask())) == 10


async def test_the_two_forms_put_the_same_questions(server: Served) -> None:
    """All verbs, one after the other on the same counts, by threads' and by event loops' form in turn."""
    table = {"by": "ip", "rates": "10/m", "backend": "redis"}
    rules = parse_rules({"e": [{**table, "strategy": each} for each in ("tiered", "token_bucket", "list")]})
    blocking = Limiter(rules, clock=None, backends={"redis": RedisBackend(server.url, timeout_s=PATIENCE_S)})
    backend = AsyncRedisBackend(server.url, timeout_s=PATIENCE_S)
    awaited = AsyncLimiter(rules, clock=None, backends={"redis": backend})
    assert (await awaited.hit("e", ANN, 2, now=T)).remaining == 8
    assert blocking.hit("e", ANN, 2, now=T).remaining == 6
    decision = await awaited.reserve("e", ANN, 3, now=T)
    assert blocking.cancel("e", decision.reservation or "", now=T) is Settled.done
    server.ask(b"SCRIPT FLUSH")
    assert await awaited.cancel("e", decision.reservation or "", now=T) is Settled.ended
    assert numbers(await awaited.peek("e", ANN, now=T)) == numbers(blocking.peek("e", ANN, now=T))
    await awaited.close()


def test_a_task_that_is_ended_while_it_asks_spoils_no_connection(server: Served) -> None:
    async def act() -> list[int]:
        rules = parse_rules({"e": {"by": "ip", "rates": "1000/m", "backend": "redis"}})
        backend = AsyncRedisBackend(server.url, timeout_s=PATIENCE_S)
        limiter = AsyncLimiter(rules, clock=None, backends={"redis": backend})
        told = []
        for n in range(60):
            asking = asyncio.ensure_future(limiter.hit("e", BEN, now=T))
            for _ in range(n % 12):
                await asyncio.sleep(0)
            asking.cancel()
            told.append((await limiter.hit("e", ANN, now=T)).remaining)
        await limiter.close()
        return told

    assert asyncio.run(act()) == list(range(999, 939, -1))
