"""What measurements in process call of the program: a body is read into a batch, a buffer written into a store."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from ingest.buffer import Buffer
from ingest.flush import Flush
from ingest.hit import Hit, Moment
from ingest.hit_sums import batch_of_hits
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.request_sums import RequestSums
from query.lists.key_kind import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from storage.contract import OPEN, Held, OwnerRecord, Store, StoredLink
from storage.sqlite.store import SqliteStore

JUDGE = bot_judge()
HELD = Held(1, 1, "bench")


def read(body: bytes, now: int, reader: ProfileReader = NO_DIMENSIONS, media: Media = Media.json) -> Batch:
    """Decodes, checks and sums the hits of a body, as a request does."""
    sums = RequestSums(Moment(now, now - DAY_S, now + 300), reader=reader)
    for some in read_hits(body, media):
        sums.add(some, JUDGE)
    batch = sums.batch()
    if batch is None:
        raise RuntimeError(f"a body without a good hit: {sums.receipt()}")
    return batch


def single_routes(now: int, reader: ProfileReader) -> HitRoutes:
    """The routes of single hits, which are read here and counted by the bench."""
    return HitRoutes(_Refusing(), lambda: float(now), lambda at: at - DAY_S, JUDGE, reader=reader)


def read_group(routes: HitRoutes, bodies: Sequence[bytes]) -> Batch:
    """Reads bodies of one hit each into the batch of their commit."""
    hits = [hit for body in bodies if isinstance(hit := routes.single(body), Hit)]
    if len(hits) != len(bodies):
        raise RuntimeError("a single hit was refused")
    return batch_of_hits(hits)


class _Refusing:
    async def accept(self, batch: Batch) -> frozenset[str]:
        raise NotImplementedError

    def accept_one(self, hit: str | Hit) -> Future[None]:
        raise NotImplementedError


def owned_store(path: Path) -> SqliteStore:
    """A new file whose one owner is HELD."""
    store = SqliteStore(path, CLICKS)
    store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))
    return store


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
