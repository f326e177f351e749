"""Completion of commands and flags, by the scripts that `clickcurve completion` prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from server.cli.main import COMMANDS
from testing.server import ROOT, plain_environment
from tests.server.commands import said

# The script is read and its function called as bash does at a tab: with the words, and which of them is incomplete.
TAB = """
source "$1"; command=$2; shift 2
COMP_WORDS=("$command" "$@"); COMP_CWORD=$#
_clickcurve_completion "$command"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program `clickcurve` that runs this source tree, and the script for bash next to it."""
    folder = tmp_path_factory.mktemp("bin")
    path = folder / "clickcurve"
    path.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m clickcurve "$@"\n')
    path.chmod(0o755)
    (folder / "script").write_text(said("completion", "bash"))
    return path


def completed(program: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", TAB, "bash", str(program.parent / "script"), str(program), *words],
        capture_output=True,
        text=True,
        check=True,
        env=plain_environment(),
    )
    return done.stdout.split()


@pytest.mark.needs("bash")
def test_bash_completes_commands_flags_and_choices(program: Path) -> None:
    assert completed(program, "to") == ["total", "top", "token"]
    assert completed(program, "") == list(COMMANDS)
    assert completed(program, "schema", "") == ["apply", "check", "show"]
    assert "--workers" in completed(program, "serve", "--w")
    assert completed(program, "token", "create", "a", "--scope", "w") == ["write"]


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("zsh", "#compdef clickcurve"),
        ("fish", "complete --no-files --command clickcurve"),
        ("bash", "complete -o nosort -F _clickcurve_completion clickcurve"),
    ],
)
def test_every_shell_gets_its_script(shell: str, line: str) -> None:
    script = said("completion", shell)
    assert line in script
    assert f"_CLICKCURVE_COMPLETE={shell}_complete" in script


def test_another_shell_is_refused() -> None:
    assert "'ksh' is not one of 'bash', 'zsh', 'fish'" in said("completion", "ksh", code=2)
