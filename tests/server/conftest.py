"""Servers of this suite say by their log which port they took and what they did."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.running import RunningServer

Event = dict[str, Any]


def events(server: RunningServer, name: str | None = None) -> list[Event]:
    """The log so far, or the lines of one event. Every line is one JSON object."""
    lines = [json.loads(line) for line in server.output().rpartition("\n")[0].splitlines()]
    return [line for line in lines if name is None or line["event"] == name]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that is not there yet."""
    return tmp_path / "data"


def wait_until(condition: Callable[[], bool], tries: int = 20_000) -> None:
    """Asks until the condition holds. A condition that asks the server, a millisecond each time, paces itself."""
    for _ in range(tries):
        if condition():
            return
    raise AssertionError("it never came true")
