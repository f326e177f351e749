"""The routes of groups: what the routes of links say of a link, said of a group."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from clickcurve.raw_path_routes import RawPathRoute, group_of_path, raw_query
from query.http import openapi_groups as openapi
from query.http.routes import as_response, wants_csv
from query.queries import Queries


def group_routes(queries: Queries) -> APIRouter:
    """Makes the router."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.get("/v1/groups", **openapi.GROUPS)
    async def list_groups(request: Request) -> Response:
        return as_response(await queries.groups(raw_query(request), wants_csv(request)))

    @router.get("/v1/groups/{name}", **openapi.SUMMARY)
    async def group_summary(request: Request) -> Response:
        return as_response(await queries.group_summary(group_of_path(request), raw_query(request)))

    @router.get("/v1/groups/{name}/total", **openapi.TOTAL)
    async def group_total(request: Request) -> Response:
        return as_response(await queries.group_total(group_of_path(request), raw_query(request)))

    @router.get("/v1/groups/{name}/curve", **openapi.CURVE)
    async def group_curve(request: Request) -> Response:
        return as_response(await queries.group_curve(group_of_path(request), raw_query(request), wants_csv(request)))

    return router
