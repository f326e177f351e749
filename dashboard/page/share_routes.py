"""One link or group for anybody who has the address, read only, until the day in it: a page, its tables, pictures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, quote, unquote
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.keys import Subject
from clickcurve.routes import raw_query
from dashboard.page.page_routes import Clock, csv_file, html, page_route, updated_at
from dashboard.page.pages import Pages
from dashboard.page.templates import Templates
from dashboard.page.view import view_of
from dashboard.pictures.picture_routes import svg_of_badge, svg_of_curve
from dashboard.questions import link_or_group


class NotShared(ClickcurveError, status=404, title="not shared"):
    """An address of a share that is not, or no longer, good."""


def share_routes(
    pages: Pages,
    templates: Templates,
    clock: Clock,
    shared: Callable[[str], Awaitable[tuple[str, str] | None]],
    missing_s: Callable[[], float],
) -> APIRouter:
    """Makes the router; missing_s as of `page_routes`.

    shared: the kind and name that a signed text shares; None for one that is not good now.
    """
    router = APIRouter(route_class=page_route(templates))

    async def subject(request: Request) -> Subject:
        kind_and_name = await shared(str(request.path_params["signed"]))
        if kind_and_name is None:
            raise NotShared("This link has expired, was revoked, or is incomplete.")
        return link_or_group(*kind_and_name)

    @router.get("/share/{signed}/curve.svg", include_in_schema=False)
    async def shared_curve(request: Request) -> Response:
        return await svg_of_curve(pages.questions, await subject(request), raw_query(request))

    @router.get("/share/{signed}/badge.svg", include_in_schema=False)
    async def shared_badge(request: Request) -> Response:
        return await svg_of_badge(pages.questions, await subject(request), raw_query(request))

    async def table(request: Request) -> Response:
        query, dimension = raw_query(request), unquote(request.path_params.get("dimension", ""))
        name = request.scope["path"].rpartition("/")[2]
        answer = await pages.table_of(await subject(request), name, dimension, query)
        zone = ZoneInfo(dict(parse_qsl(query.decode("latin-1"))).get("tz", "UTC"))  # the question has judged it
        return csv_file(request, answer, zone, zone)

    for path in ("curve", "visitors", "why", "by/{dimension}", "by/{dimension}/curve"):
        router.add_api_route(f"/share/{{signed}}/{path}", table, include_in_schema=False)

    @router.get("/share/{signed}", include_in_schema=False)
    async def share(request: Request) -> Response:
        view = view_of(raw_query(request))
        values = await pages.one(await subject(request), view, int(clock()))
        shown = {
            "view": view,
            "shared": True,
            "tables": f"../share/{quote(str(request.path_params['signed']))}",
            "missing_s": missing_s(),
            "updated": updated_at(clock(), view),
        }
        return html(request, templates, "one.html", **shown, **values)

    return router
