"""Totals, curves and values, answered in front of the web framework, which would cost as much or more.

All methods of their paths are answered here; all other paths go to the next application, unread. What the OpenAPI page
says of them: HOT_PATHS of `query.http.openapi`, HOT_PATHS_OF_VALUES of `query.http.openapi_breakdowns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from clickcurve.asgi import SAFE, Application, Receive, Scope, Send
from clickcurve.buckets.errors import MethodNotAllowed, ParameterInvalid
from clickcurve.budget import budgeted
from clickcurve.keys import key_in_path, link_key
from query.breakdowns.queries import ALL, BreakdownQueries, Subject
from query.queries import Queries

LINKS = b"/v1/links/"
_OF_CURVES = ((b"vary", b"accept"), *SAFE)
_BY = b"by/"
_VALUES_OF_ONE, _VALUES_OF_ALL = (re.compile(before + rb"by/[^/]+").fullmatch for before in (b"", b"/v1/"))


class HotQueries:
    """`GET /v1/links/{key}/total`, `/curve` and `/by/{dimension}`, and those of all links, as a plain ASGI callable.

    breakdowns: None where hits are not divided; then paths of values are others, too. refuse turns an error into an
    application that answers it; following answers all other paths.
    """

    def __init__(
        self,
        queries: Queries,
        breakdowns: BreakdownQueries | None,
        refuse: Callable[[Exception], Application],
        following: Application,
    ) -> None:
        self._queries = queries
        self._breakdowns = breakdowns
        self._refuse = refuse
        self._following = following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, or hands it on; either with a budget of its own."""
        with budgeted():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = hot_target(scope)
        breakdowns = self._breakdowns
        if target is None or (breakdowns is None and target[1].startswith(_BY)):
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
            elif breakdowns is None or what == b"total":  # without breakdowns no other is left
                media, body = await self._queries.total(key, query)
                more = SAFE
            else:
                subject = ALL if key is None else Subject(link_key(key), key)
                dimension = dimension_in_path(what[len(_BY) :])
                media, body = await breakdowns.by(subject, dimension, query, accepts_csv(scope["headers"]))
                more = _OF_CURVES
        except Exception as error:
            await self._refuse(error)(scope, receive, send)
            return
        # Not as an Answer, which costs more to make than to send.
        headers = [(b"content-type", media.encode()), (b"content-length", b"%d" % len(body)), *more]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def hot_target(scope: Scope) -> tuple[bytes | None, bytes] | None:
    """Returns the raw key (None: all links) and `total`, `curve` or `by/` and a dimension; None: of another path.

    The path is read raw, because a key may hold an encoded slash, or be called `total`.
    """
    if scope["type"] != "http":
        return None
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if raw.startswith(LINKS):
        key, _, what = raw[len(LINKS) :].partition(b"/")
        return (key, what) if key and (what in (b"total", b"curve") or _VALUES_OF_ONE(what)) else None
    return (None, raw[4:]) if raw in (b"/v1/total", b"/v1/curve") or _VALUES_OF_ALL(raw) else None


def dimension_in_path(raw: bytes) -> str:
    """Returns the dimension that a raw path segment names. What is not UTF-8 is none that is known."""
    return unquote(raw.decode("latin-1"), errors="replace")


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
