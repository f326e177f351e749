"""Joins one worker's parts into the application that it serves: all routes, and the gateway in front of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from fastapi import APIRouter, FastAPI

from clickcurve.answers import as_json
from clickcurve.asgi import SAFE, Answer, Application, answer
from clickcurve.buckets.ladder import minutes_since
from clickcurve.keys import link_subject
from clickcurve.limiter.http.routes import DecisionService, limit_routes
from dashboard.pictures.picture_routes import picture_routes
from dashboard.questions import BrokenDown
from ingest.hit import Moment
from ingest.imports.routes import import_routes
from ingest.owner import Owner
from ingest.reading.body_budget import BodyBudget
from ingest.reading.bots import bot_judge
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import IngestCounters
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes as query_routes
from query.lists.key_kind import GROUP, LINK
from query.lists.listing import Listing
from query.lists.other_workers import nobody
from query.queries import Limits, Queries
from query.reader import Reader
from server.app.page import PageSources, include_page
from server.attributes import Attributes
from server.clock import monotonic
from server.compat.bitly import bitly_routes
from server.compat.graphite.routes import graphite_routes
from server.compat.graphite.series import SeriesReader
from server.compat.hit_sender import HitSender
from server.compat.otlp import otlp_routes
from server.compat.plausible import plausible_routes
from server.compat.prometheus.routes import prometheus_routes
from server.corrections.disavow_routes import disavow_routes
from server.corrections.erase_routes import erase_routes
from server.corrections.runner import Corrections
from server.http.export_route import export_routes
from server.http.gateway import FastRoute, Gateway, made_safe
from server.http.health_routes import Readiness
from server.http.health_routes import router as server_routes
from server.http.host_and_origin_guard import HostAndOriginGuard
from server.http.openapi import describe
from server.http.problems import Problems
from server.limiter.limiter import ServerLimiter
from server.metrics import Metrics
from server.tokens.audit import AuditLog
from server.tokens.known_tokens import KnownTokens
from server.tokens.token_routes import token_routes
from server.version import program_version
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from server.workers.unreachable import asking_all, naming_unreachable
from storage.contract import Store

ABOUT = """Counts the hits of short links and answers their totals and curves.

If tokens are in use, send `Authorization: Bearer TOKEN`. A token has one of the scopes `write` (send hits), `read`
(ask) and `admin` (erase links and groups, manage tokens).

