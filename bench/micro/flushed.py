"""A flush without a journal: a buffer is written into a store, as the flush thread of an owner does it."""

from __future__ import annotations

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, fold_day
from ingest.buffer import Buffer
from ingest.flush import Flush
from storage.contract import Held, Store


def begun_flush(
    store: Store, held: Held, number: int, taken: Buffer, now: int, revisit: frozenset[str] = frozenset()
) -> Flush:
    """Begins the flush of this number, the one after `number - 1`, and returns it to be written."""
    store.begin(held, number - 1, number, now)
    return Flush(
        held,
        number,
        fold_day(now),
        rewrite=False,
        sound=True,
        taken=taken,
        revisit=revisit,
        set_aside={},
        given_up=frozenset(),
        again=lambda erasures: Buffer(taken.late_before),
        store=store,
        ladder=CLICKS,
        capped=BREAKDOWN,
        pause=lambda: None,
        unreadable=lambda key, error: None,
    )
