"""Claims an owner: the conditional updates by which a journal gets the number under which it flushes.

An owner's marks are only worth something while one process numbers its flushes. So the store's record of the owner
changes by conditional updates alone, each is written into the journal before it is tried, and `claim_table.py` says
which record a journal may claim. A journal that takes a number new to it while it holds hits looks again afterwards: a
copy of it may have taken another number at the same moment, and then this one gives its number back.

Flush numbers are `epoch << 20 | n`: they rise over the owner's whole life, through all processes that hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from clickcurve.buckets.errors import JournalError, JournalSuperseded, StoreUnavailable
from ingest.claim_table import (
    Action,
    Claimant,
    Holds,
    Relation,
    choose_number,
    what_it_holds,
    with_name,
    without_name,
)
from ingest.journal.contract import Claimed, Identity, Journal
from storage.contract import CLOSED, FINAL, OPEN, Held, OwnerRecord, Store

FLUSHES_PER_EPOCH = 1 << 20  # 182 days of flushes every 15 s; then a new epoch is claimed
ATTEMPTS = 20


def first_flush(epoch: int) -> int:
    """Returns the number before the first flush of an epoch."""
    return epoch * FLUSHES_PER_EPOCH


def epoch_is_used_up(flush: int) -> bool:
    return (flush + 1) % FLUSHES_PER_EPOCH == 0


def claim(
    journal: Journal,
    uuid: str,
    record: Callable[[Identity], None],
    store: Store,
    place: str,
    token: Callable[[], str],
    now: int,
) -> Claimed:
    """Makes this journal's process the holder of an owner. `record` writes an identity into the journal, durably.

    uuid: the journal's own, which copies of it share. Raises JournalSuperseded when the journal must be quarantined,
    StoreUnavailable when the store does not answer or other processes keep claiming first.
    """
    for _ in range(ATTEMPTS):
        attempt = _next_attempt(journal, uuid, store, place, token(), now)
        before, after = attempt.before, attempt.after
        identity = journal.state.identity
        record(_with_attempt(identity, after))
        if before is None:
            store.create_owner(after)
        else:
            store.claim(before, after)
        stored = store.owner(after.owner)  # decides, whatever the answer was
        if not _has_won(after, stored):
            continue
        if attempt.contested and _has_usable_twin(attempt.claimant, store.owners(), after.owner):
            record(identity)
            store.claim(after, replace(after, state=CLOSED, journal=without_name(after)))
            continue
        record(Identity(after.owner, after.epoch, after.holder, ()))
        return Claimed(Held(after.owner, after.epoch, after.holder), _was_known(before, identity.owner))
    raise StoreUnavailable(f"the owner could not be claimed in {ATTEMPTS} attempts: other processes claim it too")


def give_back(record: Callable[[Identity], None], store: Store, held: Held) -> None:
    """Gives the number back, in the journal first: all hits are stored, and no more come."""
    with suppress(JournalError):  # a full disk does not keep the number from being given back
        record(given_back(held))
    store.close_owner(held)


def given_back(held: Held) -> Identity:
    """Returns the identity after a clean stop: without a holder, so any journal may take the number."""
    return Identity(held.owner, held.epoch, "", ((held.epoch, held.holder),))


def refuse_old_ids(replay_us: int | None, oldest_us: int, now: float, place: str) -> None:
    """Raises JournalSuperseded if the store may have forgotten ids that were accepted so long ago."""
    if replay_us is not None and oldest_us < now * 1e6 - replay_us:
        raise JournalSuperseded(
            f"the journal holds ids that were accepted more than {replay_us // 86_400_000_000} days ago:"
            " their hits may be counted already, and the store no longer knows which are",
            field="journal",
            value=place,
        )


def _with_attempt(identity: Identity, after: OwnerRecord) -> Identity:
    return replace(identity, attempts=(*identity.attempts, (after.epoch, after.holder)))


def _was_known(before: OwnerRecord | None, number: int) -> bool:
    """Tells whether the store has known this owner as open since the journal got the oldest hit that it holds.

    before: its record before the claim; number: that of the journal then. A flush that began under the record says so:
    the process that claimed it then was not killed before it could do what follows a claim.
    """
    if before is None or (before.owner, before.state) != (number, OPEN):
        return False
    return before.begun > first_flush(before.epoch)


def _has_won(after: OwnerRecord, stored: OwnerRecord | None) -> bool:
    return stored is not None and (stored.epoch, stored.holder) == (after.epoch, after.holder)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The record `after` that replaces `before` (None: there is no record yet).

    contested: the journal holds hits and the number is new to it, so a copy of it may be taking another one now.
    """

    claimant: Claimant
    before: OwnerRecord | None
    after: OwnerRecord
    contested: bool


def _next_attempt(journal: Journal, uuid: str, store: Store, place: str, token: str, now: int) -> _Attempt:
    claimant = Claimant.of(uuid, journal.state)
    identity, last_flush = claimant.identity, claimant.last_flush

    def opened(owner: int, epoch: int, name: str, begun: int) -> OwnerRecord:
        return OwnerRecord(owner, max(epoch, identity.epoch) + 1, token, name, place, OPEN, begun, now)

    def gone_on(stored: OwnerRecord) -> OwnerRecord:
        # `begun` never moves back: it says that a flush may be in the rows in part.
        return opened(stored.owner, stored.epoch, stored.journal, max(stored.begun, last_flush))

    own = store.owner(identity.owner) if identity.owner else None
    if own is not None and claimant.has_claimed(own) and claimant.relation(own, is_own=True) is Relation.OURS:
        # As after most starts. It takes no list, which asks every part of a cluster.
        return _Attempt(claimant, own, gone_on(own), contested=False)
    owners, holds = store.owners(), what_it_holds(journal)
    has_hits = Holds.NOTHING not in holds
    action, stored = choose_number(claimant, owners, holds)
    if stored is None:
        number = max((record.owner for record in owners), default=0) + 1
        return _Attempt(claimant, None, opened(number, 0, claimant.name, last_flush), has_hits)
    if action is Action.QUARANTINE:
        raise _superseded(claimant, stored, place)
    if action is Action.REUSE:
        return _Attempt(
            claimant, stored, opened(stored.owner, stored.epoch, with_name(claimant.name, stored), last_flush), has_hits
        )
    return _Attempt(claimant, stored, gone_on(stored), has_hits and stored.owner != identity.owner)


def _has_usable_twin(claimant: Claimant, owners: Sequence[OwnerRecord], owner: int) -> bool:
    return any(twin.owner != owner and twin.state not in FINAL for twin in claimant.twins(owners))


def _superseded(claimant: Claimant, newer: OwnerRecord, place: str) -> JournalSuperseded:
    return JournalSuperseded(
        f"owner {newer.owner} went on (epoch {newer.epoch}, flush {newer.begun}, {newer.state}) since this"
        f" journal was last used (epoch {claimant.identity.epoch}, flush {claimant.newest_flush}):"
        " what it holds may be counted already",
        field="journal",
        value=place,
    )
