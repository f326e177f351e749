"""The parts of a worker: each feature with what it is told, in the order of the documents that list routes.

A part knows no other. The page is joined in `server.app.page`, for it shows the answers of all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from fastapi import APIRouter

from clickcurve.buckets.ladder import minutes_since
from clickcurve.limiter.http.routes import limit_routes
from dashboard.pictures.picture_routes import picture_routes
from ingest.agents.bots import bot_judge
from ingest.hit import Moment
from ingest.imports.access_log import AccessLog
from ingest.imports.routes import import_routes
from query.http.routes import routes as query_routes
from server import clock
from server.alerts import watching
from server.app import access
from server.compat import bitly, log_lines, otlp, otlp_logs, statsd, syslog
from server.compat.at_most_once import Listening, Receiver
from server.compat.foreign import doors
from server.compat.graphite import routes as graphite
from server.compat.graphite.series import SeriesReader
from server.compat.hit_sender import HitSender
from server.compat.prometheus import routes as prometheus
from server.corrections import disavow_routes, erase_routes
from server.corrections.erasing import Erasing
from server.events.deleting import DeletionAnswers
from server.http import clock_routes
from server.http.export_route import export_routes
from server.http.health_routes import router as server_routes
from server.http.write_limit import Doorkeeper
from server.job import Job
from server.limiter import history, limiter
from server.mcp import mcp_routes
from server.mcp.help_pages import MANUAL, HelpPages
from server.metrics import CORE_FAMILIES, Sample
from server.process import cluster_owners, duty, kept_clock
from server.settings.table import Settings
from server.timeline import note_routes
from server.tokens import token_routes
from server.tokens.route_access import RouteTable
from server.tokens.token_jobs import token_jobs
from server.version import program_version

if TYPE_CHECKING:
    from server.app.worker import Worker


async def _nothing() -> None:
    return


async def _begun(patience_s: float) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One feature in one worker.

    begin: called before the first request, with the seconds that it may wait for the store; raises ClickcurveError
    where the worker must not start. close: called at a stop, before the last flush.
    """

    routes: Sequence[APIRouter] = ()
    jobs: Iterable[Job] = ()
    samples: Callable[[], Iterable[Sample]] = tuple
    begin: Callable[[float], Awaitable[None]] = _begun
    close: Callable[[], Awaitable[None]] = _nothing


# What the routes of all parts ask of tokens.
ROUTES = RouteTable(
    access.WRITING,
    access.READING,
    note_routes.ACCESS,
    access.PAGE,
    access.SERVER,
    graphite.ACCESS,
    prometheus.ACCESS,
    bitly.ACCESS,
    doors.ACCESS,
    otlp.ACCESS,
    log_lines.ACCESS,
    otlp_logs.ACCESS,
    mcp_routes.ACCESS,
    token_routes.ACCESS,
    disavow_routes.ACCESS,
    erase_routes.ACCESS,
    limiter.ACCESS,
    clock_routes.ACCESS,
)

# What the core and all parts can say on /metrics.
FAMILIES = {
    **CORE_FAMILIES,
    **kept_clock.FAMILIES,
    **limiter.FAMILIES,
    **history.FAMILIES,
    **statsd.FAMILIES,
    **syslog.FAMILIES,
    **cluster_owners.FAMILIES,
    **duty.FAMILIES,
    **watching.FAMILIES,
}


def parts_of(worker: Worker) -> list[Part]:
    """Makes the parts of a worker."""
    attributes, queries, breakdowns = worker.attributes, worker.queries, worker.breakdowns
    owner, store, settings, audit = worker.owner, worker.store, worker.settings, worker.audit
    now, key_form = worker.clock.now, attributes.reader.key_form
    return [
        _attributes(worker),
        Part(
            routes=[
                query_routes(queries, worker.erase, audit.note_request, worker.marks.deleted),
                export_routes(store, owner.flush, now, attributes.bounded, worker.events.names, key_form),
            ]
        ),
        _timeline(worker),
        Part(routes=[picture_routes(queries, settings.home_tz, _amounts(settings))]),
        Part(routes=[graphite.graphite_routes(SeriesReader(queries, breakdowns))]),
        Part(routes=[prometheus.prometheus_routes(queries, breakdowns, worker.problems.answer)]),
        Part(routes=[bitly.bitly_routes(queries, breakdowns, attributes.hosts)]),
        _foreign_doors(worker),
        Part(routes=[otlp.otlp_routes(HitSender(worker.hits))]),
        Part(routes=[_assistants(worker)]),
        _statsd(worker),
        _syslog(worker),
        _tokens(worker),
        _events(worker),
        _corrections(worker),
        _imports(worker),
        _limiter(worker),
        _alerts(worker),
        Part(routes=[server_routes(worker.readiness, worker.metrics)]),
        _clock(worker),
    ]


def _attributes(worker: Worker) -> Part:
    attributes = worker.attributes

    async def begin(patience_s: float) -> None:
        await attributes.begin(bool(worker.pending.status.buffered_hits), patience_s)

    return Part(jobs=attributes.jobs(), begin=begin)


