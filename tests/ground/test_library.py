"""What `import clickcurve` gives: few names, quickly, and an example that works."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib.metadata import version

import clickcurve
from testing.server import ROOT

HEAVY = (
    "fastapi",
    "starlette",
    "msgspec",
    "httpx",
    "asyncio",
    "apscheduler",
    "cassandra",
    "redis",
    "sqlite3",
    "importlib.metadata",
)


def test_the_example_does_what_it_says() -> None:
    ran = doctest.testmod(clickcurve)
    assert (ran.failed, ran.attempted) == (0, 5)


def test_all_names_are_there_and_the_version_is_that_of_the_package() -> None:
    assert all(hasattr(clickcurve, name) for name in clickcurve.__all__)
    assert clickcurve.__version__ == version("clickcurve")
    assert not hasattr(clickcurve, "nothing")


def test_importing_it_loads_nothing_heavy() -> None:
    code = f"import sys, clickcurve; print([name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
