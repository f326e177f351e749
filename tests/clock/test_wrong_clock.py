"""The preloaded clock moves the wall clock of a program that runs, and no other clock of it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.clock.wrong_clock import WrongClock

pytestmark = pytest.mark.needs("compiler")

READS = """
import sys, time
from datetime import datetime, UTC
for line in sys.stdin:
    walls = time.time(), time.time_ns() / 1e9, datetime.now(UTC).timestamp(), time.clock_gettime(time.CLOCK_REALTIME)
    print(*walls, time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""


def test_only_the_wall_clock_of_a_running_program_is_moved(wall: WrongClock) -> None:
    command = [sys.executable, "-c", READS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=wall.environment
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for off_s in (0, 400 * 86_400, -3_600.25, -time.time() + 100_000, 0):
            wall.set(off_s)
            print("now", file=program.stdin, flush=True)
            *walls, monotonic, boot = map(float, program.stdout.readline().split())
            assert walls == pytest.approx([time.time() + off_s] * 4, abs=5)
            assert monotonic == pytest.approx(time.monotonic(), abs=5)
            assert boot == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)
