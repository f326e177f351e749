"""The servers that the tests start answer, forget, come back and are gone when they are ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from testing.backend_servers import Served, memcached_server, redis_server, shared_memcached, shared_redis

pytestmark = pytest.mark.needs("redis", "memcached")

KINDS: list[tuple[Callable[[], AbstractContextManager[Served]], bytes, bytes]] = [
    (redis_server, b"SET a 1", b"GET a"),
    (memcached_server, b"set a 0 0 1\r\n1", b"get a"),
]


@pytest.mark.parametrize(("kind", "write", "read"), KINDS)
def test_it_is_killed_and_comes_back_empty_on_the_same_port(
    kind: Callable[[], AbstractContextManager[Served]], write: bytes, read: bytes
) -> None:
    with kind() as server:
        nothing = server.ask(read)
        server.ask(write)
        assert server.ask(read) != nothing
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            server.ask(read)
        server.start()
        assert server.ask(read) == nothing
    with pytest.raises(ConnectionRefusedError):
        server.ask(read)


@pytest.mark.parametrize("shared", [shared_redis, shared_memcached])
def test_the_shared_one_is_one(shared: Callable[[], Served]) -> None:
    assert shared().port == shared().port
