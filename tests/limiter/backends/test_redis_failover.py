"""A primary fails over to its replica, behind one address or where sentinels name the new one: the limiter finds it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from redis import Redis

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backends.guard import AsyncGuarded, Guarded, Patience
from clickcurve.limiter.backends.redis import AsyncRedisBackend, RedisBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from testing.backend_servers import Served, redis_server, sentinels
from testing.forwarder import forwarder

RULES = parse_rules({"e": {"by": "ip", "rates": "5/h", "backend": "redis"}})
PATIENCE = Patience(deadline_s=2.0, failures=3, pause_s=0.02, max_pause_s=0.05)
CLOCKS: Mapping[str, Any] = {"clock": time.time, "timer": time.monotonic, "patience": PATIENCE}
TRIES = 60_000

Ask = Callable[[str], Decision]


@contextmanager
def replicated() -> Iterator[tuple[Served, Served]]:
    """A primary, and a replica that has all that the primary has."""
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
    with (
        redis_server(*quick) as primary,
        redis_server(*quick, "--replicaof", "127.0.0.1", str(primary.port)) as replica,
    ):
        until(lambda: b"master_link_status:up" in replica.ask(b"INFO replication"))
        yield primary, replica


def until(holds: Callable[[], bool]) -> None:
    never = Event()
    for _ in range(TRIES):
        if holds():
            return
        never.wait(0.01)
    raise AssertionError("it did not come true")


@contextmanager
def threads(url: str) -> Iterator[Ask]:
    limiter = Limiter(RULES, backends={"redis": Guarded(RedisBackend(url, timeout_s=1.0), **CLOCKS)})
    yield lambda ip: limiter.hit("e", {"ip": ip})
    limiter.close()


@contextmanager
def event_loop(url: str) -> Iterator[Ask]:
    with asyncio.Runner() as runner:

        async def make() -> AsyncLimiter:
            backend = AsyncRedisBackend(url, timeout_s=None, discover_s=1.0)
            return AsyncLimiter(RULES, backends={"redis": AsyncGuarded(backend, **CLOCKS)})

        limiter = runner.run(make())
        yield lambda ip: runner.run(limiter.hit("e", {"ip": ip}))
        runner.run(limiter.close())


FORMS = pytest.mark.parametrize("form", [threads, event_loop], ids=["threads", "event loop"])


@FORMS
@pytest.mark.needs("redis")
def test_behind_one_address_the_old_primary_lives_on_as_a_replica(form: Any) -> None:
    """Its connections stay open, and answer READONLY: one question is lost by it, then the new primary decides."""
    with replicated() as (old, new), forwarder(old.port) as front, form(f"redis://127.0.0.1:{front.port}/0") as ask:
        assert [ask("ann").allowed for _ in range(6)] == [True] * 5 + [False]
        until(lambda: new.ask(b"DBSIZE") == b":1\r\n")
        assert new.ask(b"REPLICAOF NO ONE").startswith(b"+OK")
        assert old.ask(b"REPLICAOF 127.0.0.1 %d" % new.port).startswith(b"+OK")
        front.lead_to(new.port)
        assert ask("ben").fallback, "the answer of a replica"
        told = [ask("ben") for _ in range(6)]
        assert [each.fallback for each in told] == [False] * 6
        assert [each.allowed for each in told] == [True] * 5 + [False]
        assert not ask("ann").allowed, "what was replicated counts on"


@FORMS
@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        (["CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"], "Link with MASTER is down"),
        (["CONFIG SET min-replicas-to-write 2"], "Not enough good replicas"),
        (["CONFIG SET maxmemory 1"], "maxmemory"),
    ],
)
@pytest.mark.needs("redis")
def test_every_answer_that_is_an_error_ends_its_connection(form: Any, commands: list[str], answer: str) -> None:
    with redis_server() as old, redis_server() as new, forwarder(old.port) as front:
        url = f"redis://127.0.0.1:{front.port}/0"
        with form(url) as ask:
            assert ask("ann").remaining == 4
            for command in commands:
                assert old.ask(command.encode()).startswith(b"+OK")
            with pytest.raises(BackendUnavailable, match=answer):
                Limiter(RULES, backends={"redis": RedisBackend(old.url, timeout_s=2.0)}).hit("e", {"ip": "x"})
            front.lead_to(new.port)
            assert ask("ann").fallback
            assert [(each.fallback, each.remaining) for each in (ask("ann"), ask("ann"))] == [(False, 4), (False, 3)]


@FORMS
@pytest.mark.needs("redis")
def test_sentinels_name_the_new_primary_after_a_failover(form: Any) -> None:
    """The primary is killed, the sentinels agree on its replica; then one of them answers nothing any more."""
    with replicated() as (old, new), sentinels("links", old, password="s3cret") as watching:
        until(lambda: all(map(knows_all, watching)))
        hosts = ",".join(each.address for each in watching)
        with form(f"redis+sentinel://{hosts}/links/3?sentinel_password=s3cret") as ask:
            assert [ask("ann").allowed for _ in range(6)] == [True] * 5 + [False]
            assert b"db3:keys=1" in old.ask(b"INFO keyspace")
            until(lambda: b"db3:keys=1" in new.ask(b"INFO keyspace"))
            old.kill()
            until(lambda: not ask("ben").fallback)
            assert b"role:master" in new.ask(b"INFO replication")
            assert not ask("ann").fallback
            assert not ask("ann").allowed, "what was replicated counts on"
            watching[0].suspend()
            assert new.ask(b"CLIENT KILL TYPE normal").startswith(b":")
            until(lambda: not ask("ben").fallback)
            assert not ask("ann").allowed
            watching[0].resume()


def knows_all(sentinel: Served) -> bool:
    """Whether it has found the replica and both other sentinels, without which there is no failover."""
    with Redis(port=sentinel.port, password="s3cret", decode_responses=True) as client:
        told = client.sentinel_masters()["links"]
    return bool(told["num-slaves"] == 1 and told["num-other-sentinels"] == 2)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://h1:26379,h2:26379",
        "redis+sentinel://h1:26379,/name",
        "redis+sentinel:///name",
        "redis+sentinel://h1:99999/name",
        "redis+sentinel://h1/name/x",
        "redis+sentinel://h1/name?wrong=1",
        "redis+sentinel:h1/name",
    ],
)
@pytest.mark.parametrize("kind", [RedisBackend, AsyncRedisBackend])
def test_a_text_that_names_no_sentinels_is_refused_at_once(kind: Any, url: str) -> None:
    with pytest.raises(SettingInvalid, match="not an address of a Redis"):
        kind(url)


@FORMS
def test_sentinels_that_are_all_away_are_a_backend_that_does_not_answer(form: Any) -> None:
    with form("redis+sentinel://127.0.0.1:1,[::1]:2/links") as ask:
        assert ask("ann").fallback
