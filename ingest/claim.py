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
        held = Held(after.owner, after.epoch, after.holder)
        if attempt.may_have_a_like and any(
            like.owner != held.owner for like in _usable(_likes(journal, store.owners()))
        ):
            store.close_owner(held)  # a copy of this journal has started, too: one number for both
            continue
        record(Identity(after.owner, after.epoch, after.holder, ()))
        return held
    raise StoreUnavailable(f"owner could not be claimed in {ATTEMPTS} attempts: others keep claiming it")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What to put in the place of `before` (None: nothing). may_have_a_like: the number is new to this journal, and a
    copy of it may be taking another one at this moment."""

    before: OwnerRecord | None
    after: OwnerRecord
    may_have_a_like: bool = False


def _next_attempt(journal: Journal, store: Store, place: str, token: str, now: int) -> _Attempt:
    identity, last_flush = journal.state.identity, journal.state.last_flush

    def opened(owner: int, epoch: int, name: str, begun: int) -> OwnerRecord:
        return OwnerRecord(owner, max(epoch, identity.epoch) + 1, token, name, place, OPEN, begun, now)

    def gone_on(stored: OwnerRecord) -> _Attempt:
        # `begun` never moves back: it says that a flush may be in the rows in part.
        return _Attempt(stored, opened(stored.owner, stored.epoch, stored.journal, max(stored.begun, last_flush)))

    own = _own(journal, store)
    newer = own if own is not None and _is_superseded(journal, own) else None
    if own is not None and newer is None and own.state not in FINAL:
        return gone_on(own)
    # Nothing that this journal holds came before its owner was retired, or was copied with its store. But that holds
    # for copies of the journal, too: one of them goes on under one number.
    owners, is_empty = store.owners(), _is_empty(journal)
    name, likes = _name(journal), _likes(journal, owners)
    newer = newer or next((like for like in likes if _has_overtaken(journal, like)), None)
    if newer is not None and not is_empty:
        raise _superseded(journal, newer, place)
    if newer is None:
        for like in _usable(likes):
            if like.state == CLOSED or not is_empty or (like.epoch, like.holder) in _known(journal):
                return gone_on(like)
    contested = newer is None and not is_empty
    for other in owners:
        # All that a closed owner accepted is in the store, so its number may be used again; but not for a flush that
        # was recorded before: the marks of its rows may lie above that number.
        if other.state == CLOSED and journal.state.flush is None:
            return _Attempt(other, opened(other.owner, other.epoch, name, last_flush), contested)
    number = max((other.owner for other in owners), default=0) + 1
    return _Attempt(None, opened(number, 0, name, last_flush), contested)


def _own(journal: Journal, store: Store) -> OwnerRecord | None:
    """What the store knows of this journal's owner."""
    number = journal.state.identity.owner
    stored = store.owner(number) if number else None
    return None if stored is None or _is_a_strangers(journal, stored) else stored


def _name(journal: Journal) -> str:
    """What this journal is called in the record of a number that is new to it. Copies of it that are in need of a
    number, too, give the same name, while those that went their own way before do not.
    """
    identity, name = journal.state.identity, journal.recovered.journal
    return f"{name} after {identity.owner}.{identity.epoch}" if identity.owner else name


def _likes(journal: Journal, owners: Sequence[OwnerRecord]) -> list[OwnerRecord]:
    """The records that this journal, or a copy of it, has got since it was in need of a number."""
    name = _name(journal)
    return [other for other in owners if other.journal == name and other.owner != journal.state.identity.owner]


def _usable(owners: Sequence[OwnerRecord]) -> list[OwnerRecord]:
    return [owner for owner in owners if owner.state not in FINAL]


def _is_a_strangers(journal: Journal, stored: OwnerRecord) -> bool:
    """Another journal's number, that was not taken over from this one: then it would have a later epoch. But one that
    this journal has given back may be taken."""
    identity = journal.state.identity
    given_back = not identity.holder
    is_ours = stored.journal.partition(" ")[0] == journal.recovered.journal
    return not is_ours and (given_back or stored.epoch < identity.epoch)


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
