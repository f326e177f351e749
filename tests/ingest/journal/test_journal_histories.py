"""Random histories of a journal: faults, stops, power failures and repeated openings in any order, by seed.

A failure prints the seed. The journals that are broken on purpose, at the end, show that the histories notice.
"""

from __future__ import annotations

import errno
import random
from typing import Literal

import pytest

from clickcurve.buckets.errors import JournalBroken, JournalDamaged, JournalError
from ingest.journal.disk_journal import DiskJournal
from ingest.journal.recovery import Segment, segment_path
from ingest.journal.segment_files import Encode, SegmentFiles
from ingest.journal.segment_format import DiskJournalState
from tests.ingest.journal.audited_journal import AuditedJournal
from tests.ingest.journal.faulty_disk import DONE, KINDS, Fault, FaultyDisk, Stopped
from tests.power import at, one_in

SEEDS = at(quick=100, full=200)
STEPS = 50
ENDS = ("kill", "evict", "power")


def random_fault(rng: random.Random) -> Fault:
    return Fault(
        kind=rng.choice((*KINDS, "sync", "sync", "write", "sync_folder", None)),
        nth=rng.randint(1, 6),
        way=rng.choice((*DONE, "stop", "stop after")),
        times=rng.choice((1, 1, 1, 2, 5, 30)),
        code=rng.choice((errno.EIO, errno.ENOSPC)),
    )


def run_step(audited: AuditedJournal, rng: random.Random) -> None:
    journal = audited.journal
    assert journal
    step = rng.random()
    if step < 0.7:
        audited.append(rng.randint(1, 4))
    elif step < 0.8:
        audited.record_identity(f"holder-{rng.random()}")
    elif journal.state.flush:
        audited.finish_flush()
    else:
        audited.record_flush()


def run_history(seed: int, sync: Literal["always", "off"] = "always") -> None:
    rng = random.Random(seed)
    disk = FaultyDisk(seed)
    audited = AuditedJournal(disk, sync, segment_bytes=rng.choice((400, 900, 5_000)), chunk_bytes=rng.choice((64, 512)))
    audited.open()
    for _ in range(STEPS):
        if disk.fault is None and rng.random() < 0.2:
            disk.fault = random_fault(rng)
        elif rng.random() < 0.1:
            disk.fault = None
        try:
            run_step(audited, rng)
        except Stopped:
            open_again(audited, rng)
        else:
            if rng.random() < 0.03:
                open_again(audited, rng)
    disk.fault = None
    audited.run_on()
    audited.recover(rng.choice(ENDS))


def open_again(audited: AuditedJournal, rng: random.Random) -> None:
    """Stop, and open again; the opening may be hit, too."""
    for chance in (0.3, 0.3, 0.0):
        audited.stop(rng.choice(ENDS))
        audited.disk.fault = random_fault(rng) if rng.random() < chance else None
        try:
            audited.open()
        except (JournalError, Stopped):
            assert audited.disk.fault and audited.disk.fault.fired
            continue
        audited.disk.fault = None
        return


@pytest.mark.parametrize("sync", ["always", "off"])
@pytest.mark.parametrize("first_seed", range(0, SEEDS, 50))
def test_every_answer_holds_in_random_histories(first_seed: int, sync: Literal["always", "off"]) -> None:
    for seed in range(first_seed, first_seed + 50):
        try:
            run_history(seed, sync)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


# --- broken on purpose: each of these leaves out one thing that exactness rests on ------------------------
def answer_without_cancelling(self: DiskJournal, error: OSError) -> None:
    raise JournalBroken("certainly not counted") from error


def keep_writing_to_a_file_that_failed(self: SegmentFiles, encode: Encode, *, durable: bool) -> None:
    current, fd = self.current, self._fd
    assert current
    frame = encode(current)
    size = sum(map(len, frame))
    self.reserve(size)
    self._write(fd, frame, current.end, durable=durable)
    current.end += size
    current.durable = current.end if durable else current.durable


def append_without_sync(self: SegmentFiles, encode: Encode, *, durable: bool) -> None:
    current = self.current
    assert current
    frame = encode(current)
    size = sum(map(len, frame))
    self.reserve(size)
    try:
        self._write(self._fd, frame, current.end, durable=False)
    except BaseException:
        self.seal_current()
        raise
    current.end += size
    current.durable = current.end if durable else current.durable


def publish_without_syncing_the_folder(self: SegmentFiles, number: int, size: int) -> None:
    self.next_number += 1
    self._disk.rename(self._folder / "spare", segment_path(self._folder, number))


def sync_again_without_writing_again(self: SegmentFiles, fd: int, segment: Segment) -> None:
    pass


def make_nothing_durable(self: SegmentFiles, segment: Segment) -> None:
    pass


def sync_nothing(self: FaultyDisk, fd: int) -> None:
    pass


def seal_and_remove_at_once(self: SegmentFiles) -> None:
    current, self.current = self.current, None
    if current:
        self.closed += [current] if current.hits else []
        if not current.hits:
            self._disk.unlink(segment_path(self._folder, current.number))


def remove_before_the_flush_is_complete(self: DiskJournal, state: DiskJournalState, *, as_frame: bool = True) -> None:
    self._files.remove(state.covered)
    if not as_frame or not self._put_state(state):
        try:
            self._files.open_next(state)
        except OSError as error:
            raise JournalBroken("not recorded") from error
    self.state = state


BROKEN = [
    (DiskJournal, "_cancel", answer_without_cancelling, "always"),
    (DiskJournal, "_record", remove_before_the_flush_is_complete, "always"),
    (SegmentFiles, "append_frame", keep_writing_to_a_file_that_failed, "always"),
    (SegmentFiles, "append_frame", append_without_sync, "always"),
    (SegmentFiles, "_publish", publish_without_syncing_the_folder, "always"),
    (SegmentFiles, "_write_again", sync_again_without_writing_again, "always"),
    (SegmentFiles, "make_durable", make_nothing_durable, "always"),
    (SegmentFiles, "make_durable", make_nothing_durable, "off"),
    (SegmentFiles, "seal_current", seal_and_remove_at_once, "always"),
    (FaultyDisk, "sync", sync_nothing, "always"),
]


@pytest.mark.parametrize(("place", "name", "broken", "sync"), one_in(3, BROKEN))
def test_histories_notice_a_journal_that_is_broken_on_purpose(
    monkeypatch: pytest.MonkeyPatch, place: type, name: str, broken: object, sync: Literal["always", "off"]
) -> None:
    monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, JournalDamaged)):
        for seed in range(2_000):
            run_history(seed, sync)
