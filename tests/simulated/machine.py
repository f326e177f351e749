"""A machine with a disk and a clock of its own, and the runs of the program on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.errors import ClickcurveError
from ingest.batch import Batch, decode_batch
from ingest.flush import Pace
from ingest.journal.contract import FlushRecord, Identity
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from query.reader import Reader
from server.corrections.runner import Corrections
from storage.contract import OwnerRecord, Store
from tests.audit.journals import Copy
from tests.ingest.journal.faulty_disk import FaultyDisk, File, Stopped
from tests.simulated.connection import Connection
from tests.simulated.stage import Life

FOLDER = Path("/journal")
SEGMENT_BYTES = 4_000
CHUNK_BYTES = 512

OpenStore = Callable[[Connection, Callable[[], float]], Store]


class LivingDisk:
    """The machine's disk as a process sees it: not at all once it is dead, and dead when the disk stops it."""

    def __init__(self, disk: FaultyDisk, life: Life) -> None:
        self._disk, self._life = disk, life

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._disk, name)

        def call(*args: Any, **named: Any) -> Any:
            self._life.check()
            try:
                return real(*args, **named)
            except Stopped:
                self._life.alive = False
                raise

        return call


def copied(disk: FaultyDisk, seed: int) -> FaultyDisk:
    """Another disk with the journal as this one shows it."""
    copy = FaultyDisk(seed)
    for path in disk.segments(FOLDER):
        copy._names[path] = File(bytearray(disk.content(path)), bytearray(disk.content(path)))
    copy._durable_names = dict(copy._names)
    return copy


class Process:
    """One run of the program, without its HTTP. fenced: why it takes nothing any more."""

    bounded: ClassVar[BoundedLadder] = BREAKDOWN

    def __init__(
        self, machine: Machine, life: Life, connection: Connection, open_store: OpenStore, token: Callable[[], str]
    ) -> None:
        self.machine, self.life, self.connection = machine, life, connection
        self.fenced: ClickcurveError | None = None
        self.closing = False
        self.store = open_store(connection, machine.clock)
        self._note_refused_ids()
        disk = cast(Disk, LivingDisk(machine.disk, life))
        self.journal = DiskJournal(FOLDER, disk, segment_bytes=SEGMENT_BYTES, chunk_bytes=CHUNK_BYTES)
        self.owner = Owner(
            journal=self.journal,
            store=self.store,
            clock=machine.clock,
            token=token,
            pace=Pace(lambda: 0.0, 15.0, lambda: False),
            place=machine.name,
            alone=False,
            bounded=self.bounded,
        )
        self.corrections = Corrections(self.owner, self.store, self.bounded, machine.clock)
        self.corrections_begun = 0
        self._note_corrections()
        self.reader = Reader(self.store.rows, self.owner.pending, self.owner.revisit, self.store.ladder)

    def clock_us(self) -> int:
        return int(self.machine.clock() * 1e6)

    def _note_corrections(self) -> None:
        corrector = self.corrections.corrector
        begin = corrector._begin

        async def noted() -> None:
            self.corrections_begun += 1
            await begin()

        corrector._begin = noted  # type: ignore[method-assign]

    def _note_refused_ids(self) -> None:
        """Ids that this journal's flushes gave up to others: the auditor wants to know."""
        claim_ids, copy = self.store.claim_ids, self.machine.copy

        def noted(*args: Any) -> set[str]:
            refused = claim_ids(*args)
            copy.refused |= refused
            return refused

        self.store.claim_ids = noted  # type: ignore[method-assign,assignment]


class Machine:
    """name: for people. skew_s: how far its clock is ahead."""

    def __init__(self, name: str, disk: FaultyDisk, copy: Copy, now: Callable[[], float], skew_s: float) -> None:
        self.name, self.disk, self.copy, self.skew_s = name, disk, copy, skew_s
        self.process: Process | None = None
        self._now = now

    def clock(self) -> float:
        return self._now() + self.skew_s

    def power_off(self, rnd: Random) -> None:
        """What the disk keeps of a process that is gone: all that it was told, or at least what was synced."""
        if rnd.random() < 0.3:
            self.disk.lose_power()
        else:
            self.disk.kill()

    def identity(self) -> Identity:
        """Who its journal is to the store."""
        journal = DiskJournal(FOLDER, copied(self.disk, 0), segment_bytes=SEGMENT_BYTES, chunk_bytes=CHUNK_BYTES)
        journal.close()
        return journal.found.identity

    def has_claimed(self, record: OwnerRecord) -> bool:
        """Says whether its process made the record's last claim, perhaps before its journal knows."""
        return self.process is not None and record.holder.startswith(f"{self.process.life.name}, ")

    def content(self) -> tuple[list[Batch], list[Batch]]:
        """The batches in the journal: those of the unfinished flush, and those of none."""
        journal = DiskJournal(FOLDER, copied(self.disk, 0), segment_bytes=SEGMENT_BYTES, chunk_bytes=CHUNK_BYTES)
        flush = journal.state.flush
        found = (_batches(journal, flush) if flush else [], _batches(journal, None))
        journal.close()
        return found


def _batches(journal: DiskJournal, flush: FlushRecord | None) -> list[Batch]:
    """Single hits as batches, too."""
    found = []
    for frame in journal.frames(flush):
        decoded = decode_batch(frame.payload)
        if not isinstance(decoded, Batch):
            minute, keys = decoded
            decoded = Batch(people={minute: dict.fromkeys(keys, 1)})
        found.append(decoded)
    return found
