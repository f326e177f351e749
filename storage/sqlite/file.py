"""One SQLite file: its tables, how it is made, recognised and opened, and its errors as errors of the store.

Rules that keep the file whole while several processes write it:

- The file is made under another name and then linked to its own: it is there whole or not at all, in WAL mode.
- Only SQLite opens the file: closing any other descriptor of it would drop SQLite's locks in this process.
- SQLite before 3.51.3 may lose pages when one connection resets the WAL while another checkpoints. So no connection
  checkpoints by itself; the store checkpoints while it holds the write lock, which every reset needs too.
- SQLite takes any write-ahead log beside the file for its own. So a foreign one is refused before anything is opened,
  and each transaction signs itself, so that a foreign one can be told (see wal).
- SQLite goes on writing to a file that was moved or deleted, a loss that nobody would notice. So the store looks before
  and after each transaction whether the file is still there: `check_in_place`.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from clickcurve.buckets.errors import ClickcurveError, LadderInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from clickcurve.buckets.prefixes import after_prefix
from clickcurve.buckets.upper_bounds import BOT_WINDOWS, WINDOWS
from clickcurve.keys import ALL_LINKS, moved_key
from storage.sqlite.wal import refuse_foreign_wal, sign, wal_path

APPLICATION_ID = 0x436C6B43
SCHEMA_VERSION = "4"
# Without candidates, with those of all links alone, or with those of links as they were before hits were called bots:
# read as they are, and changed by the first start that may write.
FORMER_SCHEMAS = ("1", "2", "3")
NOTE = "note:"  # before the name of each note in meta
PAGE_BYTES = 8192  # as quick as 4096, and the file is a little smaller (6.9 and 7.0 MB for 100,000 links)
BUSY_S = 5.0  # how long to wait for another process's transaction; they last milliseconds
WAL_BYTES = 8 << 20  # a longer WAL is checkpointed; after that it shrinks to this
WAL_ROOM_BYTES = 24 << 20  # what it may come to before that: one save of 2,000 rows is up to 2,000 pages and some
GROWTH = 10  # by how much a new row is longer than its hit in a journal: up to 5.6 times, for keys of 4 characters

# The columns of a candidate's upper bounds (see clickcurve.buckets.upper_bounds).
BOUND_COLUMNS = (
    "last_hit",
    *(f"people_{days}d" for days in WINDOWS),
    "people",
    *(f"bots_{days}d" for days in BOT_WINDOWS),
    "bots",
)

# rows: the key comes first, so that all owners' rows of a link are next to each other. No index on due_day: it would
# cost as much as the rows of quiet links, and a daily pass over the table does not need it.
# rankings: of all links, and of the links of some prefixes. unranked_after: after this key, a row may pass a cutoff and
# be no candidate yet; NULL: all such rows are candidates. No id is used twice, so that a flush can tell which rankings
# it knows.
# leaders, bars: the candidates and cutoffs of each owner in each ranking (clickcurve.buckets.candidates). Bounds beside
# all rows cost 18 bytes a row, and a ranking of a million links read them in 70 ms. `leaders` in bars: how many
# candidates were left when the least were dropped the last time. `gone`: how many went since because hits of their
# links were called bots: such a link has one candidate for all its rows, of JOINED (storage.contract) for an owner.
RANKING = f"""
CREATE TABLE rankings (id INTEGER PRIMARY KEY AUTOINCREMENT, prefix TEXT NOT NULL UNIQUE, unranked_after TEXT);
CREATE TABLE leaders (
    ranking INTEGER NOT NULL, key TEXT NOT NULL, owner INTEGER NOT NULL,
    {" INTEGER NOT NULL, ".join(BOUND_COLUMNS)} INTEGER NOT NULL,
    PRIMARY KEY (ranking, key, owner)
) WITHOUT ROWID;
CREATE TABLE bars (
    ranking INTEGER NOT NULL, owner INTEGER NOT NULL, leaders INTEGER NOT NULL, bars BLOB NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (ranking, owner)
) WITHOUT ROWID;
"""
_CORRECTED = "SELECT 1 FROM rows WHERE key > ? AND key < ? LIMIT 1"
_ADD_ALL_LINKS = "INSERT INTO rankings (prefix, unranked_after) VALUES ('', ?)"
TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (
    owner INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, holder TEXT NOT NULL, journal TEXT NOT NULL, place TEXT NOT NULL,
    state TEXT NOT NULL, begun INTEGER NOT NULL, begun_at INTEGER NOT NULL
);
CREATE TABLE rows (
    key TEXT NOT NULL, owner INTEGER NOT NULL, due_day INTEGER, data BLOB NOT NULL, PRIMARY KEY (key, owner)
) WITHOUT ROWID;
{RANKING}
CREATE TABLE erased (key TEXT PRIMARY KEY, at_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE ids (
    id TEXT NOT NULL, owner INTEGER NOT NULL, flush INTEGER NOT NULL, at_us INTEGER NOT NULL,
    PRIMARY KEY (id, owner, flush)
) WITHOUT ROWID;
CREATE TABLE sources (
    source TEXT PRIMARY KEY, owner INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER NOT NULL,
    tail TEXT NOT NULL
) WITHOUT ROWID;
"""


