"""Putting a backup in place of a database that no process uses: a kill at any step loses neither.

1. The backup is copied beside the database under a name of its own, synced and checked.
2. The log of the database is written back into it, so that the database is one file. That fails only where the two do
   not belong together or are damaged: then a start refuses them, before this step and after it.
3. The database gets a second name, with what is left of its log.
4. The copy is renamed to the first name, in one step, and the old log loses its first name.

What is there before step 4 is the old database, as good as it was, and the new one afterwards. The same call
after a kill ends what was begun.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from storage.sqlite.file import recognise, sync, translate_errors
from storage.sqlite.wal import connect_without_wal, refuse_foreign_wal, wal_path

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put in place. moved: the files that were there before, under their new names, the database first."""

    size: int
    moved: list[Path]


def restore(
    source: Path,
    path: Path,
    ladder: Ladder | None,
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> Restored:
    """Makes a copy of the backup `source` the database at `path`, durably; what was there keeps lying beside it.

    The caller sees to it that no server starts meanwhile. Calls `on_progress` with the bytes copied and the bytes in
    all. Raises SettingInvalid, StoreMismatch (damaged, another ladder or program), StoreUnavailable (it is in use).
    """
    path = path.resolve()  # a link goes on naming the database
    _refuse_source(source, path)
    draft = path.with_name(f".{path.name}.restoring")
    for left in (draft, wal_path(draft), _shm_path(draft)):
        left.unlink(missing_ok=True)  # by a restore that was killed
    try:
        with translate_errors(path):
            size = _copy(source, draft, on_progress)
        with translate_errors(source), connect_without_wal(draft) as db:
            recognise(db, source, ladder)
            (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise StoreMismatch(f"{source} is damaged: {verdict}", field="file", value=str(source))
        with translate_errors(path):
            _sign_anew(draft)
            _write_back(path)
            moved = _keep(path)
            sync(path.parent)
            draft.rename(path)
            sync(path.parent)
            for part in (wal_path(path), _shm_path(path)):
                part.unlink(missing_ok=True)
            sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)
    return Restored(size, moved)


def _shm_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def _refuse_source(source: Path, path: Path) -> None:
    def refuse(reason: str) -> SettingInvalid:
        return SettingInvalid(reason, field="file", value=str(source))

    if not source.is_file():
        raise refuse(f"there is no backup at {source}")
    if not path.parent.is_dir():
        raise refuse(f"there is no folder {path.parent} to restore into")
    if path.exists() and source.samefile(path):
        raise refuse(f"{source} is the database itself")
    with suppress(FileNotFoundError):
        if wal_path(source).stat().st_size:
            raise refuse(
                f"{wal_path(source)} lies beside {source}, which is not whole without it; copy it with"
                " `clickcurve backup`, and restore the copy"
            )


def _copy(source: Path, draft: Path, on_progress: Callable[[int, int], object]) -> int:
    done = 0
    with (
        source.open("rb") as original,
        open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy,
    ):
        of = os.fstat(original.fileno()).st_size
        while piece := original.read(PIECE_BYTES):
            copy.write(piece)
            done += len(piece)
            on_progress(done, of)
        copy.flush()
        os.fsync(copy.fileno())
    return done


def _sign_anew(draft: Path) -> None:
    """Gives the copy a signature of its own: no log that began on an earlier copy of this backup belongs to it."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {secrets.randbelow(1 << 31) or 1}")
    sync(draft)


def _write_back(path: Path) -> None:
    """Writes the log back into its database, which the last connection does when it closes.

    Leaves a log alone that is foreign, and a database that is damaged. Raises StoreUnavailable if it is in use.
    """
    if not path.exists():
        return
    try:
        refuse_foreign_wal(path)
    except StoreMismatch:
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)) as db:
        db.isolation_level = None
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")  # refused while any other process has the database open
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise StoreUnavailable(f"{path} is in use by another process; stop that one first") from error


def _keep(path: Path) -> list[Path]:
    """Gives the database and what lies beside it second names; returns those. A repeat finds them."""
    number = 1
    while (kept := path.with_name(f"replaced-{number}-{path.name}")).exists() or wal_path(kept).exists():
        if path.exists() and kept.exists() and kept.samefile(path):
            break
        number += 1
    parts = [(path, kept)]
    if wal_path(path).exists():  # without a log its index is of no use
        parts += [(wal_path(path), wal_path(kept)), (_shm_path(path), _shm_path(kept))]
    moved = []
    for part, name in parts:
        with suppress(FileNotFoundError):
            with suppress(FileExistsError):
                os.link(part, name)
            moved.append(name)
    return moved
