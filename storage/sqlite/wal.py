"""Telling whether a write-ahead log belongs to the database that it lies beside, before SQLite opens the two.

SQLite replays any log with good checksums over the file that has its name, and writes it back for good when the last
connection closes. So a file that was copied over the database of a killed server would silently become again what it
was to replace, or a mixture of both.

Each transaction therefore signs page 1: its user_version becomes a hash of the database's uuid and of the user_version
before. A log begins when all that came before is in the file. So its first signature follows that of the file or, where
a part of the log was written back already, the file's signature is one of those in the log. A log without page 1 says
nothing and passes, and so does, by chance, one foreign log in four billion.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from clickcurve.buckets.errors import StoreMismatch

TRIES = 3  # a server that runs may begin its log anew between the look at the file and the look at the log

_HEADER = struct.Struct(">8I")  # magic, format, page size, checkpoints, salt twice, checksum twice
_FRAME = struct.Struct(">6I")  # page, size of the database or 0, salt twice, checksum twice
_MAGIC = {0x377F0682: "<2I", 0x377F0683: ">2I"}  # and in which order the bytes of a word are summed
_PAGE_1 = struct.Struct(">40xI16xi")  # in page 1: schema cookie, user_version
_CHECKED = 8  # bytes of a frame's head that its checksum covers
_MASK = 0xFFFF_FFFF


class Signature(NamedTuple):
    """What page 1 says. cookie: rises with each change of the tables and each VACUUM."""

    version: int
    cookie: int


def wal_path(path: Path) -> Path:
    """Returns where SQLite keeps the log of a database: beside the file itself, where `path` is a link to it."""
    return Path(os.path.realpath(path) + "-wal")


def sign(db: sqlite3.Connection, uuid: str) -> None:
    """Signs the open transaction of a connection to the database with this uuid."""
    (before,) = db.execute("PRAGMA user_version").fetchone()
    db.execute(f"PRAGMA user_version = {_next_version(uuid, before)}")


def refuse_foreign_wal(path: Path) -> None:
    """Raises StoreMismatch if SQLite would replay a write-ahead log over the file at `path` that is not its own."""
    wal = wal_path(path)
    for _ in range(TRIES):
        if _belongs(path, wal):
            return
    raise StoreMismatch(
        f"{wal} is not the write-ahead log of {path}, and would destroy it: put a backup in place with `clickcurve"
        f" restore FILE`, or move {wal.name} away",
        field="store",
        value=str(path),
    )


def _next_version(uuid: str, before: int) -> int:
    """Returns the signature after `before`, never 0, which means that a database was never signed."""
    digest = blake2b(f"{uuid} {before}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _belongs(path: Path, wal: Path) -> bool:
    try:
        with wal.open("rb") as log:
            signatures = _signatures(log)
            first = next(signatures, None)
            if first is None:
                return True
            if not path.exists():
                return False
            try:
                uuid, of_file = _read_without_wal(path)
            except sqlite3.Error:
                return True  # page 1 was being written back at a power cut: the file is whole only with its log
            expected = _next_version(uuid, of_file.version)
            if first.version == expected and first.cookie >= of_file.cookie:
                return True
            return any(
                signature.version == of_file.version and signature.cookie >= of_file.cookie
                for signature in (first, *signatures)
            )
    except FileNotFoundError:
        return True


@contextmanager
def connect_without_wal(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens the file alone for reading: its log is not looked at, nothing is locked and no file is made."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        yield db


def _read_without_wal(path: Path) -> tuple[str, Signature]:
    with connect_without_wal(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (cookie,) = db.execute("PRAGMA schema_version").fetchone()
        (uuid,) = db.execute("SELECT value FROM meta WHERE name = 'uuid'").fetchone()
        return str(uuid), Signature(version, cookie)


def _signatures(log: BufferedReader) -> Iterator[Signature]:
    """Yields what each version of page 1 in a log says.

    Up to the first one the checksums are verified: after a power cut the log may begin with a torn frame, which SQLite
    leaves out. The walk then needs no checksums, for a page that only seems to be in the log proves nothing false.
    """
    head = log.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(head)
    word = _MAGIC.get(magic)
    if word is None or (sums := _checksum(head[:24], word, (0, 0))) != (first, second):
        return
    found_one = False
    while len(head := log.read(_FRAME.size)) == _FRAME.size:
        page, _, *frame_salts, first, second = _FRAME.unpack(head)
        data = log.read(page_bytes)
        if frame_salts != salts or len(data) < page_bytes:
            return
        if not found_one:
            sums = _checksum(data, word, _checksum(head[:_CHECKED], word, sums))
            if sums != (first, second):
                return
        if page == 1:
            found_one = True
            cookie, version = _PAGE_1.unpack_from(data)
            yield Signature(version, cookie)


def _checksum(data: bytes, word: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    for one, other in struct.iter_unpack(word, data):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
