"""What measurements in process call of the program: a body is read into a batch, an owner flushes into a file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S
from clickcurve.buckets.row import Row, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.request_sums import RequestSums
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from server.data_folder import journal_folder
from storage.contract import Held, SavedRow, Store, StoredLink
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk

JUDGE = bot_judge()
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


class OwnedFile:
    """The file of a data folder behind its owner, as a server has both, and their clock, which is moved by hand."""

    def __init__(self, data: Path, now: int) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data, self.now, self._runner = data, now, asyncio.Runner()
        self.store = SqliteStore(data / "clickcurve.db", CLICKS)
        disk, journal = TrackedDisk(), journal_folder(data, 1)
        self.owner = OwnerProcess(journal, self.store, lambda: self.now, alone=True, disk=disk).owner
        self.run = self._runner.run

    def take(self, *batches: Batch) -> None:
        """Has the owner count these."""
        for batch in batches:
            self.run(self.owner.accept(batch))

    def flush(self, revisit: Iterable[str] | None = None) -> tuple[float, float]:
        """Flushes what was counted, and folds these rows; returns the seconds of the processor and by the wall."""
        self.owner.revisit(revisit or ())
        processor, wall = process_time(), perf_counter()
        self.run(self.owner.flush())
        return process_time() - processor, perf_counter() - wall

    def fill(self, key: str, rows: Callable[[int], Iterable[tuple[str, SavedRow]]]) -> None:
        """Saves rows in this order without a flush, given the mark that they have; `key`: of one of them."""
        self.take(Batch({self.now // MINUTE_S * MINUTE_S: {key: 1}}))
        self.flush()
        (record,) = self.store.owners()
        save_rows(self.store, Held(record.owner, record.epoch, record.holder), record.begun, rows(record.begun))

    def close(self) -> None:
        self.run(self.owner.close())
        self.store.close()
        self._runner.close()


def saved_row(row: Row) -> SavedRow:
    """Returns a link's row as its owner would save it."""
    return SavedRow(encode(row), next_due(row, CLICKS), upper_bounds=upper_bounds_of(row, CLICKS))


def save_rows(store: Store, held: Held, flush: int, rows: Iterable[tuple[str, SavedRow]]) -> None:
    """Saves rows by their stored keys, in this order, without a flush."""
    left = iter(rows)
    with store.saving(held, flush) as save:
        while some := dict(islice(left, ROWS_PER_SAVE)):
            save(some)


def queries_over(rows: Callable[[str], Awaitable[StoredLink]], store: Store, now: int) -> Queries:
    """Makes what a server answers from, without a server."""
    links, groups = (Listing(kind, store, lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(Reader(rows, lambda key: [], lambda keys: None, lambda: CLICKS), links, groups, lambda: now)
