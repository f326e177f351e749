"""Joins one worker's parts into the application that it serves: all routes, and the gateway in front of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fastapi import FastAPI

from clickcurve.answers import as_json
from clickcurve.asgi import SAFE, Answer, Application, answer
from clickcurve.buckets.ladder import minutes_since
from clickcurve.keys import link_subject
from clickcurve.limiter.http.routes import DecisionService, limit_routes
from dashboard.pictures.picture_routes import picture_routes
from dashboard.questions import BrokenDown
from ingest.hit import Moment
from ingest.imports.routes import import_routes
from query.breakdowns.why import ChangeQueries
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes as query_routes
from query.queries import Queries
from server import clock
from server.app.page import PageSources, include_page
from server.app.worker import Worker
from server.compat.bitly import bitly_routes
from server.compat.foreign.doors import ForeignDoors
from server.compat.graphite.routes import graphite_routes
from server.compat.graphite.series import SeriesReader
from server.compat.hit_sender import HitSender
from server.compat.otlp import otlp_routes
from server.compat.plausible import plausible_routes
from server.compat.prometheus.routes import prometheus_routes
from server.corrections.disavow_routes import disavow_routes
from server.corrections.erase_routes import erase_routes
from server.http.clock_routes import clock_routes
from server.http.export_route import export_routes
from server.http.gateway import FastRoute, Gateway, made_safe
from server.http.health_routes import router as server_routes
from server.http.host_and_origin_guard import HostAndOriginGuard
from server.http.openapi import describe
from server.http.shares import Shares
from server.http.write_limit import Doorkeeper
from server.mcp.help_pages import MANUAL, HelpPages
from server.mcp.mcp_routes import mcp_routes
from server.tokens.token_routes import token_routes
from server.version import program_version
from server.workers.unreachable import asking_all, naming_unreachable

ABOUT = """Counts the hits of short links and answers their totals and curves.

If tokens are in use, send `Authorization: Bearer TOKEN`. A token has one of the scopes `write` (send hits), `read`
(ask) and `admin` (erase links and groups, manage tokens).

Times are epoch seconds in UTC, ranges are half-open. Errors are `application/problem+json`. 429 and 503 mean that
certainly nothing was counted: send the same request again after `Retry-After` seconds.
"""


def create_app(worker: Worker) -> Gateway:
    """Joins the parts of a worker into the application that uvicorn runs."""
    settings, owner, store, attributes = worker.settings, worker.owner, worker.store, worker.attributes
    queries, breakdowns, problems, audit = worker.queries, worker.breakdowns, worker.problems, worker.audit
    kept_value = attributes.referrers.kept_value

    def moment() -> Moment:
        return Moment.at(worker.clock.now(), minutes_since)

    app = _without_routes()
    problems.install(app)
    app.include_router(query_routes(queries, _erasing(worker), audit.note_request))
    app.include_router(export_routes(store, owner.flush, worker.clock.now, attributes.bounded))
    app.include_router(picture_routes(queries, settings.home_tz))
    sender = HitSender(worker.hits)
    questions = Questions(queries, breakdowns, worker.limit_history, attributes.visitors)
    guard = HostAndOriginGuard(settings.host, settings.allowed_hosts, settings.cors_origins)
    other_tools = (
        graphite_routes(SeriesReader(queries, breakdowns)),
        prometheus_routes(queries, breakdowns, problems.answer),
        bitly_routes(queries, breakdowns, attributes.hosts),
        plausible_routes(sender, worker.counters, attributes.hosts),
        _foreign_doors(worker, sender, guard).router(),
        otlp_routes(sender),
        mcp_routes(program_version(), HelpPages(MANUAL), questions),
    )
    for router in other_tools:
        app.include_router(router)
    in_docs = [route for router in other_tools for route in router.routes]
    limiter, rules = worker.limiter, worker.limiter.limiter.events.rules
    include_page(app, queries, worker.limit_history, rules, _page_sources(worker), worker.clock, in_docs)
    app.include_router(token_routes(worker.tokens, audit, worker.clock.now, worker.clock.careful))
    app.include_router(disavow_routes(worker.corrections, audit, attributes.dimensions, kept_value, worker.clock.now))
    app.include_router(erase_routes(store, audit, kept_value, worker.clock.now))
    reading = worker.counters, worker.room, attributes.reader, attributes.hosts
    app.include_router(import_routes(owner, moment, store.ladder, *reading))
    service = DecisionService(limiter.limiter, limiter.addresses, limiter.dialect)
    app.include_router(limit_routes(service))
    app.include_router(server_routes(worker.readiness, worker.metrics))
    app.include_router(clock_routes(worker.kept_clock.accept, worker.clock, audit))
    describe(app, questions.paths())
    reads_first: Application = QueryEndpoint(questions, problems.answer, made_safe(app), clock.monotonic)
    total = ask_total(queries)
    if worker.others is not None:
        reads_first, total = naming_unreachable(reads_first), asking_all(total)
    fast_routes = [
        FastRoute("POST", "/v1/limit/", "", service.answer),
        FastRoute("GET", "/v1/links/", "/total", total),
    ]
    gate, answers = worker.tokens.gate, worker.answers
    return Gateway(
        gate, problems, worker.hits, reads_first, limiter, guard, fast_routes, answers, attributes.reader.key_form
    )


def _foreign_doors(worker: Worker, sender: HitSender, guard: HostAndOriginGuard) -> ForeignDoors:
    settings, hosts = worker.settings, worker.attributes.hosts
    keeper = Doorkeeper(worker.tokens.gate, guard, worker.limiter)
    return ForeignDoors(sender, hosts, keeper, worker.counters.ignored_events, settings.doors, settings.dub_secret)


def _page_sources(worker: Worker) -> PageSources:
    settings, attributes, named = worker.settings, worker.attributes, worker.named_breakdowns
    broken_down = None
    if named is not None:
        why = ChangeQueries(worker.queries, named).why
        broken_down = BrokenDown(named, why, attributes.dimensions, attributes.visitors, bool(settings.page_least))
    return PageSources(
        worker.tokens.gate,
        Shares(worker.store),
        worker.audit,
        worker.metrics,
        settings.store.partition(":")[0],
        float(settings.flush_s),
        attributes.hosts.in_key,
        settings.page_least,
        broken_down,
        settings.home_tz,
    )


def _erasing(worker: Worker) -> Callable[[Sequence[str]], Awaitable[None]]:
    """Makes what erases rows of links and groups (stored keys), with what is called bots of them."""

    async def erase_keys(keys: Sequence[str], last: Sequence[str]) -> None:
        await worker.owner.erase(*keys, last=last)
        await worker.pending.erased_here(*keys, *last)
        if worker.others is not None:
            await worker.others.tell_erased(*keys, *last)

    async def erase(rows: Sequence[str]) -> None:
        await worker.corrections.erase_with(rows, erase_keys)

    return erase


def _without_routes() -> FastAPI:
    return FastAPI(
        title="Clickcurve",
        version=program_version(),
        description=ABOUT,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )


def ask_total(queries: Queries) -> Callable[[str, bytes], Awaitable[Answer]]:
    """Makes the fast route of the total of a link over its life."""

    async def lifetime(key: str, _: bytes) -> Answer:
        return answer(200, as_json(await queries.total(link_subject(key), b"")), more=SAFE)

    return lifetime
