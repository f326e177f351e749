"""Which tests `pytest` runs, and at which power: by default those that need Python alone, with `--all` every one.

A test that needs more says so, `@pytest.mark.needs("nginx")`, or its module does, or a fixture of FIXTURES, or a
parameter of PARAMETERS. Without `--all` such tests are deselected, Hypothesis draws fewer examples, and PATH holds
Python and a shell alone: a test that calls another program without saying so fails on every machine. A process of the
program is a fork of one that has imported it (testing/prefork.py), with `--all` a new one in the suites of
NEW_PROCESSES.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import settings

from testing.programs import FOR_TESTS, SYSTEM_FOLDERS
from testing.server import fork_program

# What a test may need beside the programs of testing/programs.py.
OTHER_NEEDS: Mapping[str, str] = {
    "network": "a package index that pip reaches",
    "minutes": "more time than every change of a line can have",
}
# A fixture that starts a real program: whatever asks for it, directly or by another fixture, needs the program.
FIXTURES: Mapping[str, str] = {"cassandra_program": "cassandra", "browser": "browser", "builder": "network"}
# A test that has one of these names for a parameter, or `cassandra: node suspended`, needs the program.
PARAMETERS = frozenset(("cassandra", "memcached", "redis"))
# The suites whose subject is the program as its users start it, how it is killed, or what time and memory it takes.
NEW_PROCESSES = (
    "tests/bench",
    "tests/cassandra",
    "tests/chaos",
    "tests/crash",
    "tests/examples",
    "tests/hostile",
    "tests/install",
    "tests/server/process",
    "tests/storage",
    "tests/upgrade",
)
# A file system in memory: without `--all` no test waits for a disk, which takes six times as long where much is synced.
MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 << 30
BESIDE_PYTHON = ("sh",)
QUICK, FULL = "quick", "full"
QUICK_EXAMPLES = 25
# Of the examples that a law asks for by a number of its own, one in so many.
QUICK_SHARE = 8

# No deadline: machines are shared, and the laws do not speak of time.
settings.register_profile(FULL, deadline=None)
settings.register_profile(QUICK, deadline=None, max_examples=QUICK_EXAMPLES)
# What is imported without pytest has full power; pytest_configure chooses before any test is imported.
settings.load_profile(FULL)


def examples(full: int) -> int:
    """How many examples a law is tried with that is worth `full` ones: with `--all` that many, else a share of them."""
    return full if is_full() else max(min(full, QUICK_EXAMPLES), full // QUICK_SHARE)


def at(*, quick: int, full: int) -> int:
    """How often something random is done: with `--all` as often as it is worth, else a few times."""
    return full if is_full() else quick


def sweep(name: str) -> Iterator[int]:
    """The numbers of calls that fail in turn, 1, 2, 3 ...: with --all each one, else the first and then each third.

    Which ones depends on the name, so that tests of one kind try different ones.
    """
    step = at(quick=3, full=1)
    return chain((1,), count(2 + crc32(name.encode()) % step, step))


def is_full() -> bool:
    """Whether this run has `--all`."""
    return settings.get_current_profile_name() == FULL


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also what needs more than Python, all at full power")


def keep_bytecode() -> None:
    """Lets Python keep what it compiles, as it does anyway unless PYTHONDONTWRITEBYTECODE is set.

    Else each server that a test starts would compile the program anew, a third of what a start takes, and each run of
    pytest would rewrite the assertions of all tests, 10 s for each process.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    keep_bytecode()
    config.addinivalue_line("markers", "needs(names): runs with --all only; a name is one of testing/programs.py")
    config.addinivalue_line("markers", "each_third: of its parameters each third runs, with --all each one")
    everything: bool = config.getoption("--all")
    settings.load_profile(FULL if everything else QUICK)
    if everything:
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"
        return
    path = TemporaryDirectory(prefix="only-python-")
    config.add_cleanup(path.cleanup)
    make_path(Path(path.name))
    os.environ["PATH"] = path.name
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Chooses how this test, and the fixtures that it is the first to ask for, start the program."""
    fork_program(not (is_full() and is_started_anew(item.nodeid)))


def is_started_anew(node_id: str) -> bool:
    """Whether a test has new processes of the program where all tests are run."""
    return any(node_id.startswith(f"{suite}/") for suite in NEW_PROCESSES)


def has_room(folder: Path) -> bool:
    """Whether the temporary files of all tests fit into a folder."""
    return folder.is_dir() and shutil.disk_usage(folder).free >= ROOM_BYTES


def make_path(folder: Path) -> None:
    """Makes a folder that serves as PATH: Python and what is in BESIDE_PYTHON."""
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    for name in BESIDE_PYTHON:
        program = shutil.which(name, path=os.defpath)
        assert program is not None, f"{name} is in no folder of {os.defpath}"
        (folder / name).symlink_to(program)


def pytest_report_header(config: pytest.Config) -> str:
    if config.getoption("--all"):
        return "all tests at full power"
    return "tests that need Python alone, at quick power; --all adds the others"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts tests of real Cassandra nodes first, or deselects what needs more than Python, and two of three faults."""
    wanted = {id(item): needed(item) for item in items}
    if config.getoption("--all"):
        items.sort(key=lambda item: "cassandra" not in wanted[id(item)])
        return
    left_out = {id(item) for item in items if wanted[id(item)]}
    place = Counter[str]()
    for item in items:
        if item.get_closest_marker("each_third") is not None:
            function = item.nodeid.partition("[")[0]
            if place[function] % 3:
                left_out.add(id(item))
            place[function] += 1
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keeps the collector from looking at thousands of tests each time: 0.25 s, and some tests ask for it often."""
    gc.freeze()


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