class SqliteFile:
    """An existing database of this schema and ladder."""

    def __init__(self, path: Path, ladder: Ladder | None, *, create: bool = False) -> None:
        """Opens the file, or makes it if `create` says so. ladder None: whichever it has, of a new one the default.

        Raises StoreUnavailable if the file cannot be opened or made, StoreMismatch if it is not what is expected.
        """
        self.path = path
        self._wal = wal_path(path)
        self.in_place = True
        with translate_errors(path):
            refuse_foreign_wal(path)
            if create and not path.parent.is_dir():
                detail = f"{path} cannot be made: there is no folder {path.parent}"
                raise StoreUnavailable(detail, field="store", value=str(path))
            if create and not path.exists():
                _make(path, ladder or CLICKS)
            elif not path.exists():
                raise StoreUnavailable(f"there is no database at {path}", field="store", value=str(path))
            self._inode = _inode(path)
            with self.opened(read_only=True) as db:
                self.uuid, self.ladder = recognise(db, path, ladder)
            if create:
                with self.opened(read_only=False) as db:
                    _renew(db, self.uuid)

    def connect(self, *, read_only: bool, busy_s: float = BUSY_S, cache_kib: int = 2000) -> sqlite3.Connection:
        """Returns a connection that never checkpoints by itself and may be handed from thread to thread."""
        self.check_in_place()
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",  # a connection in mode `ro` leaves its WAL files behind
            uri=True,
            timeout=busy_s,
            isolation_level=None,
            check_same_thread=False,
        )
        for_writing = (
            "synchronous = FULL",
            "fullfsync = 1",
            f"journal_size_limit = {WAL_BYTES}",
            "secure_delete = 1",  # bytes that are replaced go: 0.4 us more a row
        )
        try:
            for pragma in (
                "wal_autocheckpoint = 0",
                f"cache_size = -{cache_kib}",
                *(("query_only = 1",) if read_only else for_writing),
            ):
                db.execute(f"PRAGMA {pragma}")
        except BaseException:  # no database, for one
            db.close()
            raise
        return db

    def opened(self, *, read_only: bool) -> AbstractContextManager[sqlite3.Connection]:
        return closing(self.connect(read_only=read_only))

    def check_in_place(self) -> None:
        """Raises StoreUnavailable if the file is gone or another file has its name."""
        try:
            self.in_place = _inode(self.path) == self._inode
        except OSError:
            self.in_place = False
        if not self.in_place:
            raise StoreUnavailable(f"{self.path} was moved or replaced since it was opened; put it back or restart")

    def wal_is_long(self) -> bool:
        return self.wal_bytes() > WAL_BYTES

    def wal_bytes(self) -> int:
        """Returns how long the WAL is, with what a checkpoint has written back already."""
        return _size(self._wal)


def flush_bytes(path: Path, journal_bytes: int) -> int:
    """Returns how much room the database needs beyond its files to take what these bytes of a journal hold."""
    return max(0, WAL_ROOM_BYTES - _size(wal_path(path))) + GROWTH * journal_bytes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and of the file system into errors of the store."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise unavailable(path, error) from error


