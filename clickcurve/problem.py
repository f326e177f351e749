"""Errors as answers: `application/problem+json` (RFC 9457), always with `title`, `status` and `detail`.

Bytes and plain headers, so that the web framework, the callables in front of it, the limiter's middleware and a socket
that is full all say it in the same way. Every 429 and 503 for an error of ours carries Retry-After: nothing was
counted, so the same request may be sent again.
"""

from __future__ import annotations

import json

from clickcurve.asgi import SAFE, Answer, Headers, answer
from clickcurve.buckets.errors import ClickcurveError, MethodNotAllowed, NotAllowed, NotAuthenticated, Plain

MEDIA_TYPE = "application/problem+json"

_RETRY_STATUSES = (429, 503)


def problem(error: ClickcurveError, more: Headers = ()) -> Answer:
    """Returns the answer to an error of ours; `more` are further headers, names in lower case."""
    return answer(error.status, error_body(error), MEDIA_TYPE.encode(), (*more, *SAFE, *error_headers(error)))


def problem_answer(status: int, title: str, detail: str, more: Headers = ()) -> Answer:
    """Returns an answer that says what is wrong where no error is raised."""
    return answer(status, problem_body(status, title, detail), MEDIA_TYPE.encode(), (*more, *SAFE))


def error_body(error: ClickcurveError) -> bytes:
    """Returns the document of an error of ours."""
    return problem_body(error.status, error.title, error.detail, field=error.field, value=error.value, rule=error.rule)


def error_headers(error: ClickcurveError) -> Headers:
    """Returns what a client needs next: Retry-After, WWW-Authenticate or Allow."""
    if error.status in _RETRY_STATUSES:
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    if isinstance(error, NotAuthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    if isinstance(error, NotAllowed):
        return ((b"www-authenticate", f'Bearer error="insufficient_scope", scope="{error.rule}"'.encode()),)
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", str(error.rule).encode()),)
    return ()


def problem_body(
    status: int,
    title: str,
    detail: str,
    *,
    field: str | None = None,
    value: Plain = None,
    rule: str | None = None,
    **more: object,
) -> bytes:
    """Returns the document as compact JSON in ASCII; members that are None are left out. more: further members."""
    members = {"field": field, "value": value, "rule": rule}
    given = {name: member for name, member in members.items() if member is not None} | more
    return json.dumps({"title": title, "status": status, "detail": detail, **given}, separators=(",", ":")).encode()
