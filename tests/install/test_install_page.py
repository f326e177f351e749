"""What docs/install.md shows is what happens: its commands and its Python run in the environment of the wheel."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from testing.server import ROOT, plain_environment
from tests.install.environments import Environment, project
from tests.test_readme import examples, shows

PAGE = (ROOT / "docs" / "install.md").read_text()


def test_the_commands_print_what_the_page_shows(installed: Environment, tmp_path: Path) -> None:
    path = f"{installed.program.parent}:{os.environ['PATH']}"
    environment = plain_environment({"PYTHONPATH": "", "PATH": path})
    shown = examples(PAGE)
    assert shown
    for example in shown:
        command = ["bash", "-c", example.command]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert shows(example.shown, done.stdout), f"line {example.line}: {done.stdout}{done.stderr}"


def test_the_python_of_the_page_runs(installed: Environment, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        done = installed.run(block + "\nassert decision.allowed", tmp_path)
        assert done.returncode == 0, done.stderr


def test_completion_and_manual_are_printed(installed: Environment, tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "clickcurve" in installed.call("completion", shell, folder=tmp_path).stdout
    assert installed.call("manual", folder=tmp_path).stdout.startswith(".TH CLICKCURVE 1")


def test_every_file_and_wheel_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"\b(deploy/[\w.-]+\w)", PAGE))
    assert len(named) >= 6
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert set(re.findall(r"clickcurve-(\d[\d.]*\d)-py3", PAGE)) == {project()["project"]["version"]}
