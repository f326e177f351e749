"""Second processes for the tests, and what is looked at after them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clickcurve.buckets.ladder import Ladder
from storage.sqlite.store import SqliteStore
from tests.storage.stores import LADDER

Start = Callable[..., "Other"]
ROOT = Path(__file__).parents[2]


class Other:
    """A process of other_process.py that is ready and waits."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.storage.other_process", *map(str, arguments)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> str:
        """Wait for its end; what it printed last."""
        out, err = self._process.communicate()
        assert self._process.returncode == 0, err
        return out.strip()

    def kill(self) -> str:
        """What it printed that was not read."""
        if self._process.returncode is not None:
            return ""
        self._process.kill()
        assert self._process.stdout is not None
        rest = self._process.stdout.read()  # `communicate` loses what was read ahead of the last line
        self._process.communicate()
        return rest


@contextmanager
def opened(path: Path, ladder: Ladder = LADDER) -> Iterator[SqliteStore]:
    store = SqliteStore(path, ladder)
    try:
        yield store
    finally:
        store.close()


def whole(path: Path) -> bool:
    with sqlite3.connect(path) as db:
        found: tuple[str] = db.execute("PRAGMA integrity_check").fetchone()
    db.close()
    return found == ("ok",)
