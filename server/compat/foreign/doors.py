"""The routes that other products send their events to: what each reads from a request, and what it answers.

A sender knows its own product alone: it expects that product's answers, and can mostly send no header field with a
token. A token then stands at the end of the path, or where the product has its own key; it may only write. An answer of
success comes after the journal's sync, as for every hit. Events that are no hits are answered as the product does and
counted as ignored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import (
    BodyTooLarge,
    BodyUnreadable,
    MediaTypeUnsupported,
    NotAuthenticated,
    SwitchedOff,
)
from clickcurve.hosts import Hosts
from clickcurve.routes import json_answer
from clickcurve.waiting import computed
from ingest.reading.body_budget import unpacked
from server.compat.foreign.event import KEY, KIND, NotCounted, Product, at, in_site, read_hit
from server.compat.foreign.outcomes import Event, Units
from server.compat.foreign.products import DUB, GOATCOUNTER, MATOMO, PAGE_VIEW, PLAUSIBLE, POSTHOG, SEGMENT, UMAMI
from server.compat.hit_sender import HitSender
from server.settings.sites import Site
from server.settings.values import DOORS
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

MOST_BYTES = 1 << 20
MOST_EVENTS = 1_000
_FIELDS = 200  # of a form
_GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")  # one transparent pixel
_SEGMENT_KINDS = ("batch", "page", "track", "screen", "identify", "group", "alias")


_PATHS = "/matomo.php|/api/send|/api/batch|/api/event|/api/v0/count|/i/v0/e/|/batch/|/v1/from/dub"
# Most senders can send no header field with a token.
ACCESS = RouteAccess(
    (
        RouteEffect("POST", "/api/event", Effect.hits),
        RouteEffect("POST", "/api/event/{token}", Effect.hits),
        RouteEffect("GET POST", "/matomo.php", Effect.hits),
        RouteEffect("POST", "/api/send", Effect.hits),
        RouteEffect("POST", "/api/send/{token}", Effect.hits),
        RouteEffect("POST", "/api/batch", Effect.hits),
        RouteEffect("POST", "/api/batch/{token}", Effect.hits),
        RouteEffect("POST", "/api/v0/count", Effect.hits),
        RouteEffect("POST", "/i/v0/e/", Effect.hits),
        RouteEffect("POST", "/batch/", Effect.hits),
        RouteEffect("POST", "/v1/from/segment/v1/{kind}", Effect.hits),
        RouteEffect("POST", "/v1/from/dub", Effect.hits),
    ),
    (ScopeRule("GET", _PATHS, Scope.write),),
    f"{_PATHS}|/api/send/.*|/api/batch/.*|/api/event/.*|/v1/from/segment/v1/.*",
)


class LetIn(Protocol):
    """Lets in requests that no header field has let in; raises what refuses them."""

    async def let_in(self, request: Request, token: str | None) -> None:
        """Lets a request in by the token that it shows; None: it shows none."""

    async def let_in_signed(self, request: Request) -> None:
        """Lets a request in whose signature is right."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of the events of a request. refused: why, by their place."""

    counted: int
    refused: Mapping[int, str] = field(default_factory=dict)


