"""Servers of this suite say by their log which port they took and what they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from testing.server import RunningServer

Line = dict[str, Any]


def events(server: RunningServer, name: str | None = None) -> list[Line]:
    """The log so far, or the lines of one event. Every line is one JSON object."""
    lines = [json.loads(line) for line in server.output().rpartition("\n")[0].splitlines()]
    return [line for line in lines if name is None or line["event"] == name]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that is not there yet."""
    return tmp_path / "data"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests of a file that do not mind what the others count."""
    with RunningServer(tmp_path_factory.mktemp("shared") / "data") as server:
        yield server


def wait_until(condition: Callable[[], bool], within_s: float = 600.0) -> None:
    """Asks every hundredth of a second until the condition holds, without taking the processor from the servers."""
    never = Event()
    for _ in range(int(within_s * 100)):
        if condition():
            return
        never.wait(0.01)
    raise AssertionError(f"it did not come true within {within_s:.0f} s")
