"""A wall clock for each test that sets one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock.wrong_clock import WrongClock, wrong_clock


@pytest.fixture
def wall(tmp_path: Path) -> Iterator[WrongClock]:
    with wrong_clock(tmp_path) as clock:
        yield clock
