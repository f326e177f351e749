"""The routes of breakdowns, for a server that divides hits by any dimension: values, one value along time, visitors."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import APIRouter, Request, Response

from clickcurve.raw_path_routes import RawPathRoute, key_of_path, raw_query
from query.breakdowns.queries import BreakdownQueries
from query.http import openapi_breakdowns as openapi
from query.http.routes import as_response, wants_csv


def breakdown_routes(queries: BreakdownQueries, visitors: bool) -> APIRouter:
    """Makes the router. visitors: days of visitors are kept, and may be asked for."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.get("/v1/links/{key}/by/{dimension}", **openapi.BY)
    async def link_by(request: Request) -> Response:
        key, dimension = key_of_path(request), _dimension(request)
        return as_response(await queries.by(key, dimension, raw_query(request), wants_csv(request)))

    @router.get("/v1/links/{key}/by/{dimension}/curve", **openapi.BY_CURVE)
    async def link_by_curve(request: Request) -> Response:
        key, dimension = key_of_path(request), _dimension(request)
        return as_response(await queries.curve(key, dimension, raw_query(request), wants_csv(request)))

    @router.get("/v1/by/{dimension}", **openapi.ALL_BY)
    async def all_by(request: Request) -> Response:
        return as_response(await queries.by(None, _dimension(request), raw_query(request), wants_csv(request)))

    @router.get("/v1/by/{dimension}/curve", **openapi.ALL_BY_CURVE)
    async def all_by_curve(request: Request) -> Response:
        return as_response(await queries.curve(None, _dimension(request), raw_query(request), wants_csv(request)))

    if visitors:

        @router.get("/v1/links/{key}/visitors", **openapi.VISITORS)
        async def link_visitors(request: Request) -> Response:
            return as_response(await queries.visitors(key_of_path(request), raw_query(request)))

    return router


def _dimension(request: Request) -> str:
    """Returns the dimension that the path names. What is not UTF-8 is none that is known."""
    return unquote(str(request.path_params["dimension"]), errors="replace")