def unavailable(path: Path, error: sqlite3.Error | OSError) -> ClickcurveError:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if name == "SQLITE_NOTADB":
        return StoreMismatch(f"{path} is not an SQLite database", field="store", value=str(path))
    return StoreUnavailable(f"{path}: {error} ({name})")


def _inode(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def _make(path: Path, ladder: Ladder) -> None:
    draft = new_draft(path)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # it is synced as a whole at the end
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.executescript(TABLES)
            db.execute(_ADD_ALL_LINKS, (None,))
            meta = {"schema": SCHEMA_VERSION, "ladder": str(ladder), "uuid": str(uuid.uuid4())}
            db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            sign(db, meta["uuid"])
        put_in_place(draft, path)
    except FileExistsError:
        pass  # another process was quicker; its database is as good
    finally:
        draft.unlink(missing_ok=True)


def _renew(db: sqlite3.Connection, uuid: str) -> None:
    """Brings a database of a former schema to this one, in one transaction.

    No row is a candidate yet, but of schema 3 where no hits of links were called bots.
    """
    if _schema(db) not in FORMER_SCHEMAS:
        return
    db.execute("BEGIN IMMEDIATE")
    schema = _schema(db)
    if schema == "3" and not has_corrected_links(db):
        db.execute("ALTER TABLE bars ADD COLUMN gone INTEGER NOT NULL DEFAULT 0")
    elif schema in FORMER_SCHEMAS:
        for table in ("leaders", "bars", "rankings"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        for table in RANKING.strip().rstrip(";").split(";"):
            db.execute(table)
        db.execute(_ADD_ALL_LINKS, ("",))
    if schema in FORMER_SCHEMAS:  # no other process was quicker
        db.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA_VERSION,))
        sign(db, uuid)
    db.execute("COMMIT")


def has_corrected_links(db: sqlite3.Connection) -> bool:
    """Returns whether hits of any link, or of a group, were ever called bots."""
    first = moved_key(ALL_LINKS)  # this one is of all links; those of links and groups follow
    return db.execute(_CORRECTED, (first, after_prefix(first))).fetchone() is not None


def has_rankings(db: sqlite3.Connection) -> bool:
    """Returns whether the database is of this schema: the former ones are read without their candidates."""
    return _schema(db) == SCHEMA_VERSION


def _schema(db: sqlite3.Connection) -> str | None:
    (version,) = db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() or (None,)
    return version


def new_draft(path: Path) -> Path:
    """Makes an empty file beside `path` that only its owner may read, and returns it.

    SQLite gives the mode of a database to its WAL, too.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return draft


def put_in_place(draft: Path, path: Path) -> None:
    """Gives a finished file, which nobody has open, its name, durably. Raises FileExistsError if the name is taken."""
    sync(draft)
    os.link(draft, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Makes the bytes of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def recognise(db: sqlite3.Connection, path: Path, ladder: Ladder | None) -> tuple[str, Ladder]:
    """Returns uuid and ladder of a database. Raises StoreMismatch if it is not what is expected."""

    def refuse(what: str) -> StoreMismatch:
        return StoreMismatch(f"{path} {what}", field="store", value=str(path))

    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise refuse("is an SQLite database, but not one that Clickcurve made")
    meta = dict(db.execute("SELECT name, value FROM meta"))
    schema, made_with = meta.get("schema", "of no version"), meta.get("ladder")
    if schema not in (*FORMER_SCHEMAS, SCHEMA_VERSION) or "uuid" not in meta:
        raise refuse(f"has schema {schema}, this program uses schema {SCHEMA_VERSION}")
    try:
        own = Ladder.parse(made_with or "")
    except LadderInvalid as error:
        raise refuse(f"was made with a ladder that this program does not know: {error.detail}") from None
    if ladder is not None and own != ladder:
        raise refuse(f"was made with the ladder {made_with}, but {ladder} is configured; the tiers cannot change")
    return str(meta["uuid"]), own
