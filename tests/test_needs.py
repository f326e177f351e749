"""`make test` needs Python alone, `make test-all` has every kind of test, `make test-long` every test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testing.programs import FOR_TESTS, missing, wanted
from testing.server import ROOT
from tests.conftest import NEW_PROCESSES, is_started_anew
from tests.needs import FIXTURES, OTHER_NEEDS, make_path, needed
from tests.power import at, examples, is_long, one_in, sweep

ALL = ("-m", "not long")
LONG = ("-m", "", "--hypothesis-profile", "long")


def collected(folder: Path, *arguments: str) -> list[str]:
    """The tests that pytest would run in an environment of nothing but a PATH with Python and a shell."""
    folder.mkdir(exist_ok=True)
    make_path(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_only_tests_that_need_python_alone_are_run_unless_others_are_asked_for(tmp_path: Path) -> None:
    named = ("tests/limiter/test_reservations.py", "tests/cassandra/test_snapshot.py", "tests/clients/test_tls.py")
    quick = collected(tmp_path, *named)
    assert {name.partition("::")[0] for name in quick} == {named[0]}
    assert any("memory" in name for name in quick)
    assert not any(backend in name for name in quick for backend in ("redis", "memcached"))


def test_those_of_real_nodes_are_run_first(tmp_path: Path) -> None:
    everything = collected(tmp_path, *ALL, "tests/limiter/test_reservations.py", "tests/cassandra/test_node.py")
    assert {name.partition("::")[0] for name in everything[:5]} == {"tests/cassandra/test_node.py"}
    assert all(any(backend in name for name in everything) for backend in ("memory", "redis", "memcached"))


@pytest.mark.long  # a run of `make test` is the proof itself
def test_every_test_that_needs_python_alone_is_collected_where_there_is_nothing_else(tmp_path: Path) -> None:
    assert len(collected(tmp_path, "tests")) > 5_000


def test_there_is_nothing_else_on_the_path_of_these_tests() -> None:
    assert sorted(path.name for path in Path(os.environ["PATH"]).iterdir()) == ["python3", "sh"]


@pytest.mark.needs("curl")
def test_a_test_that_says_what_it_needs_finds_it() -> None:
    assert shutil.which("curl") is not None


def test_python_keeps_what_it_compiles_for_tests_and_their_servers() -> None:
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert not sys.dont_write_bytecode


def test_a_need_that_nothing_provides_is_an_error() -> None:
    test: Any = SimpleNamespace(nodeid="test_x.py::test_y", iter_markers=lambda _: [pytest.mark.needs("nginy").mark])
    with pytest.raises(pytest.UsageError, match=r"test_x\.py::test_y needs nginy"):
        needed(test)


def test_every_fixture_that_says_what_is_needed_is_there() -> None:
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    for fixture, need in FIXTURES.items():
        assert any(f"\ndef {fixture}(" in source for source in sources), fixture
        assert need in FOR_TESTS or need in OTHER_NEEDS


def test_suites_of_kills_and_of_starts_have_new_processes_in_the_long_run() -> None:
    assert all(sorted((ROOT / suite).rglob("test_*.py")) for suite in NEW_PROCESSES)
    assert is_started_anew("tests/crash/test_kill.py::test_x[1]")
    assert not is_started_anew("tests/server/http/test_http.py::test_x")


def test_power_is_a_share_unless_the_long_run_asks_for_all() -> None:
    assert (at(quick=3, full=20), examples(400), examples(16)) == ((20, 400, 16) if is_long() else (3, 50, 16))


def test_a_sweep_begins_with_the_first_call_and_leaves_out_two_of_three() -> None:
    for name in ("a", "b", "c", "d"):
        first, *numbers = islice(sweep(name), 5)
        step = 1 if is_long() else 3
        assert first == 1 and numbers == [*range(numbers[0], numbers[0] + 4 * step, step)]
        assert 2 <= numbers[0] <= 1 + step
    assert is_long() or len({[*islice(sweep(name), 2)][1] for name in "abcdefgh"}) == 3


def test_of_many_cases_one_in_so_many_is_not_long() -> None:
    marked = one_in(3, ["a", ("b", 1), "c", "d"])
    assert [case.values for case in marked] == [("a",), ("b", 1), ("c",), ("d",)]
    assert [bool(case.marks) for case in marked] == [False, True, True, False]


def test_of_planted_faults_each_third_is_tried(tmp_path: Path) -> None:
    file = "tests/buckets/breakdowns/test_breakdown_laws.py"
    names = [name for name in collected(tmp_path, file) if "notices_its_mutant" in name]
    everything = [name for name in collected(tmp_path / "long", *LONG, file) if "notices_its_mutant" in name]
    assert names == everything[::3] and len(everything) > 5


def test_what_is_missing_is_named_by_its_package_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("testing.programs.SYSTEM_FOLDERS", str(tmp_path))
    assert missing(wanted(["node", "curl", "node"])) == ["nodejs", "curl"]
    assert missing(["/:slash", "/nowhere/flask:python3-flask"]) == ["python3-flask"]
    (tmp_path / "curl").write_text("")
    (tmp_path / "curl").chmod(0o755)
    assert missing(wanted(["curl"])) == []
