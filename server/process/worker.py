"""One worker process: it takes a journal, builds its parts, serves until a stop, and flushes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
import uvloop

from clickcurve.buckets.errors import ClickcurveError, JournalDamaged, JournalError, JournalSuperseded
from clickcurve.buckets.ladder import fold_day
from ingest.journal.journal import NEW, Journal
from ingest.owner import Owner
from ingest.reading.counters import IngestCounters
from ingest.stamps import Slots, Stamps
from server import clock
from server.attributes import Attributes
from server.background_requests import BackgroundRequests
from server.http import app, fast_path
from server.http.auth import Gate
from server.http.callers import Callers
from server.http.connection import DRAIN_S
from server.http.health_routes import Readiness
from server.http.host_and_origin_guard import HostAndOriginGuard, answering_pages
from server.http.page import PageSources
from server.http.problems import Problems
from server.http.shares import Shares
from server.limiter.history import LimitHistory
from server.limiter.limiter import ServerLimiter
from server.logs import log
from server.metrics import Metrics, Sample, process_samples
from server.process import data_folder, jobs, notify, samples
from server.process.first_flush import FIRST_FLUSH_S, begin_first_flush, first_flush_failed
from server.process.journals import MIB, holds_hits, new_journal, open_journal, open_owner, take_journal
from server.process.open_files import fitting_connections
from server.process.orphaned_journals import OrphanedJournals, log_set_aside
from server.process.schedule import Schedule
from server.process.supervisor import ParentProcess
from server.settings import Settings
from server.workers import peers
from server.workers.pending import PendingHits
from storage.contract import Store
from storage.from_uri import open_store

BACKLOG = 2_048  # connections that wait to be accepted
LAST_FLUSH_S = 10  # at a stop
LATER = "the next start flushes the journal"


class Uvicorn(uvicorn.Server):
    """uvicorn, which here ends with exit code 0 after a stop, and calls `listening` when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to `run`."""
        yield


class Signals:
    """The signals that came: to stop, or to read the limiter's rules again. The parts follow as soon as they run."""

    def __init__(self) -> None:
        self.to_stop = False
        self.to_reload = False
        self.server: Uvicorn | None = None
        self.limiter: ServerLimiter | None = None
        self.dividing: Attributes | None = None

    def stop(self) -> None:
        self.to_stop = True
        if self.server is not None:
            self.server.stop()

    def reload(self) -> None:
        self.to_reload = True
        if self.limiter is not None:
            self.limiter.reload()
        if self.dividing is not None:
            self.dividing.reload()


def today() -> int:
    """Returns the fold day of now."""
    return fold_day(int(clock.now()))


