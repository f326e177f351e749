"""What the head of a request must be like for it to be read: version, `Host`, target, transfer coding, length. Pure.

The parser takes more than RFC 9112 allows. What two programs on a connection may read differently is refused, since
a proxy in front and this server would then disagree on where a request ends or which site it is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import httptools

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


class _Heard:
    """Hears what the parser finds in the bytes of one request."""

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.begun = self.heads = self.ended = self.body_bytes = 0
        self.parser = httptools.HttpRequestParser(self)
        self.stays = False  # the connection, after this request, as it is

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.heads += 1
        self.stays = self.parser.should_keep_alive() and not self.parser.should_upgrade()  # later it is not known

    def on_body(self, body: bytes) -> None:
        self.body_bytes += len(body)

    def on_message_complete(self) -> None:
        self.ended += 1

    def so_far(self) -> tuple[int, int, int, int]:
        return self.begun, self.heads, self.body_bytes, self.ended


def read_fields(lines: bytes) -> dict[bytes, bytes] | None:
    """Returns the fields of these header lines, from CR LF to the empty line, as the parser reads them.

    None if they are not exactly one head of a request whose body has the length that it says, and which leaves the
    connection as it is; or if a field stands twice.
    """
    heard = _Heard()
    parser = heard.parser
    try:
        parser.feed_data(b"POST / HTTP/1.1" + lines)
        fields = dict(heard.fields)
        length = fields.get(b"content-length", b"0")
        if len(fields) < len(heard.fields) or not (length.isdigit() and len(length) < 5):
            return None
        body_bytes = int(length)
        if not heard.stays or b"host" not in fields or heard.so_far() != (1, 1, 0, 0 if body_bytes else 1):
            return None
        if body_bytes:
            parser.feed_data(bytes(body_bytes - 1))
            if heard.so_far() != (1, 1, body_bytes - 1, 0):
                return None
            parser.feed_data(b"\0")
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    return fields if heard.so_far() == (1, 1, body_bytes, 1) else None
