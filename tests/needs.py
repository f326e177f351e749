"""What a test needs beside Python, which is known before it runs: a mark, a fixture of FIXTURES, or a parameter.

`@pytest.mark.needs("nginx")` names entries of testing/programs.py. A test that asks for a fixture of FIXTURES, directly
or by another fixture, or has a parameter of PARAMETERS, gets the mark here. Whoever has no such mark has a PATH with
Python and a shell alone: a test that calls another program without saying so fails on every machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from testing.programs import FOR_TESTS, SYSTEM_FOLDERS

# What a test may need beside the programs of testing/programs.py.
OTHER_NEEDS: Mapping[str, str] = {"network": "a package index that pip reaches"}
# A fixture that starts a real program: whatever asks for it, directly or by another fixture, needs the program.
FIXTURES: Mapping[str, str] = {"cassandra_program": "cassandra", "browser": "browser", "builder": "network"}
# A test that has one of these names for a parameter, or `cassandra: node suspended`, needs the program.
PARAMETERS = frozenset(("cassandra", "memcached", "redis"))
BESIDE_PYTHON = ("sh",)


def needed(item: pytest.Item) -> set[str]:
    """Returns what a test needs beside Python. Raises UsageError for a name that stands for nothing."""
    names = {name for mark in item.iter_markers("needs") for name in mark.args}
    if unknown := names - FOR_TESTS.keys() - OTHER_NEEDS.keys():
        raise pytest.UsageError(f"{item.nodeid} needs {', '.join(sorted(unknown))}, which nothing provides")
    if isinstance(item, pytest.Function):
        names |= {FIXTURES[name] for name in item.fixturenames if name in FIXTURES}
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names |= {str(value).partition(":")[0] for value in parameters} & PARAMETERS
    return names


def make_path(folder: Path) -> None:
    """Makes a folder that serves as PATH: Python and what is in BESIDE_PYTHON."""
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    for name in BESIDE_PYTHON:
        program = shutil.which(name, path=os.defpath)
        assert program is not None, f"{name} is in no folder of {os.defpath}"
        (folder / name).symlink_to(program)


class Needs:
    """The pytest plugin. only_python: the folder that is PATH for tests without needs."""

    def __init__(self, only_python: Path) -> None:
        make_path(only_python)
        self._only_python = str(only_python)
        self._whole = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks what has needs, before `-m` chooses, and puts tests of real Cassandra nodes first."""
        wanted = {id(item): needed(item) for item in items}
        for item in items:
            if wanted[id(item)]:
                item.add_marker(pytest.mark.needs(*wanted[id(item)]))
        items.sort(key=lambda item: "cassandra" not in wanted[id(item)])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        os.environ["PATH"] = self._whole if item.get_closest_marker("needs") else self._only_python