class Worker:
    """The parts of one worker, joined."""

    def __init__(
        self, settings: Settings, number: int, journal: Journal, store: Store, slots: Slots, gave_way: int | None
    ) -> None:
        """Joins the parts. `gave_way`: the number of the journal whose place this one took at the start."""
        self.settings, self.number, self.store, self._gave_way = settings, number, store, gave_way
        self.name = data_folder.journal_folder(settings.data, number).name
        self.listening = self.stopping = False
        self.stamps = Stamps(clock.now, slots, number - 1)
        self.dividing = Attributes(settings, store, clock.now)
        self.owner = open_owner(settings, journal, store, self._alone(), self.stamps, lambda: self.listening)
        self.former = OrphanedJournals(self._orphaned_journals, self._former_owner, self._set_aside_former, today)
        self.unstored = PendingHits(self.owner, self.former)
        self.limiter = ServerLimiter(settings, clock.now, clock.monotonic)
        self.connections_refused: Counter[str] = Counter()
        self.recovered = 0  # hits that were found in the journal
        self.limit_history = self._limit_history()
        self.fold = jobs.DailyFold(today)
        journal_limit = settings.journal_mib * MIB
        ready = Readiness(
            lambda: self.unstored.status, settings.flush_s, store.rows, lambda: self.stopping, journal.check_room
        )
        self.peers = peers.Peers(settings.data, number, settings.workers)
        gate = Gate(data_folder.tokens_file(settings.data), clock.monotonic)
        self.problems = Problems()
        counting = app.Counting(IngestCounters(), self.problems)
        self.metrics = Metrics(
            self.name,
            [
                lambda: samples.of_ingest(counting.ingest),
                lambda: samples.of_owner(self.unstored.status, journal_limit, ready.flush_state()),
                lambda: samples.of_store(store.measures()),
                lambda: samples.of_jobs(self.schedule.status),
                lambda: samples.of_requests(counting.problems, gate, self.front.answers, self.peers.unheard),
                lambda: samples.of_connections(self.connections_refused),
                self.limiter.samples,
                lambda: iter([Sample("clickcurve_folded_rows_total", self.fold.folded)]),
                lambda: iter([Sample("clickcurve_limit_history_lost_total", self.limit_history.lost)]),
                lambda: iter([Sample("clickcurve_journals_set_aside", data_folder.journals_set_aside(settings.data))]),
                lambda: self.beside.samples(),
                samples.of_build(),
                process_samples,
            ],
            data_folder.samples_folder(settings.data) if settings.workers > 1 else None,
        )
        others = self.peers if settings.workers > 1 else None
        queries = app.make_queries(self.owner, self.unstored, store, clock.now, others)
        self.front = app.create_app(
            self.owner,
            store,
            clock.now,
            gate,
            counting,
            self.metrics,
            ready,
            self.limiter,
            self.limit_history,
            HostAndOriginGuard(settings.host, settings.allowed_hosts, settings.cors_origins),
            self.unstored,
            self.dividing,
            queries,
            self._page(gate),
            others,
        )
        self.beside = BackgroundRequests(settings, number, self.owner, queries, self.front.hits)
        self.schedule = self._schedule()

    def _page(self, gate: Gate) -> PageSources:
        kind, flush_s = self.settings.store.partition(":")[0], self.settings.flush_s
        return PageSources(gate, Shares(self.store), self.metrics, kind, flush_s)

    def _limit_history(self) -> LimitHistory:
        """Makes a history that hears every decision of the limiter, and knows its events and names of callers."""
        limiter, secret = self.limiter, data_folder.callers_secret(self.settings.data)
        history = LimitHistory(
            self.owner.accept, clock.now, secret, events=limiter.limiter.events.rules, address=limiter.addresses.name
        )
        limiter.listeners.append(history.heard)
        limiter.caller_listeners.append(history.heard_of_caller)
        return history

    def _alone(self) -> bool:
        """Returns whether no other journal's hits could carry the same ids. Then an id is judged when it comes."""
        if self.store.shared or self.settings.workers > 1:
            return False
        try:
            return not any(holds_hits(self.settings, number) for number in self._orphaned_journals())
        except JournalDamaged:
            return False  # nobody knows what it holds; the job that empties them names it

    def _orphaned_journals(self) -> list[int]:
        """Lists those that this worker empties: the first worker all, another one that which gave way to its own."""
        numbers = [n for n in data_folder.journal_numbers(self.settings.data) if n > self.settings.workers]
        return numbers if self.number == 1 else [n for n in numbers if n == self._gave_way]

    def _schedule(self) -> Schedule:
        functions: dict[str, Callable[[], Awaitable[None]]] = {
            "flush": self.owner.flush,
            "fold": lambda: self.fold.visit(self.owner),
            "forget_ids": lambda: jobs.forget_ids(self.store, self.unstored.status.lag_s, clock.now),
            "rank": lambda: jobs.rank_rows(self.store),
            "limit_history": self.limit_history.hand_over,
            "dividing": self.dividing.renew,
        }
        if self.number == 1 or self._gave_way is not None:
            functions["orphaned_journals"] = self.former.visit
        if self.settings.workers > 1:
            functions["publish_metrics"] = self._publish
        functions |= self.beside.jobs()
        phase = (self.number - 1) / self.settings.workers
        return Schedule(jobs.job_table(functions, clock.now(), self.settings.flush_s, phase), clock.now)

    def _former_owner(self, number: int) -> Owner:
        journal = open_journal(self.settings, number)
        return open_owner(self.settings, journal, self.store, False, self.stamps, lambda: self.listening)

    def _set_aside_former(self, number: int) -> Path:
        return data_folder.set_aside(data_folder.journal_folder(self.settings.data, number))

    async def _publish(self) -> None:
        self.metrics.publish()

    async def close(self) -> None:
        """Flushes and closes everything, within seconds. What the store does not take stays in the journal."""
        until = clock.monotonic() + LAST_FLUSH_S
        await self.schedule.stop(LAST_FLUSH_S / 2)
        await self.limiter.close()
        closing = asyncio.ensure_future(self._close_owner())
        await asyncio.wait({closing}, timeout=max(0.0, until - clock.monotonic()))
        if not closing.done():
            # A thread hangs in the store and would keep the process from ending. All its hits are in the journal.
            log.warning("last flush unfinished", extra={"after_s": LAST_FLUSH_S, "then": LATER})
            logging.shutdown()
            os._exit(0)
        try:
            closing.result()
        except ClickcurveError as error:
            log.warning("last flush failed", extra={"reason": error.detail, "then": LATER})
        self.peers.close()
        self.store.close()
        log.info("stopped", extra={"journal": self.name, "hits_left": self.owner.status.buffered_hits})

    async def _close_owner(self) -> None:
        try:
            await self.beside.close()
            await self.limit_history.hand_over()
        except ClickcurveError as error:
            log.warning("limiter's last counts lost", extra={"reason": error.detail})
        await self.former.release()
        await self.owner.close()


