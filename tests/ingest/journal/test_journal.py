"""The journal's verbs on a disk that works, and on one that is full."""

from __future__ import annotations

import errno
from pathlib import Path
from threading import Thread

import pytest

from clickcurve.buckets.errors import JournalBroken, JournalFull, JournalHeld, JournalUnknown
from ingest.journal.contract import FlushRecord, Frame, Identity
from ingest.journal.disk_journal import DiskJournal
from tests.ingest.journal.faulty_disk import Fault, FaultyDisk

FOLDER = Path("/journal")


def open_journal(disk: FaultyDisk, max_bytes: int = 1 << 20, segment_bytes: int = 1_000) -> DiskJournal:
    return DiskJournal(FOLDER, disk, max_bytes, segment_bytes, chunk_bytes=256)


def pending(journal: DiskJournal) -> list[bytes]:
    return [frame.payload for frame in journal.frames()]


def segment_names(disk: FaultyDisk) -> list[str]:
    return [path.name for path in disk.segments(FOLDER)]


def test_a_new_journal_has_a_name_and_nothing_else() -> None:
    journal = open_journal(FaultyDisk())
    found = journal.found
    assert (found.identity, found.flush, found.last_flush) == (Identity(0, 0, "", ()), None, 0)
    assert len(journal.name) == 36
    assert pending(journal) == []


def test_a_journal_keeps_its_name_its_identity_and_its_hits() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    identity = Identity(-(2**40), 3, "höld", ((3, "a"), (4, "")))
    journal.record_identity(identity)
    journal.append([b"one", b"", b"two"], 17)
    journal.append([], 18)
    journal.close()
    again = open_journal(disk)
    assert again.name == journal.name
    assert again.found.identity == identity == again.state.identity
    assert list(again.frames()) == [Frame(17, b"one"), Frame(17, b""), Frame(17, b"two")]


def test_a_flush_covers_what_was_there_when_it_was_recorded() -> None:
    journal = open_journal(FaultyDisk())
    journal.append([b"before"], 1)
    flush = journal.record_flush(4, 20_000)
    journal.append([b"after"], 2)
    assert (flush.number, flush.previous, flush.fold_day) == (4, 0, 20_000)
    assert [frame.payload for frame in journal.frames(flush)] == [b"before"]
    assert pending(journal) == [b"after"]
    journal.complete_flush(4)
    assert pending(journal) == [b"after"]
    assert journal.record_flush(5, 20_000).previous == 4


def test_reading_has_the_extent_of_the_moment_it_began() -> None:
    journal = open_journal(FaultyDisk())
    journal.append([b"before"], 1)
    frames = journal.frames()
    journal.append([b"after"], 1)
    assert [frame.payload for frame in frames] == [b"before"]


def test_an_unfinished_flush_is_found_again_until_it_is_complete() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append([b"hit"], 1)
    flush = journal.record_flush(4, 7)
    for _ in range(3):
        disk.kill()
        journal = open_journal(disk)
        assert journal.found.flush == flush
        assert [frame.payload for frame in journal.frames(flush)] == [b"hit"]
    journal.complete_flush(4)
    journal.complete_flush(4)  # may be repeated
    disk.kill()
    journal = open_journal(disk)
    assert (journal.found.flush, journal.found.last_flush) == (None, 4)
    assert pending(journal) == []


def test_numbers_of_flushes_rise_and_one_is_open_at_a_time() -> None:
    journal = open_journal(FaultyDisk())
    journal.record_flush(4, 7)
    with pytest.raises(ValueError, match="flush 4 is not complete"):
        journal.record_flush(5, 7)
    with pytest.raises(ValueError, match="flush 5 is not the unfinished one"):
        journal.complete_flush(5)
    with pytest.raises(ValueError, match="flush 3 is not the unfinished one"):
        journal.frames(FlushRecord(3, 0, 7))
    journal.complete_flush(4)
    for number in (4, 3):
        with pytest.raises(ValueError, match="does not come after flush 4"):
            journal.record_flush(number, 7)


def test_flushes_of_nothing_leave_no_files_behind() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    for number in range(1, 20):
        flush = journal.record_flush(number, 7)
        assert list(journal.frames(flush)) == []
        journal.complete_flush(number)
        assert len(segment_names(disk)) == 1


def test_openings_leave_no_files_behind() -> None:
    disk = FaultyDisk()
    for number in range(20):
        journal = open_journal(disk)
        journal.record_identity(Identity(1, number, "holder", ()))
        journal.close()
    assert len(segment_names(disk)) == 1
    assert journal.bytes_held < 1_000


