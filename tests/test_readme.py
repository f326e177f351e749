"""What the README and the first examples show is what happens: console blocks run, in order, against a real server."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.cli.main import COMMANDS
from testing.server import ROOT, plain_environment
from tests.conftest import Serve

ADDRESS = "http://127.0.0.1:8080"
README = ROOT / "README.md"
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
MOST_LINES = 130


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the output that the text shows; `...` stands for anything."""

    line: int
    command: str
    shown: str


def examples(text: str) -> list[Example]:
    """All `$ command` lines of the console blocks with the lines that follow them."""
    found: list[Example] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Example(number, line[2:], ""))
        elif inside:
            found[-1] = Example(found[-1].line, found[-1].command, found[-1].shown + line + "\n")
    return found


def shows(shown: str, printed: str) -> bool:
    """Whether the output is what is shown, with `...` for anything, ends of lines aside."""
    wanted = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(wanted, printed.strip(), re.DOTALL) is not None


@pytest.mark.needs("bash", "curl")
@pytest.mark.parametrize(("page", "least"), [("README.md", 6), ("docs/first-hits.md", 9)])
def test_a_page_shows_what_happens(page: str, least: int, serve: Serve, tmp_path: Path) -> None:
    server = serve()
    folder = program_on_path(tmp_path)
    environment = plain_environment({"CLICKCURVE_URL": server.url})
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    shown = examples((ROOT / page).read_text())
    assert len(shown) >= least
    for example in shown:
        command = example.command.replace(ADDRESS, server.url)
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=600)
        assert shows(example.shown, done.stdout), (
            f"{page}, line {example.line}: {example.command}\n{done.stdout}{done.stderr}"
        )


def program_on_path(folder: Path) -> Path:
    """A folder with the program as `clickcurve`, run from this source tree."""
    program = folder / "bin" / "clickcurve"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m clickcurve "$@"\n')
    program.chmod(0o755)
    return program.parent


@pytest.mark.needs("make")
def test_every_make_target_that_is_named_exists() -> None:
    named = [
        line
        for page in (README, CONTRIBUTING)
        for line in re.findall(r"^(?:\| `)?make ([a-z -]+?)(?:`| +#|$)", page.read_text(), re.MULTILINE)
    ]
    targets = {target for line in named for target in line.split()}
    assert {"install", "serve", "test", "check", "test-all", "test-long", "chaos", "bench", "bench-peers"} <= targets
    done = subprocess.run(["make", "-n", *sorted(targets)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_table_of_commands_is_complete() -> None:
    table = COMMANDS_PAGE.read_text().partition("| to | run `clickcurve ...` |")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z-]+)`", table)
    assert sorted(named) == sorted(COMMANDS)


def test_ci_runs_the_command_that_contributing_names() -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make")]
    assert commands == ["make install", "make check", "make test-all"]  # one by one: an install runs beside the checks
    assert "make check test-all" in CONTRIBUTING.read_text()


def test_the_readme_is_read_in_one_sitting() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    first = [text.index(part) for part in ("![", "make serve", "$ curl", "## What you get", "## Who it is not for")]
    assert first == sorted(first)


def test_the_index_names_every_page_of_the_docs() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda page: str(page.name))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a 1 b\n", "a 1 b", True),
        ("a ... b", "a 12 b", True),
        ("a ...", "b 12", False),
        ("(1)", "(1)", True),
        ("", "an error", False),
    ],
)
def test_shown_output_is_compared(shown: str, printed: str, same: bool) -> None:
    assert shows(shown, printed) is same


def test_examples_are_found_with_their_lines() -> None:
    text = "x\n```sh\nmake\n```\n```console\n$ one\n1\n2\n$ two\n```\n$ three\n"
    assert examples(text) == [Example(6, "one", "1\n2\n"), Example(9, "two", "")]
