"""Passes each request through the token check and the limit of writes to the hot routes or the web framework.

Routing and validation of the framework cost more than a hit or a total, so those are answered in front of it. HEAD is
GET for all that stands behind the door; the connection leaves the body out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from clickcurve.access import ALL_ACCESS, Access, access, begin_access
from clickcurve.asgi import FIELDS, SAFE, Answer, Application, Message, Receive, Scope, Send, close_unanswered
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown, NotAllowed, NotAuthenticated
from clickcurve.keys import AS_GIVEN, KeyForm
from clickcurve.limiter.http.admission import WRITES
from clickcurve.limiter.http.middleware import send_refusal
from dashboard.page.login_routes import COOKIE, login_address
from ingest.reading.hit_endpoint import HitRoutes
from server.http.host_and_origin_guard import HostAndOriginGuard
from server.http.problems import REFUSED, Problems
from server.http.write_limit import UNDECIDED, write_refusal
from server.limiter.limiter import ServerLimiter, is_question_to_limiter
from server.tokens.gate import Gate
from server.tokens.route_access import RouteTable
from server.workers.unreachable import naming_noted

LIMIT = b"/v1/limit/"
PREFIX_BYTES = 8  # of a path, by which the fast routes are told apart
_COOKIE = COOKIE.encode()
_is_token = re.compile(rb"[A-Za-z0-9_-]{1,256}").fullmatch
_PAGES = frozenset({b"/", b"/links", b"/links.csv", b"/compare", b"/compare.csv", b"/limits", b"/system", b"/node"})
_PAGES_BELOW = (b"/links/", b"/groups/")


class FastRoute:
    """A question with one name in its path, `before` and `after` it, which is answered without a scope.

    `ask` takes the name and the body. It gives the answer that `framework` would, or raises what that would refuse.
    """

    def __init__(self, method: str, before: str, after: str, ask: Callable[[str, bytes], Awaitable[Answer]]) -> None:
        self.method, self.ask = method.encode(), ask
        self.match = re.compile(f"{re.escape(before)}([A-Za-z0-9._~-]{{1,256}}){re.escape(after)}".encode()).fullmatch
        self.prefix = before.encode()[:PREFIX_BYTES]
        self.example = f"{before}x{after}"


@dataclass(eq=False)
class Gateway:
    """The application that the server runs. `answers` counts answers by status, but for those of `hits`.

    routes: what each asks of tokens. fast_routes: past the framework, for connections that answer without ASGI what
    `lets_in` allows. key_form: in which keys in paths count.
    """

    gate: Gate
    problems: Problems
    hits: HitRoutes
    framework: Application
    routes: RouteTable
    limiter: ServerLimiter | None = None
    host_and_origin_guard: HostAndOriginGuard = field(default_factory=HostAndOriginGuard)
    fast_routes: Sequence[FastRoute] = ()
    answers: Counter[int] = field(default_factory=Counter)
    key_form: KeyForm = AS_GIVEN

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        if self.key_form:
            scope = {**scope, "raw_path": self.key_form.in_path(scope["raw_path"])}
        try:
            if self.gate.closed:
                allowed = self._check_token(scope)
            else:
                allowed = ALL_ACCESS
                self.host_and_origin_guard.check(scope)
        except ClickcurveError as error:
            await self._refuse(error, scope, receive, send)
            return
        begin_access(allowed)
        limiter = self.limiter
        if limiter is not None and limiter.limits_writes and not await self._admitted(limiter, scope, receive, send):
            return
        if not self.hits.serves(scope["raw_path"]):
            await self._rest(scope, receive, send)
            return
        try:  # not in a method of its own: a further coroutine costs as much as the routing
            await self.hits(scope, receive, send)
        except JournalUnknown:
            raise  # the connection is closed without an answer
        except Exception as error:
            with suppress(RuntimeError):  # it had begun to answer: the connection is closed
                await self._fail(error, scope, receive, send)

    # --- for connections that answer plain hits themselves ---------------------------------------------------------
    def changes(self) -> int:
        """Returns a number that is another one when other requests may be let in than before."""
        limiter = self.limiter
        return 2 * self.gate.changes + (limiter is not None and limiter.limits_writes)

    def lets_in(self, method: str, path: str, fields: Mapping[bytes, bytes]) -> bool:
        """Tells whether a request with these header fields is let in unasked, as things are; counts nothing."""
        limits_writes = self.limiter is not None and self.limiter.limits_writes
        if limits_writes and method in WRITES and not path.startswith(LIMIT.decode()):
            return False
        if self.gate.closed:
            needed = self.routes.scope_of(method, path)
            return needed is not None and self.gate.allows(needed, fields.get(b"authorization"))
        try:
            self.host_and_origin_guard.check({"method": method, "path": path, FIELDS: fields})
        except ClickcurveError:
            return False
        return True

    async def refuse_hit(self, error: BaseException, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a hit that was let in and not counted, as a request that came all the way."""
        if isinstance(error, ClickcurveError):
            await self.hits.fail(error, send)
        elif isinstance(error, Exception):
            await self._fail(error, scope, receive, send)
        else:
            raise error

    async def refuse_question(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a question of a fast route that failed, as a request that came all the way."""
        await naming_noted(partial(self._fail, error))(scope, receive, send)

    async def _fail(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        response = self.problems.answer(error)
        self.answers[response.status_code] += 1
        await response(scope, receive, send)

    def _check_token(self, scope: Scope) -> Access:
        needed = self.routes.scope_of(scope["method"], scope["path"])
        if needed is None:
            if scope["method"] == "POST":  # a form of the page, which signs in or out
                self.host_and_origin_guard.check_page(dict(scope["headers"]))
            return ALL_ACCESS
        shown = _authorization(scope)
        if self.routes.is_door(scope["path"]) and (shown is None or shown[:6].lower() == b"basic "):
            return UNDECIDED
        if shown is None and scope["method"] == "GET" and not is_question_to_limiter(scope["path"]):
            shown = cookie_of(scope)  # for reading alone, so that no other site can write by it
        allowed = self.gate.check(needed, shown)
        self.routes.check(allowed, scope["method"], scope["raw_path"])
        return allowed

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        response = self.problems.answer(error)
        if isinstance(error, NotAuthenticated | NotAllowed) and _is_page(scope):
            response = _to_login(scope)
        if scope["method"] != "GET":
            response.headers["Connection"] = "close"  # its body is not read
        self.answers[response.status_code] += 1
        await response(scope, receive, send)

    async def _admitted(self, limiter: ServerLimiter, scope: Scope, receive: Receive, send: Send) -> bool:
        """Returns whether the limit of writes lets the request pass; else answers it, its body unread.

        Questions are not writes, those to the limiter included.
        """
        if scope["method"] not in WRITES or scope["raw_path"].startswith(LIMIT):
            return True
        if self.routes.is_question(scope["path"]):
            return True
        if access() == UNDECIDED:
            return True
        try:
            refused = await write_refusal(limiter, scope)
        except Exception as error:
            await self._refuse(error, scope, receive, send)
            return False
        if refused is None:
            return True
        self.problems.refused[refused.status, REFUSED] += 1
        self.answers[refused.status] += 1
        await send_refusal(refused, send, *(((b"connection", b"close"),) if _has_body(scope) else ()))
        return False

    async def _rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_answered = False

        async def counted(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                self.answers[message["status"]] += 1
            await send(message)

        try:
            await self.framework(scope, receive, counted)
        except JournalUnknown:
            await close_unanswered(send)
            raise
        except ClientDisconnect:
            return  # nobody is there to answer
        except Exception as error:
            # The framework's handler has answered and logged most of them, and raised them again.
            if is_answered:
                self.problems.log(error)
            else:
                await self._refuse(error, scope, receive, send)


def made_safe(app: Application) -> Application:
    """Adds the headers of SAFE to the answers of an application, where it has not set them itself."""

    async def safe(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers, given = message["headers"], dict(message["headers"])
                message["headers"] = [*headers, *(field for field in SAFE if field[0] not in given)]
            await send(message)

        await app(scope, receive, sending)

    return safe


def _authorization(scope: Scope) -> bytes | None:
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    return shown[0] if len(shown) == 1 else None


def _has_body(scope: Scope) -> bool:
    """Returns whether the request has a body. Unread, it must not be taken for the next request."""
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


# --- readers of the page: signed in by a cookie that holds a token, or sent to the form that asks for one -------------
def _is_page(scope: Scope) -> bool:
    """Returns whether a request is for a page that a person looks at."""
    path = scope["raw_path"]
    return scope["method"] == "GET" and (path in _PAGES or path.startswith(_PAGES_BELOW))


def cookie_of(scope: Scope) -> bytes | None:
    """Returns the token of the page's cookie as an Authorization header has it; None without such a cookie.

    Read by hand: a token has no character that a cookie quotes, and the library's reader takes quadratic time for some.
    """
    token = None
    for sent in (value for name, value in scope["headers"] if name == b"cookie"):
        for pair in sent.split(b";"):
            name, _, value = pair.partition(b"=")
            if name.strip() == _COOKIE and _is_token(value.strip()):
                token = value.strip()
    return None if token is None else b"Bearer " + token


def _to_login(scope: Scope) -> Response:
    """Returns the way to the form that asks for a token, and back."""
    return RedirectResponse(login_address(scope["raw_path"], scope["query_string"]), 303)
