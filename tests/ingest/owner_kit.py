"""What the tests of the owner share: what it is given, and what a reader sees of it."""

from __future__ import annotations

from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.row import Row, add, fold, merge
from clickcurve.keys import ALL_LINKS, group_of, link_key
from clickcurve.pending import Pending, PendingBreakdown
from ingest.batch import Counts
from query.breakdowns.reader import BreakdownReader
from storage.contract import Store
from testing.owner_process import OwnerProcess
from tests.audit.attributes import DIVIDED, Values, values_of


async def read(store: Store, nodes: list[OwnerProcess], key: str, now: int) -> Row:
    """What a reader at these nodes sees: the rows, and what the nodes have not flushed."""
    pending = [found for node in nodes for found in node.owner.pending(key)]
    stored = await store.rows(key)
    rows = {row.owner: codec.decode(row.data) for row in stored.rows}
    rows = {owner: row for owner, row in rows.items() if row.erased_at >= stored.erased_at}
    merged = fold(merge(rows.values(), CLICKS), fold_day(now), CLICKS)
    marks = {owner: row.mark for owner, row in rows.items()}
    for found in pending:
        if found.is_missing(marks):
            merged = add(merged, found.delta, CLICKS)
    return merged


async def read_words(store: Store, nodes: list[OwnerProcess], key: str | None, now: int) -> tuple[int, Values]:
    """The total of a link or group (all links: None), and the breakdown beside it, as these nodes' readers see it."""

    def pending(row: str) -> list[Pending]:
        return [found for node in nodes for found in node.owner.pending(row)]

    def said(row: str) -> list[PendingBreakdown]:
        return [found for node in nodes for found in node.owner.pending_breakdowns(row)]

    reader = BreakdownReader(store.rows, pending, said, store.ladder, BREAKDOWN)
    stored = ALL_LINKS if key is None else link_key(key) if group_of(key) is None else key
    found = await reader.read(stored, now, DIVIDED)
    assert found.settled, "no flush runs beside this"
    return found.counts.lifetime, values_of(found.breakdown)


def counts(minute: int, hits: dict[str, int]) -> Counts:
    return {minute: dict(hits)}


def minute_of(now: float) -> int:
    return int(now) // 60 * 60
