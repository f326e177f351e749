"""A time budget per test suite (a folder under tests/, or a file directly in it): one that takes longer fails the run.

A budget is some three times what the suite takes on two quiet cores, shared with another process of tests. So a
slow test is noticed when it is written, a busy machine fails nothing, and the whole run stays under 25 minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

BUDGETS_S: Mapping[str, float] = {
    "buckets": 240.0,
    "cassandra": 480.0,
    "chaos": 600.0,
    "clients": 180.0,
    "crash": 360.0,
    "dashboard": 180.0,
    "examples": 240.0,
    "hostile": 300.0,
    "ingest": 480.0,
    "install": 480.0,
    "limiter": 600.0,
    "server": 420.0,
    "simulated": 300.0,
    "storage": 600.0,
    "upgrade": 300.0,
}
DEFAULT_BUDGET_S = 120.0


def suite_of(node_id: str, root: str = "tests") -> str:
    """The suite of a test: `storage` for `tests/storage/test_x.py::test_y`, `test_z` for `tests/test_z.py::test_y`."""
    parts = node_id.partition("::")[0].split("/")
    below = parts[parts.index(root) + 1 :] if root in parts else parts
    return below[0].removesuffix(".py")


def over_budget(spent_s: Mapping[str, float], budgets_s: Mapping[str, float] = BUDGETS_S) -> list[str]:
    """A sentence for each suite that took longer than it may."""
    allowed = {suite: budgets_s.get(suite, DEFAULT_BUDGET_S) for suite in spent_s}
    return [
        f"suite {suite} took {spent_s[suite]:.0f} s, its budget is {allowed[suite]:.0f} s"
        for suite in sorted(spent_s)
        if spent_s[suite] > allowed[suite]
    ]


class Budget:
    """The pytest plugin: adds up setup, call and teardown of each test by suite and judges at the end."""

    def __init__(self, tests: Path) -> None:
        self._root = tests.name
        self._spent_s: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent_s[suite_of(report.nodeid, self._root)] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if over_budget(self._spent_s) and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for suite, spent_s in sorted(self._spent_s.items()):
            terminalreporter.write_line(f"{spent_s:7.1f} s of {BUDGETS_S.get(suite, DEFAULT_BUDGET_S):.0f}  {suite}")
        for sentence in over_budget(self._spent_s):
            terminalreporter.write_line(f"OVER BUDGET: {sentence}", red=True)
