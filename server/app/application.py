"""Joins one worker's parts into the application that it serves: all routes, and the gateway in front of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from clickcurve.answers.written import as_json
from clickcurve.asgi import SAFE, Answer, Application, answer
from clickcurve.keys import link_subject
from dashboard.questions import BrokenDown, CountedEvents
from query.breakdowns.why import ChangeQueries
from query.http.query_endpoint import QueryEndpoint
from query.queries import Queries
from server import clock
from server.app.page import PageSources, include_page
from server.app.parts import ROUTES
from server.app.worker import Worker
from server.http.gateway import FastRoute, Gateway, made_safe
from server.http.openapi import describe
from server.http.shares import Shares
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
    queries, problems, limiter = worker.queries, worker.problems, worker.limiter
    app = _without_routes()
    problems.install(app)
    routers = [router for part in worker.parts for router in part.routes]
    for router in routers:
        app.include_router(router)
    rules, in_docs = limiter.limiter.events.rules, [route for router in routers for route in router.routes]
    include_page(app, queries, worker.limit_history, rules, _page_sources(worker), worker.clock, in_docs, ROUTES)
    describe(app, worker.questions.paths(), ROUTES.scope_of)
    endpoint = QueryEndpoint(worker.questions, problems.answer, made_safe(app), clock.monotonic)
    reads_first: Application = endpoint
    total = ask_total(queries)
    if worker.others is not None:
        reads_first, total = naming_unreachable(reads_first), asking_all(total)
    fast_routes = [
        FastRoute("POST", "/v1/limit/", "", limiter.service.answer),
        FastRoute("GET", "/v1/links/", "/total", total),
    ]
    gate, hits, key_form = worker.tokens.gate, worker.hits, worker.attributes.reader.key_form
    guarded = limiter, worker.guard, fast_routes, worker.answers, key_form
    return Gateway(gate, problems, hits, reads_first, ROUTES, *guarded)


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
        _counted_events(worker),
    )


def _counted_events(worker: Worker) -> CountedEvents | None:
    names = worker.settings.events_names
    questions = worker.queries.what_came(worker.named_breakdowns)
    return CountedEvents(questions, {name: worker.settings.unit(name) for name in names}) if names else None


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
