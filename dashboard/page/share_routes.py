"""One link or group for anybody who has the address, read only, until the day in it."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.raw_path_routes import raw_query
from dashboard.page.page_routes import Clock, html, page_route
from dashboard.page.pages import Pages
from dashboard.page.templates import Templates
from dashboard.page.view import view_of


class NotShared(ClickcurveError):
    """An address of a share that is not, or no longer, good."""

    status = 404
    title = "not shared"


def share_routes(
    pages: Pages, templates: Templates, clock: Clock, shared: Callable[[str], tuple[str, str] | None]
) -> APIRouter:
    """Makes the router. shared: the kind and name that a signed text shares; None for one that is not good now."""
    router = APIRouter(route_class=page_route(templates))

    @router.get("/share/{signed}", include_in_schema=False)
    async def share(request: Request) -> Response:
        found = shared(str(request.path_params["signed"]))
        if found is None:
            raise NotShared("this address is not good: its time has ended, it was revoked, or it is incomplete")
        view = view_of(raw_query(request))
        values = await pages.one(*found, view, int(clock()))
        text = templates.render("one.html", root="../", view=view, signed_in=False, shared=True, **values)
        return html(request, text)

    return router
