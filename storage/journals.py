"""What a store promises that keeps journals itself (`Store.journals`): their frames, and which a flush counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from storage.contract import Held, OwnerRecord

# What OwnerRecord.journal says of an owner whose journal lies in the store. A journal on a disk never takes its number.
IN_STORE = "in the store"
EMPTYING = "in the store, and being emptied"  # by a process beside its own, so it accepts nothing


class FramePlace(NamedTuple):
    """Where a frame lies. Piece i + 1 is opened when a frame of piece i counts: so a reader stops at an empty piece."""

    owner: int
    after: int
    piece: int
    number: int


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """An owner's record, and the flush `record.begun`: what it covers, and whether it is done.

    previous: the flush that began before. frames: the numbers of those behind `previous` that `begun` counts, as text
    (`ingest.journal.frame_format`). done: the number of the last flush whose rows are all stored.
    """

    record: OwnerRecord
    previous: int = 0
    fold_day: int = 0
    frames: str = ""
    done: int = 0


class Journals(Protocol):
    """What a store keeps of journals that lie in it: their frames, and which of these each flush counts.

    A **frame** is what one group commit writes. Frames lie behind the flush that began last when they were accepted,
    and have numbers from 0 on there. The **fence** of an owner is the least epoch that may append. A frame counts once
    a quorum has acknowledged it and a read of the fence that began afterwards shows no epoch above its writer's. A
    process that takes the owner raises the fence before it reads frames: so it sees all that count.

    Methods that may be awaited never block. Each may be repeated after any failure.
    """

    # --- frames ---------------------------------------------------------------------------------------------------
    async def append(self, place: FramePlace, frame: bytes) -> None:
        """Writes a frame; returns when a quorum has all of it. Repeat it with the same bytes only."""

    async def fence(self, owner: int) -> int:
        """Returns the fence as a quorum has it, read after the call; 0: nobody has raised it."""

    def raise_fence(self, owner: int, epoch: int) -> None:
        """Raises the fence to this epoch, and returns when a quorum has it. A lower epoch changes nothing."""

    def frames(self, owner: int, after: int) -> dict[int, bytes]:
        """Returns the whole frames behind a flush by number. What it returns every later call returns, until `drop`."""

    def drop(self, owner: int, after: int) -> None:
        """Deletes all frames behind a flush, for good: also those that come later."""

    # --- owners' records --------------------------------------------------------------------------------------------
    def record(self, owner: int) -> JournalRecord | None:
        """Returns the record, linearizable."""

    def records(self) -> list[JournalRecord]:
        """Returns the records of all owners whose journals lie in the store, by number; cheap.

        They may be older than what `record` returns: a claim by one of them fails then, and the next call knows more.
        """

    def begin(self, held: Held, previous: int, flush: int, at: int, fold_day: int, frames: str) -> bool:
        """Begins a flush as `Store.begin` does, and records with it which frames behind `previous` it counts.

        True also if this very flush has begun already. False: fenced.
        """

    def done(self, held: Held, flush: int) -> bool:
        """Records that all rows of the flush are stored, if `held` is the holder and it began last. False: fenced."""

    # --- beats ------------------------------------------------------------------------------------------------------
    def beat(self, holder: str, count: int) -> None:
        """Shows that the process with this token lives. The beat is forgotten a day later."""

    def beats(self) -> dict[str, int]:
        """Returns the last beat of each process by its token."""
