"""What a second process does to a store in the tests: `python -m tests.storage.other_process TASK PATH ARGUMENTS`.

It says "ready" on its own line, waits for a line on stdin, and then does the task.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from storage.contract import Held, SavedRow
from storage.sqlite.store import SqliteStore
from tests.storage.flushes import Flusher, hits
from tests.storage.stores import LADDER, in_flush, record, saved


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def create(path: Path) -> None:
    """Open a database that is not there yet, and say which one it became."""
    ready()
    store = SqliteStore(path, LADDER)
    with sqlite3.connect(path) as db:
        print(db.execute("SELECT value FROM meta WHERE name = 'uuid'").fetchone()[0])
    store.close()


def write(path: Path, owner: str, chunks: str) -> None:
    """Save chunk after chunk of the same keys, as one owner of several, and name each when it is saved."""
    store = SqliteStore(path, LADDER)
    held = in_flush(store, int(owner))
    ready()
    for n in range(int(chunks)):
        data = f"{owner}:{n}".encode()
        store.save_own(held, 1, {f"key-{key}": SavedRow(data, None) for key in range(50)}, {})
        print(n, flush=True)
    store.close()


def grow(path: Path) -> None:
    """Save for ever, until killed, naming each save when it is done."""
    store = SqliteStore(path, LADDER)
    held = in_flush(store)
    ready()
    n = 0
    while True:
        data = str(n).encode() * 300
        store.save_own(held, 1, {f"key-{key}": SavedRow(data, None) for key in range(20)}, {})
        print(n, flush=True)
        n += 1


def flush(path: Path) -> None:
    """Flush for ever, until killed, naming each flush when it is durable."""
    store = SqliteStore(path, LADDER)
    flusher = Flusher(store)
    ready()
    while True:
        deltas = {f"key-{n}": hits((n % 7, 1 + n)) for n in range(200)}
        flusher.begin(deltas)
        flusher.finish(deltas)
        print(flusher.number, flush=True)


def read(path: Path) -> None:
    """Walk in views until the row `stop` is there; each must show rows of one save. Prints how many different ones."""
    store = SqliteStore(path, LADDER, read_only=True)
    ready()
    seen: set[bytes] = set()
    stop = False
    while not stop:
        with store.view() as view:
            found: dict[str, bytes] = {}
            after = None
            while page := view.walk(after, 10):
                found.update((key, link.rows[0].data) for key, link in page)
                after = page[-1][0]
        stop = found.pop("stop", None) is not None
        assert len(set(found.values())) <= 1, found
        seen |= set(found.values())
    print(len(seen))
    store.close()


def hold(path: Path) -> None:
    """Keep the write lock until the parent says so."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    ready()
    db.close()


def take_over(path: Path) -> None:
    """Claim owner 1 as another process would that has a copy of its journal."""
    store = SqliteStore(path, LADDER)
    ready()
    (stored,) = store.owners()
    assert store.claim(stored, record(1, epoch=stored.epoch + 1, holder="other", begun=stored.begun))
    held = Held(1, stored.epoch + 1, "other")
    assert store.begin(held, stored.begun, stored.begun + 1, 0)
    store.save_own(held, stored.begun + 1, saved("a", data=b"by the other"), {})
    store.close()


def without_rights(path: Path) -> None:
    """Try to write a file that may only be read, as a user other than root."""
    ready()
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        SqliteStore(path, LADDER)
    except Exception as error:
        print(type(error).__name__, error)


if __name__ == "__main__":
    tasks = {task.__name__: task for task in (create, write, grow, flush, read, hold, take_over, without_rights)}
    tasks[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
