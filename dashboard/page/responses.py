"""Pages as answers: complete HTML under a policy that lets them run and fetch nothing but this server's own files."""

from __future__ import annotations

import gzip

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HTML = "text/html; charset=utf-8"
# A page names links, and the address of a shared one is its key: neither is told to other sites. Of its own forms
# the server is told the origin, which it checks.
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_WORTH_BYTES = 1_000


def as_sent(body: bytes, accepted: str, headers: dict[str, str] | None = None) -> tuple[bytes, dict[str, str]]:
    """Returns a body, compressed if the reader takes that, and its headers."""
    fields = {**_HEADERS, **(headers or {})}
    if len(body) >= _WORTH_BYTES and "gzip" in accepted:
        return gzip.compress(body, 6, mtime=0), {**fields, "Content-Encoding": "gzip"}
    return body, fields
