"""Which journals of a data folder one of its workers empties, and after how many looks a dead worker's gives way."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalHeld
from ingest.journal.disk_journal import DiskJournal
from server import data_folder
from server.data_folder import journal_folder
from server.workers.unheld_journals import LOOKS, UnheldJournals

WORKERS = 2


@pytest.fixture
def first(tmp_path: Path) -> Iterator[UnheldJournals]:
    """The first worker, beside a second one that has died with three hits."""
    second = DiskJournal(journal_folder(tmp_path, 2))
    second.append([b"hit"] * 3, 1)
    second.close()
    unheld = UnheldJournals(tmp_path, 1, WORKERS)
    yield unheld
    unheld.close()


def names(data: Path) -> set[str]:
    return {path.name for path in data.iterdir() if path.is_dir()}


def test_a_dead_workers_journal_gives_way_when_no_other_has_taken_it_in_some_looks(
    tmp_path: Path, first: UnheldJournals
) -> None:
    assert [first.look() for _ in range(LOOKS + 1)] == [False] * (LOOKS - 1) + [True, False]
    assert (names(tmp_path), first.orphaned()) == ({"journal-3"}, [3])
    journal = DiskJournal(journal_folder(tmp_path, 3))
    assert [frame.payload for frame in journal.frames()] == [b"hit"] * 3


def test_a_worker_that_takes_the_journal_in_time_keeps_it(tmp_path: Path, first: UnheldJournals) -> None:
    for _ in range(LOOKS - 1):
        first.look()
    replacement = DiskJournal(journal_folder(tmp_path, 2))
    for _ in range(LOOKS):
        assert not first.look()
    replacement.close()
    for _ in range(LOOKS - 1):
        assert not first.look(), "the looks before it do not count"
    assert names(tmp_path) == {"journal-2"}


def test_one_worker_at_a_time_adopts_and_the_next_one_after_its_end(tmp_path: Path, first: UnheldJournals) -> None:
    third = UnheldJournals(tmp_path, 3, WORKERS)
    for _ in range(LOOKS):
        first.look()
        assert not third.look()
    assert (first.orphaned(), third.orphaned()) == ([3], [])
    first.close()
    assert third.look(), "those that the other one has not emptied are new to it"
    assert third.orphaned() == [3]
    third.close()


@pytest.mark.parametrize("another", [False, True])
def test_a_journal_that_is_renamed_just_before_it_is_locked_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another: bool
) -> None:
    """The lock is that of the renamed one then. Another journal may have the name, which another process holds."""
    flock, journal = fcntl.flock, journal_folder(tmp_path, 1)

    def renamed_before(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        journal.rename(journal_folder(tmp_path, 3))
        if another:
            DiskJournal(journal)
        flock(handle, how)

    DiskJournal(journal).close()
    monkeypatch.setattr(fcntl, "flock", renamed_before)
    with pytest.raises(JournalHeld):
        DiskJournal(journal)


def test_a_journal_that_cannot_be_renamed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(self: Path, target: Path) -> Path:
        raise OSError(30, "Read-only file system")

    DiskJournal(journal_folder(tmp_path, 1)).close()
    monkeypatch.setattr(Path, "rename", read_only)
    with pytest.raises(OSError, match="Read-only"):
        data_folder.give_way(journal_folder(tmp_path, 1), WORKERS)
