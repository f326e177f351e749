"""`POST /api/event` as Plausible's scripts and libraries send it: a page view is a hit of the link that its path names.

Any other event is taken and counts nothing: newer scripts send `engagement` for each page that is left, and a refusal
would stand in red in each visitor's console.

The visitor's agent and address are those of the request, in `User-Agent` and `X-Forwarded-For`: so the interface that
is spoken here has it, and the address is used and not kept.
"""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import BodyUnreadable
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.reading.receipt import IngestCounters
from server.compat.foreign.event import KIND, LONGEST_URL, NotCounted, hit_of
from server.compat.foreign.products import PAGE_VIEW, PLAUSIBLE
from server.compat.hit_sender import HitSender
from server.tokens.route_access import Effect, RouteAccess, RouteEffect

PATH = "/api/event"
MOST_BYTES = 64 << 10


ACCESS = RouteAccess((RouteEffect("POST", PATH, Effect.hits),))


def plausible_routes(sender: HitSender, counters: IngestCounters, hosts: Hosts = HOSTS_IGNORED) -> APIRouter:
    """Makes the router. hosts: what keys say of the hosts of pages. Events that count nothing are noted in counters."""
    router = APIRouter(include_in_schema=False, tags=["Plausible"])

    @router.post(PATH, summary="Count a `pageview` as a hit of its path")
    async def event(request: Request) -> Response:
        event = _event_in(await read_bounded(request.stream(), MOST_BYTES))
        try:
            hit = hit_of(PLAUSIBLE, event, request.headers, hosts)
        except NotCounted as error:
            _require_other_kind(event, error)
            counters.ignored_events[PLAUSIBLE.name, error.reason] += 1
            return _taken()
        sent = await sender.send([hit])
        if sent.status == 200:
            return _taken()
        if sent.status == 422:
            raise BodyUnreadable(sent.first_reason())
        return sent.passed_on()

    return router


def _taken() -> Response:
    return Response("ok", 202, headers={"content-type": "text/plain; charset=utf-8"})


def _event_in(body: bytes) -> dict[str, Any]:
    """Returns the event; raises BodyUnreadable."""
    try:
        event = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyUnreadable(f"the body is not JSON: {error}", rule="an event") from None
    if not isinstance(event, dict):
        raise BodyUnreadable("the body is not an event", rule='{"name": "pageview", "url": "...", "domain": "..."}')
    return event


def _require_other_kind(event: dict[str, Any], error: NotCounted) -> None:
    """Raises BodyUnreadable unless an event is no hit because it is of another kind."""
    name, url = (event.get(long) or event.get(short) for long, short in (("name", "n"), ("url", "u")))
    if error.reason != KIND:
        rule = f"a url with a path, of at most {LONGEST_URL:,} characters"
        raise BodyUnreadable("the url names no link", field="url", value=str(url), rule=rule)
    if not (isinstance(name, str) and name):
        raise BodyUnreadable("the event has no name", field="name", value=str(name), rule=PAGE_VIEW)