def _timeline(worker: Worker) -> Part:
    notes, key_form = worker.notes, worker.attributes.reader.key_form
    routes = note_routes.note_routes(notes, worker.audit.note_request, worker.clock.now, key_form)
    return Part(routes=[routes], jobs=notes.jobs())


def _foreign_doors(worker: Worker) -> Part:
    settings, hosts, ignored = worker.settings, worker.attributes.hosts, worker.counters.ignored_events
    keeper, sender = Doorkeeper(worker.tokens.gate, worker.guard, worker.limiter), HitSender(worker.hits)
    units = {name: settings.unit(name) for name in settings.events_names}
    rules = doors.DoorSettings(
        on=settings.doors,
        dub_secret=settings.dub_secret,
        units=units,
        sites=settings.matomo_sites,
        keys=settings.doors_keys,
    )
    foreign = doors.ForeignDoors(sender, hosts, keeper, ignored, rules)
    return Part(routes=[foreign.router()])


def _amounts(settings: Settings) -> Callable[[str, int], str]:
    return lambda event, amount: settings.unit(event).shown(amount)


def _assistants(worker: Worker) -> APIRouter:
    units = {name: worker.settings.unit(name) for name in worker.settings.events_names}
    return mcp_routes.mcp_routes(program_version(), HelpPages(MANUAL), worker.questions, ROUTES.check, units)


def _statsd(worker: Worker) -> Part:
    return _listening(
        worker, "statsd", worker.settings.statsd, statsd.StatsdReceiver(HitSender(worker.hits), clock.monotonic)
    )


def _syslog(worker: Worker) -> Part:
    attributes = worker.attributes
    access_log = AccessLog(bot_judge(), hosts=attributes.hosts, texts_kept=syslog.TEXTS_KEPT)
    receiver = syslog.SyslogReceiver(HitSender(worker.hits), access_log, attributes.reader)
    return _listening(worker, "syslog", worker.settings.syslog, receiver)


def _listening(worker: Worker, name: str, address: tuple[str, int] | None, receiver: Receiver) -> Part:
    """Makes a part that listens in the first worker of a server, and is idle in others."""
    its = Listening(name, address if worker.is_first else None, receiver, insecure=worker.settings.insecure)
    return Part(jobs=its.jobs(), samples=its.samples, begin=its.begin, close=its.close)


def _tokens(worker: Worker) -> Part:
    tokens, audit, limits = worker.tokens, worker.audit, worker.limiter
    return Part(
        routes=[token_routes.token_routes(tokens, audit, worker.clock.now, worker.clock.careful)],
        jobs=token_jobs(tokens, audit, lambda: limits.rules, is_first=worker.is_first),
        begin=tokens.begin,
    )


def _events(worker: Worker) -> Part:
    answers = DeletionAnswers(worker.owner, worker.store, worker.settings.events_names)
    return Part(jobs=chain(worker.events.jobs(), answers.jobs()), begin=worker.events.begin)


def _corrections(worker: Worker) -> Part:
    corrections, audit, attributes, now = worker.corrections, worker.audit, worker.attributes, worker.clock.now
    kept_value = attributes.referrers.kept_value
    erasing = Erasing(
        worker.owner,
        worker.store,
        attributes.bounded,
        audit,
        worker.clock.careful,
        worker.is_first,
        worker.orphans.on_disk_quarantined,
        corrections.refresh,
        running=clock.running,
    )
    return Part(
        routes=[
            disavow_routes.disavow_routes(corrections, audit, attributes.dimensions, kept_value, now, worker.notes),
            erase_routes.erase_routes(worker.store, audit, kept_value, now, worker.notes, attributes.reader.key_form),
        ],
        jobs=chain(corrections.jobs(), erasing.jobs()),
        begin=corrections.begin,
    )


def _imports(worker: Worker) -> Part:
    def moment() -> Moment:
        return Moment.at(worker.clock.now(), minutes_since)

    attributes = worker.attributes
    reading = worker.counters, worker.room, attributes.reader
    lines, takes_lines = log_lines.LineCounter(worker.owner, moment, *reading), log_lines.LOGS in worker.settings.doors
    return Part(
        routes=[
            import_routes(worker.marks, moment, worker.store.ladder, *reading, attributes.hosts),
            log_lines.log_routes(lines, attributes.hosts, takes_lines),
            otlp_logs.otlp_log_routes(lines, attributes.hosts, takes_lines),
        ]
    )


def _limiter(worker: Worker) -> Part:
    limits, kept = worker.limiter, worker.limit_history
    return Part(
        routes=[limit_routes(limits.service)],
        jobs=kept.jobs(),
        samples=lambda: chain(limits.samples(), kept.samples()),
        close=kept.close,
    )


def _alerts(worker: Worker) -> Part:
    alerting = watching.Alerting(
        worker.settings, worker.store, worker.queries, worker.named_breakdowns, worker.clock, worker.notes
    )
    return Part(jobs=alerting.jobs(), samples=alerting.samples, close=alerting.close)


def _clock(worker: Worker) -> Part:
    kept = worker.kept_clock
    return Part(
        routes=[clock_routes.clock_routes(kept.accept, worker.clock, worker.audit)],
        jobs=kept.jobs(lambda: worker.owner.status.flushes, worker.store),
        samples=kept.samples,
    )
