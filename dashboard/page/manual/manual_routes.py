"""/help: the manual, open to everybody as the list of routes is: it says nothing of hits."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.visible import visible
from clickcurve.waiting import in_thread
from dashboard.page.manual.manual import INDEX, Manual
from dashboard.page.page_routes import html, page_route
from dashboard.page.templates import Templates


class NoSuchPage(ClickcurveError, status=404, title="not found"):
    """The manual has no page of this name."""


def manual_routes(manual: Manual, templates: Templates, signed_in: Callable[[Scope], bool]) -> APIRouter:
    """Makes the router; signed_in: as of `page_routes`."""
    router = APIRouter(route_class=page_route(templates))

    @router.get("/help", include_in_schema=False)
    @router.get("/help/{topic}", include_in_schema=False)
    async def topic(request: Request) -> Response:
        name = request.path_params.get("topic", INDEX)
        page = await in_thread("reading the manual", manual.page, name)
        if page is None or (name == INDEX and request.path_params):
            raise NoSuchPage(f"The manual has no page {visible(name)!r}.")
        values = {"page": page, "is_index": name == INDEX, "signed_in": signed_in(request.scope)}
        shown = await html(request, templates, "manual.html", **values)
        return _unless_known(request, shown)

    return router


def _unless_known(request: Request, answer: Response) -> Response:
    """Gives an answer a tag of its bytes; a reader that has them already is told so, without them."""
    tag = f'"{sha256(answer.body).hexdigest()[:24]}"'
    answer.headers.update({"ETag": tag, "Cache-Control": "private, no-cache"})
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if not known & {tag, "*"}:
        return answer
    kept = {name: value for name, value in answer.headers.items() if name not in ("content-length", "content-type")}
    return Response(status_code=304, headers=kept)
