"""Takes an owner whose journal lies in the store: as a process's own identity, or beside that to empty it.

The order is what exactness rests on:

1. The claim: a conditional update to the next epoch, with a token that is of this claim alone.
2. The fence is raised to that epoch, and a quorum has it.
3. The record is read **again**: until the claim its holder may have begun or done a flush.
4. Only then frames are read: those that the begun flush names, if it is not done, and those behind it.

A fence is no epoch in the record itself: what a conditional update of unknown outcome leaves at a plain read is not
promised, and a writer would have to read what other processes agree on.

Which processes are gone is counted in rounds of looking, not by clocks. In a round a process shows its own beat and
reads those of all. Only a round in which both worked counts. So neither an outage of the cluster nor a pause of the
observer makes another process look dead, and clocks that differ play no part. A wrong verdict costs the other process
its owner, never a hit: the fence sees to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from clickcurve.buckets.errors import JournalDamaged, OwnerFenced
from ingest.journal.frame_format import numbers_in
from storage.contract import CLOSED, FINAL, OPEN, Held, OwnerRecord, Store
from storage.journals import EMPTYING, IN_STORE, JournalRecord, Journals

ROUND_S = 2.0
DEAD_FOR_A_START = 3  # rounds without a beat: a start has nothing to lose, and comes before any adopter
DEAD_FOR_ADOPTERS = 15


def process_of(holder: str) -> str:
    """Returns which process made the token of a claim: a process may hold several owners."""
    return holder.rpartition(".")[0] or holder


class Rounds:
    """The beats of all processes, as the rounds so far have shown them."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # process -> its beat, and in how many rounds it has not changed

    def counted(self, beats: Mapping[str, int], processes: Iterable[str]) -> None:
        """Notes a round that worked: the beats that were read, and the processes that hold owners.

        A process without a beat stands still, too. One that holds nothing any more is forgotten.
        """
        before, self._seen = self._seen, {}
        for process in processes:
            beat = beats.get(process, 0)
            last, unchanged = before.get(process, (None, 0))
            self._seen[process] = beat, unchanged + 1 if beat == last else 0

    def dead(self, rounds: int) -> frozenset[str]:
        """Returns the processes that showed no new beat in so many counted rounds."""
        return frozenset([process for process, (_, unchanged) in self._seen.items() if unchanged >= rounds])


@dataclass(frozen=True, slots=True)
class Take:
    """This owner is free to be taken."""

    before: JournalRecord


@dataclass(frozen=True, slots=True)
class Wait:
    """An owner is being emptied, and free soon."""


@dataclass(frozen=True, slots=True)
class Make:
    """No owner is free: one of this number is to be made."""

    owner: int


Choice: TypeAlias = Take | Wait | Make


def choose_identity(
    journals: Sequence[JournalRecord],
    owners: Collection[int],
    dead: Collection[str],
    process: str,
    tried: Choice | None = None,
) -> Choice:
    """Chooses an identity for a start: a closed owner, else a dead one; waits for one that is being emptied.

    So owners stay as many as processes ever ran at once. owners: the numbers of all, those of disks too, read before
    `journals`: else one that was just made could be in the numbers only. dead: the processes that are gone. process:
    this one. What an earlier attempt of it has claimed for nobody comes first. tried: the choice before this one, if
    its outcome is unknown. It is repeated as long as it may be carried out late: else this process would hold two.
    """
    if tried is not None and _is_undecided(tried, journals, owners):
        return tried
    closed = [each for each in journals if each.record.state == CLOSED]
    if free := [*_abandoned(journals, {process}), *closed, *_abandoned(journals, dead)]:
        return Take(free[0])
    if any(each.record.journal == EMPTYING and each.record.state == OPEN for each in journals):
        return Wait()
    return Make(max(owners, default=0) + 1)


def _is_undecided(tried: Choice, journals: Sequence[JournalRecord], owners: Collection[int]) -> bool:
    """Returns whether the store may still carry out what was tried: its condition holds."""
    if isinstance(tried, Take):
        return any(each.record == tried.before.record for each in journals)
    return isinstance(tried, Make) and tried.owner not in owners


