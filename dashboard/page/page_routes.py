"""The routes of the page: all links, a link, the limiter's rules, the node, and the files that pages load."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, HTTPException, Request, Response

from clickcurve.access import access
from clickcurve.answers.written import CSV, CsvForm, Tabular, as_csv
from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown
from clickcurve.csv_file import csv_form_of, disposition
from clickcurve.routes import RawPathRoute, raw_query, subject_in_path
from clickcurve.waiting import computed
from dashboard.page.pages import Pages, Values
from dashboard.page.several.names import several_view
from dashboard.page.templates import Templates
from dashboard.page.view import PageView, view_of

Clock = Callable[[], float]

# Pages may run and fetch nothing but this server's own files.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# A page names links, and the address of a shared one is its key: neither is told to other sites. Of its own forms
# the server is told the origin, which it checks.
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_WORTH_BYTES = 1_000


def page_routes(
    pages: Pages,
    templates: Templates,
    clock: Clock,
    signed_in: Callable[[Scope], bool],
    may_share: Callable[[Scope], bool],
    missing_s: Callable[[], float],
) -> APIRouter:
    """Makes the router. signed_in: whether a request came with a token that it can give up; may_share: to whom it is
    offered to share what a page shows.

    missing_s: of how many last seconds the answers of the request under way may lack hits; 0: they lack none.
    """
    router = APIRouter(route_class=page_route(templates))

    def asked_view(request: Request) -> PageView:
        return view_of(raw_query(request), pages.home_tz)

    async def page(request: Request, template: str, view: PageView, values: Values) -> Response:
        shown = {
            "view": view,
            "updated": updated_at(clock(), view),
            "signed_in": signed_in(request.scope),
            "may_share": may_share(request.scope),
            "customer": bool(access().prefix),  # of the server as a whole its token shows nothing
            "missing_s": missing_s(),
        }
        return await html(request, templates, template, **shown, **values)

    @router.get("/", include_in_schema=False)
    async def overview(request: Request) -> Response:
        view = asked_view(request)
        if view.q or view.prefix:  # addresses from before searches had a page
            return Response(status_code=303, headers={"Location": f"links{view.address()}"})
        values = await pages.overview(view, int(clock()))
        return await page(request, "overview.html", view, values)

    @router.get("/links", include_in_schema=False)
    async def table(request: Request) -> Response:
        view = asked_view(request)
        return await page(request, "table.html", view, await pages.table(view, int(clock())))

    @router.get("/links/{key}", include_in_schema=False)
    @router.get("/groups/{name}", include_in_schema=False)
    async def one(request: Request) -> Response:
        view = asked_view(request)
        return await page(request, "one.html", view, await pages.one(subject_in_path(request), view, int(clock())))

    @router.get("/limits", include_in_schema=False)
    async def limits(request: Request) -> Response:
        view = asked_view(request)
        return await page(request, "limits.html", view, await pages.limits(view, int(clock())))

    @router.get("/system", include_in_schema=False)
    async def system(request: Request) -> Response:
        return await page(request, "system.html", replace(asked_view(request), tz=""), pages.node())

    @router.get("/node", include_in_schema=False)
    async def node(request: Request) -> Response:
        return Response(status_code=303, headers={"Location": "system"})

    @router.get("/compare", include_in_schema=False)
    async def several(request: Request) -> Response:
        view = several_view(raw_query(request), pages.home_tz)
        return await page(request, "compare.html", view, await pages.several.page(view, int(clock())))

    _add_tables(router, pages, clock)
    _add_files(router, templates)
    return router


def _add_tables(router: APIRouter, pages: Pages, clock: Clock) -> None:
    """Adds the numbers of pages as CSV that no route for programs has."""

    @router.get("/links.csv", include_in_schema=False)
    async def table_csv(request: Request) -> Response:
        form, query = csv_form_of(raw_query(request))
        answer, zone = await pages.table_csv(view_of(query, pages.home_tz), int(clock()))
        return await csv_file(request, answer, zone, form)

    @router.get("/compare.csv", include_in_schema=False)
    async def several_csv(request: Request) -> Response:
        form, query = csv_form_of(raw_query(request))
        answer, zone = await pages.several.csv(several_view(query, pages.home_tz), int(clock()))
        return await csv_file(request, answer, zone, form._replace(times_in=zone))


def _add_files(router: APIRouter, templates: Templates) -> None:
    """Adds the files that pages load."""

    @router.get("/static/{name}", include_in_schema=False)
    async def asset(request: Request) -> Response:
        media, content = templates.assets.get(request.path_params["name"], ("", b""))
        if not media:
            raise HTTPException(404)
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}  # the version is in the address
        return _as_sent(request, content, media, kept)


def updated_at(now: float, view: PageView) -> str:
    """Writes when a page was made, in the zone of its view, which questions have judged."""
    return f"{datetime.fromtimestamp(now, ZoneInfo(view.zone_name or 'UTC')):%H:%M:%S %Z}"


async def html(
    request: Request, templates: Templates, template: str, status: int = 200, /, **values: object
) -> Response:
    """Renders a page as an answer, with the ways from its address to the server's root.

    In a thread: the first page waits for its template to be compiled, 80 ms, and one of 1,000 rows takes 20 ms.
    """
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()  # in it a key has its slashes encoded
    root, base = "../" * (raw.count(b"/") - 1), str(request.base_url).rstrip("/")

    def written() -> Response:
        text = templates.render(template, root=root, base=base, **values)
        return _as_sent(request, text.encode(), "text/html; charset=utf-8", status=status)

    return await computed("writing a page", written)


async def csv_file(request: Request, answer: Tabular, zone: ZoneInfo, form: CsvForm) -> Response:
    """Returns CSV as an answer that browsers save under a name. zone: of the days in it."""

    def written() -> Response:
        return _as_sent(request, as_csv(answer, form), CSV, {"Content-Disposition": disposition(answer, zone)})

    return await computed("writing a table", written)


def _as_sent(
    request: Request, body: bytes, media: str, more: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """Returns an answer with the headers of pages and more; its body is compressed if the reader takes that."""
    headers = {**_HEADERS, **(more or {})}
    if len(body) >= _WORTH_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media)


async def problem_page(templates: Templates, request: Request, error: ClickcurveError) -> Response:
    """Returns an error as a page. One of a share leads nowhere else."""
    is_shared = request.scope["path"].startswith("/share/")
    return await html(request, templates, "problem.html", error.status, error=error, shared=is_shared)


def page_route(templates: Templates) -> type[RawPathRoute]:
    """Returns a kind of route that answers an error as a page, with the status that a program would get."""

    class PageRoute(RawPathRoute):
        def get_route_handler(self) -> Any:
            answered = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    return await answered(request)
                except JournalUnknown:
                    raise
                except ClickcurveError as error:
                    return await problem_page(templates, request, error)

            return handler

    return PageRoute
