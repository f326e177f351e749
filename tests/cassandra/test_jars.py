"""What a real Cassandra needs is fetched once, or named in one sentence."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from testing.cassandra.jars import Missing, cache, jars, java, version

pytestmark = pytest.mark.needs("cassandra")

FETCHES = """#!/bin/sh
for option in "$@"; do case "$option" in -DoutputDirectory=*) out="${option#*=}" ;; esac; done
echo run >>"$FAKE_RUNS"
mkdir -p "$out" && touch "$out/cassandra-all-0.jar" "$out/other.jar"
"""
FAILS = """#!/bin/sh
echo '[INFO] scanning'
echo '[ERROR] Could not transfer artifact: unknown host'
echo '[ERROR] To see the full stack trace, add -e'
exit 1
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs before all others on PATH, an empty cache, and no JAVA_HOME."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("CASSANDRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def says_version(said: str) -> str:
    return f"#!/bin/sh\necho 'openjdk version \"{said}\" 2020-01-01' >&2\n"


def test_the_jars_are_fetched_once_and_by_one_of_many(programs: Path, tmp_path: Path) -> None:
    program(programs / "mvn", FETCHES)
    threads = [threading.Thread(target=jars) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in jars().iterdir()) == ["cassandra-all-0.jar", "other.jar"]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_what_a_killed_process_left_is_no_cache_and_goes_away(programs: Path) -> None:
    abandoned = cache().parent / f"{cache().name}.part-1" / "jars"
    abandoned.mkdir(parents=True)
    program(programs / "mvn", FETCHES)
    jars()
    assert not abandoned.parent.exists()


def test_a_download_that_fails_is_one_sentence_and_leaves_nothing(programs: Path) -> None:
    program(programs / "mvn", FAILS)
    with pytest.raises(Missing, match=r"^Maven could not fetch .*: Could not transfer artifact: unknown host$"):
        jars()
    assert [path.name for path in cache().parent.iterdir()] == [f"{cache().name}.lock"]


def test_no_maven_is_one_sentence(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(Missing, match=r"install Maven \(Debian: maven\)\.$"):
        jars()


def test_the_cache_is_in_the_folder_that_is_named_else_where_caches_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CASSANDRA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache() == Path.home() / ".cache" / "clickcurve" / f"cassandra-{version()}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "clickcurve" / f"cassandra-{version()}"
    monkeypatch.setenv("CASSANDRA_CACHE", str(tmp_path / "own"))
    assert cache() == tmp_path / "own" / f"cassandra-{version()}"


def test_java_home_goes_before_path(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(programs / "java", says_version("17.0.1"))
    at_home = program(tmp_path / "home17" / "bin" / "java", says_version("17"))
    assert java() == on_path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home17"))
    assert java() == at_home


@pytest.mark.parametrize("said", ["21.0.2", "1.8.0_392", "170.1"])
def test_another_java_is_named_with_its_version(programs: Path, said: str) -> None:
    other = program(programs / "java", says_version(said))
    with pytest.raises(Missing, match=f"runs on Java 17 .*{other} is Java {said}: set JAVA_HOME"):
        java()


def test_no_java_is_one_sentence(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(Missing, match="no java on PATH: install it, or set JAVA_HOME"):
        java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Missing, match=f"there is no {tmp_path}/bin/java: set JAVA_HOME to a Java 17"):
        java()
