"""What measurements in process call of the program: a body is read into a batch, an owner flushes into its store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple, Self

from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S
from clickcurve.buckets.row import Row, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from ingest.agents.bots import bot_judge
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
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


def reader_of(*dimensions: str, salts: dict[int, bytes] | None = None) -> ProfileReader:
    """A reader of these dimensions; with salts it counts visitors too."""
    return ProfileReader(dimensions, country_reader("builtin"), ReferrerReader(), salts=salts or {})


def read(body: bytes, now: int, reader: ProfileReader = NO_DIMENSIONS) -> Batch:
    """Decodes, checks and sums the hits of a body, as a request does."""
    sums = RequestSums(Moment(now, now - DAY_S, now + 300), reader=reader)
    for some in read_hits(body, Media.json):
        sums.add(some, JUDGE)
    batch = sums.batch()
    if batch is None:
        raise RuntimeError(f"a body without a good hit: {sums.receipt()}")
    return batch


class Spent(NamedTuple):
    """Seconds of the processor and by the wall."""

    processor_s: float
    wall_s: float


class Owned:
    """An owner and its store, as a server has both, and their clock, which is moved by hand."""

    def __init__(self, journal: Path, store: Store, now: int, alone: bool = True) -> None:
        self.store, self.now, self._runner = store, now, asyncio.Runner()
        self.run = self._runner.run
        self.owner = OwnerProcess(journal, store, lambda: self.now, alone, TrackedDisk()).owner

    @classmethod
    def of_file(cls, data: Path, now: int) -> Self:
        """Returns the owner of the file of a data folder."""
        data.mkdir(parents=True, exist_ok=True)
        return cls(journal_folder(data, 1), SqliteStore(data / "clickcurve.db", CLICKS), now)

    def take(self, *batches: Batch) -> None:
        """Has the owner count these."""
        for batch in batches:
            self.run(self.owner.accept(batch))

    def take_each(self, keys: Iterable[str]) -> None:
        """Has the owner count a hit of each of these links."""
        self.take(Batch({self.now // MINUTE_S * MINUTE_S: dict.fromkeys(keys, 1)}))

    def flush(self, revisit: Iterable[str] = ()) -> Spent:
        """Flushes what was counted, and folds these rows."""
        self.owner.revisit(revisit)
        processor, wall = process_time(), perf_counter()
        self.run(self.owner.flush())
        return Spent(process_time() - processor, perf_counter() - wall)

    def fill(self, key: str, rows: Callable[[int], Iterable[tuple[str, SavedRow]]]) -> None:
        """Saves rows by their stored keys, in this order, without a flush, given the mark that they have.

        key: of one of them.
        """
        self.take_each([key])
        self.flush()
        (record,) = self.store.owners()
        left = iter(rows(record.begun))
        with self.store.saving(Held(record.owner, record.epoch, record.holder), record.begun) as save:
            while some := dict(islice(left, ROWS_PER_SAVE)):
                save(some)

    def close(self) -> None:
        self.run(self.owner.close())
        self.store.close()
        self._runner.close()


def saved_row(row: Row) -> SavedRow:
    """Returns a link's row as its owner would save it."""
    return SavedRow(encode(row), next_due(row, CLICKS), upper_bounds=upper_bounds_of(row, CLICKS))


def queries_over(rows: Callable[[str], Awaitable[StoredLink]], store: Store, now: int) -> Queries:
    """Makes what a server answers from, without a server."""
    links, groups = (Listing(kind, store, lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(Reader(rows, lambda key: [], lambda keys: None, lambda: CLICKS), links, groups, lambda: now)
