"""What takes long, printed when the tests end: each suite's seconds, and the slowest tests. It fails no run.

A suite is a folder under tests/, or a file directly in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

SLOWEST = 20
NOTICED_S = 1.0


def suite_of(node_id: str, root: str = "tests") -> str:
    """The suite of a test: `storage` for `tests/storage/test_x.py::test_y`, `test_z` for `tests/test_z.py::test_y`."""
    parts = node_id.partition("::")[0].split("/")
    below = parts[parts.index(root) + 1 :] if root in parts else parts
    return below[0].removesuffix(".py")


def report(spent_s: Mapping[str, float], root: str = "tests") -> list[str]:
    """Lines that say how long each suite and the slowest tests took, longest first."""
    suites: defaultdict[str, float] = defaultdict(float)
    for node_id, seconds in spent_s.items():
        suites[suite_of(node_id, root)] += seconds
    slowest = [(node_id, seconds) for node_id, seconds in _longest_first(spent_s) if seconds >= NOTICED_S]
    return [f"{seconds:7.1f} s  {name}" for name, seconds in (*_longest_first(suites), *slowest[:SLOWEST])]


def _longest_first(spent_s: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(spent_s.items(), key=lambda each: -each[1])


class Durations:
    """The pytest plugin: adds up setup, call and teardown of each test."""

    def __init__(self, tests: Path) -> None:
        self._root = tests.name
        self._spent_s: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent_s[report.nodeid] = self._spent_s.get(report.nodeid, 0.0) + report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("seconds of each suite, and of the slowest tests")
        for line in report(self._spent_s, self._root):
            terminalreporter.write_line(line)
