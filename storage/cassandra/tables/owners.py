"""The owners table: the holder of each owner, and the flush that began last. Only conditional updates change it.

Each change is tried at once: its condition names everything that it may replace. An update that was not certainly
applied was refused, or its outcome is unknown. So a serial read decides, which ends whatever is still under way. Each
condition names what can only move forward, so that a late duplicate of an update finds that it no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import TypeVar

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Cql, Statement, Values
from storage.cassandra.statements import BEGIN, CLAIM, CLOSE, CREATE_OWNER, OWNER, OWNER_NUMBERS
from storage.contract import Held, OwnerRecord
from storage.owners import begun, claim_condition, claimed, closed, never_claimed

ATTEMPTS = 5  # of an update that changed nothing though it could have

R = TypeVar("R")
Change = Callable[[OwnerRecord | None], OwnerRecord | None]  # see storage.owners


class OwnersTable:
    def __init__(self, cql: Cql) -> None:
        self._cql = cql

    def all(self) -> list[OwnerRecord]:
        numbers = sorted(self._cql.run(OWNER_NUMBERS))
        return [OwnerRecord(*rows[0]) for rows in self._cql.run_each(OWNER, numbers) if rows]

    def get(self, owner: int) -> OwnerRecord | None:
        rows = self._cql.run(OWNER, (owner,))
        return OwnerRecord(*rows[0]) if rows else None

    def create(self, record: OwnerRecord) -> bool:
        def change(stored: OwnerRecord | None) -> OwnerRecord | None:
            return record if stored in (None, record) else None

        return self._change(record.owner, change, CREATE_OWNER, astuple(record))

    def claim(self, before: OwnerRecord, after: OwnerRecord, rewrites: bool) -> bool:
        tried = False

        def change(stored: OwnerRecord | None) -> OwnerRecord | None:
            nonlocal tried
            # A final record stays. But this claim may make it final: after an attempt, `after` may be its work.
            may_be_ours, tried = tried and stored == after, True
            return after if may_be_ours else claimed(stored, before, after, rewrites)

        _, *claimed_values = astuple(after)
        # A condition cannot say which states stay, nor whose work a record in one of them is that equals `after`.
        read_first = not {before.state, after.state}.isdisjoint(never_claimed(rewrites))
        values = (*claimed_values, before.owner, *claim_condition(before))
        return self._change(before.owner, change, CLAIM, values, read_first)

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        values = (flush, at, held.owner, held.epoch, held.holder, previous)
        return self._change(held.owner, lambda stored: begun(stored, held, previous, flush, at), BEGIN, values)

    def close(self, held: Held) -> bool:
        values = (held.owner, held.epoch, held.holder)
        return self._change(held.owner, lambda stored: closed(stored, held), CLOSE, values)

    def _change(self, owner: int, change: Change, update: Statement, values: Values, read_first: bool = False) -> bool:
        return change_record(self._cql, update, values, owner, lambda: self.get(owner), change, read_first)


def change_record(
    cql: Cql,
    update: Statement,
    values: Values,
    owner: int,
    look: Callable[[], R | None],
    change: Callable[[R | None], R | None],
    read_first: bool = False,
) -> bool:
    """Tries the update until it is made or refused, by what `change` makes of the record that `look` returns.

    Returns whether it is made. Raises StoreUnavailable.
    """
    for attempt in range(ATTEMPTS + 1):
        if attempt or read_first:
            stored = look()
            after = change(stored)
            if after is None or after == stored:
                return after is not None
        if attempt < ATTEMPTS and cql.apply_if(update, values, attempt):
            return True
    raise StoreUnavailable(f"the record of owner {owner} could not be changed in {ATTEMPTS} attempts")
