"""The journal on a real disk: locks, kill -9, failing and short writes of the operating system itself."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalDamaged, JournalFull, JournalHeld
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import DiskJournal

CHILD = [sys.executable, "-c"]
HOLD = """
import sys
from pathlib import Path
from ingest.journal.disk_journal import DiskJournal
journal = DiskJournal(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
APPEND = """
import sys
from pathlib import Path
from ingest.journal.disk_journal import DiskJournal
journal = DiskJournal(Path(sys.argv[1]), segment_bytes=20_000, chunk_bytes=4096)
sys.stdout.write("open\\n")
sys.stdout.flush()
first = sum(1 for frame in journal.frames())
for number in range(first, 10**9):
    journal.append([b"%d" % number], number)
    sys.stdout.write("%d\\n" % number)
    sys.stdout.flush()
"""
LIMITED = """
import errno, resource, sys
from pathlib import Path
from clickcurve.buckets.errors import JournalFull
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import DiskJournal

class NoReserve(Disk):
    def allocate(self, fd, offset, length):
        pass  # as on a file system that cannot reserve: the write itself meets the limit, in the middle of a group

journal = DiskJournal(Path(sys.argv[1]), NoReserve(), segment_bytes=1_000_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
journal.append([b"a" * 5_000], 1)
try:
    journal.append([b"b" * 9_000], 2)
except JournalFull as error:
    print("full", error)
journal.append([b"c" * 5_000], 3)
journal.close()
"""


def child(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CHILD, program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )


def pending(journal: DiskJournal) -> list[bytes]:
    return [frame.payload for frame in journal.frames()]


def test_a_folder_held_by_another_process_is_refused_with_its_number(tmp_path: Path) -> None:
    with child(HOLD, tmp_path / "journal") as process:
        assert process.stdout and process.stdin
        assert process.stdout.readline() == "held\n"
        with pytest.raises(JournalHeld, match=rf"{tmp_path}/journal is held by process {process.pid}$"):
            DiskJournal(tmp_path / "journal")
        process.kill()
        process.wait()
    DiskJournal(tmp_path / "journal").close()


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    rng = random.Random(1)
    acknowledged = 0
    for _ in range(6):
        with child(APPEND, tmp_path) as process:
            assert process.stdout
            assert process.stdout.readline() == "open\n"
            for _ in range(rng.randint(1, 150)):
                acknowledged = int(process.stdout.readline()) + 1
            process.send_signal(signal.SIGKILL)
            rest = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
            acknowledged = int(rest[-1]) + 1 if rest else acknowledged
        journal = DiskJournal(tmp_path)
        found = pending(journal)
        journal.close()
        assert found in [[b"%d" % number for number in range(count)] for count in (acknowledged, acknowledged + 1)]


def test_a_write_that_the_system_cuts_short_is_cancelled(tmp_path: Path) -> None:
    done = subprocess.run([*CHILD, LIMITED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("full a write failed and was cancelled")
    journal = DiskJournal(tmp_path)
    assert pending(journal) == [b"a" * 5_000, b"c" * 5_000]
    journal.close()


def test_a_kernel_without_synced_writes_is_served_by_write_and_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real_write, real_sync = os.pwritev, os.fdatasync

    def pwritev(fd: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return real_write(fd, buffers, offset)

    def fdatasync(fd: int) -> None:
        synced.append(fd)
        real_sync(fd)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    journal = DiskJournal(tmp_path)
    for number in range(3):
        journal.append([b"%d" % number], number)
    assert len(synced) == 3
    journal.close()
    journal = DiskJournal(tmp_path)
    assert pending(journal) == [b"0", b"1", b"2"]
    journal.close()


def test_a_file_system_that_cannot_reserve_room_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def posix_fallocate(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", posix_fallocate)
    journal = DiskJournal(tmp_path, segment_bytes=200)
    for number in range(9):
        journal.append([b"%d" % number], number)
    journal.close()
    journal = DiskJournal(tmp_path)
    assert pending(journal) == [b"%d" % number for number in range(9)]
    journal.close()


def test_writes_that_take_a_byte_at_a_time_arrive_whole(tmp_path: Path) -> None:
    class Slow(Disk):
        def write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> int:
            return super().write(fd, [b"".join(buffers)[:1]], offset, durable=False)

    journal = DiskJournal(tmp_path, Slow())
    journal.append([b"one", b"two"], 1)
    journal.close()
    journal = DiskJournal(tmp_path)
    assert pending(journal) == [b"one", b"two"]
    journal.close()


def test_a_disk_that_takes_no_byte_and_gives_no_reason_fails(tmp_path: Path) -> None:
    class Stuck(Disk):
        def write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> int:
            return 0

    with pytest.raises(Exception, match="takes no more bytes"):
        DiskJournal(tmp_path, Stuck())


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where" / "journal"
    DiskJournal(folder).close()
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "segment-00000001", "spare"]


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("segment-1", "segment-00000009.bak", "notes")]
    for other in others:
        other.write_text("mine")
    DiskJournal(tmp_path).close()
    DiskJournal(tmp_path).close()
    assert [other.read_text() for other in others] == ["mine"] * 3


def test_an_empty_segment_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "segment-00000001").touch()
    with pytest.raises(JournalDamaged, match="segment-00000001, byte 0"):
        DiskJournal(tmp_path)


def test_a_large_group_takes_its_room_and_comes_back(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path)
    payload = bytes(range(256)) * 20_000
    journal.append([payload, b"small"], 1)
    with pytest.raises(JournalFull):
        DiskJournal(tmp_path / "small", max_bytes=1_000_000).append([payload], 1)
    journal.close()
    journal = DiskJournal(tmp_path)
    assert pending(journal) == [payload, b"small"]
    journal.close()
