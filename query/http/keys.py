"""Keys as they stand in paths and in CSV."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from clickcurve.buckets.errors import ParameterInvalid

MAX_KEY_BYTES = 1024
KEY_RULE = f"1 to {MAX_KEY_BYTES} bytes of UTF-8, percent-encoded in paths, slash included"


def key_of(raw: bytes) -> str:
    """The key that one raw path segment names: percent-decoded exactly once. ParameterInvalid if it cannot be a key."""
    data = unquote_to_bytes(raw) if b"%" in raw else raw
    if not 0 < len(data) <= MAX_KEY_BYTES:
        raise ParameterInvalid(
            f"a key has 1 to {MAX_KEY_BYTES} bytes, this one has {len(data)}",
            field="key",
            value=data[:64].decode(errors="replace"),
            rule=KEY_RULE,
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ParameterInvalid(
            "the key is not UTF-8 once percent-decoded",
            field="key",
            value=data[:64].decode(errors="replace"),
            rule=KEY_RULE,
        ) from None


def csv_field(text: str) -> str:
    """One field as RFC 4180 quotes it. The text itself is kept as it is: a key that begins with `=` keeps it."""
    if any(sign in text for sign in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
