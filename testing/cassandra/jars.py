"""The jars of a real Cassandra and the Java that runs them.

Maven fetches the jars once into a cache outside the tree: `$CASSANDRA_CACHE`, else `clickcurve` below
`$XDG_CACHE_HOME` or `~/.cache`. `python -m testing.cassandra.prepare` does it by hand and prints the folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

POM = Path(__file__).parent / "pom.xml"
JAVA = 17
FETCH_WITHIN_S = 900.0


class Missing(RuntimeError):
    """Something that a real Cassandra needs is not on this machine. The message says what to install."""


@lru_cache
def version() -> str:
    """The version of Cassandra that pom.xml names."""
    found = ET.parse(POM).findtext("./dependencies/dependency/version")
    assert found is not None, "pom.xml names no dependency"
    return found


def cache() -> Path:
    """The folder of the jars of this version, whether it is there or not."""
    below = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CASSANDRA_CACHE") or Path(below) / "clickcurve") / f"cassandra-{version()}"


def jars() -> Path:
    """The folder with all jars, fetched now if they were never fetched. Raises Missing.

    It appears whole or not at all. Of two processes that want it at once one fetches, the other waits for it.
    """
    folder = cache()
    if folder.is_dir():
        return folder
    with alone():
        if not folder.is_dir():
            _fetch(folder)
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """While this lasts no other process changes the cache."""
    cache().parent.mkdir(parents=True, exist_ok=True)
    with (cache().parent / f"{cache().name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for abandoned in cache().parent.glob(f"{cache().name}.part-*"):  # by a process that was killed
            shutil.rmtree(abandoned)
        yield


def _fetch(folder: Path) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise Missing("The tests run a real Cassandra, whose jars Maven fetches: install Maven (Debian: maven).")
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f"{folder.name}.part-", ignore_cleanup_errors=True
    ) as part:
        made = Path(part) / "jars"
        options = ("-B", "-q", "--strict-checksums", "-Dstyle.color=never", "-DincludeScope=runtime")
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={made}")
        try:
            done = subprocess.run(
                [program, *options, "-f", str(POM), *goal],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=FETCH_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Missing(f"Maven could not fetch Cassandra {version()} within {FETCH_WITHIN_S:.0f} s.") from None
        if done.returncode != 0 or not any(made.glob("cassandra-all-*.jar")):
            raise Missing(f"Maven could not fetch Cassandra {version()}: {_first_error(done.stdout)}")
        made.rename(folder)


def _first_error(output: str) -> str:
    """The line of Maven's output that says what is wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(iter(errors or lines[-1:]), "it printed nothing.")


def java() -> Path:
    """The program `java` to use: below JAVA_HOME if that is set, else on PATH. Raises Missing unless it is Java 17."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = f"Cassandra {version()} runs on Java {JAVA} (Debian: openjdk-{JAVA}-jre-headless)"
    if found is None:
        raise Missing(f"{wanted}, and there is no java on PATH: install it, or set JAVA_HOME.")
    if not Path(found).is_file():
        raise Missing(f"{wanted}, and there is no {found}: set JAVA_HOME to a Java {JAVA}.")
    said = java_version(Path(found))
    if not re.match(rf"{JAVA}\b", said):
        raise Missing(f"{wanted}, and {found} is Java {said or 'of no known version'}: set JAVA_HOME to a Java {JAVA}.")
    return Path(found)


@lru_cache
def java_version(program: Path) -> str:
    """What a `java` says of itself, such as 17.0.15; empty if it does not say."""
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=600, check=False)
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""
