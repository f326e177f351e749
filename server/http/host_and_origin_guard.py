"""Guards a server without tokens against web pages.

Without tokens every program of this machine may call, and a browser is one of them, with the pages of any site in it.
A page may give its own name the address 127.0.0.1 (DNS rebinding), and then reads and erases as if it were the
server's own; only `Host` still tells. And a page of any site may send a POST, though it cannot read the answer;
`Origin` and `Sec-Fetch-Site`, which pages cannot change, tell. Tokens make both harmless: no browser adds them by
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from clickcurve.asgi import FIELDS, Application, Message, Scope, Send
from clickcurve.buckets.errors import ClickcurveError
from server.http.problems import Problems
from server.limiter.limiter import is_question_to_limiter
from server.settings.values import is_loopback
from server.workers.unreachable import HEADER, OLD_HEADER

_READS = frozenset(("GET", "HEAD", "OPTIONS"))
# What no page can add without a preflight: with one of them a proxy asks whether a request that it got may pass.
_OF_PROXIES = (b"x-forwarded-for", b"x-forwarded-uri", b"x-original-uri", b"x-real-ip", b"forwarded")
_OUR_SITE = (None, b"same-origin", b"none")  # `Sec-Fetch-Site`: no browser, our own page, a person's own wish
_KNOWN = 100  # Host headers that are remembered as good
_SHOWN = (
    HEADER,
    OLD_HEADER,
    "Retry-After",
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


class ForeignHost(ClickcurveError, status=403, title="host not allowed"):
    """A server without tokens was called by a name that may be any web page's."""


class ForeignPage(ClickcurveError, status=403, title="origin not allowed"):
    """A page of another site wants to write to a server without tokens."""


class _PageWish(ClickcurveError, status=400, title="preflight refused"):
    """A browser asks for a page whether it may call, and it may not."""


class HostAndOriginGuard:
    """Checks requests to a server without tokens.

    Beyond loopback (`bound`) every name is good, unless some are given.
    """

    def __init__(
        self, bound: str = "127.0.0.1", allowed_hosts: Sequence[str] = (), cors_origins: Sequence[str] = ()
    ) -> None:
        self._any_host = not is_loopback(bound) and not allowed_hosts
        self._names = frozenset((bound.lower(), "localhost", *allowed_hosts))
        self._origins = frozenset(origin.encode() for origin in cors_origins)
        self._known: set[bytes] = {b""}  # without Host it is HTTP/1.0, which no browser speaks

    def check(self, scope: Scope) -> None:
        """Raises ForeignHost or ForeignPage."""
        headers: dict[bytes, bytes] = scope.get(FIELDS) or dict(scope["headers"])
        host = headers.get(b"host", b"")
        if host not in self._known:
            self._check_host(host)
        if (b"origin" in headers or b"sec-fetch-site" in headers) and _writes(scope, headers):
            self.check_page(headers)

    def _check_host(self, host: bytes) -> None:
        shown = host.decode("latin-1")
        if not (self._any_host or self._is_ours(shown.lower())):
            raise ForeignHost(
                "without tokens the server is called by the name of its own machine only, so that no web page can give "
                "its name this address (DNS rebinding): list your own names in the setting allowed_hosts, or make a "
                "token with `clickcurve token create`",
                field="Host",
                value=shown,
                rule="localhost, a loopback address, or a name in allowed_hosts",
            )
        if len(self._known) < _KNOWN:
            self._known.add(host)

    def _is_ours(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name = host
        elif port and not (port.isascii() and port.isdigit()):
            return False
        if name in self._names:
            return True
        try:
            return ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
        except ValueError:
            return False

    def check_page(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises ForeignPage if a page of another site sends this, as far as its headers tell."""
        origin = headers.get(b"origin")
        if origin is None:
            is_ours = headers.get(b"sec-fetch-site") in _OUR_SITE
        else:
            origin = origin.lower()
            host = headers.get(b"host", b"").lower()
            is_ours = b"*" in self._origins or origin in (b"http://" + host, b"https://" + host, *self._origins)
        if not is_ours:
            raise ForeignPage(
                "a page of another site may not write without a token: list the site in the setting cors_origins, or "
                "make a token with `clickcurve token create`",
                field="Origin" if origin is not None else "Sec-Fetch-Site",
                value=origin if origin is not None else headers.get(b"sec-fetch-site"),
                rule="the server's own origin, or one in cors_origins",
            )


def _writes(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Tells whether a request changes something: a GET too that asks the limiter, unless a proxy asks for another."""
    if scope["method"] not in _READS:
        return True
    return is_question_to_limiter(scope["path"]) and not any(name in headers for name in _OF_PROXIES)


class _Pages(CORSMiddleware):
    """Answers what browsers ask before they call (preflights): counted, and refused as all else is."""

    def __init__(self, app: Application, problems: Problems, answers: Counter[int], **allowed: Any) -> None:
        super().__init__(app, **allowed)
        self._problems = problems
        self._answers = answers

    async def send(self, message: Message, send: Send, request_headers: Headers) -> None:
        """Adds the headers for pages to a copy: the answer to a plain hit is one message for all."""
        await super().send({**message}, send, request_headers)

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code != 200:
            reason = bytes(response.body).decode()
            vary = response.headers["vary"]
            response = self._problems.answer(_PageWish(reason, rule="what cors_origins and the routes allow"))
            response.headers["vary"] = vary
        self._answers[response.status_code] += 1
        return response


def answering_pages(
    app: Application, cors_origins: Sequence[str], problems: Problems, answers: Counter[int]
) -> Application:
    """Lets pages of these origins call the application from a browser and read its answers (CORS)."""
    if not cors_origins:
        return app
    return _Pages(
        app,
        problems,
        answers,
        allow_origins=cors_origins,
        allow_methods=("GET", "HEAD", "POST", "DELETE"),
        allow_headers=("Authorization", "Content-Encoding", "Idempotency-Key"),
        expose_headers=_SHOWN,
    )