class NotTaken(Exception):
    """Nothing was counted, and the sender may try again; answer: says when."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """What the settings say of doors.

    on: names of DOORS; other paths are 404. dub_secret: signs Dub's webhooks. units: of the events that are counted.
    sites: of Matomo's senders, by their number. keys: patterns of keys that are links; none: all are.
    """

    on: Sequence[str] = DOORS
    dub_secret: str = ""
    units: Units = field(default_factory=dict)
    sites: Mapping[str, Site] = field(default_factory=dict)
    keys: Sequence[str] = ()

    def is_link(self, key: str) -> bool:
        """Tells whether a key is one of a link, for a proxy tells of pages too."""
        return not self.keys or any(fnmatchcase(key, pattern) for pattern in self.keys)


ALL_DOORS = DoorSettings()


class ForeignDoors:
    """Takes events of other products. ignored: counts events that are no hits, by product and reason."""

    def __init__(
        self,
        sender: HitSender,
        hosts: Hosts,
        keeper: LetIn,
        ignored: Counter[tuple[str, str]],
        settings: DoorSettings = ALL_DOORS,
    ) -> None:
        self._sender, self._hosts, self._keeper, self._ignored = sender, hosts, keeper, ignored
        self._settings = settings

    def router(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)

        def add(name: str, summary: str, answer: Callable[[Request], Awaitable[Response]], *routes: str) -> None:
            async def door(request: Request) -> Response:
                if name not in self._settings.on:
                    rule = f"doors = {name}, ..."
                    raise SwitchedOff(f"this server takes no events of {name}", field="doors", rule=rule)
                try:
                    return await answer(request)
                except NotTaken as not_taken:
                    return not_taken.answer

            for route in routes:
                methods, _, path = route.rpartition(" ")
                router.add_api_route(path, door, methods=methods.split(), summary=summary, tags=[name.capitalize()])

        add("matomo", "Count an action, or several", self._matomo, "GET POST /matomo.php")
        umami = ("POST /api/send", "POST /api/send/{token}", "POST /api/batch", "POST /api/batch/{token}")
        add("umami", "Count an event, or an array of them", self._umami, *umami)
        add(
            "plausible",
            "Count a `pageview`, or an event",
            self._plausible,
            "POST /api/event",
            "POST /api/event/{token}",
        )
        add("goatcounter", "Count page views", self._goatcounter, "POST /api/v0/count")
        add("posthog", "Count a `$pageview`, or a batch", self._posthog, "POST /i/v0/e/", "POST /batch/")
        add("segment", "Count `page` and `track` calls", self._segment, "POST /v1/from/segment/v1/{kind}")
        add("dub", "Count what Dub's webhook tells", self._dub, "POST /v1/from/dub")
        return router

    # --- the doors ------------------------------------------------------------------------------------------------
    async def _matomo(self, request: Request) -> Response:
        """Parameters stand in the query, in a form, in both, or in an array of `requests`."""
        body = await _body(request)
        given = _form(request.scope["query_string"])
        if body.lstrip()[:1] == b"{":
            many = _object(body)
            requests = _array(many, "requests")
            await self._keeper.let_in(request, _text(many.get("token_auth")) or given.get("token_auth"))
            taken = await self._take(MATOMO, [_matomo_action(each) for each in requests], request)
            return json_answer({"status": "success", "tracked": taken.counted, "invalid": len(taken.refused)})
        given |= _form(body)
        await self._keeper.let_in(request, given.get("token_auth"))
        _require_whole(await self._take(MATOMO, [given], request))
        return Response(status_code=204) if given.get("send_image") == "0" else Response(_GIF, media_type="image/gif")

    async def _umami(self, request: Request) -> Response:
        sent = _read(await _body(request))
        events = _few(sent) if isinstance(sent, list) else [sent]
        website = next((text for each in events if (text := _text(at(each, "payload.website")))), None)
        await self._keeper.let_in(request, request.path_params.get("token") or website)
        taken = await self._take(UMAMI, events, request)
        if "batch" in request.url.path:
            details = [{"index": place, "response": {"error": why}} for place, why in taken.refused.items()]
            sizes = {"size": len(events), "processed": len(events) - len(details), "errors": len(details)}
            return json_answer({**sizes, "details": details, "cache": None})
        _require_whole(taken)
        return json_answer({"cache": "", "sessionId": "", "visitId": ""})

    async def _plausible(self, request: Request) -> Response:
        """Takes `engagement` too, which newer scripts send: an error would stand in each visitor's console."""
        await self._keeper.let_in(request, request.path_params.get("token"))
        event = _object(await _body(request))
        name = event.get("name") or event.get("n")
        if not (isinstance(name, str) and name):
            raise BodyUnreadable("the event has no name", field="name", value=str(name), rule=PAGE_VIEW)
        _require_whole(await self._take(PLAUSIBLE, [event], request, needs_link=True))
        return Response("ok", 202, headers={"content-type": "text/plain; charset=utf-8"})

    async def _goatcounter(self, request: Request) -> Response:
        await self._keeper.let_in(request, _basic(request)[1])
        taken = await self._take(GOATCOUNTER, _array(_object(await _body(request)), "hits"), request)
        if taken.refused:
            errors = {str(place): [why] for place, why in taken.refused.items()}
            return Response(msgspec.json.encode({"errors": errors}), 400, media_type="application/json")
        return Response(b"{}", 202, media_type="application/json")

    async def _posthog(self, request: Request) -> Response:
        sent = _object(await _body(request))
        await self._keeper.let_in(request, _text(sent.get("api_key")) or _text(sent.get("token")) or None)
        if isinstance(sent.get("batch"), list):
            await self._take(POSTHOG, _array(sent, "batch"), request)
        else:
            _require_whole(await self._take(POSTHOG, [sent], request))
        return json_answer({"status": "Ok"})

    async def _segment(self, request: Request) -> Response:
        kind = str(request.path_params["kind"])
        if kind not in _SEGMENT_KINDS:
            raise SwitchedOff(f"there is no call {kind!r}", field="kind", value=kind, rule=", ".join(_SEGMENT_KINDS))
        sent = _object(await _body(request))
        await self._keeper.let_in(request, _basic(request)[0] or _text(sent.get("writeKey")) or None)
        if kind == "batch":
            events = [_with_context(each, sent.get("context")) for each in _array(sent, "batch")]
        else:
            events = [{**sent, "type": kind}]
        await self._take(SEGMENT, events, request)
        return json_answer({"success": True})  # as Segment does, also where nothing counts: what is told is on /metrics

    async def _dub(self, request: Request) -> Response:
        if not self._settings.dub_secret:
            rule = "dub_secret, the secret of the webhook"
            raise SwitchedOff("this server has no secret of Dub's webhook", field="dub_secret", rule=rule)
        body = await _body(request)
        right = hmac.new(self._settings.dub_secret.encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right.encode(), request.headers.get("dub-signature", "").encode()):
            raise NotAuthenticated("the Dub-Signature is not that of the body with this server's dub_secret")
        await self._keeper.let_in_signed(request)
        _require_whole(await self._take(DUB, [_object(body)], request))
        return Response("OK", 200, media_type="text/plain")

    # --- counting -------------------------------------------------------------------------------------------------
    async def _take(
        self, product: Product, events: Sequence[object], request: Request, needs_link: bool = False
    ) -> Taken:
        """Counts those events that are hits, as one request. Raises NotTaken, JournalUnknown.

        needs_link: a visit that names no link is refused, else it is one more event that is no hit.
        """
        hits: list[dict[str, Any]] = []
        places: list[int] = []
        refused: dict[int, str] = {}
        for place, event in enumerate(events):
            if not isinstance(event, Mapping):
                refused[place] = "not an object"
                continue
            try:
                read = read_hit(product, event, request.headers, self._hosts, self._settings.units)
                hit = in_site(product, event, read.hit, self._settings.sites)
                if not self._settings.is_link(hit["key"]):
                    raise NotCounted(KEY, "the settings count other keys")
                hits.append(hit)
                places.append(place)
                if read.without_value:
                    self._ignored[product.name, read.without_value] += 1
            except NotCounted as error:
                if needs_link and error.reason not in (KIND, KEY):
                    refused[place] = error.what
                else:
                    self._ignored[product.name, error.reason] += 1
        if not hits:
            return Taken(0, refused)
        sent = await self._sender.send(hits)
        if not sent.is_receipt:
            raise NotTaken(sent.passed_on())
        receipt = msgspec.json.decode(sent.body)
        for item in receipt.get("items", ()):
            if item["status"] == "refused":
                refused[places[item["index"]]] = str(item["reason"])
        return Taken(int(receipt["counted"]) + int(receipt["duplicate"]), refused)


