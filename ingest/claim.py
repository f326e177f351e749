"""Becoming the holder of an owner: which number a journal may flush under, and when it must not.

An owner's marks are only worth something while one process numbers its flushes, so the store's record of the owner is
changed by conditional updates alone, and a journal must show that it is at least as new as that record:

- the record names this journal's last claim, or one of its attempts (each is written into the journal before it is
  tried), and no flush began that this journal does not know: go on as this owner, one epoch later;
- the store has never heard of the owner (a new database), or stands further back than the journal (restored from
  a backup): what the journal still holds is in none of its rows, so it goes on as well;
- the store is a backup of one that this journal goes with, or the owner was retired: so too, but under a new number,
  for the original may live;
- the number is another journal's, in a store that this journal was never used with: it takes a new number;
- the store is further on than the journal (the journal was restored from a snapshot, or is a copy): what it holds may
  have been counted already. An empty journal takes a new owner; one with hits is superseded and must be set aside.

Flush numbers are `epoch << 20 | n`: they rise over the owner's whole life, whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from buckets.errors import JournalSuperseded, StoreUnavailable
from ingest.batch import Batch, decode
from ingest.journal import Identity, Journal
from storage.contract import CLOSED, FINAL, OPEN, Held, OwnerRecord, Store

FLUSHES_PER_EPOCH = 1 << 20  # 182 days of flushes every 15 s; then a new epoch is claimed
ATTEMPTS = 20


def first_flush(epoch: int) -> int:
    """The number before the first flush of an epoch."""
    return epoch * FLUSHES_PER_EPOCH


def epoch_is_used_up(flush: int) -> bool:
    return (flush + 1) % FLUSHES_PER_EPOCH == 0


def claim(
    journal: Journal,
    record: Callable[[Identity], None],
    store: Store,
    place: str,
    token: Callable[[], str],
    now: int,
) -> Held:
    """Make this journal's process the holder of an owner. `record` writes an identity into the journal, durably.

    Raises JournalSuperseded when the store is further on than a journal that has hits, StoreUnavailable when it
    cannot be asked or the attempts keep being overtaken.
    """
    for _ in range(ATTEMPTS):
        before, after = _next_claim(journal, store, place, token(), now)
        identity = journal.state.identity
        if after.owner == identity.owner:
            # A number that is new to this journal needs no record of the attempt: should we die right after winning it,
            # it was never used, and the next start takes another.
            attempts = (*identity.attempts, (after.epoch, after.holder))
            record(replace(identity, attempts=attempts))
        if before is None:
            store.create_owner(after)
        else:
            store.claim(before, after)
        stored = store.owner(after.owner)  # decides, whatever the answer was
        if stored is not None and (stored.epoch, stored.holder) == (after.epoch, after.holder):
            record(Identity(after.owner, after.epoch, after.holder, ()))
            return Held(after.owner, after.epoch, after.holder)
    raise StoreUnavailable(f"owner could not be claimed in {ATTEMPTS} attempts: others keep claiming it")


def _next_claim(
    journal: Journal, store: Store, place: str, token: str, now: int
) -> tuple[OwnerRecord | None, OwnerRecord]:
    identity = journal.state.identity
    stored = _record_of(journal, store)
    if stored is not None and _is_superseded(journal, stored):
        if not _is_empty(journal):
            raise JournalSuperseded(
                f"owner {stored.owner} went on (epoch {stored.epoch}, flush {stored.begun}, {stored.state}) since this"
                f" journal was last used (epoch {identity.epoch}, flush {_newest_flush(journal)}):"
                " what it holds may be counted already",
                field="journal",
                value=place,
            )
        stored = None
    elif stored is not None and stored.state in FINAL:
        stored = None  # all that this journal holds came after that state
    if stored is not None:
        epoch = max(stored.epoch, identity.epoch) + 1
        return stored, _open(stored.owner, epoch, token, journal, place, now)
    for other in store.owners():
        # All that a closed owner accepted is in the store, so its number may be used again; but not for a flush that
        # was recorded before: the marks of its rows may lie above that number.
        if other.state == CLOSED and journal.state.flush is None:
            return other, _open(other.owner, max(other.epoch, identity.epoch) + 1, token, journal, place, now)
    number = max((other.owner for other in store.owners()), default=0) + 1
    return None, _open(number, identity.epoch + 1, token, journal, place, now)


def _record_of(journal: Journal, store: Store) -> OwnerRecord | None:
    """What the store knows of this journal's owner. One that has no owner yet may have a copy that has, and in a store
    that was copied from another the owner may have another number: then its newest claim is the one to judge by."""
    records = store.owners()
    of_this = [record for record in records if record.journal == journal.recovered.journal]
    known = _known(journal)
    for record in of_this:
        if (record.epoch, record.holder) in known:
            return record
    number = journal.state.identity.owner
    stored = next((record for record in records if number and record.owner == number), None)
    if stored is not None and not _is_a_strangers(journal, stored):
        return stored
    return max(of_this, key=lambda record: record.epoch, default=None)


def _is_a_strangers(journal: Journal, stored: OwnerRecord) -> bool:
    """Another journal's number, that was not taken over from this one: then it would have a later epoch."""
    known = _known(journal)
    newest = max(epoch for epoch, _ in known)
    return stored.journal != journal.recovered.journal and stored.epoch < newest


def _open(owner: int, epoch: int, token: str, journal: Journal, place: str, now: int) -> OwnerRecord:
    return OwnerRecord(owner, epoch, token, journal.recovered.journal, place, OPEN, journal.state.last_flush, now)


def _is_empty(journal: Journal) -> bool:
    return journal.state.flush is None and next(journal.frames(), None) is None


def _newest_flush(journal: Journal) -> int:
    """The number of the last flush that began, as far as this journal knows."""
    return journal.state.flush.number if journal.state.flush is not None else journal.state.last_flush


def _is_superseded(journal: Journal, stored: OwnerRecord) -> bool:
    known = _known(journal)
    newest = max(epoch for epoch, _ in known)
    goes_on = stored.epoch < newest or (stored.epoch, stored.holder) in known
    if journal.state.identity.owner and not goes_on:
        return True
    if stored.state in FINAL and journal.state.flush is not None and stored.begun >= journal.state.flush.number:
        return True  # the store may hold a part of that flush
    if stored.state in FINAL and _holds_import(journal):
        return True  # somebody else may have gone on with that import, from where the store stands
    return stored.begun > _newest_flush(journal)


def _known(journal: Journal) -> set[tuple[int, str]]:
    """(epoch, holder) of every claim that this journal made or tried."""
    identity = journal.state.identity
    return {(identity.epoch, identity.holder), *identity.attempts}


def _holds_import(journal: Journal) -> bool:
    unfinished = journal.frames(journal.state.flush) if journal.state.flush is not None else ()
    batches = (decode(frame.payload) for frame in chain(unfinished, journal.frames()))
    return any(isinstance(batch, Batch) and batch.source is not None for batch in batches)
