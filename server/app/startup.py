"""Starts a worker: it takes a journal, and flushes it for some seconds before it answers, so that answers are whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

from clickcurve.buckets.errors import ClickcurveError, JournalError, JournalSuperseded, OwnerFenced
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from ingest.stamps import Slots
from server import data_folder
from server.app.shutdown import shut_down
from server.app.worker import OwnJournal, Worker
from server.logs import log
from server.process.journals import make_give_way, take_journal
from server.settings.table import Settings
from server.workers.orphaned_journals import log_quarantined
from storage.contract import Store
from storage.from_uri import open_store

CLAIM_S = 20  # for a store that neither answers nor fails; longer than any store of ours takes for that
FIRST_FLUSH_S = 3  # after the claim; then requests are answered


@asynccontextmanager
async def running(settings: Settings, slots: Slots) -> AsyncIterator[Worker]:
    """Runs a worker with its journal and its jobs, and flushes when the block ends. `slots`: for all workers' stamps.

    Raises ClickcurveError when it must not start.
    """
    number, journal = take_journal(settings)  # before it waits for the store: others adopt what nobody holds
    try:
        store = open_store(
            settings.store,
            settings.ladder,
            warn=lambda warning: log.warning("store", extra={"reason": warning}),
            later=lambda error: log.warning(
                "store unavailable", extra={"reason": error.detail, "then": "hits are accepted"}
            ),
        )
    except BaseException:
        journal.close()
        raise
    worker = await _begin(settings, number, journal, store, slots)
    await worker.attributes.begin(bool(worker.pending.status.buffered_hits), FIRST_FLUSH_S)
    await worker.tokens.begin(FIRST_FLUSH_S)
    await worker.corrections.begin(FIRST_FLUSH_S)
    await worker.orphaned.take_up()
    await worker.background.start()
    worker.schedule.start()
    await worker.peers.listen(worker.pending)
    try:
        yield worker
    finally:
        await shut_down(worker)


async def _begin(settings: Settings, number: int, journal: DiskJournal, store: Store, slots: Slots) -> Worker:
    """Makes a worker with a journal, and flushes that before the first request, if the store answers.

    So answers are whole from the start: a flush settles the claims of ids and the hits of erased links. A superseded
    journal is quarantined for a person to judge. One that the store cannot judge now gives way to a new one, because
    what is accepted from now on is certainly not counted yet, and must not lie in a journal that may be quarantined
    later. Then the store has just failed to answer, and is not asked again.
    """
    store_answers = True
    while True:
        if torn_bytes := journal.recovered.torn_bytes:
            log.warning("journal cut", extra={"journal": str(journal.folder), "torn_bytes": torn_bytes})
        own = OwnJournal(settings, number, journal, store, slots)
        try:
            if store_answers:
                await begin_first_flush(own.owner)
            return Worker(settings, own, store)
        except JournalSuperseded as error:
            log_quarantined(error, own.recovered, data_folder.quarantine(journal.folder))
        except ClickcurveError as error:
            store_answers = False
            first_flush_failed(error, "hits are accepted; it is tried again")
            if own.is_judged or not _gives_way(settings, own):
                return Worker(settings, own, store)
        await own.owner.release()
        number, journal = take_journal(settings)


def _gives_way(settings: Settings, own: OwnJournal) -> bool:
    """Puts a new journal in the place of the own one; returns False if no disk takes one."""
    try:
        moved_to = make_give_way(settings, own.journal)
    except JournalError as error:
        log.warning("journal goes on unclaimed", extra={"reason": error.detail})
        return False
    log.warning("journal gives way", extra={"hits": own.recovered, "moved_to": str(moved_to)})
    return True


async def begin_first_flush(owner: Owner) -> None:
    """Claims the owner and begins its first flush, for some seconds; what is unfinished then goes on.

    Raises what the claim or the flush raised by then.
    """
    if await _ended(owner.claim(), CLAIM_S):
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
