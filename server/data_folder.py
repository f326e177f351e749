"""The data folder: the paths in it, and the lock that lets one server at a time use it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from clickcurve.buckets.errors import JournalHeld, SettingInvalid
from ingest.journal.disk import Disk

JOURNAL = "journal-"
QUARANTINED = "set-aside-"


def tokens_file(data: Path) -> Path:
    """Returns the file in which version 0.2 kept its tokens; it is read, and left as it is."""
    return data / "tokens.json"


def tokens_copy(data: Path) -> Path:
    """Returns the copy of the store's tokens, for a start while the store does not answer."""
    return data / "tokens-copy.json"


def callers_secret(data: Path) -> Path:
    """Returns the file of the secret that callers of the limiter are hashed with."""
    return data / "callers.secret"


def known_time(data: Path) -> Path:
    """Returns the file of what the next process must know of the time."""
    return data / "clock.json"


def accepted_at(data: Path) -> int:
    """Returns when an operator accepted the wall clock last: a number that is another one each time, 0 if never."""
    try:
        return (data / "clock.accepted").stat().st_mtime_ns
    except OSError:
        return 0


def note_accepted(data: Path) -> None:
    """Notes that an operator accepts the wall clock. Raises OSError."""
    replace_private(data / "clock.accepted", secrets.token_hex(8))


def samples_folder(data: Path) -> Path:
    """Returns the folder where each worker leaves its samples, so that any worker can answer for all."""
    return data / "metrics"


def peers_folder(data: Path) -> Path:
    """Returns the folder of the sockets at which workers answer each other."""
    return data / "peers"


def adopter_lock(data: Path) -> Path:
    """Returns the file that the worker locks which empties orphaned journals."""
    return data / "adopter.lock"


def take_worker_number(data: Path, workers: int) -> int:
    """Returns the first worker's number, from 1 on, that no process has; this one has it until it ends.

    For workers without a journal in the folder. Raises JournalHeld.
    """
    for number in range(1, workers + 1):
        with suppress(BlockingIOError):
            Disk().lock(data / f"worker-{number}.lock")
            return number
    raise JournalHeld(f"all {workers} workers of {data} are running")


def journal_folder(data: Path, number: int) -> Path:
    """Returns the folder of journal `number`, 1 or more."""
    return data / f"{JOURNAL}{number}"


def journal_numbers(data: Path) -> list[int]:
    """Lists the numbers of the journals in the folder, ascending."""
    tails = (entry.name.removeprefix(JOURNAL) for entry in data.glob(JOURNAL + "*") if entry.is_dir())
    return sorted(int(tail) for tail in tails if tail.isascii() and tail.isdigit())


def draft_of(journal: Path) -> Path:
    """Returns the folder in which the journal that takes the place of this one is made."""
    return journal.with_name(f"draft-of-{journal.name}")


def give_way(journal: Path, workers: int) -> int:
    """Renames a journal's folder to that of an orphaned one, beyond those of the workers; returns its new number.

    The process that holds the journal calls it, so that no other can take it meanwhile.
    """
    number = workers
    while True:
        number = max(number, *journal_numbers(journal.parent)) + 1
        try:
            journal.rename(journal_folder(journal.parent, number))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else another journal got the number first
                raise
        else:
            return number


def quarantine(journal: Path) -> Path:
    """Renames a journal's folder so that nothing flushes it, and returns its new path."""
    n = 1
    while (new_path := journal.with_name(f"{QUARANTINED}{n}-{journal.name}")).exists():
        n += 1
    return journal.rename(new_path)


def quarantined_journals(data: Path) -> list[Path]:
    """Lists the folders of journals that nothing flushes."""
    return sorted(data.glob(QUARANTINED + "*"))


def prepare(data: Path) -> None:
    """Creates the folder, readable by its owner only. Raises SettingInvalid if that fails."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"the data folder {data} cannot be made: {error.strerror}"
        raise SettingInvalid(reason, field="data", value=str(data)) from error


@contextmanager
def held(data: Path, store: str, purpose: str) -> Iterator[None]:
    """Holds the data folder, and the database if `store` names a file, while the block runs.

    Another process that wants either reads `purpose` in its error. Processes forked inside the block hold them too:
    they are free only when the last of them is gone. Raises JournalHeld.
    """
    prepare(data)
    with ExitStack() as locks:
        try:
            locks.enter_context(_locked(data / "lock", f"the data folder {data} is held by ", purpose))
        except OSError as error:
            reason = f"the data folder {data} cannot be written: {error.strerror}"
            raise SettingInvalid(reason, field="data", value=str(data)) from error
        scheme, _, path = store.partition(":///")
        if scheme == "sqlite":
            # The journals of two folders know nothing of each other: neither server would see the other's hits and ids
            # before they are flushed, and each would take itself for the only one.
            with suppress(OSError):  # a folder that is not there, or cannot be written: the store says so itself
                lock = Path(os.path.realpath(path) + ".lock")
                refusal = f"one server at a time may write the database {path}; stop the one that does: "
                locks.enter_context(_locked(lock, refusal, f"{purpose} --data {data.absolute()}"))
        yield


@contextmanager
def _locked(path: Path, refusal: str, purpose: str) -> Iterator[None]:
    """Holds the lock on a file while the block runs. Raises JournalHeld: the refusal, then what holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 4_096, 0).decode("utf-8", "replace").strip() or "another process"
            raise JournalHeld(refusal + holder) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{purpose} (process {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(lock)


def replace_private(path: Path, text: str) -> None:
    """Replaces the file's content; a crash leaves the old one or the new one, and nobody else can read it."""
    fresh = path.with_suffix(".new")
    write_private(fresh, text.encode())
    fresh.replace(path)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that nobody else can read; returns when it is on the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