@asynccontextmanager
async def running(settings: Settings, slots: Slots) -> AsyncIterator[Worker]:
    """Runs a worker with its journal and its jobs, and flushes when the block ends. `slots`: for all workers' stamps.

    Raises ClickcurveError when it must not start.
    """
    store = open_store(
        settings.store,
        settings.ladder,
        warn=lambda said: log.warning("store", extra={"said": said}),
        later=lambda error: log.warning(
            "store unavailable", extra={"reason": error.detail, "then": "hits are accepted"}
        ),
    )
    worker = await _take_up(settings, store, slots)
    await worker.dividing.begin(bool(worker.unstored.status.buffered_hits), FIRST_FLUSH_S)
    worker.former.take_up()
    await worker.beside.start()
    worker.schedule.start()
    await worker.peers.listen(worker.unstored)
    try:
        yield worker
    finally:
        worker.stopping = True
        await worker.close()


async def _take_up(settings: Settings, store: Store, slots: Slots, gave_way: int | None = None) -> Worker:
    """Makes a worker with the first free journal, and flushes that before the first request, if the store answers.

    So answers are whole from the start: a flush settles the claims of ids and the hits of erased links. A superseded
    journal is set aside for a person to judge. One that the store cannot judge now gives way to a new one, because what
    is accepted from now on is certainly not counted yet, and must not lie in a journal that may be set aside later.
    `gave_way`: that one's number; the store has just failed to answer, so it is not asked again.
    """
    number, journal = take_journal(settings)
    if journal.recovered.torn_bytes:
        log.warning("journal cut", extra={"journal": str(journal.folder), "torn_bytes": journal.recovered.torn_bytes})
    worker = Worker(settings, number, journal, store, slots, gave_way)
    worker.recovered = worker.owner.status.buffered_hits
    if gave_way is not None:
        return worker
    try:
        await begin_first_flush(worker.owner)
    except JournalSuperseded as error:
        log_set_aside(error, worker.recovered, data_folder.set_aside(journal.folder))
        await worker.owner.release()
        return await _take_up(settings, store, slots)
    except ClickcurveError as error:
        first_flush_failed(error, "hits are accepted; it is tried again")
        if worker.owner.status.state == "unclaimed" and journal.recovered.identity != NEW.identity:
            return await _give_way(worker, journal, slots)
    return worker


async def _give_way(worker: Worker, journal: Journal, slots: Slots) -> Worker:
    """Returns a worker with a new journal in place of this one; the same worker if no disk takes one."""
    try:
        former = new_journal(worker.settings, journal)
    except JournalError as error:
        log.warning("journal goes on unclaimed", extra={"reason": error.detail})
        return worker
    moved_to = data_folder.journal_folder(worker.settings.data, former)
    log.warning("journal gives way", extra={"hits": worker.recovered, "moved_to": str(moved_to)})
    await worker.owner.release()
    return await _take_up(worker.settings, worker.store, slots, former)


def run(settings: Settings, listener: socket.socket, parent: ParentProcess | None = None) -> int:
    """Serves on the socket until a signal, or until the parent is gone, if there is one. Returns the exit code."""

    async def main() -> None:
        # Set before the first flush and kept until the end: a stop during the first flush ends in order too, and a
        # second signal does not cut off the last flush.
        signals = Signals()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: signals.stop())
        loop = asyncio.get_running_loop()
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(signals.reload))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # which the command has held back
        async with running(settings, [0] if parent is None else parent.slots) as worker:
            signals.limiter, signals.dividing = worker.limiter, worker.dividing
            # A worker that replaces another one has the settings of its parent's start; the rules may differ by now.
            if signals.to_reload or (parent is not None and settings.config is not None):
                signals.reload()
            listening = notify.ready if parent is None else parent.tell_listening
            signals.server = server = _uvicorn(worker, listener, listening)
            if parent is not None:
                loop.add_reader(parent.gone, _orphaned, parent.gone, server)
            if not signals.to_stop:
                # Requests leave no cycles behind, so the collector need not look every 700 objects: some 3 % of a hit.
                gc.freeze()
                gc.set_threshold(20_000, 20, 100)
                await server.serve(sockets=[listener])
            if parent is None:
                notify.stopping()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return 0


def _orphaned(gone: int, server: Uvicorn) -> None:
    """Stops this worker because its parent is gone: no other process would replace or stop it."""
    asyncio.get_running_loop().remove_reader(gone)
    log.error("parent gone", extra={"then": "this worker flushes and ends"})
    server.stop()


def _uvicorn(worker: Worker, listener: socket.socket, listening: Callable[[], None]) -> Uvicorn:
    (host, port), settings = listener.getsockname()[:2], worker.settings
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        answering_pages(worker.front, settings.cors_origins, worker.problems, worker.front.answers),
        loop="uvloop",
        http=fast_path.fast_connection_class(
            fast_path.FastPath(worker.front),
            worker.connections_refused,
            Callers(worker.limiter.addresses, settings.address_connections),
            connections_max=fitting_connections(),
            head_s=settings.head_s,
            slowest_bytes_s=settings.slowest_bytes_s,
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_S,
    )
    found = {"url": url, "page": f"{url}/", "journal": worker.name, "hits_recovered": worker.recovered}

    def started() -> None:
        worker.listening = True
        log.info("listening", extra=found)
        listening()

    return Uvicorn(config, started)
