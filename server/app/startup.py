"""Starts a worker: it takes a journal, and flushes it for some seconds before it answers, so that answers are whole."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial

from clickcurve.buckets.errors import ClickcurveError, JournalError, JournalSuperseded, OwnerFenced, StoreUnavailable
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from ingest.stamps import Slots
from server import clock, data_folder
from server.app.journals import OwnJournal
from server.app.shutdown import shut_down
from server.app.worker import Worker
from server.attributes import dimensions_in
from server.clock import TrustedClock
from server.logs import log
from server.process.cluster_owners import ClusterOwners
from server.process.journals import learn_flushes, make_give_way, take_journal
from server.process.kept_clock import open_clock
from server.process.presence import Presence
from server.settings.table import Settings
from server.settings.values import IN_CLUSTER
from server.workers.orphaned_journals import log_quarantined
from storage.contract import Store
from storage.from_uri import open_store

CLAIM_S = 20  # for a store that neither answers nor fails; longer than any store of ours takes for that
FIRST_FLUSH_S = 3  # after the claim; then requests are answered
CALLERS = "callers_secret"  # the note of what the limiter hashes its callers with, where no data folder keeps it


@asynccontextmanager
async def running(
    settings: Settings, slots: Slots, check_stop: Callable[[], None] = lambda: None
) -> AsyncIterator[Worker]:
    """Runs a worker with its journal and its jobs, and flushes when the block ends. `slots`: for all workers' stamps.

    check_stop: raises if the server is to stop before it has begun. Raises ClickcurveError when it must not start.
    """
    trusted = open_clock(settings)
    if settings.journal == IN_CLUSTER:
        worker = await _begin_in_cluster(settings, slots, trusted, check_stop)
    else:
        worker = await _begin_on_disk(settings, slots, trusted)
    for part in worker.parts:
        await part.begin(FIRST_FLUSH_S)
    await worker.orphans.take_up()
    worker.schedule.start()
    await worker.peers.listen(worker.pending)
    try:
        yield worker
    finally:
        await shut_down(worker)


def _open_store(settings: Settings, later: str) -> Store:
    return open_store(
        settings.store,
        settings.ladder,
        warn=lambda warning: log.warning("store", extra={"reason": warning}),
        later=lambda error: log.warning("store unavailable", extra={"reason": error.detail, "then": later}),
        now=clock.monotonic,
    )


async def _begin_in_cluster(
    settings: Settings, slots: Slots, trusted: TrustedClock, check_stop: Callable[[], None]
) -> Worker:
    """Makes a worker with an owner whose journal is in the cluster, however long it takes until it has one.

    Its first flush names what the owner's last holder left. Until it has begun, nothing is accepted.
    """
    number = data_folder.take_worker_number(settings.data, settings.workers)
    store = _open_store(settings, "the start waits")
    presence = Presence(store, secrets.token_hex(8))
    try:
        cluster = ClusterOwners(store, presence, data_folder.journal_folder(settings.data, number).name, trusted)
        own = await _own_in_cluster(settings, number, store, slots, trusted, cluster, check_stop)
        await asyncio.to_thread(_keep_secret, settings, store)
    except BaseException:
        await presence.end()
        store.close()
        raise
    return await _joined(settings, own, store)


async def _own_in_cluster(
    settings: Settings,
    number: int,
    store: Store,
    slots: Slots,
    trusted: TrustedClock,
    cluster: ClusterOwners,
    check_stop: Callable[[], None],
) -> OwnJournal:
    while True:
        own = OwnJournal(settings, number, await cluster.take(check_stop), store, slots, trusted, cluster)
        try:
            await begin_first_flush(own.owner)
            return own
        except JournalSuperseded as error:
            log_quarantined(error, own.recovered, cluster.quarantine(own.owner.number))
        except OwnerFenced as error:
            first_flush_failed(error, "another owner is taken")
        except ClickcurveError as error:
            first_flush_failed(error, "hits are refused until one has begun")
            return own
        await own.owner.release()


async def _joined(settings: Settings, own: OwnJournal, store: Store) -> Worker:
    """Joins a worker that divides hits as the store does.

    As the settings say, if the store does not answer in time.
    """
    asked = asyncio.create_task(asyncio.to_thread(dimensions_in, store, settings))
    await asyncio.wait({asked}, timeout=FIRST_FLUSH_S)
    dimensions = None
    if asked.done():
        with suppress(StoreUnavailable):
            dimensions = asked.result()
    else:
        asked.add_done_callback(lambda late: late.cancelled() or late.exception())
    return Worker(settings, own, store, dimensions)


def _keep_secret(settings: Settings, store: Store) -> None:
    """Writes what callers are hashed with into the data folder, which may be a new one at each start."""
    file = data_folder.callers_secret(settings.data)
    if not file.exists():
        data_folder.replace_private(file, store.note(CALLERS, secrets.token_hex(32)))


async def _begin_on_disk(settings: Settings, slots: Slots, trusted: TrustedClock) -> Worker:
    """Makes a worker with a journal, and flushes that before the first request, if the store answers.

    So answers are whole from the start: a flush settles the claims of ids and the hits of erased links. A superseded
    journal is quarantined for a person to judge. One that the store cannot judge now gives way to a new one, because
    what is accepted from now on is certainly not counted yet, and must not lie in a journal that may be quarantined
    later. Then the store has just failed to answer, and is not asked again.
    """
    number, journal = await _take_journal(settings)  # before it waits for the store: others adopt what nobody holds
    try:
        store = _open_store(settings, "hits are accepted")
    except BaseException:
        journal.close()
        raise
    store_answers = True
    while True:
        if torn_bytes := journal.torn_bytes:
            log.warning("journal cut", extra={"journal": str(journal.folder), "torn_bytes": torn_bytes})
        own = OwnJournal(settings, number, journal, store, slots, trusted)
        try:
            if store_answers:
                await begin_first_flush(own.owner, partial(learn_flushes, trusted, store))
            return await _joined(settings, own, store)
        except JournalSuperseded as error:
            log_quarantined(error, own.recovered, data_folder.quarantine(journal.folder))
        except ClickcurveError as error:
            store_answers = False
            first_flush_failed(error, "hits are accepted; it is tried again")
            if own.is_judged or not _gives_way(settings, own, journal):
                return await _joined(settings, own, store)
        await own.owner.release()
        number, journal = await _take_journal(settings)


async def _take_journal(settings: Settings) -> tuple[int, DiskJournal]:
    """Opens a journal as `take_journal` does, however long that takes; says so where it takes long."""
    opening = asyncio.ensure_future(asyncio.to_thread(take_journal, settings))
    await asyncio.wait({opening}, timeout=settings.journal_stall_s)
    if not opening.done():
        then = "the start waits: it is large, or the disk does not answer"
        log.warning("journal not open yet", extra={"after_s": settings.journal_stall_s, "then": then})
    return await opening


def _gives_way(settings: Settings, own: OwnJournal, journal: DiskJournal) -> bool:
    """Puts a new journal in the place of the own one; returns False if no disk takes one."""
    try:
        moved_to = make_give_way(settings, journal)
    except JournalError as error:
        log.warning("journal goes on unclaimed", extra={"reason": error.detail})
        return False
    log.warning("journal gives way", extra={"hits": own.recovered, "moved_to": str(moved_to)})
    return True


async def begin_first_flush(owner: Owner, learn: Callable[[int], None] = lambda owner: None) -> None:
    """Claims the owner and begins its first flush, for some seconds; what is unfinished then goes on.

    learn: asks the store, before it knows of the claim, when the owner of this number flushed last. Raises what it, the
    claim or the flush raised by then.
    """

    async def claim() -> None:
        await asyncio.to_thread(learn, owner.number)
        await owner.claim()

    if await _ended(claim(), CLAIM_S):
        await _ended(owner.flush(), FIRST_FLUSH_S)


async def _ended(part: Coroutine[None, None, None], patience_s: float) -> bool:
    """Waits until this part of a first flush has ended, and returns True; False: it goes on meanwhile."""
    under_way = asyncio.ensure_future(part)
    await asyncio.wait({under_way}, timeout=patience_s)
    if under_way.done():
        under_way.result()
        return True
    log.warning("first flush unfinished", extra={"after_s": patience_s, "then": "it goes on"})
    under_way.add_done_callback(_ended_late)
    return False


def first_flush_failed(error: ClickcurveError, then: str) -> None:
    """Logs why a first flush failed, and what happens then."""
    log.warning("first flush failed", extra={"reason": error.detail, "then": then})


def _ended_late(flushing: asyncio.Future[None]) -> None:
    """Logs how a first flush ended that went on after requests were answered."""
    if flushing.cancelled():
        return
    try:
        flushing.result()
    except (JournalSuperseded, OwnerFenced) as error:
        first_flush_failed(error, "nothing is accepted; a restart quarantines the journal")
    except ClickcurveError as error:
        first_flush_failed(error, "it is tried again")
    except Exception:
        log.exception("first flush failed")
