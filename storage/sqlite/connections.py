"""Four connections to one SQLite file, each with one task.

`worker` does all that the flush thread does, `checkpointer` checkpoints (see file), `reader` is for the event loop and
hardly ever waits, and `scanner` is for walks, for which a flush need not wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from storage.sqlite.file import WAL_BYTES, SqliteFile, translate_errors
from storage.sqlite.wal import sign

LOOP_BUSY_S = 0.02  # readers wait only while a WAL is being recovered after a crash
LOOP_CACHE_KIB = 16_000
EMPTY_WAL_BYTES = 64 * 1024  # of a WAL with the one transaction that cuts it


class Connections:
    def __init__(self, path: Path, ladder: Ladder | None, *, read_only: bool) -> None:
        """Opens the database, or makes it unless `read_only`. Raises StoreUnavailable, StoreMismatch."""
        self.file = SqliteFile(path, ladder, create=not read_only)
        self._worker_lock, self._scanner_lock = Lock(), Lock()
        self._synced = True  # whether the worker's next transaction is, as things stand
        self._behind = False  # whether the one before was not
        connect = self.file.connect
        with ExitStack() as undo, translate_errors(path):
            kept = undo.enter_context
            self.worker = kept(closing(connect(read_only=read_only)))
            self._checkpointer = kept(closing(connect(read_only=read_only)))
            self._scanner = kept(closing(connect(read_only=True)))
            self.reader = kept(closing(connect(read_only=True, busy_s=LOOP_BUSY_S, cache_kib=LOOP_CACHE_KIB)))
            if not read_only:
                with self.transaction():
                    pass  # a file that cannot be written is found now, not at the first flush
            undo.pop_all()

    @contextmanager
    def on_worker(self) -> Iterator[sqlite3.Connection]:
        """Lends the worker's connection; uncommitted changes are undone afterwards."""
        with self._worker_lock, translate_errors(self.file.path):
            self.file.check_in_place()
            self._undo()
            try:
                yield self.worker
            finally:
                with suppress(sqlite3.Error):  # the error that brought us here is the one to raise
                    self._undo()

    @contextmanager
    def on_scanner(self) -> Iterator[sqlite3.Connection]:
        with self._scanner_lock, translate_errors(self.file.path):
            self.file.check_in_place()
            yield self._scanner

    @contextmanager
    def transaction(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Makes one transaction of a block: durable when left, undone when left by an error.

        synced False: durable with the next one that is, even if that changes nothing; a power cut before takes it, and
        what came after, back.
        """
        with self.on_worker() as db:
            try:
                if synced != self._synced:
                    db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
                    self._synced = synced
                db.execute("BEGIN IMMEDIATE")
                before = db.total_changes
                yield db
                if db.total_changes != before or (synced and self._behind):
                    sign(db, self.file.uuid)  # also so that there is something to sync
                db.execute("COMMIT")
                self._behind = not synced
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname == "SQLITE_FULL":
                    self._reuse_wal()
                raise
            # Who reads first after a commit notes in the index of the WAL, which is a file in memory, up to where.
            # On a file system that is frozen, as for a snapshot, it waits for that: a question, and the loop with it.
            db.execute("SELECT 1 FROM meta LIMIT 1").fetchall()
            self.file.check_in_place()
            if self.file.wal_is_long():
                with suppress(sqlite3.Error):  # what was written is durable; the next transaction tries again
                    self._checkpoint()

    def forget_bytes(self) -> None:
        """Writes the file anew, without what was overwritten or dropped, and empties its WAL.

        Others wait for it: some 10 s a GB. Raises StoreUnavailable: a reader or writer was in the way, or the disk is
        full.
        """
        with self.on_worker() as db:
            db.execute("VACUUM")
            self._checkpoint()
            db.execute("PRAGMA journal_size_limit = 0")
        try:
            with self.transaction() as db:  # the first one of a new WAL, which is cut behind it
                sign(db, self.file.uuid)
        finally:
            with self.on_worker() as db:
                db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        if self.file.wal_bytes() > EMPTY_WAL_BYTES:
            raise StoreUnavailable("a reader of the database is in the way of emptying its WAL", field="store")

    def close(self) -> None:
        with self._worker_lock, self._scanner_lock, translate_errors(self.file.path):
            for db in (self.reader, self._scanner, self._checkpointer, self.worker):
                db.close()

    def _undo(self) -> None:
        if self.worker.in_transaction:
            self.worker.execute("ROLLBACK")

    def _reuse_wal(self) -> None:
        """Writes the WAL back on a full disk: from its beginning on it takes the next transactions without new room."""
        with suppress(sqlite3.Error):  # the disk that is full is what is reported
            self._undo()
            self._checkpoint()

    def _checkpoint(self) -> None:
        self.worker.execute("BEGIN IMMEDIATE")
        try:
            self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            self._undo()
