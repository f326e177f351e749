"""Rows that are compiled from the same source: they are the same bytes, and the program says which build it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from testing.server import ROOT, plain_environment
from tests.install.environments import WITHIN_S, copy_of_the_tree

pytestmark = [pytest.mark.slow, pytest.mark.needs("compiler", "headers", "make")]


def run(*command: str, folder: Path, python_path: Path | None = None) -> str:
    """Runs a command to its end in a folder, with this one first on its path; returns what it prints."""
    environment = plain_environment({"PYTHONPATH": str(python_path or ""), "PATH": os.environ["PATH"]})
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make(target: str, *variables: str, folder: Path) -> None:
    """Makes a target of a tree with this Python and its packages."""
    run("make", "--old-file=install", target, f"BIN={Path(sys.executable).parent}", *variables, folder=folder)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy of the tree that `make compiled` makes."""
    copy = tmp_path_factory.mktemp("compiled") / "tree"
    make("compiled", f"COMPILED={copy}", folder=ROOT)
    return copy


def test_compiled_rows_are_the_same_bytes(compiled: Path, tmp_path: Path) -> None:
    def written(tree: Path, data: str) -> list[str]:
        command = (sys.executable, "-m", "tests.install.written_rows", str(tmp_path / data))
        return run(*command, folder=tree, python_path=tree).splitlines()

    plain, rows = written(ROOT, "plain"), written(compiled, "compiled")
    assert (plain.pop(0), rows.pop(0)) == ("plain", "compiled")
    assert len(rows) > 5_000
    assert rows == plain


def test_the_command_says_that_it_is_compiled(compiled: Path) -> None:
    says = [run(sys.executable, "-m", "clickcurve", "--version", folder=tree) for tree in (ROOT, compiled)]
    assert says[1] == f"{says[0].strip()} (compiled)\n"


@pytest.mark.long
def test_the_compiled_wheel_adds_one_name_too_and_has_the_source(tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path / "tree")
    make("wheel-compiled", folder=tree)
    (wheel,) = (tree / "dist").glob("*.whl")
    assert "none-any" not in wheel.name
    with ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "unpacked")
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"clickcurve"}
    assert "clickcurve/buckets/codec.py" in names
    said = run(sys.executable, "-m", "clickcurve", "--version", folder=tmp_path, python_path=tmp_path / "unpacked")
    assert said.endswith(" (compiled)\n")