def test_segments_are_cut_to_what_they_hold_and_go_when_they_are_covered() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    for number in range(40):
        journal.append([b"%d" % number * 30], number)
    *closed, _ = disk.segments(FOLDER)
    assert len(closed) > 2
    current = journal.bytes_held - sum(map(disk.size, closed))
    assert 0 < current < 2_000
    journal.record_flush(1, 7)
    journal.append([b"later"], 1)
    journal.complete_flush(1)
    assert len(segment_names(disk)) == 1
    assert pending(journal) == [b"later"]


def test_segments_that_cannot_be_removed_count_for_nothing_and_are_removed_later() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append([b"hit"], 1)
    journal.record_flush(1, 7)
    disk.fault = Fault("unlink", 1, times=1_000)
    held = journal.bytes_held
    journal.complete_flush(1)
    assert "segment-00000001" in segment_names(disk)
    assert journal.bytes_held > held, "what is there is held"
    assert pending(journal) == []
    disk.kill()
    disk.fault = Fault("unlink", 1, times=1_000)
    journal = open_journal(disk)
    assert "segment-00000001" in segment_names(disk)
    assert pending(journal) == []
    disk.fault = None
    journal.record_flush(2, 7)
    journal.complete_flush(2)
    assert len(segment_names(disk)) == 1


def test_the_bound_refuses_hits_and_a_flush_makes_room() -> None:
    journal = open_journal(FaultyDisk(), max_bytes=3_000)
    accepted: list[bytes] = []
    with pytest.raises(JournalFull, match="of 3,000 bytes"):
        for number in range(100):
            journal.append([b"%d" % number], number)
            accepted.append(b"%d" % number)
    assert 2_900 < journal.bytes_held <= 3_000
    journal.record_identity(Identity(1, 1, "holder", ()))
    flush = journal.record_flush(1, 7)
    assert [frame.payload for frame in journal.frames(flush)] == accepted
    journal.complete_flush(1)
    journal.append([b"room"], 1)
    assert pending(journal) == [b"room"]


def test_a_group_greater_than_the_bound_is_refused_and_the_next_is_not() -> None:
    journal = open_journal(FaultyDisk(), max_bytes=10_000)
    with pytest.raises(JournalFull):
        journal.append([b"x" * 10_000], 1)
    journal.append([b"x"], 1)
    assert pending(journal) == [b"x"]


def test_a_group_greater_than_a_segment_is_whole() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    payloads = [bytes([number]) * 3_000 for number in range(3)]
    journal.append(payloads, 1)
    disk.kill()
    assert pending(open_journal(disk)) == payloads


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_on_a_full_disk_hits_are_refused_and_a_flush_can_still_be_recorded_and_completed(attempts: int) -> None:
    disk = FaultyDisk()
    journal = DiskJournal(FOLDER, disk, chunk_bytes=4_096)
    journal.append([b"x" * 3_800], 1)
    disk.fault = Fault("allocate", 1, times=1_000, code=errno.ENOSPC)
    with pytest.raises(JournalFull, match="no room on the disk"):
        journal.append([b"too long" * 100], 1)
    for attempt in range(attempts):  # each needs some room, too, and at some point the spare file
        journal.record_identity(Identity(1, attempt, "holder", ()))
    flush = journal.record_flush(1, 7)
    with pytest.raises(JournalFull, match="nothing was written"):
        journal.append([b"no spare file lies ready"], 1)
    assert [frame.payload for frame in journal.frames(flush)] == [b"x" * 3_800]
    journal.complete_flush(1)
    disk.fault = None
    journal.append([b"room"], 1)
    assert pending(journal) == [b"room"]


@pytest.mark.parametrize(
    ("code", "error"), [(errno.ENOSPC, JournalFull), (errno.EDQUOT, JournalFull), (errno.EIO, JournalBroken)]
)
def test_a_failed_group_is_cancelled_before_the_answer(code: int, error: type[Exception]) -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append([b"first"], 1)
    disk.fault = Fault("sync", 1, way="after", code=code)  # the disk has it, and says it has not
    with pytest.raises(error, match="cancelled"):
        journal.append([b"cancelled"], 2)
    disk.lose_power()
    assert pending(open_journal(disk)) == [b"first"]


def test_a_group_that_cannot_be_cancelled_is_unknown_and_the_journal_recovers_by_itself() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append([b"first"], 1)
    disk.fault = Fault("sync", 1, way="after", times=1_000)
    with pytest.raises(JournalUnknown, match="may count or not"):
        journal.append([b"unknown"], 2)
    writes = disk.calls.count("write")
    with pytest.raises(JournalBroken, match="nothing was written"):
        journal.append([b"refused"], 3)
    assert disk.calls.count("write") == writes + 1, "the header of a new segment, no hits"
    assert pending(journal) == [b"first"]
    disk.fault = None
    journal.append([b"second"], 4)
    disk.kill()
    assert pending(open_journal(disk)) == [b"first", b"second"]