Times are epoch seconds in UTC, ranges are half-open. Errors are `application/problem+json`. 429 and 503 mean that
certainly nothing was counted: send the same request again after `Retry-After` seconds.
"""


@dataclass(frozen=True, slots=True)
class Counting:
    """Where a worker counts its requests, for /metrics."""

    ingest: IngestCounters
    problems: Problems


@dataclass(frozen=True, slots=True)
class CountedHits:
    """Where a worker's answers come from.

    pending: what the worker holds that the store may lack. attributes: by what hits are broken down. peers: this
    machine's other workers, if any. corrections: the rules that call hits bots.
    """

    owner: Owner
    store: Store
    clock: Callable[[], float]
    pending: PendingHits
    attributes: Attributes
    peers: Peers | None
    corrections: Corrections


def create_app(
    counted: CountedHits,
    tokens: KnownTokens,
    audit: AuditLog,
    counting: Counting,
    metrics: Metrics,
    readiness: Readiness,
    limiter: ServerLimiter,
    limit_history: Limits,
    host_and_origin_guard: HostAndOriginGuard,
    queries: Queries,
    breakdowns: BreakdownQueries | None,
    page: PageSources,
) -> Gateway:
    """Joins the parts into the application that uvicorn runs.

    tokens: those that are known; audit: where administering is noted. breakdowns: None where hits are not broken down.
    page: what the page shows besides answers.
    """
    owner, store, clock, attributes = counted.owner, counted.store, counted.clock, counted.attributes
    room = BodyBudget(monotonic)
    hits = HitRoutes(owner, clock, minutes_since, bot_judge(), counting.ingest, reader=attributes.reader, room=room)

    def moment() -> Moment:
        return Moment.at(clock(), minutes_since)

    app = _without_routes()
    counting.problems.install(app)
    app.include_router(query_routes(queries, _erasing(counted), audit.note_request))
    app.include_router(export_routes(store, owner.flush, clock, attributes.bounded))
    if breakdowns is not None:
        shown = make_breakdowns(counted, page.least) or breakdowns
        asked = shown, ChangeQueries(queries, shown).why, attributes.dimensions, attributes.visitors
        page = replace(page, broken_down=BrokenDown(*asked, bool(page.least)))
    app.include_router(picture_routes(queries))
    other_tools = _other_tools(queries, breakdowns, counting.problems, HitSender(hits), attributes)
    for router in other_tools:
        app.include_router(router)
    in_docs = [route for router in other_tools for route in router.routes]
    include_page(app, queries, limit_history, limiter.limiter.events.rules, page, clock, in_docs)
    app.include_router(token_routes(tokens, audit, clock))
    kept_value = attributes.referrers.kept_value
    app.include_router(disavow_routes(counted.corrections, audit, attributes.dimensions, kept_value, clock))
    app.include_router(erase_routes(store, audit, kept_value, clock))
    app.include_router(
        import_routes(owner, moment, store.ladder, counting.ingest, room, attributes.reader, attributes.hosts)
    )
    service = DecisionService(limiter.limiter, limiter.addresses, limiter.dialect)
    app.include_router(limit_routes(service))
    app.include_router(server_routes(readiness, metrics))
    questions = Questions(queries, breakdowns, limit_history, attributes.visitors)
    describe(app, questions.paths())
    reads_first: Application = QueryEndpoint(questions, counting.problems.answer, made_safe(app))
    total = ask_total(queries)
    if counted.peers is not None:
        reads_first, total = naming_unreachable(reads_first), asking_all(total)
    fast_routes = [
        FastRoute("POST", "/v1/limit/", "", service.answer),
        FastRoute("GET", "/v1/links/", "/total", total),
    ]
    return Gateway(tokens.gate, counting.problems, hits, reads_first, limiter, host_and_origin_guard, fast_routes)


def _erasing(counted: CountedHits) -> Callable[[Sequence[str]], Awaitable[None]]:
    """Makes what erases rows of links and groups (stored keys), with what is called bots of them."""

    async def erase_keys(keys: Sequence[str], last: Sequence[str]) -> None:
        await counted.owner.erase(*keys, last=last)
        await counted.pending.erased_here(*keys, *last)
        if counted.peers is not None:
            await counted.peers.tell_erased(*keys, *last)

    async def erase(rows: Sequence[str]) -> None:
        await counted.corrections.erase_with(rows, erase_keys)

    return erase


def _other_tools(
    queries: Queries,
    breakdowns: BreakdownQueries | None,
    problems: Problems,
    sender: HitSender,
    attributes: Attributes,
) -> tuple[APIRouter, ...]:
    """Makes the routes in the shapes of other tools."""
    return (
        graphite_routes(SeriesReader(queries, breakdowns)),
        prometheus_routes(queries, breakdowns, problems.answer),
        bitly_routes(queries, breakdowns, attributes.hosts),
        plausible_routes(sender, attributes.hosts),
        otlp_routes(sender),
    )


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


def make_queries(counted: CountedHits) -> Queries:
    """Joins what a worker's answers are made of."""
    store, pending, peers = counted.store, counted.pending, counted.peers
    # Of links there can be too many to ask others for all that they hold; groups are few.
    asked = nobody if peers is None else peers.groups
    others_pending = None if peers is None else peers.pending
    is_corrected = counted.corrections.is_corrected
    reader = Reader(store.rows, pending.pending, counted.owner.revisit, store.ladder, others_pending, is_corrected)

    def flushes() -> int:
        return pending.flushes

    links, groups = (
        Listing(kind, store, pending.pending, buffered, flushes, others, others_within, reader.corrected)
        for kind, buffered, others, others_within in (
            (LINK, pending.buffered_links, nobody, None if peers is None else peers.links_within),
            (GROUP, pending.buffered_groups, asked, None),
        )
    )
    return Queries(reader, links, groups, counted.clock)


def make_breakdowns(counted: CountedHits, least: int = 0) -> BreakdownQueries | None:
    """Joins what answers about breakdowns are made of; None where hits are not broken down. least: as of the reader."""
    attributes, store, pending = counted.attributes, counted.store, counted.pending
    if not attributes.dimensions:
        return None
    readers = pending.pending, pending.pending_breakdowns
    others = counted.peers, counted.corrections.is_corrected
    reader = BreakdownReader(store.rows, *readers, store.ladder, attributes.bounded, *others, least)
    kept_value = attributes.referrers.kept_value
    return BreakdownQueries(reader, attributes.dimensions, attributes.since, counted.clock, kept_value)
