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
- so does a journal without a number, or whose number was taken after a clean stop, unless a record has its name
  already: its own from an earlier attempt, or that of a copy;
- the store is further on than the journal (the journal was restored from a snapshot, or is a copy): what it holds may
  have been counted already. An empty journal takes a new owner; one with hits is superseded and must be set aside.

Flush numbers are `epoch << 20 | n`: they rise over the owner's whole life, whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from clickcurve.buckets.errors import JournalSuperseded, StoreUnavailable
from ingest.batch import Batch, decode
from ingest.journal.journal import Identity, Journal
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
        attempt = _next_attempt(journal, store, place, token(), now)
        before, after = attempt.before, attempt.after
        identity = journal.state.identity
        record(replace(identity, attempts=(*identity.attempts, (after.epoch, after.holder))))
        if before is None:
            store.create_owner(after)
        else:
            store.claim(before, after)
        stored = store.owner(after.owner)  # decides, whatever the answer was
        if stored is None or (stored.epoch, stored.holder) != (after.epoch, after.holder):
            continue
        if attempt.contested and _usable(_likes(journal, store.owners(), after.owner)):
            # A copy of this journal has started, too: one number for both. This one goes back as a stranger's.
            record(identity)
            store.claim(after, replace(after, state=CLOSED, journal=""))
            continue
        record(Identity(after.owner, after.epoch, after.holder, ()))
        return Held(after.owner, after.epoch, after.holder)
    raise StoreUnavailable(f"owner could not be claimed in {ATTEMPTS} attempts: others keep claiming it")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What to put in the place of `before` (None: nothing). contested: the journal holds hits and the number is not the
    one it had, so a copy of it may be taking another one at this moment."""

    before: OwnerRecord | None
    after: OwnerRecord
    contested: bool


def _next_attempt(journal: Journal, store: Store, place: str, token: str, now: int) -> _Attempt:
    identity, last_flush = journal.state.identity, journal.state.last_flush
    is_empty, name = _is_empty(journal), _name(journal)

    def opened(owner: int, epoch: int, journal: str, begun: int) -> OwnerRecord:
        return OwnerRecord(owner, max(epoch, identity.epoch) + 1, token, journal, place, OPEN, begun, now)

    def gone_on(stored: OwnerRecord) -> _Attempt:
        # `begun` never moves back: it says that a flush may be in the rows in part.
        after = opened(stored.owner, stored.epoch, stored.journal, max(stored.begun, last_flush))
        return _Attempt(stored, after, contested=not is_empty and stored.owner != identity.owner)

    own = _own(journal, store)
    newer = own if own is not None and _is_superseded(journal, own) else None
    if own is not None and newer is None and own.state not in FINAL:
        return gone_on(own)
    # Nothing that this journal holds came before its owner was retired, or was copied with its store. But that holds
    # for copies of the journal, too: one of them goes on under one number.
    owners = store.owners()
    likes = _likes(journal, owners, own.owner if own is not None else identity.owner)
    newer = newer or next((like for like in likes if _has_overtaken(journal, like)), None)
    if newer is not None and not is_empty:
        raise _superseded(journal, newer, place)
    if newer is None:
        for like in _usable(likes):
            if like.state == CLOSED or not is_empty or (like.epoch, like.holder) in _known(journal):
                return gone_on(like)
    for other in owners:
        # All that a closed owner accepted is in the store, so its number may be used again; but not for a flush that
        # was recorded before: the marks of its rows may lie above that number.
        if other.state == CLOSED and journal.state.flush is None:
            return _Attempt(other, opened(other.owner, other.epoch, name, last_flush), contested=not is_empty)
    number = max((other.owner for other in owners), default=0) + 1
    return _Attempt(None, opened(number, 0, name, last_flush), contested=not is_empty)


def _own(journal: Journal, store: Store) -> OwnerRecord | None:
    """What the store knows of this journal's owner. In a store that another was copied into, it may have another number
    there: so the journal's own claim decides, then its number, then the newest claim of whoever had it."""
    identity, known = journal.state.identity, _known(journal)
    if not identity.owner:
        return None
    stored = store.owner(identity.owner)
    if stored is not None and _is_of(journal, stored) and (stored.epoch, stored.holder) in known:
        return stored  # as after most starts, and it takes no list, which asks every part of a cluster
    of_this = [record for record in store.owners() if _is_of(journal, record)]
    for record in of_this:
        if (record.epoch, record.holder) in known:
            return record
    if stored is not None and not _is_a_strangers(journal, stored):
        return stored
    return None if _has_given_back(identity) else max(of_this, key=lambda record: record.epoch, default=None)


