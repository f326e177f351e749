"""The system calls that the journal makes, as methods of an object that tests can replace.

Keys of links may be secrets: only the owner of the files reads them, whatever the folder around them allows.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Disk:
    """The real disk. Each method is one step that may fail with OSError. Offsets and lengths are bytes."""

    def __init__(self) -> None:
        self._write_and_sync = getattr(os, "RWF_DSYNC", 0)

    def random(self, length: int) -> bytes:
        return os.urandom(length)

    def make_folder(self, folder: Path) -> None:
        """Creates the folder, for its owner alone, and its missing parents, durably."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in missing:
            self.sync_folder(path.parent)

    def lock(self, path: Path) -> int:
        """Locks the file until it is closed or the process ends; BlockingIOError if another process holds it.

        If its folder is renamed meanwhile, the lock is that of the renamed one: BlockingIOError or FileNotFoundError.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino != os.fstat(fd).st_ino:
                raise BlockingIOError(errno.EAGAIN, "its folder was renamed", str(path))
        except BaseException:
            os.close(fd)
            raise
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass  # the number is for people; a full disk must not prevent a start
        return fd

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))  # noqa: PTH208 - plain names

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def create(self, path: Path) -> int:
        """Opens an empty file for writing; an existing one is emptied."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Reserves room, filled with zeros, if the file system can; otherwise a later write meets the full disk."""
        reserve = getattr(os, "posix_fallocate", None)
        if reserve is None:
            return
        try:
            reserve(fd, offset, length)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise

    def free_bytes(self, folder: Path) -> int:
        """Returns how much more a program without privileges may write to the folder's disk.

        Raises OSError for a disk that is read-only, as the kernel makes one that has failed, and for a folder in which
        this process may make no file: its next segment would be one.
        """
        disk = os.statvfs(folder)
        if disk.f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return disk.f_bavail * disk.f_frsize

    def is_memory(self, folder: Path) -> bool:
        """Returns whether the folder lies in a file system in memory, which always answers at once."""
        device = folder.stat().st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        except OSError:
            return False
        kinds = [mount.rpartition(" - ")[2].split(" ", 1)[0] for mount in mounts if mount.split(" ", 3)[2] == name]
        return bool(kinds) and all(kind in ("tmpfs", "ramfs") for kind in kinds)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> int:
        """Returns the number of bytes written, perhaps fewer than given. durable: they are synced when it returns."""
        if durable and self._write_and_sync:
            try:
                return os.pwritev(fd, buffers, offset, self._write_and_sync)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._write_and_sync = 0
        written = os.pwritev(fd, buffers, offset)
        if durable:
            os.fdatasync(fd)
        return written

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def truncate(self, path: Path, length: int) -> None:
        os.truncate(path, length)

    def rename(self, before: Path, after: Path) -> None:
        before.rename(after)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: Path) -> memoryview:
        """Reads the whole file. Not mapped: a bad sector must be an error here, not a signal that ends the process."""
        return memoryview(path.read_bytes())
