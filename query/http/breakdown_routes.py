"""The routes of breakdowns, for a server that divides hits by any dimension: values, one value along time, visitors."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import APIRouter, Request, Response

from clickcurve.keys import group_key, link_key
from clickcurve.raw_path_routes import RawPathRoute, group_of_path, key_of_path, raw_query
from query.breakdowns.queries import ALL, BreakdownQueries, Subject
from query.http import openapi_breakdowns as openapi
from query.http.routes import as_response, wants_csv


def breakdown_routes(queries: BreakdownQueries, visitors: bool) -> APIRouter:
    """Makes the router. visitors: days of visitors are kept, and may be asked for."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.get("/v1/by/{dimension}", **openapi.ALL_BY)
    async def all_by(request: Request) -> Response:
        return await by(ALL, request)

    @router.get("/v1/by/{dimension}/curve", **openapi.ALL_BY_CURVE)
    async def all_by_curve(request: Request) -> Response:
        return await curve(ALL, request)

    @router.get("/v1/links/{key}/by/{dimension}", **openapi.BY)
    async def link_by(request: Request) -> Response:
        return await by(_of_link(request), request)

    @router.get("/v1/links/{key}/by/{dimension}/curve", **openapi.BY_CURVE)
    async def link_by_curve(request: Request) -> Response:
        return await curve(_of_link(request), request)

    @router.get("/v1/groups/{name}/by/{dimension}", **openapi.GROUP_BY)
    async def group_by(request: Request) -> Response:
        return await by(_of_group(request), request)

    @router.get("/v1/groups/{name}/by/{dimension}/curve", **openapi.GROUP_BY_CURVE)
    async def group_by_curve(request: Request) -> Response:
        return await curve(_of_group(request), request)

    if visitors:

        @router.get("/v1/links/{key}/visitors", **openapi.VISITORS)
        async def link_visitors(request: Request) -> Response:
            return as_response(await queries.visitors(_of_link(request), raw_query(request)))

        @router.get("/v1/groups/{name}/visitors", **openapi.GROUP_VISITORS)
        async def group_visitors(request: Request) -> Response:
            return as_response(await queries.visitors(_of_group(request), raw_query(request)))

    async def by(subject: Subject, request: Request) -> Response:
        return as_response(await queries.by(subject, _dimension(request), raw_query(request), wants_csv(request)))

    async def curve(subject: Subject, request: Request) -> Response:
        return as_response(await queries.curve(subject, _dimension(request), raw_query(request), wants_csv(request)))

    return router


def _of_link(request: Request) -> Subject:
    key = key_of_path(request)
    return Subject(link_key(key), key)


def _of_group(request: Request) -> Subject:
    name = group_of_path(request)
    return Subject(group_key(name), name)


def _dimension(request: Request) -> str:
    """Returns the dimension that the path names. What is not UTF-8 is none that is known."""
    return unquote(str(request.path_params["dimension"]), errors="replace")
