"""The routes of this part that are no plain question: the sum of a set of links, and erasing a link.

Paths are matched raw, so that a key may hold an encoded slash. Questions: `query.http.query_endpoint`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.raw_path_routes import RawPathRoute, key_of_path, raw_query
from query.http import openapi
from query.http.content import written
from query.queries import Queries
from query.sums import BODY_BYTES, keys_to_sum


def routes(queries: Queries, erase: Callable[[str], Awaitable[None]]) -> APIRouter:
    """Makes the router. erase is the owner's: the link is gone from the store when it returns, or it raises."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.post("/v1/sum", **openapi.SUM)
    async def sum_of_links(request: Request) -> Response:
        keys = keys_to_sum(await read_bounded(request.stream(), BODY_BYTES))
        query = raw_query(request)
        content = written(await queries.sum(keys, query), query, request.scope["headers"])
        named = {"content-disposition": content.disposition} if content.disposition else {}
        return Response(content.body, headers={"content-type": content.media, "vary": "accept", **named})

    @router.delete("/v1/links/{key}", status_code=204, **openapi.DELETE)
    async def erase_link(request: Request) -> Response:
        queries.refuse_parameters(raw_query(request))
        await erase(key_of_path(request))
        queries.link_erased()
        return Response(status_code=204)

    return router