def test_an_unknown_group_that_reached_the_disk_counts_after_a_stop_and_from_then_on() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    disk.fault = Fault("sync", 1, way="after", times=1_000)
    with pytest.raises(JournalUnknown):
        journal.append([b"unknown"], 2)
    disk.kill()
    assert pending(open_journal(disk)) == [b"unknown"]
    disk.lose_power()
    assert pending(open_journal(disk)) == [b"unknown"]


def test_an_existing_journal_opens_on_a_disk_that_takes_no_writes() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append([b"hit"], 1)
    disk.kill()
    disk.fault = Fault("create", 1, times=1_000, code=errno.ENOSPC)
    journal = open_journal(disk)
    assert pending(journal) == [b"hit"]
    for refused in (lambda: journal.append([b"no"], 1), lambda: journal.record_flush(1, 7)):
        with pytest.raises(JournalFull):
            refused()
    disk.fault = None
    journal.append([b"yes"], 1)
    assert pending(journal) == [b"hit", b"yes"]


def test_a_new_journal_does_not_open_on_a_disk_that_takes_no_writes_and_lets_go_of_the_folder() -> None:
    disk = FaultyDisk()
    disk.fault = Fault("create", 1, code=errno.ENOSPC)
    with pytest.raises(JournalFull, match="cannot be opened"):
        open_journal(disk)
    open_journal(disk)


def test_a_folder_is_held_by_one_journal_at_a_time() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    with pytest.raises(JournalHeld, match="/journal is held by process 1"):
        open_journal(disk)
    journal.close()
    open_journal(disk)


def test_a_closed_journal_takes_nothing() -> None:
    journal = open_journal(FaultyDisk())
    journal.close()
    journal.close()
    for refused in (
        lambda: journal.append([b"hit"], 1),
        lambda: journal.record_flush(1, 7),
        lambda: journal.record_identity(Identity(1, 1, "holder", ())),
    ):
        with pytest.raises(JournalBroken, match="closed"):
            refused()


def test_a_failure_that_is_no_failure_of_the_disk_closes_the_segment_all_the_same() -> None:
    """As when a signal's handler raises in the middle of a write."""

    class Interrupted(FaultyDisk):
        armed = False

        def sync_once(self) -> None:
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt

        def write(self, fd: int, buffers: object, offset: int, *, durable: bool) -> int:
            written = super().write(fd, buffers, offset, durable=durable)  # type: ignore[arg-type]
            self.sync_once()
            return written

    disk = Interrupted()
    journal = open_journal(disk)
    disk.armed = True
    with pytest.raises(KeyboardInterrupt):
        journal.append([b"interrupted"], 1)
    journal.append([b"next"], 1)
    assert pending(journal) == [b"next"]
    disk.kill()
    assert pending(open_journal(disk)) == [b"next"]


def test_with_sync_off_a_group_costs_no_sync_and_a_recorded_flush_is_durable() -> None:
    disk = FaultyDisk()
    journal = DiskJournal(FOLDER, disk, sync="off", chunk_bytes=256)
    disk.calls.clear()
    journal.append([b"one"], 1)
    journal.append([b"two"], 1)
    assert "sync" not in disk.calls
    flush = journal.record_flush(1, 7)
    journal.append([b"lost or not"], 2)
    disk.lose_power()
    journal = DiskJournal(FOLDER, disk, sync="off", chunk_bytes=256)
    assert journal.found.flush == flush
    assert [frame.payload for frame in journal.frames(flush)] == [b"one", b"two"]
    assert pending(journal) in ([], [b"lost or not"])


def test_threads_may_append_while_flushes_come_and_go() -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    accepted = [[b"%d/%d" % (thread, number) for number in range(200)] for thread in range(3)]

    def run(payloads: list[bytes]) -> None:
        for payload in payloads:
            journal.append([payload], 1)

    threads = [Thread(target=run, args=(payloads,)) for payloads in accepted]
    for thread in threads:
        thread.start()
    stored: list[bytes] = []
    for number in range(1, 30):
        stored += [frame.payload for frame in journal.frames(journal.record_flush(number, 7))]
        journal.complete_flush(number)
    for thread in threads:
        thread.join()
    stored += pending(journal)
    assert sorted(stored) == sorted(payload for payloads in accepted for payload in payloads)
