"""The routes of breakdowns: values of groups, one value along time, visitors; and what they say where those are off.

Values of a link and of all links: `query.http.hot_endpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Request, Response

from clickcurve.buckets.errors import SwitchedOff
from clickcurve.keys import group_key, link_key
from clickcurve.raw_path_routes import RawPathRoute, group_of_path, key_of_path, raw_query
from query.breakdowns.queries import ALL, BreakdownQueries, Subject
from query.http import openapi_breakdowns as openapi
from query.http.hot_endpoint import dimension_in_path
from query.http.routes import as_response, wants_csv

_OF_VALUES = tuple(
    f"/v1{of}/by/{{dimension}}{what}" for of in ("", "/links/{key}", "/groups/{name}") for what in ("", "/curve")
)
_OF_VISITORS = "/v1/links/{key}/visitors", "/v1/groups/{name}/visitors"


def breakdown_routes(queries: BreakdownQueries, visitors: bool) -> APIRouter:
    """Makes the router. visitors: days of visitors are kept, and may be asked for."""
    router = APIRouter(route_class=RawPathRoute, tags=["reading"])

    @router.get("/v1/by/{dimension}/curve", **openapi.ALL_BY_CURVE)
    async def all_by_curve(request: Request) -> Response:
        return await curve(ALL, request)

    @router.get("/v1/links/{key}/by/{dimension}/curve", **openapi.BY_CURVE)
    async def link_by_curve(request: Request) -> Response:
        return await curve(_of_link(request), request)

    @router.get("/v1/groups/{name}/by/{dimension}", **openapi.GROUP_BY)
    async def group_by(request: Request) -> Response:
        return as_response(
            await queries.by(_of_group(request), _dimension(request), raw_query(request), wants_csv(request))
        )

    @router.get("/v1/groups/{name}/by/{dimension}/curve", **openapi.GROUP_BY_CURVE)
    async def group_by_curve(request: Request) -> Response:
        return await curve(_of_group(request), request)

    if not visitors:
        _answer_switched_off(router, _OF_VISITORS, "counts no visitors", "breakdown_visitors = true")
    else:

        @router.get("/v1/links/{key}/visitors", **openapi.VISITORS)
        async def link_visitors(request: Request) -> Response:
            return as_response(await queries.visitors(_of_link(request), raw_query(request)))

        @router.get("/v1/groups/{name}/visitors", **openapi.GROUP_VISITORS)
        async def group_visitors(request: Request) -> Response:
            return as_response(await queries.visitors(_of_group(request), raw_query(request)))

    async def curve(subject: Subject, request: Request) -> Response:
        return as_response(await queries.curve(subject, _dimension(request), raw_query(request), wants_csv(request)))

    return router


def switched_off_routes() -> APIRouter:
    """Makes the router of a server that divides no hits."""
    router = APIRouter(route_class=RawPathRoute, include_in_schema=False)
    rule = 'breakdown_dimensions names some, such as "ref,country"; then hits are divided from then on'
    _answer_switched_off(router, (*_OF_VALUES, *_OF_VISITORS), "divides no hits", rule)
    return router


def _answer_switched_off(router: APIRouter, paths: Iterable[str], what: str, rule: str) -> None:
    setting = rule.partition(" ")[0]

    async def switched_off(request: Request) -> Response:
        detail = f"this server {what}: its setting {setting} says so"
        raise SwitchedOff(detail, field=setting, rule=rule)

    for path in paths:
        router.add_api_route(path, switched_off, include_in_schema=False)


def _of_link(request: Request) -> Subject:
    key = key_of_path(request)
    return Subject(link_key(key), key)


def _of_group(request: Request) -> Subject:
    name = group_of_path(request)
    return Subject(group_key(name), name)


def _dimension(request: Request) -> str:
    return dimension_in_path(str(request.path_params["dimension"]).encode("latin-1"))
