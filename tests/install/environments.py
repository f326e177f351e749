"""The wheel, built from a copy of the source tree, and virtual environments that it is installed into.

All of it comes from PyPI as pip is set up here. Without it the tests fail and say so: nothing is skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.server import ROOT, RunningServer, plain_environment

MADE_BY_TOOLS = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "clickcurve-data")
PIP = ("--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20")
WITHIN_S = 900.0


def project() -> dict[str, Any]:
    """pyproject.toml, as it is."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def lowest_setuptools() -> str:
    """The requirement of the lowest version that pyproject.toml promises to build with."""
    (declared,) = project()["build-system"]["requires"]
    assert isinstance(declared, str)
    return declared.replace(">=", "==")


def pins() -> Iterator[str]:
    """The pins of requirements.lock as constraints of pip: without hashes, of which it would want one of the wheel too,
    and without extras, which a constraint may not have.
    """
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if pin := re.match(r"([\w.-]+)(?:\[[\w,-]+\])?(==[\w.!+]+(?: ;[^\\]*)?)", line):
            yield pin[1] + pin[2]


class Environment:
    """A virtual environment in a folder; `pip` is the one whose pip installs into it, itself by default."""

    def __init__(self, folder: Path, pip: Environment | None = None) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self._pip = [str((pip or self).python), "-m", "pip", "--python", str(self.python)]

    @classmethod
    def made(cls, folder: Path, pip: Environment | None = None) -> Environment:
        """Makes an empty environment, with a pip of its own unless another one's is given."""
        without_pip = ["--without-pip"] if pip else []
        subprocess.run([sys.executable, "-m", "venv", *without_pip, str(folder)], check=True, timeout=WITHIN_S)
        return cls(folder, pip)

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "clickcurve"

    @property
    def packages(self) -> Path:
        """The folder of what is installed."""
        (found,) = (self.folder / "lib").glob("python3.*/site-packages")
        return found

    def pip(self, verb: str, *arguments: str | Path) -> None:
        """Runs pip on this environment; the test fails with pip's last words if it cannot."""
        done = subprocess.run(
            [*self._pip, verb, *PIP, *map(str, arguments)],
            env=plain_environment({"PYTHONPATH": ""}),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            last = said[-1] if said else "nothing"
            pytest.fail(f"pip {verb} failed; these tests need PyPI. It said: {last}", pytrace=False)

    def run(self, code: str, folder: Path, *arguments: str, python_path: str = "") -> subprocess.CompletedProcess[str]:
        """Runs Python code in the folder, which stands first on the path, as for `python -c`."""
        return self._finish([str(self.python), "-c", code, *arguments], folder, python_path)

    def call(self, *arguments: str, folder: Path, python_path: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command of the installed program in the folder."""
        return self._finish([str(self.program), *arguments], folder, python_path)

    def call_module(self, *arguments: str, folder: Path, python_path: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command as `python -m clickcurve` in the folder."""
        return self._finish([str(self.python), "-m", "clickcurve", *arguments], folder, python_path)

    def _finish(self, command: list[str], folder: Path, python_path: str) -> subprocess.CompletedProcess[str]:
        environment = plain_environment({"PYTHONPATH": python_path})
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )


class InstalledServer(RunningServer):
    """`clickcurve serve` of an environment, in the folder that holds the data folder."""

    def __init__(self, environment: Environment, data: Path, *flags: str, python_path: str = "") -> None:
        super().__init__(data, *flags, settings={"PYTHONPATH": python_path})
        self._command = [str(environment.program), *self._command[self._command.index("serve") :]]


def copy_of_the_tree(folder: Path) -> Path:
    """A copy of the source tree, so that building leaves nothing in the tree itself."""
    return shutil.copytree(ROOT, folder, ignore=MADE_BY_TOOLS)


def make_wheel(builder: Environment, tree: Path) -> Path:
    """Makes the folder dist/ of a tree as `make wheel` does, with the builder's pip and setuptools."""
    done = subprocess.run(
        ["make", "--old-file=install", "wheel", f"BIN={builder.python.parent}"],
        cwd=tree,
        env=plain_environment({"PYTHONPATH": ""}),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tree / "dist"


def build_wheel(builder: Environment, source: Path, folder: Path) -> Path:
    """Builds the wheel of a source distribution with the builder's setuptools."""
    builder.pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel
