"""The read routes of links that the framework answers, and the one that erases a link.

Paths are matched raw, so that a key may hold an encoded slash or be called `total`; parameters are read by
`query.parameters`, so that a misspelt one is refused and not ignored. Totals and curves: `query.http.hot_endpoint`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.raw_path_routes import RawPathRoute, key_of_path, raw_query
from query.http import openapi
from query.http.hot_endpoint import accepts_csv
from query.queries import Content, Limits, Queries
from query.sums import BODY_BYTES, keys_to_sum


def routes(queries: Queries, erase: Callable[[str], Awaitable[None]], limits: Limits) -> APIRouter:
    """Makes the router. erase is the owner's: the link is gone from the store when it returns, or it raises."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.get("/v1/links/{key}", **openapi.SUMMARY)
    async def link_summary(request: Request) -> Response:
        return as_response(await queries.summary(key_of_path(request), raw_query(request)))

    @router.get("/v1/links", **openapi.LINKS)
    async def list_links(request: Request) -> Response:
        return as_response(await queries.links(raw_query(request), wants_csv(request)))

    @router.post("/v1/sum", **openapi.SUM)
    async def sum_of_links(request: Request) -> Response:
        keys = keys_to_sum(await read_bounded(request.stream(), BODY_BYTES))
        return as_response(await queries.sum(keys, raw_query(request), wants_csv(request)))

    @router.get("/v1/limits/{event}/curve", **openapi.LIMIT_CURVE)
    async def limit_curve(request: Request) -> Response:
        return as_response(
            await queries.limit_curve(key_of_path(request, "event"), raw_query(request), limits, wants_csv(request))
        )

    @router.get("/v1/limits/{event}/total", **openapi.LIMIT_TOTAL)
    async def limit_total(request: Request) -> Response:
        return as_response(await queries.limit_total(key_of_path(request, "event"), raw_query(request), limits))

    @router.delete("/v1/links/{key}", status_code=204, **openapi.DELETE)
    async def erase_link(request: Request) -> Response:
        queries.refuse_parameters(raw_query(request))
        await erase(key_of_path(request))
        queries.link_erased()
        return Response(status_code=204)

    return router


def wants_csv(request: Request) -> bool:
    """Returns whether the caller prefers CSV to JSON."""
    return accepts_csv(request.scope["headers"])


def as_response(content: Content) -> Response:
    """Returns an answer as the framework sends it."""
    media, body = content
    return Response(body, headers={"content-type": media, "vary": "accept"})
