"""A disk in memory that forgets what was not synced, fails when told, and can stop the program at any call.

What a running system sees (`cache`) and what would survive a power failure (`durable`) are kept apart, for the bytes
of files as for the names in folders. A failed sync drops what it was to write: the cache keeps showing it, and a later
sync that succeeds does not bring it to the disk. That is what Linux does.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ingest.journal.disk import Disk

PIECE = 16  # a power failure takes or leaves so many bytes of a write together
KINDS = ("create", "allocate", "write", "sync", "rename", "sync_folder", "unlink", "truncate", "open", "read")
DONE = {"before": 0.0, "half": 0.5, "after": 1.0}  # ways to fail: how much of the call is done nevertheless


class Stopped(BaseException):
    """The program ends here, as by kill -9."""


@dataclass
class Fault:
    """Makes the n-th call of a kind (None: of any kind) go wrong, and the `times - 1` calls of that kind after it.

    way: one of DONE, or "stop" or "stop after" (the program ends before or after the call), or "short" (a write writes
    less than it was given and says so).
    """

    kind: str | None
    nth: int
    way: str = "before"
    times: int = 1
    code: int = errno.EIO
    seen: int = 0
    fired: int = 0

    def __call__(self, kind: str) -> str:
        if self.kind not in (None, kind):
            return ""
        self.seen += 1
        if not self.nth <= self.seen < self.nth + self.times:
            return ""
        self.fired += 1
        return self.way


Change = Callable[[bytearray], None]


@dataclass
class File:
    cache: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)  # what a sync brings to the disk
    dropped: bool = False  # a sync has failed: cache and disk may differ for good

    def change(self, *changes: Change) -> None:
        for change in changes:
            change(self.cache)
            self.pending.append(change)

    def sync(self, changes: Sequence[Change], share: float) -> None:
        """Bring these pending changes to the disk; with a share below 1 only the first ones, and drop the others."""
        for change in changes[: int(len(changes) * share)]:
            change(self.durable)
        self.pending = [change for change in self.pending if change not in changes]
        self.dropped = self.dropped or share < 1


Names = dict[Path, File]
T = TypeVar("T")


class FaultyDisk(Disk):
    """`fault` decides what fails; None = nothing. `calls` lists the kinds of calls made."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.in_memory = True
        self.calls: list[str] = []
        self._random = random.Random(seed)
        self._names: Names = {}
        self._durable_names: Names = {}
        self._pending_names: list[Callable[[Names], None]] = []
        self._files: dict[int, File] = {}
        self._next_fd = 3
        self._locked: set[int] = set()

    def is_memory(self, folder: Path) -> bool:
        return self.in_memory

    # --- for tests ------------------------------------------------------------------------------------------------
    def kill(self, *, evict: bool = False) -> None:
        """The program is gone. evict: what a failed sync dropped has left the cache, too."""
        self.fault = None
        self._files.clear()
        self._locked.clear()
        for file in self._names.values():
            if evict and file.dropped:
                file.cache = bytearray(file.durable)
                for change in file.pending:
                    change(file.cache)

    def lose_power(self) -> None:
        """The machine is gone: of what was not synced, anything or nothing is there afterwards."""
        self.kill()
        self._names = dict(self._durable_names)
        self._settle_some(self._pending_names, self._names)
        self._durable_names, self._pending_names = dict(self._names), []
        for file in self._names.values():
            self._settle_some(file.pending, file.durable)
            file.cache, file.pending, file.dropped = bytearray(file.durable), [], False

    def _settle_some(self, changes: list[Callable[[T], None]], target: T) -> None:
        kept = self._random.choice((0.0, 0.5, 1.0))
        for change in changes:
            if self._random.random() < kept:
                change(target)

    def content(self, path: Path) -> bytearray:
        """The bytes of a file, to be changed at will."""
        return self._file(path).cache

    def segments(self, folder: Path) -> list[Path]:
        return sorted(path for path in self._names if path.parent == folder and path.name.startswith("segment-"))

    def copy(self, before: Path, after: Path) -> None:
        """Copy the segments of a folder."""
        for path in self.segments(before):
            self._names[after / path.name] = File(bytearray(self.content(path)), bytearray(self.content(path)))

    def forget(self, path: Path) -> None:
        """Remove a file behind the program's back."""
        del self._names[path]

    # --- the calls ------------------------------------------------------------------------------------------------
    def _call(self, kind: str, carry_out: Callable[[float], None] = lambda share: None) -> str:
        """Carry a call out, or as much of it as the fault lets; returns the fault's way if it wants a short write."""
        self.calls.append(kind)
        way = self.fault(kind) if self.fault else ""
        if way == "stop":
            raise Stopped
        carry_out(DONE.get(way, 1.0))
        if way == "stop after":
            raise Stopped
        if way in DONE:
            assert self.fault
            raise OSError(self.fault.code, f"{kind} failed")
        return way

    def random(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def make_folder(self, folder: Path) -> None:
        pass

    def lock(self, path: Path) -> int:
        file = self._names.setdefault(path, File(bytearray(b"1\n")))
        if any(self._files[fd] is file for fd in self._locked):
            raise BlockingIOError(errno.EAGAIN, "locked")
        fd = self._descriptor(file)
        self._locked.add(fd)
        return fd

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._names if path.parent == folder)

    def size(self, path: Path) -> int:
        return len(self._file(path).cache)

    def create(self, path: Path) -> int:
        def carry_out(share: float) -> None:
            if share < 1:
                return
            if path in self._names:
                self._names[path].change(lambda data: data.clear())
                return
            file = self._names[path] = File()
            self._pending_names.append(lambda names: names.update({path: file}))

        self._call("create", carry_out)
        return self._descriptor(self._file(path))

    def open(self, path: Path) -> int:
        self._call("open")
        return self._descriptor(self._file(path))

    def close(self, fd: int) -> None:
        del self._files[fd]
        self._locked.discard(fd)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        def carry_out(share: float) -> None:
            end = offset + int(length * share)
            self._files[fd].change(lambda data: data.extend(bytes(max(0, end - len(data)))))

        self._call("allocate", carry_out)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> int:
        """A durable write is two calls: the write, and the sync of its bytes."""
        data, file = b"".join(buffers), self._files[fd]
        changes: list[Change] = []

        def carry_out(share: float) -> None:
            written = data[: int(len(data) * share)]
            pieces = range(0, len(written), PIECE)
            changes.extend(_placed(offset + begin, written[begin : begin + PIECE]) for begin in pieces)
            file.change(*changes)

        if self.fault and self.fault.way == "short" and len(data) > 1:
            probe = Fault(self.fault.kind, self.fault.nth, "short", self.fault.times, seen=self.fault.seen)
            data = data[: len(data) // 2] if probe("write") else data
        self._call("write", carry_out)
        if durable:
            self._call("sync", lambda share: file.sync(changes, share))
        return len(data)

    def sync(self, fd: int) -> None:
        file = self._files[fd]
        self._call("sync", lambda share: file.sync(list(file.pending), share))

    def truncate(self, path: Path, length: int) -> None:
        def carry_out(share: float) -> None:
            if share:
                self._file(path).change(lambda data: data.__delitem__(slice(length, None)))

        self._call("truncate", carry_out)

    def rename(self, before: Path, after: Path) -> None:
        def carry_out(share: float) -> None:
            if share < 1:
                return
            file = self._names[before]

            def change(names: Names) -> None:
                names.pop(before, None)
                names[after] = file

            change(self._names)
            self._pending_names.append(change)

        self._call("rename", carry_out)

    def unlink(self, path: Path) -> None:
        def carry_out(share: float) -> None:
            if share < 1:
                return
            self._file(path)
            del self._names[path]
            self._pending_names.append(lambda names: _remove(names, path))

        self._call("unlink", carry_out)

    def sync_folder(self, folder: Path) -> None:
        def carry_out(share: float) -> None:
            for change in self._pending_names[: int(len(self._pending_names) * share)]:
                change(self._durable_names)
            self._pending_names.clear()  # What was left out never comes to the disk, though the cache shows it.

        self._call("sync_folder", carry_out)

    def read(self, path: Path) -> memoryview:
        self._file(path)
        self._call("read")
        return memoryview(bytes(self._file(path).cache))

    def _file(self, path: Path) -> File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self._names[path]

    def _descriptor(self, file: File) -> int:
        self._next_fd += 1
        self._files[self._next_fd] = file
        return self._next_fd


def _placed(offset: int, part: bytes) -> Change:
    def change(data: bytearray) -> None:
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(part)] = part

    return change


def _remove(names: Names, path: Path) -> None:
    names.pop(path, None)
