"""Every backend once, for the suites that hold all of them to the same answers. A new one is a new entry in BACKENDS.

`counters` is no backend of the program: it is the arithmetic of `counters` over a plain dict, which a backend
that can only read and add many numbers shares, held to the same answers as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from clickcurve.limiter.backend import Backend, Question, Settled, lapses_us
from clickcurve.limiter.backends.counters import Counter, decide_by_counters
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.backends.redis import RedisBackend
from clickcurve.limiter.decision import is_admitted
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import SUPPORTED, parse_rules
from testing.backend_servers import shared_memcached, shared_redis

# The machines of tests are shared, and no answer is late there for want of a server.
PATIENCE_S = 20.0
CONNECTIONS = 16


class CounterBackend:
    """Named counters in a dict. rounds: how many rounds of reading each question took."""

    keeps_time = False

    def __init__(self) -> None:
        self.counters: dict[Counter, int] = {}
        self.rounds: list[int] = []
        self._held: dict[str, list[Counter]] = {}
        self._lapses_us: dict[str, int] = {}
        self._costs: dict[str, int] = {}

    def decide(self, question: Question) -> tuple[Quota, ...]:
        deciding = decide_by_counters(question)
        wanted = next(deciding)
        self.rounds.append(1)
        try:
            while True:
                wanted = deciding.send({name: self.counters[name] for name in wanted if name in self.counters})
                self.rounds[-1] += 1
        except StopIteration as ended:
            verdict = ended.value
        for name, _ in verdict.add:
            self.counters[name] = self.counters.get(name, 0) + question.cost
        for name, value, _ in verdict.put:
            self.counters[name] = value
        if question.reservation is not None and is_admitted(question.rules, verdict.quotas):
            self._held[question.reservation] = [name for name, _ in verdict.add]
            self._costs[question.reservation] = question.cost
            self._lapses_us[question.reservation] = lapses_us(question.rules, question.at_us or 0)
        quotas: tuple[Quota, ...] = verdict.quotas
        return quotas

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        if self._lapses_us.get(reservation, 0) <= (at_us or 0):
            return Settled.unknown
        cost = self._costs.pop(reservation, None)
        if cost is None:
            return Settled.ended
        for name in self._held[reservation] if keep is not None else ():
            self.counters[name] -= cost - (keep or 0)
        return Settled.done

    def reset(self, question: Question) -> None:
        self.counters = {name: count for name, count in self.counters.items() if name.key not in question.keys}
        for token, names in self._held.items():
            self._held[token] = [name for name in names if name.key not in question.keys]

    def measures(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None: ...


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
def counters() -> Iterator[Place]:
    yield Place("memcached", CounterBackend())


@contextmanager
def redis() -> Iterator[Place]:
    backend = RedisBackend(shared_redis().url, timeout_s=PATIENCE_S, max_connections=CONNECTIONS)
    try:
        yield Place("redis", backend)
    finally:
        backend.close()


@contextmanager
def memcached() -> Iterator[Place]:
    with closing(MemcachedBackend([shared_memcached().address], timeout_s=PATIENCE_S)) as backend:
        yield Place("memcached", backend)


BACKENDS: Mapping[str, Callable[[], AbstractContextManager[Place]]] = {
    "memory": memory,
    "counters": counters,
    "redis": redis,
    "memcached": memcached,
}
STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "memory": SUPPORTED["memory"],
    "counters": SUPPORTED["memcached"],
    "redis": SUPPORTED["redis"],
    "memcached": SUPPORTED["memcached"],
}


# Those that read and write in one step, so that callers side by side are decided as if one after the other.
EXACT = ("memory", "redis")


def on(*strategies: str, among: Iterable[str] = tuple(BACKENDS)) -> pytest.MarkDecorator:
    """Runs a test with each of these strategies (default: all) on each backend, among some, that it runs on."""
    pairs = [
        (strategy, backend)
        for backend in among
        for strategy in STRATEGIES[backend]
        if not strategies or strategy in strategies
    ]
    return pytest.mark.parametrize(("strategy", "place"), pairs, indirect=["place"])
