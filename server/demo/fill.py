"""Puts the made-up year into a store, under an owner of its own that has ended."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.claim import first_flush
from server.demo.year import made_up_rows
from storage.contract import OPEN, SINCE, Held, OwnerRecord, Source, Store

DEMO = "demo"  # the source of the rows, and the holder of their owner


def fill(store: Store, now: int, dimensions: Sequence[str]) -> None:
    """Puts the year before now into a store, unless one is there. A fill that was killed is done again, whole."""
    if store.source(DEMO) is not None:
        return
    holder, begun = _held(store, now), first_flush(1)
    for name in dimensions:
        store.note(SINCE + name, "0")
    store.begin(holder, begun, begun + 1, now)
    rows = made_up_rows(now, store.ladder(), dimensions, begun + 1)
    store.save_own(holder, begun + 1, rows, {DEMO: Source(holder.owner, len(rows), "")})
    store.close_owner(holder)


def _held(store: Store, now: int) -> Held:
    """Returns the holder of the owner that a killed fill left behind, or of a new one."""
    owners = store.owners()
    owner = next((record for record in owners if record.holder == DEMO), None)
    if owner is None:
        number = max((record.owner for record in owners), default=0) + 1
        owner = OwnerRecord(number, 1, DEMO, DEMO, DEMO, OPEN, first_flush(1), now)
        store.create_owner(owner)
    return Held(owner.owner, owner.epoch, owner.holder)
