"""The routes of this part that are no plain question: the sum of a set of links, and erasing links and groups.

Paths are matched raw, so that a key may hold an encoded slash. Questions: `query.http.query_endpoint`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from fastapi import APIRouter, Request, Response

from clickcurve.answers.counts import ErasedAnswer
from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import shown
from clickcurve.keys import ALL, Subject, link_key
from clickcurve.routes import RawPathRoute, json_answer, raw_query, subject_in_path
from query.http import openapi
from query.http.content import written
from query.parameters import parse_erasure, parse_query
from query.queries import Queries
from query.sums import BODY_BYTES, keys_to_sum

_AT_ONCE = 100  # links that are erased while nothing else is accepted: in a few milliseconds

Erase: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]
Note: TypeAlias = Callable[[str, str], Awaitable[None]]
Mark: TypeAlias = Callable[[Subject, str], Awaitable[None]]


def routes(queries: Queries, erase: Erase, note: Note, mark: Mark) -> APIRouter:
    """Makes the router.

    erase: takes stored keys, whose rows are gone from the store when it returns, or it raises. note: writes down what
    is about to be erased, before it is. mark: notes beside the hits of a subject what was erased.
    """
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.post("/v1/sum", **openapi.SUM)
    async def sum_of_links(request: Request) -> Response:
        keys = keys_to_sum(await read_bounded(request.stream(), BODY_BYTES))
        query = raw_query(request)
        content = written(await queries.sum(keys, query), query, request.scope["headers"])
        named = {"content-disposition": content.disposition} if content.disposition else {}
        return Response(content.body, headers={"content-type": content.media, "vary": "accept", **named})

    async def erased(request: Request, what: str) -> Response:
        subject = subject_in_path(request)
        parse_query(raw_query(request), ())
        await note(what, subject.name or "")
        await erase([subject.stored])
        queries.rows_erased()
        await mark(subject, "Deleted: what was counted until here is gone")
        return Response(status_code=204)

    @router.delete("/v1/links/{key}", **openapi.DELETE)
    async def erase_link(request: Request) -> Response:
        return await erased(request, "link deleted")

    @router.delete("/v1/links", **openapi.DELETE_LINKS)
    async def erase_links(request: Request) -> Response:
        prefix, limit = parse_erasure(raw_query(request))
        keys, more = await queries.to_be_erased(prefix, limit)
        if keys:
            await note("links deleted", f"{prefix} ({len(keys):,} links)")
        try:
            for start in range(0, len(keys), _AT_ONCE):
                await erase([link_key(key) for key in keys[start : start + _AT_ONCE]])
        finally:
            queries.rows_erased()
        if keys:
            await mark(ALL, f"Deleted: {len(keys):,} links whose keys begin with {shown(prefix)}")
        return json_answer(ErasedAnswer(len(keys), more))

    @router.delete("/v1/groups/{name}", **openapi.DELETE_GROUP)
    async def erase_group(request: Request) -> Response:
        return await erased(request, "group deleted")

    return router
