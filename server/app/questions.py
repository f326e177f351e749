"""Joins what answers of one worker are made of: rows and pending hits, its own and those of other workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clickcurve.keys import group_of
from ingest.owner import Owner
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.counted import KnownEvents
from query.lists.listed_rows import GROUP, LINK, nobody
from query.lists.listing import Listing
from query.queries import Notes, Queries
from query.reader import Reader
from server.attributes import Attributes
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from storage.contract import Store

IsCorrected = Callable[[str], bool]


def join_queries(
    store: Store,
    owner: Owner,
    pending: PendingHits,
    others: Peers | None,
    is_corrected: IsCorrected,
    attributes: Attributes,
    now: Callable[[], float],
    events: KnownEvents,
    notes: Notes,
) -> Queries:
    """Joins answers about links and groups. others: None where there is one worker."""
    others_pending = None if others is None else others.pending
    key_form = attributes.reader.key_form
    reader = Reader(store.rows, pending.pending, owner.revisit, store.ladder, others_pending, is_corrected, key_form)

    def flushes() -> int:
        return pending.flushes

    # Of links there can be too many to ask others for all that they hold; groups are few.
    within, of_groups = (None, nobody) if others is None else (others.links_within, others.groups)
    held, corrected = pending.pending, (reader.is_corrected, reader.corrected)
    beside, buffered_groups = pending.buffered_beside, partial(pending.buffered_beside, group_of)
    links = Listing(LINK, store, held, pending.buffered_links, flushes, nobody, within, *corrected, key_form, beside)
    groups = Listing(GROUP, store, held, buffered_groups, flushes, of_groups, None, *corrected, buffered_beside=beside)
    return Queries(reader, links, groups, now, events, notes)


def join_breakdowns(
    store: Store,
    pending: PendingHits,
    others: Peers | None,
    is_corrected: IsCorrected,
    attributes: Attributes,
    now: Callable[[], float],
    events: KnownEvents,
    least: int = 0,
) -> BreakdownQueries | None:
    """Joins answers about breakdowns; None without dimensions. least: as of the reader."""
    if not attributes.dimensions:
        return None
    readers = pending.pending, pending.pending_breakdowns
    bounded, key_form = attributes.bounded, attributes.reader.key_form
    reader = BreakdownReader(store.rows, *readers, store.ladder, bounded, others, is_corrected, least, key_form)
    kept_value, salts_in = attributes.referrers.kept_value, attributes.salts_in
    return BreakdownQueries(reader, attributes.dimensions, attributes.since, now, kept_value, salts_in, events)
