"""Bitly's reading routes: clicks by unit of time, their sum, and clicks by referrer, country and device.

A bitlink is `host/key`; the key is the link, with the host before it where `hosts` says so. Where less is kept than the
unit asked for, an entry has the kept width, and an `end` that says so: nothing is spread over units.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from clickcurve.buckets.errors import DimensionUnknown, ParameterInvalid
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.keys import link_key
from clickcurve.routes import RawPathRoute, json_answer, key_of_path
from query.breakdowns.queries import BreakdownQueries
from query.parameters import MAX_TOP, Parameters, Window, moment
from query.queries import Queries
from query.steps import STEPS, Step
from query.zones import UTC_ZONE
from server.compat.forms import Form, read_form
from server.tokens.route_access import Effect, RouteAccess, questions

_STEPS = {"minute": "1m", "hour": "1h", "day": "1d", "week": "1w", "month": "1mo"}
_USUAL_SIZE = 50
_FACETS = {"referrers": "ref", "countries": "country", "devices": "device"}
_DIRECT = "direct"  # Bitly's word for a click without a referrer


class _Asked(NamedTuple):
    """How many units are asked for, below 0 for all; their range and step; and how an answer says so."""

    units: int
    start: int
    end: int
    step: Step
    part: dict[str, Any]


ACCESS = RouteAccess((*questions("/v4/bitlinks/{host}/{key}", Effect.link, "clicks", "clicks/summary", "{facet}"),))


def bitly_routes(queries: Queries, breakdowns: BreakdownQueries | None, hosts: Hosts = HOSTS_IGNORED) -> APIRouter:
    """Makes the router. breakdowns: None for a server without breakdowns. hosts: what keys say of bitlinks' hosts."""

    def link_of_path(request: Request) -> str:
        return hosts.key(key_of_path(request), request.path_params["host"]) or key_of_path(request)

    router = APIRouter(route_class=RawPathRoute, include_in_schema=False, tags=["Bitly"])

    @router.get("/v4/bitlinks/{host}/{key}/clicks", summary="The clicks of a link by unit, the last unit first")
    async def clicks(request: Request) -> Response:
        return json_answer(await _clicks(queries, link_of_path(request), await read_form(request)))

    @router.get("/v4/bitlinks/{host}/{key}/clicks/summary", summary="The sum of these clicks")
    async def clicks_summary(request: Request) -> Response:
        clicks = await _clicks(queries, link_of_path(request), await read_form(request))
        total = sum(entry["clicks"] for entry in clicks.pop("link_clicks"))
        return json_answer({**clicks, "total_clicks": total})

    @router.get("/v4/bitlinks/{host}/{key}/{facet}", summary="The clicks by `referrers`, `countries` or `devices`")
    async def facets(request: Request) -> Response:
        facet = str(request.path_params["facet"])
        if breakdowns is None or facet not in _FACETS:
            facets = ", ".join(_FACETS) if breakdowns else "none: this server has no breakdowns"
            raise DimensionUnknown(
                f"there is no facet {facet!r}; known: {facets}", field="facet", value=facet, rule=facets
            )
        form = await read_form(request)
        asked = _asked_in(form, queries.now())
        most = form.number("size", _USUAL_SIZE, 1, MAX_TOP)
        parameters = Parameters(start=asked.start, end=asked.end, limit=most)
        listed = await breakdowns.values_in(link_key(link_of_path(request)), _FACETS[facet], parameters)
        none = _DIRECT if facet == "referrers" else ""
        metrics = [{"value": each.value or none, "clicks": each.at_least} for each in listed.values]
        return json_answer({**asked.part, "facet": facet, "metrics": metrics})

    return router


async def _clicks(queries: Queries, key: str, form: Form) -> dict[str, Any]:
    """Returns the clicks of each unit, the last one first."""
    asked = _asked_in(form, queries.now())
    curve = await queries.curve_in(link_key(key), Window(asked.start, asked.end, asked.step, UTC_ZONE))
    entries = []
    for point, end, count, wide in zip(
        curve.grid.edges, curve.grid.edges[1:], curve.counts, curve.grid.wide, strict=False
    ):
        if asked.units > 0 or (curve.first is not None and end > curve.first):
            entry: dict[str, Any] = {"clicks": count, "date": _bitly_time(point)}
            entries.append({**entry, "end": _bitly_time(end)} if wide else entry)
    return {**asked.part, "link_clicks": entries[::-1]}


def _asked_in(form: Form, now: int) -> _Asked:
    name = form.get("unit", "day")
    if name not in _STEPS:
        raise ParameterInvalid(f"unit {name!r} is not known", field="unit", value=name, rule=", ".join(_STEPS))
    step = STEPS[_STEPS[name]]
    unit = step.unit
    assert unit is not None
    units = -1 if form.get("units", "-1") == "-1" else form.number("units", -1, 1, 100_000)
    at = moment("unit_reference", form.get("unit_reference"), UTC_ZONE) if form.get("unit_reference") else now
    start = 0 if units < 0 else unit.back(at, units - 1, UTC_ZONE)
    part = {"units": units, "unit": name, "unit_reference": _bitly_time(at)}
    return _Asked(units, start, unit.after(at, UTC_ZONE), step, part)


def _bitly_time(t: int) -> str:
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
