"""PyPI's `ratelimit` and the wheel in one environment: neither harms the other, in whatever order they come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.install.environments import Environment
from tests.power import one_in

THEIRS = """
from ratelimit import RateLimitException, limits

@limits(calls=1, period=60)
def call(): return 1

assert call() == 1
try:
    call()
except RateLimitException:
    print("theirs works")
"""
OURS = """
from clickcurve.limiter import Limiter, parse_rules

limiter = Limiter(parse_rules({"login": {"by": "user", "rates": "1/m"}}), clock=lambda: 0.0)
assert [limiter.hit("login", {"user": "ann"}).allowed for _ in range(2)] == [True, False]
print("ours works")
"""


@pytest.fixture
def fresh(builder: Environment, tmp_path: Path) -> Environment:
    """An empty environment: the limiter in process needs no other package."""
    return Environment.made(tmp_path / "venv", pip=builder)


def install(environment: Environment, package: Path) -> None:
    environment.pip("install", "--no-deps", "--no-index", "--no-compile", package)


def uninstall(environment: Environment, name: str) -> None:
    environment.pip("uninstall", "--yes", name)
    assert not (environment.packages / name).exists()


def works(environment: Environment, code: str, said: str, folder: Path) -> None:
    done = environment.run(code, folder)
    assert done.stdout == f"{said}\n", done.stderr


@pytest.mark.parametrize("ours_first", one_in(2, [True, False]))
def test_both_work_whichever_comes_first_and_whichever_goes(
    fresh: Environment, wheel: Path, ratelimit: Path, ours_first: bool, tmp_path: Path
) -> None:
    install(fresh, wheel if ours_first else ratelimit)
    works(fresh, *((OURS, "ours works") if ours_first else (THEIRS, "theirs works")), tmp_path)
    install(fresh, ratelimit if ours_first else wheel)
    works(fresh, THEIRS, "theirs works", tmp_path)
    works(fresh, OURS, "ours works", tmp_path)
    uninstall(fresh, "clickcurve")
    works(fresh, THEIRS, "theirs works", tmp_path)
    install(fresh, wheel)
    uninstall(fresh, "ratelimit")
    works(fresh, OURS, "ours works", tmp_path)
