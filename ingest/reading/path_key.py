"""A key from a path: percent-decoded exactly once, from the bytes that the client sent."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from clickcurve.buckets.errors import HitRejected
from ingest.hit import KEY_RULE, key_of, shown

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def key_in(raw: bytes) -> str:
    """The key of one path segment, as sent; HitRejected if it is not percent-encoded UTF-8 or no key."""
    if broken := _BROKEN_ESCAPE.search(raw):
        detail = f"the path has a % that two hexadecimal digits do not follow (byte {broken.start()} of the key)"
        raise HitRejected(detail, field="key", value=shown(raw), rule="a percent sign itself is %25")
    try:
        return key_of(unquote_to_bytes(raw).decode())
    except UnicodeDecodeError:
        detail = "the key in the path is not percent-encoded UTF-8"
        raise HitRejected(detail, field="key", value=shown(raw), rule=KEY_RULE) from None
