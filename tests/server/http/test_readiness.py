"""What /readyz says of an owner, from its status alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ingest.journal.disk import Disk
from ingest.journal.disk_journal import DiskJournal
from ingest.journal.segment_format import frame_bytes
from ingest.owner_status import OwnerStatus
from server.http.health_routes import NotReady, Readiness
from storage.memory_store import MemoryStore

OPEN = OwnerStatus(owner=7, state="open")


def ready(status: OwnerStatus, check_room: Callable[[], None] = lambda: None) -> Readiness:
    return Readiness(lambda: status, 15.0, MemoryStore().rows, lambda: None, check_room)


def test_a_flush_is_called_stuck_after_four_intervals_and_hits_are_still_accepted() -> None:
    assert ready(replace(OPEN, lag_s=60.0)).for_write() == {
        "ready": True,
        "store": "up",
        "flush": "ok",
        "owner": 7,
        "clock": "ok",
    }
    found = ready(replace(OPEN, lag_s=60.1, store_up=False)).for_write()
    assert found == {"ready": True, "store": "down", "flush": "stuck", "owner": 7, "clock": "ok"}


def test_a_full_journal_is_not_ready_stuck_or_not(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path / "journal-1", max_bytes=3_000)
    server = ready(replace(OPEN, lag_s=60.1), journal.check_room)
    assert server.for_write()["flush"] == "stuck"
    journal.append([bytes(1_500)], 1)
    assert server.for_write()["ready"]
    journal.append([bytes(3_000 - journal.bytes_held - frame_bytes(0, 1))], 2)
    assert journal.bytes_held == 3_000
    with pytest.raises(NotReady, match="the journal is full: 3,000 of 3,000 bytes"):
        server.for_write()
    journal.close()


def test_a_full_buffer_is_not_ready() -> None:
    full = replace(OPEN, buffer_bytes=1_000, buffer_bytes_max=900, buffer_full=True)
    with pytest.raises(NotReady, match="the buffer is full: 1,000 of 900 bytes"):
        ready(full).for_write()


class FullDisk(Disk):
    """A disk that has `free` bytes left, or cannot tell."""

    free: int | None = 0

    def free_bytes(self, folder: Path) -> int:
        if self.free is None:
            raise OSError("no such disk")
        return self.free


def test_a_disk_that_became_read_only_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = DiskJournal(tmp_path / "journal-1")
    server = ready(OPEN, journal.check_room)
    assert server.for_write()["ready"]
    numbers = list(os.statvfs(tmp_path))
    numbers[8] |= os.ST_RDONLY
    with monkeypatch.context() as remounted:
        remounted.setattr(os, "statvfs", lambda _: os.statvfs_result(numbers))
        with pytest.raises(NotReady, match="Read-only file system"):
            server.for_write()
    assert server.for_write()["ready"]
    journal.close()


@pytest.mark.parametrize(
    ("flush_bytes", "what"), [(lambda held: held + 1, "the next flush"), (None, "the journal")], ids=["beside", "apart"]
)
def test_a_disk_without_room_is_not_ready_until_there_is_some(
    flush_bytes: Callable[[int], int] | None, what: str, tmp_path: Path
) -> None:
    disk = FullDisk()
    journal = DiskJournal(tmp_path / "journal-1", disk, flush_bytes=flush_bytes)
    server = ready(OPEN, journal.check_room)
    with pytest.raises(NotReady, match=f"the disk has 0 bytes left, and {what} needs"):
        server.for_write()
    disk.free = None
    with pytest.raises(NotReady, match="no such disk"):
        server.for_write()
    disk.free = 1 << 30
    assert server.for_write()["ready"]
    journal.close()


def test_a_folder_that_this_process_may_not_write_is_not_ready() -> None:
    """The segment that is open takes hits yet; the next one could not be made."""
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        journal = DiskJournal(folder / "journal-1")
        server = ready(OPEN, journal.check_room)
        assert server.for_write()["ready"]
        (folder / "journal-1").chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:  # who may write everywhere
            os.seteuid(65_534)
        try:
            with pytest.raises(NotReady, match=r"Permission denied: '.*journal-1'"):
                server.for_write()
        finally:
            if is_root:
                os.seteuid(0)
        (folder / "journal-1").chmod(0o755)
        assert server.for_write()["ready"]
        journal.close()
