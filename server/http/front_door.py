"""What every request meets first: the token, the limit of writes, then the hot routes, then the web framework.

Routing and validation of the framework cost more than a hit or a total, so those are answered in front of it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from clickcurve.asgi import Application, Message, Receive, Scope, Send, close_unanswered
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown
from clickcurve.limiter.http.middleware import WRITES, send_refusal
from ingest.reading.hit_endpoint import HitRoutes
from server.http.auth import Gate, scope_of
from server.http.problems import Problems
from server.limiter.limiter import ServerLimiter

LIMIT = b"/v1/limit/"
REFUSED = "rate limit exceeded"


class FrontDoor:
    """The application that the server runs. `answers` counts what is answered by others than the hit routes."""

    def __init__(
        self,
        gate: Gate,
        problems: Problems,
        hits: HitRoutes,
        behind: Application,
        limiting: ServerLimiter | None = None,
    ) -> None:
        self._limiting = limiting
        self._gate = gate
        self._problems = problems
        self._hits = hits
        self._behind = behind
        self.answers: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self._gate.asks() and not await self._allowed(scope, receive, send):
            return
        limiting = self._limiting
        if limiting is not None and limiting.limits_writes and not await self._admitted(limiting, scope, receive, send):
            return
        if not self._hits.serves(scope["raw_path"]):
            await self._rest(scope, receive, send)
            return
        try:  # not in a method of its own: a further coroutine costs as much as the routing
            await self._hits(scope, receive, send)
        except JournalUnknown:
            raise  # the connection is closed without an answer
        except Exception as error:
            with suppress(RuntimeError):  # it had begun to answer: the connection is closed
                await self._problems.answer(error)(scope, receive, send)

    async def _allowed(self, scope: Scope, receive: Receive, send: Send) -> bool:
        needed = scope_of(scope["method"], scope["path"])
        if needed is None:
            return True
        try:
            self._gate.check(needed, _authorization(scope))
        except ClickcurveError as error:
            await self._refuse(error, scope, receive, send)
            return False
        return True

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._problems.answer(error)
        if scope["method"] not in ("GET", "HEAD"):
            response.headers["Connection"] = "close"  # its body is not read
        self.answers[response.status_code] += 1
        await response(scope, receive, send)

    async def _admitted(self, limiting: ServerLimiter, scope: Scope, receive: Receive, send: Send) -> bool:
        """Is the request no write, or one that the limit of writes lets pass? If not, it is answered, its body unread.
        A question to the limiter is no write."""
        if scope["method"] not in WRITES or scope["raw_path"].startswith(LIMIT):
            return True
        features = {"ip": limiting.addresses.client(scope)}
        token = self._gate.token_id(_authorization(scope)) if self._gate.closed else None
        if token is not None:
            features["token"] = token
        try:
            refused = await limiting.refuse_write(features)
        except Exception as error:
            await self._refuse(error, scope, receive, send)
            return False
        if refused is None:
            return True
        self._problems.refused[refused.status, REFUSED] += 1
        self.answers[refused.status] += 1
        await send_refusal(refused, send, *(((b"connection", b"close"),) if _has_body(scope) else ()))
        return False

    async def _rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
            await send(message)

        try:
            await self._behind(scope, receive, counted)
        except JournalUnknown:
            await close_unanswered(send)
            raise
        except Exception:  # answered and told to the log by the app's own handler, which raises it again
            return


def _authorization(scope: Scope) -> bytes | None:
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    return shown[0] if len(shown) == 1 else None


def _has_body(scope: Scope) -> bool:
    """Does the request announce a body? One that is not read must not be taken for the next request."""
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
