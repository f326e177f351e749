"""The file that keeps hits until the server has confirmed them, and outlives a kill of the client.

Lines of text, appended in the order in which things happened:

    clickcurve-spool 1
    +COUNT MINUTE FIELDS    hits; FIELDS are the members of the JSON object but `ts` and `count`
    *COUNT MINUTE FIELDS    a hit with an id of its own, which is never summed with another
    =ID                     the lines since the last such mark are the batch ID
    ?ID TIME                from TIME on the batch may have been counted
    !ID                     it was certainly not counted
    -ID                     it is answered, or given up

A kill tears at most the last line, which is cut. The file is written again, with what is not answered, when it has
grown to a multiple of that. Addresses and names of visitors (`ip`, `visitor`) are never in it.

One process holds one file: FILE, or the first free one of FILE.1, FILE.2, ... A lock on FILE.lock tells, so a file that
a dead process left behind is taken over when the next one starts.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.client.outbox import ClosedBatch, OpenLine

HEADER = b"clickcurve-spool 1\n"
MOST_FILES = 100
REWRITE_FROM_BYTES = 1024 * 1024
REWRITE_FACTOR = 4

log = logging.getLogger("clickcurve.client")

Write = Callable[[int, memoryview], int]


class SpoolUnusable(ClickcurveError, title="spool file unusable"):
    """The spool file cannot be opened, or is a file of something else."""


class Spool:
    """One file, held by this process, and what it held when it was opened."""

    def __init__(self, path: Path, write: Write = os.write) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._held: list[int] = []
        self._fd = -1
        self._bytes = 0
        self._rewrite_at = REWRITE_FROM_BYTES
        self.broken = ""  # why nothing can be written at present
        self.path, lock = _first_free(path)
        self._held.append(lock)
        self.recovered = _recovered(self.path)
        self.rewrite(_records(self.recovered))
        for other, other_lock in _left_behind(path, self.path):
            ids = {batch.id for batch in self.recovered}  # a kill right here leaves a batch in both files
            self.recovered += [batch for batch in _recovered(other) if batch.id not in ids]
            self.rewrite(_records(self.recovered))
            other.unlink()
            os.close(other_lock)

    def append(self, take: Callable[[], list[bytes] | None], snapshot: Callable[[], list[bytes]]) -> None:
        """Writes down what is to be written next. What cannot be written is written later, as a snapshot."""
        with self._lock:
            records = None if self.broken or self._bytes > self._rewrite_at else take()
            try:
                if records is None:
                    self._replace(snapshot())
                elif records:
                    self._put(self._fd, b"".join(records))
                self.broken = ""
            except OSError as error:
                self.broken = str(error)
                self._empty()

    def rewrite(self, records: list[bytes]) -> None:
        try:
            self._replace(records)
        except OSError as error:
            raise SpoolUnusable(f"the spool file {self.path} cannot be written: {error.strerror}") from error

    def close(self, is_empty: bool) -> None:
        """Gives the file up; one that holds nothing is removed."""
        with self._lock:
            if is_empty and self._fd >= 0:
                self.path.unlink(missing_ok=True)
            self.forget()

    def forget(self) -> None:
        """Closes what is open, and gives up the lock where this process alone has it."""
        for fd in (self._fd, *self._held):
            if fd >= 0:
                os.close(fd)
        self._fd, self._held = -1, []

    def _replace(self, records: list[bytes]) -> None:
        beside = self.path.with_name(self.path.name + ".new")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        before, self._bytes = self._bytes, 0
        try:
            self._put(fd, HEADER + b"".join(records))
            beside.replace(self.path)
        except OSError:
            os.close(fd)
            self._bytes = before
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._rewrite_at = max(REWRITE_FROM_BYTES, REWRITE_FACTOR * self._bytes)

    def _put(self, fd: int, text: bytes) -> None:
        left = memoryview(text)
        while left:
            left = left[self._write(fd, left) :]
        self._bytes += len(text)

    def _empty(self) -> None:
        """Empties the file that lacks something: with a part of what happened in it, hits could count twice."""
        with suppress(OSError):  # a disk that cannot even do this has no file that will be read again
            os.ftruncate(self._fd, len(HEADER))


def _records(batches: list[ClosedBatch]) -> list[bytes]:
    return [record for batch in batches for record in batch.records()]


# --- files ----------------------------------------------------------------------------------------------------------
def _candidates(path: Path) -> Iterator[Path]:
    yield path
    yield from (path.with_name(f"{path.name}.{number}") for number in range(1, MOST_FILES))


def _first_free(path: Path) -> tuple[Path, int]:
    for candidate in _candidates(path):
        try:
            lock = _lock_of(candidate)
        except OSError as error:
            raise SpoolUnusable(f"the spool file {candidate} cannot be opened: {error.strerror}") from error
        if lock is not None:
            return candidate, lock
    raise SpoolUnusable(f"{path} and its {MOST_FILES - 1} numbered files are in use by other processes")


def _left_behind(path: Path, own: Path) -> Iterator[tuple[Path, int]]:
    for candidate in _candidates(path):
        if candidate != own and candidate.exists():
            lock = _lock_of(candidate)
            if lock is not None and candidate.exists():
                yield candidate, lock
            elif lock is not None:
                os.close(lock)


def _lock_of(path: Path) -> int | None:
    """Locks FILE.lock; None if another process holds it."""
    fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


# --- what a file holds ----------------------------------------------------------------------------------------------
def _recovered(path: Path) -> list[ClosedBatch]:
    """Reads what is not answered. What was open becomes a batch, whose id is written down before all else."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SpoolUnusable(f"the spool file {path} cannot be read: {error.strerror}") from error
    if not text.startswith(HEADER):
        if HEADER.startswith(text):
            return []
        raise SpoolUnusable(f"{path} is not a spool file: it does not begin with {HEADER.decode().strip()!r}")
    whole = text[: text.rindex(b"\n") + 1]
    try:
        batches, last = read_records(whole[len(HEADER) :])
    except (ValueError, KeyError):  # no kill does this, a lost disk may
        aside = path.with_name(path.name + ".damaged")
        path.replace(aside)
        log.exception("the spool file is damaged; it is kept as %s, and its hits are not sent", aside)
        return []
    if last:
        batch = ClosedBatch(uuid4().hex, last)
        with path.open("r+b") as file:
            file.truncate(len(whole))
            file.seek(0, os.SEEK_END)
            file.write(b"=%s\n" % batch.id.encode())
        batches.append(batch)
    return batches


def read_records(text: bytes) -> tuple[list[ClosedBatch], dict[OpenLine, int]]:
    """Returns the batches that are not answered, and the lines that are not in a batch yet."""
    batches: dict[str, ClosedBatch] = {}
    last: dict[OpenLine, int] = {}
    for number, record in enumerate(text.split(b"\n")[:-1], 1):
        kind, rest = record[:1], record[1:]
        if kind in (b"+", b"*"):
            count, minute, public = rest.split(b" ", 2)
            line = OpenLine(int(minute), public, b"", number if kind == b"*" else 0)
            last[line] = last.get(line, 0) + int(count)
        elif kind == b"=":
            batches[rest.decode()] = ClosedBatch(rest.decode(), last)
            last = {}
        elif kind == b"?":
            id_, at = rest.decode().split()
            batches[id_].doubt_at = int(at)
        elif kind == b"!":
            batches[rest.decode()].doubt_at = None
        elif kind == b"-":
            del batches[rest.decode()]
        else:
            raise ValueError(f"record {number} has an unknown kind")
    return list(batches.values()), last
