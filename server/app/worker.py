"""Joins one worker: its owner, what it answers from, and its parts (`server.app.parts`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from clickcurve.buckets.ladder import HOUR_S, fold_day, minutes_since
from ingest.agents.bots import bot_judge
from ingest.reading.body_budget import BodyBudget
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import IngestCounters
from query.breakdowns.queries import BreakdownQueries
from query.counted import KnownEvents
from query.http.questions import Questions
from server import clock, data_folder
from server.app import samples
from server.app.journals import Orphans, OwnJournal
from server.app.marks import Marks
from server.app.parts import FAMILIES, parts_of
from server.app.questions import join_breakdowns, join_queries
from server.attributes import Attributes
from server.corrections.runner import Corrections
from server.events.known_events import KnownNames
from server.http.health_routes import Readiness
from server.http.host_and_origin_guard import HostAndOriginGuard
from server.http.problems import Problems
from server.job import Job
from server.limiter.history import history_of
from server.limiter.limiter import ServerLimiter
from server.metrics import Metrics, Sample, process_samples
from server.process import jobs
from server.process.duty import Duties
from server.process.journals import MIB
from server.process.kept_clock import KeptClock
from server.process.schedule import Schedule
from server.settings.table import Settings
from server.timeline.known_notes import KnownNotes
from server.timeline.note_book import NoteBook
from server.tokens.audit import AuditLog
from server.tokens.known_tokens import KnownTokens
from server.tokens.token_book import TokenBook
from server.version import program_build, program_version
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from storage.contract import Store


class Worker:
    """One worker, joined.

    dimensions: to divide hits by; None: those of the settings. pending: what it holds that the store may lack.
    named_breakdowns: those that the page, alerts and reports show.
    """

    def __init__(
        self, settings: Settings, own: OwnJournal, store: Store, dimensions: tuple[str, ...] | None = None
    ) -> None:
        self.settings, self.own, self.store = settings, own, store
        self.clock = trusted = own.clock
        self.owner, self.number = own.owner, own.number
        self.is_first = is_first = own.number == 1
        self.name = data_folder.journal_folder(settings.data, own.number).name
        self.draining = self.stopping = False
        self.kept_clock = KeptClock(settings, trusted, is_first=is_first)
        times = trusted.now, trusted.careful, clock.running
        self.attributes = Attributes(settings, store, *times, dimensions)
        self.events = KnownNames(settings.events_names, store)
        self.fold = jobs.DailyFold(self._fold_day)
        self.orphans = Orphans(settings, own, self._fold_day)
        self.pending = PendingHits(self.owner, self.orphans.journals)
        self.limiter = ServerLimiter(settings, trusted.now, clock.monotonic)
        callers_secret = data_folder.callers_secret(settings.data)
        self.limit_history = history_of(self.limiter, self.owner.accept, trusted.now, callers_secret)
        self.connections_refused: Counter[str] = Counter()
        self.readiness = self._readiness()
        self.peers = Peers(settings.data, own.number, settings.workers)
        self.others = self.peers if settings.workers > 1 else None  # for those that ask them
        self.tokens = KnownTokens(settings, TokenBook(store), trusted.now, writes_copy=is_first)
        self.audit = AuditLog(store, trusted.now, trusted.careful)
        self.notes = KnownNotes(NoteBook(store), trusted.now)
        self.marks = Marks(self.notes, self.owner)
        self.guard = HostAndOriginGuard(settings.host, settings.allowed_hosts, settings.cors_origins)
        self.problems = Problems()
        self.counters = IngestCounters()
        self.answers: Counter[int] = Counter()  # to requests without hits, by status
        shared = data_folder.samples_folder(settings.data) if settings.workers > 1 else None
        self.metrics = Metrics(self.name, [self._samples], shared, FAMILIES)
        self.corrections = Corrections(self.owner, store, self.attributes.bounded, trusted.careful)
        self._join_questions()
        self.room = BodyBudget(clock.monotonic)
        reader = self.attributes.reader
        self.hits = HitRoutes(
            self.owner, trusted.now, minutes_since, bot_judge(), self.counters, reader=reader, room=self.room
        )
        self.parts = parts_of(self)  # last: they are told all else
        all_jobs = [*self._jobs(), *(job for part in self.parts for job in part.jobs)]
        self.duties = Duties(store, all_jobs, lambda name: self.schedule.begin(name))
        self.schedule = Schedule([*self.duties.jobs()], clock.running)

    def _fold_day(self) -> int:
        return fold_day(int(self.clock.careful()))

    def _readiness(self) -> Readiness:
        status, flush_s, store = lambda: self.pending.status, self.settings.flush_s, self.store
        check_room = self.own.journal.check_room
        return Readiness(status, flush_s, store.rows, self._ending, check_room, self._cluster, self.clock.status)

    def _join_questions(self) -> None:
        attributes, is_corrected = self.attributes, self.corrections.is_corrected
        asked = self.others, is_corrected, attributes, self.clock.now, KnownEvents(self.events.names)
        self.queries = join_queries(self.store, self.owner, self.pending, *asked, self.notes.beside)
        join = partial(join_breakdowns, self.store, self.pending, *asked)
        self.breakdowns: BreakdownQueries | None = join()
        self.named_breakdowns: BreakdownQueries | None = join(self.settings.page_least)
        self.questions = Questions(self.queries, self.breakdowns, self.limit_history, attributes.visitors)

    def _ending(self) -> str | None:
        """Returns why no more requests should come; None while they should."""
        return "the server is stopping" if self.stopping else "draining" if self.draining else None

    def _cluster(self) -> dict[str, object]:
        """Returns what /readyz says of a journal in the cluster. Raises JournalBroken while that does not answer."""
        cluster, owner = self.own.cluster, self.owner.status
        if cluster is None:
            return {}
        cluster.check_heard()
        adopting = sorted(owner.number for journals in self.orphans.journals for owner in journals.owners)
        missed = cluster.presence.missed_in_a_row
        return {"epoch": owner.epoch, "adopting": adopting, "rounds_missed": missed}

    async def erase(self, rows: Sequence[str]) -> None:
        """Erases rows of links and groups (stored keys), with their events and what is called bots of them."""

        async def erase_keys(keys: Sequence[str], last: Sequence[str]) -> None:
            await self.owner.erase(*keys, last=last)
            await self.pending.erased_here(*keys, *last)
            if self.others is not None:
                await self.others.tell_erased(*keys, *last)

        await self.corrections.erase_with(await self.events.with_events(rows), erase_keys)
        await self.notes.drop_of(rows)

    def _samples(self) -> Iterator[Sample]:
        """Yields what is said on /metrics: by the worker, then by each part."""
        settings, cluster = self.settings, self.own.cluster
        journal_limit_bytes = settings.journal_mib * MIB if cluster is None else None
        flush_state, status = self.readiness.flush_state(), self.pending.status
        yield from samples.of_ingest(self.counters)
        yield from samples.of_owner(status, journal_limit_bytes, flush_state, settings.flush_s)
        yield Sample("clickcurve_journal_stalled_seconds", self.own.journal.stalled_s)
        yield from (Sample(f"clickcurve_{name}", value) for name, value in self.store.measures().items())
        yield from samples.of_jobs(self.schedule.status)
        yield from self.duties.samples()
        yield from samples.of_requests(self.problems, self.tokens.gate, self.answers, self.peers.incomplete_answers)
        yield from samples.of_connections(self.connections_refused)
        yield Sample("clickcurve_folded_rows_total", self.fold.folded)
        yield Sample("clickcurve_quarantined_journals", self.orphans.quarantined())
        if cluster is not None:
            yield from cluster.samples()
        for part in self.parts:
            yield from part.samples()
        yield Sample("clickcurve_build_info", 1, (program_version(), program_build()))
        yield from process_samples()

    def _jobs(self) -> Iterator[Job]:
        """Yields the jobs of every worker."""
        settings, store, now = self.settings, self.store, clock.running()
        phase = (self.number - 1) / settings.workers
        yield jobs.flush_job(self.owner.flush, settings.flush_s, phase, now)
        yield jobs.fold_job(lambda: self.fold.visit(self.owner), now, self.clock.now())
        yield Job("forget_ids", self._forget_ids, HOUR_S, at_start=False)
        ranked = jobs.PrefixRankings(store, lambda: self.events.ranked_within(self.tokens.prefixes()), clock.running)
        yield Job("rank", ranked.visit if self.is_first else lambda: jobs.rank_rows(store), jobs.RANK_S)
        # What could not be emptied is tried again. Each is visited once a day; mostly there is nothing to do.
        yield Job("orphaned_journals", self.orphans.empty, settings.flush_s)
        if settings.workers > 1 or self.own.cluster is not None:
            yield Job("dead_workers", self.orphans.adopt, jobs.DEAD_WORKERS_S, at_start=False)
        if settings.workers > 1:
            yield Job("publish_metrics", self._publish, jobs.PUBLISH_S, at_start=False)

    async def _forget_ids(self) -> None:
        await jobs.forget_ids(self.store, self.pending.status.oldest_us, self.clock.careful)

    async def _publish(self) -> None:
        await self.metrics.publish()
