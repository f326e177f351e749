"""What measurements in process call of the program: a body is read into a batch, a buffer written into a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from pathlib import Path

from bench.command import Options
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import Row, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from ingest.buffer import Buffer
from ingest.flush import Flush
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.request_sums import RequestSums
from query.lists.key_kind import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from storage.contract import OPEN, Held, OwnerRecord, SavedRow, Store, StoredLink
from storage.sqlite.store import SqliteStore

JUDGE = bot_judge()
HELD = Held(1, 1, "bench")
ROWS_PER_SAVE = 20_000


def read(body: bytes, now: int, reader: ProfileReader = NO_DIMENSIONS, media: Media = Media.json) -> Batch:
    """Decodes, checks and sums the hits of a body, as a request does."""
    sums = RequestSums(Moment(now, now - DAY_S, now + 300), reader=reader)
    for some in read_hits(body, media):
        sums.add(some, JUDGE)
    batch = sums.batch()
    if batch is None:
        raise RuntimeError(f"a body without a good hit: {sums.receipt()}")
    return batch


def owned_store(path: Path) -> SqliteStore:
    """A new file whose one owner is HELD."""
    store = SqliteStore(path, CLICKS)
    store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))
    return store


def saved_row(row: Row) -> SavedRow:
    """Returns a link's row as its owner would save it."""
    return SavedRow(encode(row), next_due(row, CLICKS), upper_bounds=upper_bounds_of(row, CLICKS))


def save_rows(store: Store, held: Held, flush: int, rows: Iterable[tuple[str, SavedRow]]) -> None:
    """Saves rows by their stored keys, in this order, without a flush."""
    left = iter(rows)
    with store.saving(held, flush) as save:
        while some := dict(islice(left, ROWS_PER_SAVE)):
            save(some)


def new_flushes(options: Options, batches: Callable[[int], Iterable[Batch]], now: int) -> Callable[[], Flush]:
    """Makes one flush after another into a file of its own; `batches`: what is in the flush of this number."""
    store, number = owned_store(options.folder / f"{len(list(options.folder.iterdir()))}.db"), 0
    options.closing.callback(store.close)

    def make() -> Flush:
        nonlocal number
        number += 1
        buffer = Buffer(now - now % DAY_S)
        for batch in batches(number):
            buffer.add_batch(batch, number, visible=True)
        return begun_flush(store, number, buffer, now)

    return make


def queries_over(rows: Callable[[str], Awaitable[StoredLink]], store: Store, now: int) -> Queries:
    """Makes what a server answers from, without a server."""
    links, groups = (Listing(kind, store, lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(Reader(rows, lambda key: [], lambda keys: None, lambda: CLICKS), links, groups, lambda: now)


def begun_flush(store: Store, number: int, taken: Buffer, now: int, revisit: frozenset[str] = frozenset()) -> Flush:
    """Begins the flush of this number, the one after `number - 1`, without a journal; returns it to be written."""
    store.begin(HELD, number - 1, number, now)
    return Flush(
        HELD,
        number,
        fold_day(now),
        rewrite=False,
        sound=True,
        taken=taken,
        revisit=revisit,
        given_up=frozenset(),
        again=lambda erasures: Buffer(taken.late_before),
        store=store,
        bounded=BREAKDOWN,
        pause=lambda: None,
        unreadable=lambda key, error: None,
    )
