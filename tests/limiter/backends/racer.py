"""Race processes for the places of a limit: `python -m tests.limiter.backends.racer BACKEND ADDRESS RULES`.

RULES are rules by event, as JSON. The program says `ready`, and then for each line `EVENT CALLER NOW` that it reads how
many of its threads' hits were admitted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from clickcurve.limiter.backend import Backend
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.redis import RedisBackend
from clickcurve.limiter.limiter import Limiter
from testing.server import ROOT, command, plain_environment
from tests.limiter.places import PATIENCE_S, Place
from tests.limiter.together import together

PROCESSES, THREADS = 4, 25
BACKENDS: Mapping[str, Callable[[str], Backend]] = {
    "redis": lambda address: RedisBackend(address, timeout_s=PATIENCE_S, max_connections=THREADS),
    "memcached": lambda address: MemcachedBackend([address], timeout_s=PATIENCE_S),
}


class Racers:
    """Processes that are ready."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes
        assert [_line(process) for process in processes] == ["ready"] * PROCESSES

    def race(self, event: str, caller: str, now: float) -> int:
        """Returns how many hits of this caller's are admitted, of one for each thread of each process."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{event} {caller} {now}\n")
            process.stdin.flush()
        return sum(int(_line(process)) for process in self._processes)


@contextmanager
def racers(backend: str, address: str, rules: Mapping[str, Any]) -> Iterator[Racers]:
    """Four processes of 25 threads each on one backend."""
    racing = command(backend, address, json.dumps(rules), module="tests.limiter.backends.racer")
    pipes: Mapping[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as running:
        processes = []
        for _ in range(PROCESSES):
            process = subprocess.Popen(racing, cwd=ROOT, env=plain_environment(), **pipes)
            processes.append(running.enter_context(process))
            running.callback(process.kill)
        yield Racers(processes)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def main(backend: str, address: str, rules: str) -> None:
    place = Place(backend, BACKENDS[backend](address))
    limiter = place.limiter(json.loads(rules))
    print("ready", flush=True)
    for line in sys.stdin:
        event, caller, now = line.split()
        print(_race(limiter, event, caller, float(now)), flush=True)


def _race(limiter: Limiter, event: str, caller: str, now: float) -> int:
    allowed: list[bool] = []
    together(THREADS, lambda _: allowed.append(limiter.hit(event, {"ip": caller}, now=now).allowed))
    return sum(allowed)


if __name__ == "__main__":
    main(*sys.argv[1:])
