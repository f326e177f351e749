"""The limiter as a library: its public names, and a user's program that needs nothing else, checked and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import clickcurve.limiter
from testing.server import ROOT

PAGE = (ROOT / "docs" / "limiter.md").read_text()
# Without these a user's program must do: what reads rules, or counts in process.
HEAVY = ("fastapi", "redis", "starlette", "uvicorn", "cassandra")


def python(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The first program of docs/limiter.md, and one that names all that the package has."""
    (shown, *_) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert "from clickcurve.limiter import Limiter, parse_rules" in shown
    (tmp_path / "program.py").write_text(shown)
    names = "".join(f"    {name},\n" for name in clickcurve.limiter.__all__)
    (tmp_path / "all_names.py").write_text(
        f"from clickcurve.limiter import (\n{names})\n\n"
        "limiter = Limiter(parse_rules({}))\n"
        "backends: list[Backend] = [MemoryBackend(), Guarded(MemoryBackend())]\n"
        "decide = limiter.peek\n"
        'print(decide("login", {"ip": "a"}).remaining + 1)\n'
    )
    return tmp_path


def test_the_program_of_the_page_runs(program: Path) -> None:
    ran = python("program.py", cwd=program)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_the_program_of_the_page_satisfies_a_strict_type_checker(program: Path) -> None:
    checked = python("-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), ".", cwd=program)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_a_wrong_use_is_a_type_error(program: Path) -> None:
    """The verbs of threads are made of those of event loops; their parameters and answers are known all the same."""
    (program / "wrong.py").write_text(
        "from clickcurve.limiter import Limiter, parse_rules\n"
        "limiter = Limiter(parse_rules({}))\n"
        'limiter.peek("login", {"ip": 7})\n'
        'reveal_type(limiter.wait("login", {"ip": "a"}, wait_s=1))\n'
        'limiter.wait("login", {"ip": "a"})\n'
        "from clickcurve.limiter import Limitter\n"
    )
    said = python("-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), "wrong.py", cwd=program).stdout
    assert "wrong.py:3: error: Dict entry 0 has incompatible type" in said
    assert re.search(r'wrong.py:4: note: Revealed type is ".*clickcurve.limiter.decision.Decision', said)
    assert 'wrong.py:5: error: Missing named argument "wait_s"' in said
    assert 'wrong.py:6: error: Module "clickcurve.limiter" has no attribute "Limitter"' in said


@pytest.mark.parametrize("name", clickcurve.limiter.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(clickcurve.limiter, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Limitter'"):
        clickcurve.limiter.Limitter  # type: ignore[attr-defined]  # noqa: B018


def test_neither_rules_nor_a_limiter_in_process_load_what_they_do_not_need(tmp_path: Path) -> None:
    shown = "import sys; from clickcurve.limiter import {}; print(*sorted(sys.modules))"
    loaded = python("-c", shown.format("Limiter, AsyncLimiter, Guarded, parse_rules"), cwd=tmp_path).stdout.split()
    assert "clickcurve.limiter.limiter" in loaded
    assert not set(HEAVY) & set(loaded)
    assert "asyncio" not in python("-c", shown.format("Rule, parse_rules"), cwd=tmp_path).stdout.split()
