"""Every backend once, for the suites that hold all to the same answers. A new one is a new entry in BACKENDS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from clickcurve.limiter.backend import Backend, Question
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.backends.redis import RedisBackend
from clickcurve.limiter.backends.redis_cluster import RedisClusterBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import STRATEGIES, parse_rules
from testing.backend_servers import shared_memcached, shared_redis, shared_redis_cluster

# The machines of tests are shared, and no answer is late there for want of a server.
PATIENCE_S = 20.0
CONNECTIONS = 16


class Recorder(MemoryBackend):
    """Memory that notes every question."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Question] = []

    def decide(self, question: Question) -> Sequence[Quota]:
        self.questions.append(question)
        return super().decide(question)


@dataclass(frozen=True, slots=True)
class Place:
    """A backend to try, under the name that rules give it."""

    name: str
    backend: Backend

    def limiter(self, limits: Mapping[str, Any], **options: Any) -> Limiter:
        """A limiter of these rules, as a settings file has them, on this backend alone."""
        here = {
            event: [{**table, "backend": self.name} for table in (tables if isinstance(tables, list) else [tables])]
            for event, tables in limits.items()
        }
        return Limiter(parse_rules(here), backends={self.name: self.backend}, **{"clock": None, **options})


@contextmanager
def memory() -> Iterator[Place]:
    yield Place("memory", MemoryBackend())


@contextmanager
def redis() -> Iterator[Place]:
    backend = RedisBackend(shared_redis().url, timeout_s=PATIENCE_S, max_connections=CONNECTIONS)
    try:
        yield Place("redis", backend)
    finally:
        backend.close()


@contextmanager
def redis_cluster() -> Iterator[Place]:
    url = shared_redis_cluster().url
    with closing(RedisClusterBackend(url, timeout_s=PATIENCE_S, max_connections=CONNECTIONS)) as backend:
        yield Place("redis", backend)


@contextmanager
def memcached() -> Iterator[Place]:
    with closing(MemcachedBackend([shared_memcached().address], timeout_s=PATIENCE_S)) as backend:
        yield Place("memcached", backend)


BACKENDS: Mapping[str, Callable[[], AbstractContextManager[Place]]] = {
    "memory": memory,
    "redis": redis,
    "redis: cluster": redis_cluster,
    "memcached": memcached,
}


CLUSTER = "redis: cluster"
# Those that decide together about rules by different features.
OF_SEVERAL_CALLERS = tuple(name for name in BACKENDS if name != CLUSTER)


def on(*strategies: str, among: Iterable[str] = tuple(BACKENDS)) -> pytest.MarkDecorator:
    """Runs a test with each of these strategies (default: all) on each backend among some."""
    pairs = [(strategy, backend) for backend in among for strategy in strategies or STRATEGIES]
    return pytest.mark.parametrize(("strategy", "place"), pairs, indirect=["place"])
