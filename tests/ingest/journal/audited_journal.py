"""Drives a journal as an owner does, enters every answer at the auditor, and checks what a recovery finds.

The laws: a group that was acknowledged is found, once; a group that was cancelled is never found; a group whose outcome
is unknown is found whole or not at all, and once that is known it stays so; what an unfinished flush covers is the same
each time it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from clickcurve.buckets.errors import JournalBroken, JournalError, JournalFull, JournalUnknown
from ingest.journal.contract import FlushRecord, Frame, Identity
from ingest.journal.disk_journal import DiskJournal
from tests.audit.auditor import BASE, Auditor, Outcome, Sent
from tests.ingest.journal.faulty_disk import FaultyDisk

FOLDER = Path("/journal")
GROUPS = "groups"  # the key under which the auditor has all groups: a group is one hit


def group_of(number: int, width: int = 3) -> list[bytes]:
    """The payloads of a group, which name it. A new one at each width, some of them long."""
    return [f"{number}/{index}:".encode() + b"#" * (7 * number % 90) for index in range(1 + number % width)]


class AuditedJournal:
    """Start with `open`. A `Stopped` leaves through every method; then `disk.kill` or `disk.lose_power`, and `open`."""

    def __init__(
        self,
        disk: FaultyDisk,
        sync: Literal["always", "off"] = "always",
        segment_bytes: int = 900,
        chunk_bytes: int = 512,
    ) -> None:
        self.disk = disk
        self.journal: DiskJournal | None = None
        self.auditor: Auditor[Sent] = Auditor()
        self.stored: dict[int, list[Frame]] = {}  # by flush number: what the store has
        self.lossy = False  # sync is off and the power or the disk failed: acknowledged groups may be gone
        self._sync: Literal["always", "off"] = sync
        self._sizes = segment_bytes, chunk_bytes
        self._found: set[int] = set()
        self._identities = [Identity(0, 0, "", ())]

    # --- what an owner does: True = done -----------------------------------------------------------------------------
    def open(self) -> None:
        segment_bytes, chunk_bytes = self._sizes
        self.journal = DiskJournal(
            FOLDER, self.disk, segment_bytes=segment_bytes, chunk_bytes=chunk_bytes, sync=self._sync
        )
        assert self.journal.found.identity in self._identities
        self._identities = [self.journal.found.identity]
        assert self.journal.found.last_flush <= max(self.stored, default=0)
        self._found = self.check()

    def append(self, number_of_groups: int = 1) -> bool:
        done = [self._append() for _ in range(number_of_groups)]
        return all(done)

    def _append(self) -> bool:
        assert self.journal
        number = len(self.auditor.sent)
        begun = self.auditor.begin(self.auditor.enter(Sent(self.auditor.next_hits([GROUPS]))))
        try:
            self.journal.append(group_of(number), 1_000 + number)
        except JournalUnknown:
            return False
        except (JournalBroken, JournalFull):
            self.auditor.end(begun, Outcome.refused)
            return False
        self.auditor.end(begun, Outcome.acknowledged)
        self._settled()
        return True

    def record_identity(self, name: str) -> bool:
        assert self.journal
        identity = Identity(1, 2, name, ((1, name), (2, "other")))
        self._identities.append(identity)
        if self._did(lambda journal: journal.record_identity(identity)):
            self._identities = [identity]
            return True
        assert self.journal.state.identity != identity
        return False

    def record_flush(self) -> bool:
        assert self.journal
        number = self.journal.state.last_flush + 1
        return self._did(lambda journal: journal.record_flush(number, 7))

    def finish_flush(self) -> bool:
        """Store what the unfinished flush covers, and complete it."""
        assert self.journal
        flush = self.journal.state.flush
        assert flush
        try:
            self._store(flush)
        except JournalBroken:
            return False
        return self._did(lambda journal: journal.complete_flush(flush.number))

    def _store(self, flush: FlushRecord) -> None:
        assert self.journal
        frames = list(self.journal.frames(flush))
        if flush.number in self.stored:
            assert frames == self.stored[flush.number], "a flush covers something else than before"
        else:
            assert flush.number > max(self.stored, default=0), "the rows' mark would swallow this flush"
            self.stored[flush.number] = frames

    def _did(self, call: Callable[[DiskJournal], object]) -> bool:
        assert self.journal
        try:
            call(self.journal)
        except JournalError:
            return False
        self._settled()
        return True

    def _settled(self) -> None:
        """Something was written durably, so whatever was unknown before is known from now on."""
        for number, sent in enumerate(self.auditor.sent):
            if sent.under_way:
                self.auditor.end(sent.tries[0], Outcome.acknowledged if number in self._found else Outcome.refused)

    # --- the laws ---------------------------------------------------------------------------------------------------
    def check(self) -> set[int]:
        """Compare everything that is in the store and in the journal with the answers; returns the groups found."""
        assert self.journal
        flush = self.journal.state.flush
        if flush:
            self._store(flush)
        found: list[int] = []
        for frames in (*self.stored.values(), list(self.journal.frames())):
            found += _groups(frames)
        assert found == sorted(set(found)), "twice, or out of order"
        total = sum(BASE**number for number in found)
        self.auditor.check(GROUPS, total, "in the store and the journal", may_be_missing=self.lossy)
        return set(found)

    def recover(self, how: str) -> None:
        """Stop the program in some way, open again, check; then go on for a while, and check that, too."""
        self.stop(how)
        self.open()
        self.run_on()

    def stop(self, how: str) -> None:
        self.journal = None
        self.lossy = self.lossy or (self._sync == "off" and how != "kill")
        if how == "power":
            self.disk.lose_power()
        else:
            self.disk.kill(evict=how == "evict")

    def run_on(self) -> None:
        """All works again: whatever state the journal is in, it must come out of it."""
        assert self.journal
        assert self.append()
        if self.journal.state.flush:
            assert self.finish_flush()
        assert self.record_flush() and self.append() and self.finish_flush() and self.append()
        self.check()


def _groups(frames: Iterable[Frame]) -> list[int]:
    """The numbers of the groups in these frames, each of them whole."""
    numbers: list[int] = []
    left: list[Frame] = []
    for frame in frames:
        if not left:
            number = int(frame.payload.split(b"/")[0])
            left = [Frame(1_000 + number, payload) for payload in group_of(number)]
            numbers.append(number)
        assert frame == left.pop(0), "a group is not whole"
    assert not left, "a group is not whole"
    return numbers