def to_adopt(
    journals: Sequence[JournalRecord], dead: Collection[str], process: str, in_hand: Collection[int]
) -> list[JournalRecord]:
    """Returns the owners that nobody holds: this process is to empty and to close them beside its own.

    Their processes are gone, or they are this one's, from an attempt that failed. in_hand: the owners that it works on.
    One of these that a process has taken which is gone now is among them: it was taken from this one unheard.
    """
    left_over = [each for each in _abandoned(journals, {process}) if each.record.owner not in in_hand]
    return [*left_over, *_abandoned(journals, dead)]


def has_lost(journals: Sequence[JournalRecord], held: Held) -> bool:
    """Returns whether another process has taken this owner: one that accepts nothing would not hear of it.

    journals: as they were read at any time, also before `held` took it.
    """
    own = process_of(held.holder)
    return any(
        each.record.owner == held.owner and each.record.epoch > held.epoch and process_of(each.record.holder) != own
        for each in journals
    )


def _abandoned(journals: Sequence[JournalRecord], dead: Collection[str]) -> list[JournalRecord]:
    return [each for each in journals if each.record.state == OPEN and process_of(each.record.holder) in dead]


def made(owner: int, token: str, place: str, now: int) -> OwnerRecord:
    """Returns the record of a new owner, as `Store.create_owner` takes it."""
    return OwnerRecord(owner, 1, token, IN_STORE, place, OPEN, 0, now)


def claimed_record(before: JournalRecord, token: str, place: str, now: int, emptying: bool) -> OwnerRecord:
    """Returns the record that a claim makes of this one."""
    record = before.record
    return replace(
        record,
        epoch=record.epoch + 1,
        holder=token,
        journal=EMPTYING if emptying else IN_STORE,
        place=place,
        state=OPEN,
    )


def take(store: Store, journals: Journals, before: JournalRecord, after: OwnerRecord) -> JournalRecord | None:
    """Claims the owner, and fences everybody else; returns its record as it is then, None if another process won.

    Raises StoreUnavailable: the owner may be claimed for nobody, until it is taken once more.
    """
    if before.record.state in FINAL or not store.claim(before.record, after):
        return None
    journals.raise_fence(after.owner, after.epoch)
    taken = journals.record(after.owner)
    if taken is None or (taken.record.epoch, taken.record.holder) != (after.epoch, after.holder):
        return None
    return taken


def is_unfinished(record: JournalRecord) -> bool:
    """Returns whether the flush that began last may be in the rows in part, or not at all."""
    return record.record.begun > record.done


def frames_named(journals: Journals, record: JournalRecord) -> dict[int, bytes]:
    """Returns the frames that the begun flush counts.

    Each was on a quorum when it was named, and stays until the flush is done. Raises JournalDamaged if one is missing
    all the same; OwnerFenced if another process has taken the owner, and may have finished the flush.
    """
    owner, flush = record.record.owner, record.record.begun
    found = journals.frames(owner, record.previous)
    named = numbers_in(record.frames)
    missing = [number for number in named if number not in found]
    if missing:
        check_holder(journals, Held(owner, record.record.epoch, record.record.holder))
        raise JournalDamaged(
            f"frames {missing[:5]} of flush {flush} of owner {owner} are gone: {len(missing)} of {len(named)}",
            field="journal",
            value=owner,
        )
    return {number: found[number] for number in named}


def check_holder(journals: Journals, held: Held) -> None:
    """Raises OwnerFenced unless `held` is the owner's holder now."""
    now = journals.record(held.owner)
    if now is None or (now.record.epoch, now.record.holder) != (held.epoch, held.holder):
        raise taken_over(held.owner)


def taken_over(owner: int) -> OwnerFenced:
    return OwnerFenced(f"another process has taken owner {owner} over; restart to go on as another owner")
