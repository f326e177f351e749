"""What failed beside others runs again, alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.again import MOST, run_again

FAILS_ONCE = """
from pathlib import Path

def test_that_fails_once():
    seen = Path(__file__).with_name("seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen

def test_that_passes():
    pass
"""
FAILS = "def test_that_fails{n}():\n    assert False\n"


@pytest.mark.parametrize(
    ("text", "code", "runs"),
    [
        pytest.param(FAILS_ONCE, 0, 2, id="by accident"),
        pytest.param(FAILS_ONCE + FAILS.format(n=1), 1, 2, id="always"),
        pytest.param("".join(FAILS.format(n=n) for n in range(MOST + 1)), 1, 1, id="too many"),
    ],
)
def test_what_failed_runs_again(
    text: str, code: int, runs: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_given.py").write_text(text)
    (tmp_path / "pytest.ini").touch()
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", str(tmp_path)]
    assert run_again(command, cache, subprocess.call(command)) == code
    told = capfd.readouterr().out
    assert len(re.findall(r"(?:passed|failed) in [0-9.]+s", told)) == runs
    assert ("so run again alone: test_given.py::test_that_fails" in told) == (runs == 2)
