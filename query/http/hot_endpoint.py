"""Totals and curves, answered in front of the web framework, which would cost more than the answer.

All methods of their paths are answered here; all other paths go to the next application, unread. What the OpenAPI page
says of them is `query.http.openapi.HOT_PATHS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from clickcurve.asgi import SAFE, Application, Receive, Scope, Send
from clickcurve.buckets.errors import MethodNotAllowed, ParameterInvalid
from clickcurve.keys import key_in_path
from query.queries import Queries

LINKS = b"/v1/links/"
_OF_CURVES = ((b"vary", b"accept"), *SAFE)


class HotQueries:
    """`GET /v1/links/{key}/total`, `/v1/links/{key}/curve`, `/v1/total` and `/v1/curve` as a plain ASGI callable.

    refuse turns an error into an application that answers it; following answers all other paths.
    """

    def __init__(self, queries: Queries, refuse: Callable[[Exception], Application], following: Application) -> None:
        self._queries = queries
        self._refuse = refuse
        self._following = following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, or hands it on."""
        target = hot_target(scope)
        if target is None:
            await self._following(scope, receive, send)
            return
        raw_key, what = target
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(f"{scope['method']} is not possible at {scope['path']}", rule="GET, HEAD")
            key = None if raw_key is None else key_in_path(raw_key, ParameterInvalid)
            query = scope["query_string"]
            if what == b"curve":
                media, body = await self._queries.curve(key, query, accepts_csv(scope["headers"]))
                more = _OF_CURVES
            else:
                media, body = await self._queries.total(key, query)
                more = SAFE
        except Exception as error:
            await self._refuse(error)(scope, receive, send)
            return
        # Not as an Answer, which costs more to make than to send.
        headers = [(b"content-type", media.encode()), (b"content-length", b"%d" % len(body)), *more]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def hot_target(scope: Scope) -> tuple[bytes | None, bytes] | None:
    """Returns the raw key (None: all links) and `total` or `curve`, or None if the path names neither.

    The path is read raw, because a key may hold an encoded slash, or be called `total`.
    """
    if scope["type"] != "http":
        return None
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if raw.startswith(LINKS):
        key, _, what = raw[len(LINKS) :].partition(b"/")
        return (key, what) if key and what in (b"total", b"curve") else None
    return (None, raw[4:]) if raw in (b"/v1/total", b"/v1/curve") else None


def accepts_csv(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Returns whether the caller prefers CSV to JSON; in doubt, no."""
    for name, value in headers:
        if name == b"accept":
            return b"text/csv" in value.lower() and _prefers_csv(value.decode("latin-1").lower())
    return False


def _prefers_csv(accept: str) -> bool:
    """Compares by quality, equals by which stands first; a type that is named beats a `*`."""
    qualities: dict[str, float] = {}
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        qualities[media] = next((_quality(text[2:]) for text in parameters if text.startswith("q=")), 1.0)
    csv = qualities.get("text/csv", 0.0)
    json = next((qualities[media] for media in ("application/json", "application/*", "*/*") if media in qualities), 0.0)
    named = list(qualities)
    json_first = "application/json" in named and named.index("application/json") < named.index("text/csv")
    return csv > json or (csv == json > 0 and not json_first)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
