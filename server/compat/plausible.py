"""`POST /api/event` as Plausible's scripts and libraries send it: a page view is a hit of the link that its path names.

The visitor's agent and address are those of the request, in `User-Agent` and `X-Forwarded-For`: so the interface that
is spoken here has it, and the address is used and not kept.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import BodyUnreadable
from clickcurve.problem import MEDIA_TYPE
from server.compat.forms import FORM_BYTES
from server.compat.hit_sender import HitSender

PATH = "/api/event"
PAGE_VIEW = "pageview"
_CAMPAIGN = ("source", "medium", "campaign")


def plausible_routes(sender: HitSender) -> APIRouter:
    """Makes the router."""
    router = APIRouter(include_in_schema=False)

    @router.post(PATH)
    async def event(request: Request) -> Response:
        hit = _hit_of(_event_in(await read_bounded(request.stream(), FORM_BYTES)), request)
        sent = await sender.send([hit])
        if sent.status == 200:
            return Response("ok", 202, headers={"content-type": "text/plain; charset=utf-8"})
        if sent.status == 422:
            raise BodyUnreadable(sent.first_reason())
        headers = {name.decode(): value.decode() for name, value in sent.headers if name != b"content-length"}
        return Response(sent.body, sent.status, headers={"content-type": MEDIA_TYPE, **headers})

    return router


def _event_in(body: bytes) -> dict[str, Any]:
    """Returns the event, whose members have long or short names; raises BodyUnreadable."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BodyUnreadable(f"the body is not JSON: {error}", rule="an event") from None
    if not isinstance(event, dict):
        raise BodyUnreadable("the body is no event", rule='{"name": "pageview", "url": "...", "domain": "..."}')
    named = {"n": "name", "u": "url", "d": "domain", "r": "referrer"}
    return {named.get(str(name), str(name)): value for name, value in event.items()}


def _hit_of(event: dict[str, Any], request: Request) -> dict[str, Any]:
    """Returns the hit that a page view is; raises BodyUnreadable for another event."""
    name, url = event.get("name"), event.get("url")
    if name != PAGE_VIEW:
        raise BodyUnreadable("only page views are hits", field="name", value=str(name), rule=PAGE_VIEW)
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        parts = urlsplit("")
    key = parts.path.removeprefix("/")
    if not key:
        raise BodyUnreadable("the url names no link", field="url", value=str(url), rule="a url with a path")
    asked = parse_qs(parts.query)
    utm = {part: asked[f"utm_{part}"][0] for part in _CAMPAIGN if f"utm_{part}" in asked}
    referrer = event.get("referrer")
    said = {
        "key": key,
        "ua": request.headers.get("user-agent"),
        "ip": request.headers.get("x-forwarded-for", "").partition(",")[0].strip() or None,
        "ref": referrer if isinstance(referrer, str) and referrer else None,
        "utm": utm or None,
    }
    return {name: value for name, value in said.items() if value is not None}
