"""Joins the page to the server: its answers, its readers' tokens, its shares, and the numbers of the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from clickcurve.answers.counts import CurveAnswer
from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.limiter.rule import Rule
from clickcurve.visible import visible
from clickcurve.waiting import computed, in_thread
from dashboard.page.login_routes import login_routes
from dashboard.page.manual.manual import Manual
from dashboard.page.manual.manual_routes import manual_routes
from dashboard.page.page_routes import html, page_routes, problem_page
from dashboard.page.pages import NodeFacts, Pages
from dashboard.page.share_routes import Shared, SharedAddress, share_routes
from dashboard.page.templates import Templates
from dashboard.questions import BrokenDown, CountedEvents
from query.parameters import LIMIT_CURVE
from query.queries import Limits, Queries
from server.clock import TrustedClock, monotonic
from server.http.docs_page import docs_values
from server.http.gateway import cookie_of
from server.http.shares import MAX_DAYS, Shares
from server.mcp.help_pages import MANUAL
from server.metrics import Metrics
from server.tokens.audit import NOBODY, AuditLog
from server.tokens.gate import Gate
from server.tokens.route_access import RouteTable
from server.tokens.token import Scope as Allowed
from server.version import program_version
from server.workers.unreachable import some_unreachable

_PREFIX = "clickcurve_"


@dataclass(frozen=True, slots=True)
class PageSources:
    """What the page shows beside answers.

    store: what kind it is. flush_s: what a worker that was not heard may hold. broken_down: None where no hits
    are broken down. hosts_in_key: keys begin with their hosts. least: values with fewer hits are not named.
    home_tz: the zone where an address names none. events: None where none are counted.
    """

    gate: Gate
    shares: Shares
    audit: AuditLog
    metrics: Metrics
    store: str
    flush_s: float
    hosts_in_key: bool = False
    least: int = 0
    broken_down: BrokenDown | None = None
    home_tz: str = ""
    events: CountedEvents | None = None


def include_page(
    app: FastAPI,
    queries: Queries,
    limits: Limits,
    rules: Callable[[], Mapping[str, Sequence[Rule]]],
    sources: PageSources,
    trusted: TrustedClock,
    routes: Sequence[BaseRoute],
    table: RouteTable,
) -> None:
    """Adds the page's routes to the application, and /docs. routes: those of all parts."""
    gate, templates = sources.gate, Templates()

    async def limit_curve(event: str, query: bytes) -> CurveAnswer:
        subject = await queries.limit_subject(event, query, limits, LIMIT_CURVE)
        return await queries.curve(subject, query, LIMIT_CURVE)

    def check(token: str) -> None:
        gate.check(Allowed.read, b"Bearer " + token.encode("latin-1", "replace"))

    def signed_in(scope: Scope) -> bool:
        return gate.closed and cookie_of(scope) is not None

    def may_share(scope: Scope) -> bool:
        token = dict(scope["headers"]).get(b"authorization") or cookie_of(scope)
        return gate.allows(Allowed.admin, token)

    def missing_s() -> float:
        return sources.flush_s if some_unreachable() else 0

    sharing, clock = PageSharing(sources.shares, gate, sources.audit, trusted), trusted.now
    shown = sources.broken_down, sources.hosts_in_key, sources.home_tz, sources.events
    pages = Pages(queries, limit_curve, rules, lambda: _facts(sources), monotonic, *shown)
    app.include_router(page_routes(pages, templates, clock, signed_in, may_share, missing_s))
    app.include_router(share_routes(pages, templates, clock, sharing, signed_in, missing_s))
    app.include_router(manual_routes(Manual(MANUAL), templates, signed_in))
    app.include_router(login_routes(templates, check, lambda: gate.closed))
    _answer_strays(app, templates)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        values = await computed(
            "reading the document", lambda: docs_values(app.openapi(), routes, address, table.scope_of)
        )
        return await html(request, templates, "docs.html", signed_in=signed_in(request.scope), **values)


@dataclass(eq=False)
class PageSharing:
    """What the page's form shares, given a token of scope admin."""

    max_days = MAX_DAYS

    shares: Shares
    gate: Gate
    audit: AuditLog
    clock: TrustedClock

    def needs_token(self) -> bool:
        return self.gate.closed

    def check(self, token: str) -> str:
        return self.gate.check(Allowed.admin, b"Bearer " + token.encode("latin-1", "replace")).token or NOBODY

    async def shared(self, signed: str) -> Shared | None:
        share = await self.shares.shared(signed, int(self.clock.now()))
        return None if share is None else Shared(share.kind, share.name, share.events)

    async def addresses(self, kind: str, name: str) -> list[SharedAddress]:
        shares = await in_thread("reading shares", self.shares.addresses, kind, name, int(self.clock.now()))
        return [SharedAddress(share.id, share.until, signed, share.events) for share, signed in shares]

    async def share(self, what: Shared, days: int, by: str) -> SharedAddress:
        about = f"{what.kind} {what.name}" + ", with events" * what.events
        await in_thread("writing the audit log", self.audit.note, by, "share made", about)
        now, careful = int(self.clock.now()), int(self.clock.careful())
        add = partial(self.shares.add, events=what.events)
        signed = await in_thread("sharing", add, what.kind, what.name, days, now, careful)
        share_id, until, _ = signed.split(".")
        return SharedAddress(share_id, until, signed, what.events)

    async def revoke(self, share_id: str, by: str) -> None:
        await in_thread("writing the audit log", self.audit.note, by, "share revoked", share_id)
        await in_thread("revoking a share", self.shares.remove, share_id)


class NotHere(ClickcurveError, status=404, title="not found"):
    """A browser asks for a page that there is not."""


def _answer_strays(app: FastAPI, templates: Templates) -> None:
    """Answers a browser that asks for what there is not with a page; programs get a problem document."""
    as_problem = app.exception_handlers[HTTPException]

    async def on_stray(request: Request, error: Exception) -> Response:
        answer: Response = await as_problem(request, error)  # type: ignore[misc]  # ours are all async
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return answer
        return await problem_page(templates, request, NotHere(f"There is no {visible(request.url.path)} here."))

    app.add_exception_handler(404, on_stray)


def _facts(sources: PageSources) -> NodeFacts:
    workers, states = {}, {}
    for journal, samples in sorted(sources.metrics.by_journal().items()):
        workers[journal] = {each.name.removeprefix(_PREFIX): each.value for each in samples if not each.labels}
        states[journal] = next((each.labels[1] for each in samples if each.name == f"{_PREFIX}owner_info"), "unknown")
    return NodeFacts(workers, states, sources.store, program_version())
