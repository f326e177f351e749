"""What docs/limiter-backends.md says of commands, patterns and programs is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from clickcurve.limiter.backends.redis import RedisBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import STRATEGIES, parse_rules
from testing.backend_servers import Served, redis_server, shared_memcached, shared_redis
from testing.server import ROOT
from tests.limiter.given import ANN
from tests.limiter.places import PATIENCE_S

pytestmark = pytest.mark.needs("redis", "memcached")

PAGE = (ROOT / "docs" / "limiter-backends.md").read_text()


@pytest.fixture
def server() -> Served:
    return shared_redis()


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_program_runs(server: Served) -> None:
    program, _ = programs()
    assert "redis://127.0.0.1:6379/0" in program
    exec(program.replace("redis://127.0.0.1:6379/0", server.url), {})


def test_the_program_on_memcached_runs() -> None:
    _, program = programs()
    place = '["127.0.0.1:11211"]'
    assert place in program
    made: dict[str, Any] = {}
    exec(program.replace(place, f'["{shared_memcached().address}"], timeout_s={PATIENCE_S}'), made)
    made["limiter"].close()


def test_the_commands_that_are_named_are_enough() -> None:
    """With what a client may do anyway, such as HELLO, and with the right to those keys only."""
    (commands,) = re.findall(r"^`(\+eval .*)`\.$", PAGE, re.MULTILINE)
    with redis_server() as server:
        user = f"ACL SETUSER limiter on >secret ~clickcurve:limit:* {commands} +@connection"
        assert server.ask(user.encode()) == b"+OK\r\n"
        url = server.url.replace("://", "://limiter:secret@")
        for strategy in STRATEGIES:
            rates = "1000/s" if strategy == "per_second" else "1000/h"
            rule = {"by": "ip", "rates": rates, "strategy": strategy, "backend": "redis"}
            backend = RedisBackend(url, timeout_s=PATIENCE_S)
            limiter = Limiter(parse_rules({"e": rule}), clock=None, backends={"redis": backend})
            for n in range(700 if strategy == "tiered" else 3):
                limiter.hit("e", ANN, explain=True, now=1_709_164_800 + n)
            limiter.cancel("e", limiter.reserve("e", ANN, now=1_709_165_500).reservation or "", now=1_709_165_500)
            limiter.reset("e", ANN)
            limiter.close()


# --- the patterns -----------------------------------------------------------------------------------------------------
@pytest.fixture
def client(server: Served) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as asking:
        yield asking


def test_looking_before_counting_admits_an_eleventh(client: redis.Redis) -> None:
    def admits() -> bool:
        if int(client.get("calls") or 0) > 10:
            return False
        pipeline = client.pipeline()
        pipeline.incr("calls")
        pipeline.expire("calls", 60)
        pipeline.execute()
        return True

    assert sum(admits() for _ in range(20)) == 11


def test_a_process_that_dies_between_incr_and_expire_leaves_a_counter_without_an_end(client: redis.Redis) -> None:
    client.incr("calls")  # and here the caller dies, so that nobody ever sees a 1 again
    assert client.incr("calls") != 1
    assert client.ttl("calls") == -1


def test_counting_before_looking_counts_refused_hits(client: redis.Redis) -> None:
    def admits() -> bool:
        pipeline = client.pipeline()
        for window_s in (1, 60):
            pipeline.incr(f"calls {window_s}")
            pipeline.expire(f"calls {window_s}", 3_600)
        second, _, minute, _ = pipeline.execute()
        return bool(second <= 3 and minute <= 20)

    assert sum(admits() for _ in range(30)) == 3
    assert client.get("calls 60") == b"30"