def _require_whole(taken: Taken) -> None:
    """Raises BodyUnreadable if the one event of a request was refused."""
    if taken.refused:
        raise BodyUnreadable(next(iter(taken.refused.values())))


# --- reading requests -----------------------------------------------------------------------------------------------
async def _body(request: Request) -> bytes:
    """Returns the body, unpacked if it is gzip. Raises BodyTooLarge, BodyUnreadable, MediaTypeUnsupported."""
    body = await read_bounded(request.stream(), MOST_BYTES)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding == "identity":
        return body
    if coding != "gzip":
        raise MediaTypeUnsupported(
            "the body is packed in another way", field="Content-Encoding", value=coding, rule="gzip"
        )
    return await computed("unpacking a body", unpacked, body, coding, MOST_BYTES)


def _read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyUnreadable(f"the body is not JSON: {error}", rule="JSON") from None


def _object(body: bytes) -> dict[str, Any]:
    read = _read(body)
    if not isinstance(read, dict):
        raise BodyUnreadable("the body is not an object", rule="a JSON object")
    return read


def _array(body: Mapping[str, Any], name: str) -> list[Any]:
    """Returns a member that is an array of events. Raises BodyUnreadable, BodyTooLarge."""
    events = body.get(name)
    if not isinstance(events, list):
        raise BodyUnreadable(f"the body has no {name}", field=name, rule="an array")
    return _few(events)


def _few(events: list[Any]) -> list[Any]:
    """Returns the events, before anything looks at each. Raises BodyTooLarge if they are too many."""
    if len(events) > MOST_EVENTS:
        raise BodyTooLarge(f"the body has {len(events):,} events", rule=f"at most {MOST_EVENTS:,} events")
    return events


def _form(text: bytes) -> dict[str, str]:
    """Returns the parameters of a query string or a form, the last of each name."""
    try:
        return dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError as error:
        raise BodyUnreadable(f"the parameters cannot be read: {error}", rule=f"at most {_FIELDS} parameters") from None


def _matomo_action(sent: object) -> Event | None:
    if isinstance(sent, str):
        return _form(sent.removeprefix("?").encode("utf-8", "surrogatepass"))
    return sent if isinstance(sent, Mapping) else None


def _with_context(event: object, shared: object) -> object:
    """Returns a call of a batch with the context that stands once for all."""
    if not isinstance(event, Mapping) or not isinstance(shared, Mapping):
        return event
    own = event.get("context")
    return {**event, "context": {**shared, **(own if isinstance(own, Mapping) else {})}}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _basic(request: Request) -> tuple[str | None, str | None]:
    """Returns user and password of Basic auth; None for what is not given."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None, None
    try:
        user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, None
    return user or None, password or None
