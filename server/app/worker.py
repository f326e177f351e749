"""Joins the parts of one worker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import fold_day, minutes_since
from ingest.agents.bots import bot_judge
from ingest.buffer import Buffers
from ingest.journal.contract import Journal
from ingest.journal.disk_journal import DiskJournal
from ingest.journal.segment_format import NEW
from ingest.owner import Owner
from ingest.reading.body_budget import BodyBudget
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import IngestCounters
from ingest.stamps import Slots, Stamps
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.lists.listed_rows import GROUP, LINK, nobody
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from server import clock, data_folder
from server.app import samples
from server.app.background import BackgroundRequests
from server.attributes import Attributes
from server.clock import TrustedClock
from server.corrections.erasing import Erasing
from server.corrections.runner import Corrections
from server.http.health_routes import Readiness
from server.http.problems import Problems
from server.limiter.history import LimitHistory
from server.limiter.limiter import ServerLimiter
from server.metrics import Metrics, Sample, process_samples
from server.process import jobs
from server.process.cluster_owners import ClusterOwners
from server.process.journals import MIB, is_alone, open_journal, open_owner, place_of, random_token
from server.process.kept_clock import KeptClock
from server.process.schedule import Schedule
from server.settings.table import Settings
from server.tokens.audit import AuditLog
from server.tokens.known_tokens import KnownTokens
from server.tokens.token_book import TokenBook
from server.version import program_version
from server.workers.orphaned_journals import OrphanedJournals
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from server.workers.unheld_journals import UnheldJournals
from storage.contract import Store


class OwnJournal:
    """The journal that a worker's hits go to, and the owner over it. `listening`: requests are answered.

    cluster: None if the journal is on a disk.
    """

    def __init__(
        self,
        settings: Settings,
        number: int,
        journal: Journal,
        store: Store,
        slots: Slots,
        trusted: TrustedClock,
        cluster: ClusterOwners | None = None,
    ) -> None:
        self.number, self.journal, self.cluster = number, journal, cluster
        self.listening = False
        self.clock = trusted
        self.stamps = Stamps(trusted.careful, slots, number - 1)
        self._settings, self._store = settings, store
        self.owner = self._open(journal, is_alone(settings, store))
        self.recovered = self.owner.status.buffered_hits  # that were found in it

    def _open(self, journal: Journal, alone: bool, buffers: Buffers | None = None) -> Owner:
        """Opens an owner over the own journal or an orphaned one. buffers: its hits, if they are read already."""
        if isinstance(journal, DiskJournal):
            place, token = place_of(journal), random_token
        else:
            assert self.cluster is not None
            place, token = self.cluster.place, self.cluster.token
        settings, store, served = self._settings, self._store, lambda: self.listening
        return open_owner(settings, journal, place, store, alone, self.clock, self.stamps, served, buffers, token)

    @property
    def is_judged(self) -> bool:
        """Whether the store has said that this journal may go on, or never saw it before."""
        if not isinstance(self.journal, DiskJournal):
            return True
        return self.owner.status.state != "unclaimed" or self.journal.found.identity == NEW.identity

    def in_cluster(self) -> dict[str, int]:
        """Returns which owner of the cluster it is, and in which epoch; nothing of a journal on a disk."""
        held = None if self.cluster is None or self.cluster.own is None else self.cluster.own.held
        return {} if held is None else {"owner": held.owner, "epoch": held.epoch}

    async def open_on_disk(self, number: int) -> Owner:
        """Opens the owner over orphaned journal `number` of the data folder. Raises JournalHeld, JournalDamaged."""
        return await self._open_orphan(await asyncio.to_thread(open_journal, self._settings, number))

    async def take_in_cluster(self, number: int) -> Owner:
        """Takes owner `number`, which nobody holds. Raises JournalHeld, JournalDamaged, StoreUnavailable."""
        assert self.cluster is not None
        return await self._open_orphan(await self.cluster.take_orphan(number))

    async def _open_orphan(self, journal: Journal) -> Owner:
        """Opens an owner over an orphaned journal, which is read in a thread: requests are answered meanwhile."""
        try:
            read = partial(Buffers, journal, minutes_since(int(self.clock.now())), self._settings.buffer_mib * MIB)
            return self._open(journal, False, await asyncio.to_thread(read))
        except BaseException:
            journal.close()
            raise


class Worker:
    """The parts of one worker, joined.

    pending: what it holds that the store may lack. named_breakdowns: those that the page, alerts and reports show.
    """

    def __init__(self, settings: Settings, own: OwnJournal, store: Store) -> None:
        self.settings, self.own, self.store = settings, own, store
        self.clock = trusted = own.clock
        self.owner, self.number = own.owner, own.number
        number = own.number
        self.name = data_folder.journal_folder(settings.data, number).name
        self.draining = self.stopping = False
        self._version = program_version()
        self.kept_clock = KeptClock(settings, trusted, is_first=number == 1)
        self.attributes = Attributes(settings, store, trusted.now, trusted.careful, clock.running)
        self.fold = jobs.DailyFold(self._fold_day)
        self.orphaned = [*self._orphaned()]
        self.pending = PendingHits(self.owner, [journals for _, journals in self.orphaned])
        self.limiter = ServerLimiter(settings, trusted.now, clock.monotonic)
        self.connections_refused: Counter[str] = Counter()
        self.limit_history = self._limit_history()
        self.readiness = Readiness(
            lambda: self.pending.status,
            settings.flush_s,
            store.rows,
            self._ending,
            own.journal.check_room,
            self._cluster,
            trusted.status,
        )
        self.peers = Peers(settings.data, number, settings.workers)
        self.others = self.peers if settings.workers > 1 else None  # for those that ask them
        self.tokens = KnownTokens(settings, TokenBook(store), trusted.now, writes_copy=number == 1)
        self.audit = AuditLog(store, trusted.now, trusted.careful)
        self.problems = Problems()
        self.counters = IngestCounters()
        self.answers: Counter[int] = Counter()  # to requests without hits, by status
        self.metrics = Metrics(
            self.name, [self._samples], data_folder.samples_folder(settings.data) if settings.workers > 1 else None
        )
        self.corrections = Corrections(self.owner, store, self.attributes.bounded, trusted.careful)
        self.queries = self._queries()
        self.breakdowns = self._breakdowns()
        self.named_breakdowns = self._breakdowns(settings.page_least)
        self.room = BodyBudget(clock.monotonic)
        reader = self.attributes.reader
        self.hits = HitRoutes(
            self.owner, trusted.now, minutes_since, bot_judge(), self.counters, reader=reader, room=self.room
        )
        self.background = BackgroundRequests(
            settings, number, store, self.queries, self.named_breakdowns, self.hits, trusted
        )
        self.schedule = self._schedule()

    def _fold_day(self) -> int:
        return fold_day(int(self.clock.careful()))

    def _orphaned(self) -> Iterator[tuple[ClusterOwners | UnheldJournals, OrphanedJournals]]:
        """Yields what finds orphaned journals in the cluster and on the disk, each with what empties them.

        Where the worker's own is in the cluster, all on the disk are orphaned: the server had its journals there once.
        """

        async def fold(orphan: Owner) -> None:
            await jobs.DailyFold(self._fold_day).visit(orphan)

        own, workers = self.own, self.settings.workers
        if own.cluster is not None:
            cluster, take = own.cluster, own.take_in_cluster
            yield cluster, OrphanedJournals(cluster.orphaned, take, cluster.quarantine, fold, self._fold_day)
            workers = 0
        on_disk = UnheldJournals(self.settings.data, self.number, workers)
        yield on_disk, OrphanedJournals(on_disk.orphaned, own.open_on_disk, on_disk.quarantine, fold, self._fold_day)

    def _queries(self) -> Queries:
        """Joins what answers are made of."""
        store, pending, others = self.store, self.pending, self.others
        others_pending = None if others is None else others.pending
        is_corrected = self.corrections.is_corrected
        key_form = self.attributes.reader.key_form
        revisit = self.owner.revisit
        reader = Reader(store.rows, pending.pending, revisit, store.ladder, others_pending, is_corrected, key_form)

        def flushes() -> int:
            return pending.flushes

        # Of links there can be too many to ask others for all that they hold; groups are few.
        within, of_groups = (None, nobody) if others is None else (others.links_within, others.groups)
        held, corrected = pending.pending, (reader.is_corrected, reader.corrected)
        links = Listing(LINK, store, held, pending.buffered_links, flushes, nobody, within, *corrected, key_form)
        groups = Listing(GROUP, store, held, pending.buffered_groups, flushes, of_groups, None, *corrected)
        return Queries(reader, links, groups, self.clock.now)

    def _breakdowns(self, least: int = 0) -> BreakdownQueries | None:
        """Joins what answers about breakdowns are made of; None without dimensions. least: as of the reader."""
        attributes, store, pending = self.attributes, self.store, self.pending
        if not attributes.dimensions:
            return None
        readers = pending.pending, pending.pending_breakdowns
        others = self.others, self.corrections.is_corrected
        reader = BreakdownReader(
            store.rows, *readers, store.ladder, attributes.bounded, *others, least, attributes.reader.key_form
        )
        kept_value = attributes.referrers.kept_value
        since, salts_in = attributes.since, attributes.salts_in
        return BreakdownQueries(reader, attributes.dimensions, since, self.clock.now, kept_value, salts_in)

    def _ending(self) -> str | None:
        """Returns why no more requests should come; None while they should."""
        return "the server is stopping" if self.stopping else "draining" if self.draining else None

    def _cluster(self) -> dict[str, object]:
        """Returns what /readyz says of a journal in the cluster. Raises JournalBroken while that does not answer."""
        cluster, owner = self.own.cluster, self.owner.status
        if cluster is None:
            return {}
        cluster.check_heard()
        adopting = sorted(owner.number for _, journals in self.orphaned for owner in journals.owners)
        missed = cluster.presence.missed_in_a_row
        return {"epoch": owner.epoch, "adopting": adopting, "rounds_missed": missed}

    def _samples(self) -> Iterator[Sample]:
        """Yields what each part says on /metrics."""
        settings, cluster = self.settings, self.own.cluster
        journal_limit_bytes = settings.journal_mib * MIB if cluster is None else None
        yield from samples.of_ingest(self.counters)
        yield from samples.of_owner(
            self.pending.status, journal_limit_bytes, self.readiness.flush_state(), settings.flush_s
        )
        yield Sample("clickcurve_journal_stalled_seconds", self.own.journal.stalled_s)
        yield from (Sample(f"clickcurve_{name}", value) for name, value in self.store.measures().items())
        yield from samples.of_jobs(self.schedule.status)
        yield from samples.of_requests(self.problems, self.tokens.gate, self.answers, self.peers.incomplete_answers)
        yield from samples.of_connections(self.connections_refused)
        yield from self.limiter.samples()
        yield Sample("clickcurve_folded_rows_total", self.fold.folded)
        yield Sample("clickcurve_limit_history_lost_total", self.limit_history.lost)
        yield Sample("clickcurve_quarantined_journals", self._quarantined())
        if cluster is not None:
            yield from cluster.samples()
        yield from self.kept_clock.samples()
        yield from self.background.samples()
        yield Sample("clickcurve_build_info", 1, (self._version,))
        yield from process_samples()

    def _limit_history(self) -> LimitHistory:
        """Makes a history that hears every decision of the limiter, and knows its events and names of callers."""
        limiter, secret = self.limiter, data_folder.callers_secret(self.settings.data)
        history = LimitHistory(
            self.owner.accept,
            self.clock.now,
            secret,
            events=limiter.limiter.events.rules,
            address=limiter.addresses.name,
        )
        limiter.listeners.append(history.count)
        limiter.caller_listeners.append(history.count_for_caller)
        return history

    def _erasing(self) -> Erasing:
        return Erasing(
            self.owner,
            self.store,
            self.attributes.bounded,
            self.audit,
            self.clock.careful,
            self.number == 1,
            self._quarantined_journals,
            self.corrections.refresh,
            running=clock.running,
        )

    def _schedule(self) -> Schedule:
        functions: dict[str, Callable[[], Awaitable[None]]] = {
            "flush": self.owner.flush,
            "fold": lambda: self.fold.visit(self.owner),
            "forget_ids": lambda: jobs.forget_ids(self.store, self.pending.status.oldest_us, self.clock.careful),
            "clock": self._look_at_clock,
            "rank": lambda: jobs.rank_rows(self.store),
            "limit_history": self.limit_history.hand_over,
            "dimensions": self.attributes.renew,
            "tokens": self._follow_store,
            "disavow": self.corrections.refresh,
            "erase": self._erasing().refresh,
            "orphaned_journals": self._empty_orphaned,
        }
        if self.number == 1:
            functions["rank"] = jobs.PrefixRankings(self.store, self.tokens.prefixes, clock.running).visit
            functions["audit"] = lambda: asyncio.to_thread(self.audit.forget)
        if self.settings.workers > 1 or self.own.cluster is not None:
            functions["dead_workers"] = self._adopt
        if self.settings.workers > 1:
            functions["publish_metrics"] = self._publish
        if self.background.has_duties:
            functions["duties"] = self._look_after_duties
        functions |= self.background.jobs()
        if self.store.shared:
            functions["other_clocks"] = self._compare_clocks
        phase = (self.number - 1) / self.settings.workers
        table = jobs.job_table(functions, clock.running(), self.clock.now(), self.settings.flush_s, phase)
        return Schedule(table, clock.running)

    async def _look_at_clock(self) -> None:
        await self.kept_clock.visit(self.owner.status.flushes)

    async def _compare_clocks(self) -> None:
        await self.kept_clock.compare(await asyncio.to_thread(self.store.owners))

    async def _look_after_duties(self) -> None:
        for taken in await self.background.look():
            self.schedule.begin(taken)

    async def _follow_store(self) -> None:
        """Knows the tokens of the store, and the store the limits of the file."""
        await self.tokens.refresh()
        if self.number == 1:
            with suppress(StoreUnavailable):  # the next look is in two seconds
                await self.audit.follow_limits(self.limiter.rules)

    def _quarantined_journals(self) -> list[Path]:
        return data_folder.quarantined_journals(self.settings.data)

    def _quarantined(self) -> int:
        return len(self._quarantined_journals()) + (0 if self.own.cluster is None else self.own.cluster.quarantined)

    async def _adopt(self) -> None:
        """Empties the journals of workers that have died, as soon as no other worker goes on with them."""
        if self.own.journal.must_flush:  # nothing is accepted until a flush has begun
            await self.owner.flush()
        if self.own.cluster is not None:
            await self.own.cluster.find_to_fold()
        for unheld, journals in self.orphaned:
            if unheld.look():
                await journals.visit()

    async def _empty_orphaned(self) -> None:
        for _, journals in self.orphaned:
            await journals.visit()

    async def _publish(self) -> None:
        await self.metrics.publish()
