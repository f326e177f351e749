"""How an owner's record, and a source that it keeps, may change: one set of rules for every store.

`claimed`, `begun`, `closed`, `begun_naming` and `done_with` return the record as it is after the
change: the stored one if the change was made before, None if the change is refused. So do `source_claimed` and
`source_moved` with a source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from clickcurve.buckets.errors import OwnerFenced
from storage.contract import CLOSED, FINAL, OPEN, Held, OwnerRecord, Source
from storage.journals import JournalRecord


def never_claimed(rewrites: bool) -> tuple[str, ...]:
    """Returns the states in which an owner is not claimed: by a journal or, with `rewrites`, to rewrite its rows."""
    return (OPEN,) if rewrites else FINAL


def claim_condition(record: OwnerRecord) -> tuple[int, str, str, int]:
    """Returns what the store must still hold for a `claim` to replace this record."""
    return record.epoch, record.holder, record.state, record.begun


def claimed(stored: OwnerRecord | None, before: OwnerRecord, after: OwnerRecord, rewrites: bool) -> OwnerRecord | None:
    if stored is None or stored.state in never_claimed(rewrites):
        return None
    return after if stored == after or claim_condition(stored) == claim_condition(before) else None


def begun(stored: OwnerRecord | None, held: Held, previous: int, flush: int, at: int) -> OwnerRecord | None:
    if not is_open(stored, held) or stored.begun not in (previous, flush):
        return None
    return stored if stored.begun == flush else replace(stored, begun=flush, begun_at=at)


def closed(stored: OwnerRecord | None, held: Held) -> OwnerRecord | None:
    if not _is_holder(stored, held) or stored.state in FINAL:
        return None
    return replace(stored, state=CLOSED)


def begun_naming(
    stored: JournalRecord | None, held: Held, previous: int, flush: int, at: int, fold_day: int, frames: str
) -> JournalRecord | None:
    if stored is None:
        return None
    after = begun(stored.record, held, previous, flush, at)
    if after is None:
        return None
    naming = JournalRecord(after, previous, fold_day, frames, stored.done)
    return None if stored.record.begun == flush and stored != naming else naming


def done_with(stored: JournalRecord | None, held: Held, flush: int) -> JournalRecord | None:
    if stored is None or not is_open(stored.record, held) or stored.record.begun != flush:
        return None
    return replace(stored, done=flush)


def source_claimed(stored: Source | None, held: Held, before: Source | None) -> Source | None:
    if stored == before:
        return replace(stored or Source(held.owner, 0, ""), owner=held.owner, epoch=held.epoch)
    is_own = stored is not None and (stored.owner, stored.epoch) == (held.owner, held.epoch)
    return stored if is_own else None


def source_moved(stored: Source | None, held: Held, to: Source) -> Source | None:
    if stored is not None and (stored.owner != held.owner or stored.position > to.position):
        return None
    return Source(held.owner, to.position, to.tail, held.epoch)


def is_open(stored: OwnerRecord | None, held: Held) -> TypeGuard[OwnerRecord]:
    """Returns whether the store knows `held` as the open holder."""
    return _is_holder(stored, held) and stored.state == OPEN and not held.rewrites


def _is_holder(stored: OwnerRecord | None, held: Held) -> TypeGuard[OwnerRecord]:
    return stored is not None and (stored.epoch, stored.holder) == (held.epoch, held.holder)


def check_fence(held: Held, flush: int, stored: OwnerRecord | None) -> None:
    """Raises OwnerFenced unless `held` may write flush `flush`, given the record that is stored now."""
    if _is_holder(stored, held) and stored.begun == flush and held.rewrites == (stored.state != OPEN):
        return
    now = "unknown to the store"
    if stored is not None:
        now = f"{stored.state}, epoch {stored.epoch}, flush {stored.begun}"
    raise OwnerFenced(f"flush {flush} of owner {held.owner} at epoch {held.epoch} may not write: the owner is {now}")
