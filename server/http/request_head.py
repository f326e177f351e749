"""What the head of a request must be like to be read: version, `Host`, target, transfer coding, length, cookies. Pure.

The parser takes more than RFC 9112 allows. What two programs on a connection may read differently is refused, since
a proxy in front and this server would then disagree on where a request ends or which site it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from clickcurve.problem import MEDIA_TYPE, problem_body

HeaderFields = Sequence[tuple[bytes, bytes]]
COOKIE_BYTES = 8 * 1024  # of all cookies of a request


class RequestRefused(Exception):
    """A request that is not read on; its connection is closed. `reason` is how /metrics counts it."""

    def __init__(
        self,
        status: int,
        detail: str,
        reason: str = "unreadable",
        *,
        field: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.reason = reason
        self.field = field
        self.rule = rule


def check_head(version: str, url: bytes, headers: HeaderFields) -> None:
    """Raises RequestRefused for a head that RFC 9112 forbids, or that is not meant for this server."""
    if version not in ("1.1", "1.0"):
        raise RequestRefused(505, f"this server speaks HTTP/1.1, not HTTP/{version}")
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise RequestRefused(400, f"a request of HTTP/1.1 has one Host header, this one has {hosts}")
    if b"#" in url:  # taken for a fragment, what follows it would be cut off: DELETE of the link a#b would erase a
        raise RequestRefused(400, "the target of a request has no bare #; in a key it is written %23")
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and version == "1.0":
        raise RequestRefused(400, "HTTP/1.0 has no transfer coding")
    if codings and codings != [b"chunked"]:
        raise RequestRefused(501, "the only transfer coding here is chunked; compress with Content-Encoding")


def check_cookies(headers: HeaderFields) -> None:
    """Raises RequestRefused for cookies that the parsers of libraries take long for.

    The framework reads the cookies of each request with `http.cookies`, which takes quadratic time for backslashes
    within quotes before Python 3.11.10 and 3.12.6: 0.5 s for 16,000 of them.
    """
    cookies = [value for name, value in headers if name == b"cookie"]
    if sum(map(len, cookies)) > COOKIE_BYTES:
        rule = f"at most {COOKIE_BYTES:,} bytes"
        raise RequestRefused(431, "the cookies of the request are too long", "headers", field="Cookie", rule=rule)
    if any(b"\\" in value for value in cookies):
        raise RequestRefused(400, "a cookie has a backslash", field="Cookie", rule="no backslash (RFC 6265, 4.1.1)")


def check_length(url: bytes, headers: HeaderFields, most: int) -> None:
    """Raises RequestRefused for a head of more bytes, each line with its end."""
    line = len(b"GET  HTTP/1.1\r\n") + len(url)
    if line + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers) + len(b"\r\n") > most:
        raise too_long(most)


def too_long(most: int) -> RequestRefused:
    return RequestRefused(431, f"the request line and the headers are longer than {most:,} bytes", "headers")


def refusal(
    status: int,
    title: str,
    detail: str,
    retry_after_s: int | None = None,
    *,
    field: str | None = None,
    rule: str | None = None,
) -> bytes:
    """Returns a whole answer as bytes, after which the connection is closed."""
    body = problem_body(status, title, detail, field=field, rule=rule)
    again = "" if retry_after_s is None else f"retry-after: {retry_after_s}\r\n"
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\n{again}connection: close\r\n\r\n"
    )
    return head.encode() + body
