"""Several processes, each of many threads, ask one Redis at once: exactly as many are let in as there are places."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from clickcurve.limiter.rule import SUPPORTED
from testing.backend_servers import Served, shared_redis
from testing.server import ROOT, command, plain_environment

PROCESSES, ROUNDS = 4, 10


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def server() -> Served:
    return shared_redis()


@pytest.fixture
def hammers(server: Served, request: pytest.FixtureRequest) -> Iterator[list[subprocess.Popen[str]]]:
    asking = command(server.url, request.param, module="tests.limiter.hammer")
    with ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    asking,
                    cwd=ROOT,
                    env=plain_environment(),
                    text=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(PROCESSES)
        ]
        assert [line(process) for process in processes] == ["ready"] * PROCESSES
        yield processes


@pytest.mark.parametrize("hammers", SUPPORTED["redis"], indirect=True)
def test_four_processes_of_25_threads_get_exactly_the_five_places_there_are(
    hammers: list[subprocess.Popen[str]],
) -> None:
    for number in range(ROUNDS):
        for process in hammers:
            assert process.stdin is not None
            process.stdin.write(f"caller {number}\n")
            process.stdin.flush()
        assert sum(int(line(process)) for process in hammers) == 5
