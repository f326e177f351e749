"""The owners table: the holder of each owner, and the flush that began last. Only conditional updates change it.

Each change is tried at once: its condition names everything that it may replace. An update that was not certainly
applied was refused, or its outcome is unknown. So a serial read decides, which ends whatever is still under way. Each
condition names what can only move forward, so that a late duplicate of an update finds that it no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Cql, Statement, Values
from storage.cassandra.statements import BEGIN, CLAIM, CLOSE, CREATE_OWNER, OWNER, OWNER_NUMBERS
from storage.contract import CLOSED, FINAL, Held, OwnerRecord, check_fence, claim_condition, is_open

ATTEMPTS = 5  # of an update that changed nothing though it could have

# Given the stored record: is the change refused (False), stored already (True), or to be made (None)?
Decide = Callable[[OwnerRecord | None], bool | None]


class OwnersTable:
    def __init__(self, cql: Cql) -> None:
        self._cql = cql

    def all(self) -> list[OwnerRecord]:
        numbers = sorted(self._cql.run(OWNER_NUMBERS))
        return [OwnerRecord(*rows[0]) for rows in self._cql.run_each(OWNER, numbers) if rows]

    def get(self, owner: int) -> OwnerRecord | None:
        rows = self._cql.run(OWNER, (owner,))
        return OwnerRecord(*rows[0]) if rows else None

    def check_fence(self, held: Held, flush: int) -> None:
        """Raises OwnerFenced unless `held` may write this flush now."""
        check_fence(held, flush, self.get(held.owner))

    def create(self, record: OwnerRecord) -> bool:
        def decide(stored: OwnerRecord | None) -> bool | None:
            return None if stored is None else stored == record

        return self._change(record.owner, decide, CREATE_OWNER, astuple(record))

    def claim(self, before: OwnerRecord, after: OwnerRecord) -> bool:
        new = (after.epoch, after.holder, after.journal, after.place, after.state, after.begun, after.begun_at)
        tried = False

        def decide(stored: OwnerRecord | None) -> bool | None:
            nonlocal tried
            # A final record stays. But this claim may make it final: after an attempt, `after` may be its work.
            may_be_ours, tried = tried and stored == after, True
            if stored is None or (stored.state in FINAL and not may_be_ours):
                return False
            if stored == after:
                return True
            return None if claim_condition(stored) == claim_condition(before) else False

        values = (*new, before.owner, *claim_condition(before))
        # A condition cannot say that a final record stays, nor whose work a final one is that equals `after`.
        read_first = before.state in FINAL or after.state in FINAL
        return self._change(before.owner, decide, CLAIM, values, read_first)

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        def decide(stored: OwnerRecord | None) -> bool | None:
            if not is_open(stored, held) or stored.begun not in (previous, flush):
                return False
            return True if stored.begun == flush else None

        values = (flush, at, held.owner, held.epoch, held.holder, previous)
        return self._change(held.owner, decide, BEGIN, values)

    def close(self, held: Held) -> bool:
        def decide(stored: OwnerRecord | None) -> bool | None:
            if stored is None or (stored.epoch, stored.holder) != (held.epoch, held.holder) or stored.state in FINAL:
                return False
            return True if stored.state == CLOSED else None

        return self._change(held.owner, decide, CLOSE, (held.owner, held.epoch, held.holder))

    def _change(self, owner: int, decide: Decide, update: Statement, values: Values, read_first: bool = False) -> bool:
        for attempt in range(ATTEMPTS):
            decided = decide(self.get(owner)) if attempt or read_first else None
            if decided is not None:
                return decided
            if self._cql.apply_if(update, values, attempt):
                return True
        decided = decide(self.get(owner))
        if decided is None:
            raise StoreUnavailable(f"the record of owner {owner} could not be changed in {ATTEMPTS} attempts")
        return decided
