"""What the head of a request must be like for it to be read: version, `Host`, target, transfer coding, length. Pure.

The parser takes more than RFC 9112 allows. What two programs on a connection may read differently is refused, since
a proxy in front and this server would then disagree on where a request ends or which site it is for.
"""

from __future__ import annotations

from collections.abc import Sequence

from clickcurve.problem import MEDIA_TYPE, problem_body

HeaderFields = Sequence[tuple[bytes, bytes]]

_PHRASES = {
    400: "Bad Request",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class RequestRefused(Exception):
    """A request that is not read on; its connection is closed. `reason` is how /metrics counts it."""

    def __init__(self, status: int, detail: str, reason: str = "unreadable") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.reason = reason


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


def check_length(url: bytes, headers: HeaderFields, most: int) -> None:
    """Raises RequestRefused for a head of more bytes, each line with its end."""
    line = len(b"GET  HTTP/1.1\r\n") + len(url)
    if line + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers) + len(b"\r\n") > most:
        raise too_long(most)


def too_long(most: int) -> RequestRefused:
    return RequestRefused(431, f"the request line and the headers are longer than {most:,} bytes", "headers")


def refusal(status: int, title: str, detail: str, retry_after_s: int | None = None) -> bytes:
    """Returns a whole answer as bytes, after which the connection is closed."""
    body = problem_body(status, title, detail)
    again = "" if retry_after_s is None else f"retry-after: {retry_after_s}\r\n"
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        f"{again}connection: close\r\n\r\n"
    )
    return head.encode() + body