def _has_given_back(identity: Identity) -> bool:
    """Was this the identity at a clean stop? Since then anybody may have taken the number."""
    return bool(identity.owner) and not identity.holder


def _is_of(journal: Journal, record: OwnerRecord) -> bool:
    return record.journal.partition(" ")[0] == journal.recovered.journal


def _name(journal: Journal) -> str:
    """What this journal is called in the record of a number that is new to it. Copies of it that are in need of a
    number, too, give the same name, while those that went their own way before do not.
    """
    identity, name = journal.state.identity, journal.recovered.journal
    return f"{name} after {identity.owner}.{identity.epoch}" if identity.owner else name


def _likes(journal: Journal, owners: Sequence[OwnerRecord], own: int) -> list[OwnerRecord]:
    """The records that this journal, or a copy of it, has got since it was in need of a number."""
    name = _name(journal)
    return [other for other in owners if other.journal == name and other.owner != own]


def _usable(owners: Sequence[OwnerRecord]) -> list[OwnerRecord]:
    return [owner for owner in owners if owner.state not in FINAL]


def _is_a_strangers(journal: Journal, stored: OwnerRecord) -> bool:
    """Another journal's number, that was not taken over from this one: then it would have a later epoch."""
    identity = journal.state.identity
    return not _is_of(journal, stored) and (_has_given_back(identity) or stored.epoch < identity.epoch)


def _is_empty(journal: Journal) -> bool:
    return journal.state.flush is None and next(journal.frames(), None) is None


def _newest_flush(journal: Journal) -> int:
    """The number of the last flush that began, as far as this journal knows."""
    return journal.state.flush.number if journal.state.flush is not None else journal.state.last_flush


def _superseded(journal: Journal, newer: OwnerRecord, place: str) -> JournalSuperseded:
    return JournalSuperseded(
        f"owner {newer.owner} went on (epoch {newer.epoch}, flush {newer.begun}, {newer.state}) since this"
        f" journal was last used (epoch {journal.state.identity.epoch}, flush {_newest_flush(journal)}):"
        " what it holds may be counted already",
        field="journal",
        value=place,
    )


def _is_superseded(journal: Journal, own: OwnerRecord) -> bool:
    """Has somebody else gone on with this journal's own number?"""
    goes_on = own.epoch < journal.state.identity.epoch or (own.epoch, own.holder) in _known(journal)
    return not goes_on or _has_overtaken(journal, own)


def _has_overtaken(journal: Journal, stored: OwnerRecord) -> bool:
    """May that owner's rows include something that this journal holds, or hide it?"""
    identity, flush = journal.state.identity, journal.state.flush
    if stored.state in FINAL:
        if flush is not None and stored.begun >= flush.number:
            return True  # the store may hold a part of that flush
        if _holds_import(journal):
            return True  # somebody else may have gone on with that import, from where the store stands
    elif flush is not None and stored.owner != identity.owner and (stored.epoch, stored.holder) not in _known(journal):
        return True  # a copy took it, perhaps from somebody: the marks of its rows may lie above that flush
    return stored.begun > _newest_flush(journal)


def _known(journal: Journal) -> set[tuple[int, str]]:
    """(epoch, holder) of every claim that this journal made or tried."""
    identity = journal.state.identity
    return {(identity.epoch, identity.holder), *identity.attempts}


def _holds_import(journal: Journal) -> bool:
    unfinished = journal.frames(journal.state.flush) if journal.state.flush is not None else ()
    batches = (decode(frame.payload) for frame in chain(unfinished, journal.frames()))
    return any(isinstance(batch, Batch) and batch.source is not None for batch in batches)
