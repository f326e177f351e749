"""Keys of links, names of groups, and stored keys: under which key a store keeps a row.

A link's key is what a shortener sends: 1 to 1,024 bytes of UTF-8, kept as given. A group is named by the hits that are
in it. A stored key names a row of a link, of a group, of a rule's history or of all links together, or a breakdown.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.measures import clicks_row, measured

KEY_BYTES = 1024
KEY_RULE = f"a string of 1 to {KEY_BYTES:,} bytes of UTF-8"

GROUP_BYTES = 64
GROUP_RULE = f"a name of 1 to {GROUP_BYTES} bytes of UTF-8"

# The row of all links together. Keys have at least one byte, so the empty key is free.
ALL_LINKS = ""

# What is counted of each event of the limiter, each in a row of its own: all that was asked for, and what was admitted.
OUTCOMES = ("asked", "admitted")

# Of callers nothing is kept longer than 31 days: so many fold days, the hour by which those begin late, and a pass over
# quiet rows that may come some hours later.
CALLER_DAYS = 30
_CALLERS = "callers"
_OF_CALLERS = f"\0{_CALLERS}:"

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_STAY_ESCAPED = "clickcurve.stay-escaped"  # an error handler of codecs


def _escaped_again(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_STAY_ESCAPED, _escaped_again)


# --- keys of links ----------------------------------------------------------------------------------------------------
def require_key(value: object, error: type[ClickcurveError]) -> str:
    """Returns the value if it is a key of a link; else raises `error` with field, value and rule."""
    if not isinstance(value, str):
        what = "is missing" if value is None else "must be a string"
        raise error(f"key {what}", field="key", value=value, rule=KEY_RULE)
    if 0 < len(value) <= KEY_BYTES // 4 and value.isprintable():
        return value  # nothing printable is a surrogate, and no character takes more than 4 bytes
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        detail = "key is not Unicode text: it holds half of a surrogate pair, or bytes that are not UTF-8"
        raise error(detail, field="key", value=value, rule=KEY_RULE) from None
    if size == 0:
        raise error("key is empty", field="key", value="", rule=KEY_RULE)
    if size > KEY_BYTES:
        raise error(f"key has {size:,} bytes", field="key", value=value, rule=KEY_RULE)
    return value


def is_key(value: object) -> bool:
    """Tells whether `require_key` returns the value; makes no error and no text."""
    if not isinstance(value, str):
        return False
    if 0 < len(value) <= KEY_BYTES // 4 and value.isprintable():
        return True
    try:
        return 0 < len(value.encode()) <= KEY_BYTES
    except UnicodeEncodeError:
        return False


def group_in_path(raw: bytes, error: type[ClickcurveError]) -> str:
    """Returns the group that a raw path segment names, decoded as a key; raises `error` for what is no name."""
    name = key_in_path(raw, error)
    if len(name.encode()) > GROUP_BYTES:
        raise error(f"the name has {len(name.encode())} bytes", field="group", value=name, rule=GROUP_RULE)
    return name


def require_group(name: str, error: type[ClickcurveError]) -> str:
    """Returns the name if it is one of a group; else raises `error` with field, value and rule."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= GROUP_BYTES:
        raise error("not a name of a group", field="group", value=name, rule=GROUP_RULE)
    return name


def row_named(key: str | None, group: str | None, error: type[ClickcurveError]) -> str | None:
    """Returns the stored key of the link or the group that is named; None where neither is. Raises `error`."""
    if key is not None and group is not None:
        rule = "key, or group, or neither"
        raise error("both a link and a group are named", field="group", value=group, rule=rule)
    if key is not None:
        return link_key(require_key(key, error))
    return None if group is None else group_key(require_group(group, error))


def key_in_path(raw: bytes, error: type[ClickcurveError]) -> str:
    """Returns the key that a raw path segment names, percent-decoded exactly once.

    Raises `error` if the segment is not percent-encoded UTF-8, or not a key.
    """
    decoded = raw
    if b"%" in raw:
        if broken := _BROKEN_ESCAPE.search(raw):
            detail = f"the path has a % that two hexadecimal digits do not follow (byte {broken.start()} of the key)"
            raise error(detail, field="key", value=raw, rule="a percent sign itself is %25")
        decoded = unquote_to_bytes(raw)
    try:
        return require_key(decoded.decode(), error)
    except UnicodeDecodeError:
        detail = "the key in the path is not percent-encoded UTF-8"
        raise error(detail, field="key", value=raw, rule=KEY_RULE) from None


def decoded_once(path: str) -> str:
    """Returns the key that a path of a URL names, percent-decoded exactly once, as `key_in_path` decodes it.

    Nothing is refused, for the redirect has happened: bytes that are not UTF-8 stay escaped, with capital digits, and
    so does a % that two hexadecimal digits do not follow.
    """
    return _ESCAPES.sub(_decoded, path) if "%" in path else path


def _decoded(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("%", "")).decode("utf-8", _STAY_ESCAPED)


def contains(key: str, text: str) -> bool:
    """Tells whether a key contains a text; letters of ASCII match in either case."""
    return text.encode().lower() in key.encode().lower()


# --- the form in which keys count ---------------------------------------------------------------------------------
# In a path the key of a link stands after these, a bitlink's after its host.
_BEFORE_KEY = ((b"", b"v1", b"links"), (b"", b"v1", b"hits"), (b"", b"links"), (b"", b"v4", b"bitlinks", None))


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What tells two keys apart: everything, or not the case of letters, or not slashes at their ends.

    Some shorteners follow `/Launch` and `/launch/` as `/launch`; hits and questions then mean one link.
    """

    lower: bool = False
    without_slash: bool = False

    def __bool__(self) -> bool:
        """Tells whether it changes any key."""
        return self.lower or self.without_slash

    def of(self, key: str) -> str:
        """Returns a key in the form in which it counts."""
        form = self.start_of(key)
        return (form.rstrip("/") or form) if self.without_slash else form

    def start_of(self, text: str) -> str:
        """Returns how keys begin that in any form begin with a text."""
        if not self.lower:
            return text
        form = text.lower()
        return form if form.isascii() or len(form.encode("utf-8", "surrogatepass")) <= KEY_BYTES else text

    def of_row(self, stored: str) -> str:
        """Returns the stored key of a link, or of its events, in this form; any other as it is."""
        if not self:
            return stored
        measure, clicks = measured(stored)
        key = link_of(clicks)
        return stored if key is None else measure.row(link_key(self.of(key)))

    def in_path(self, raw: bytes) -> bytes:
        """Returns a raw path with the key that it names in this form; any other path as it is."""
        parts = raw.split(b"/")
        for before in _BEFORE_KEY:
            at = len(before)
            stands = all(each in (None, part) for each, part in zip(before, parts, strict=False))
            if stands and len(parts) > at and parts[at]:
                try:
                    key = key_in_path(parts[at], _NoKey)
                except _NoKey:
                    return raw
                parts[at] = quote(self.of(key), safe="").encode()
                return b"/".join(parts)
        return raw


class _NoKey(ClickcurveError):
    """A part of a path is no key."""


AS_GIVEN = KeyForm()


# --- stored keys ------------------------------------------------------------------------------------------------------
def link_key(key: str) -> str:
    """Returns the stored key of a link: the key itself. A leading NUL is doubled, which keeps namespaces apart."""
    return "\0" + key if key.startswith("\0") else key


def link_of(stored: str) -> str | None:
    """Returns the link that a stored key belongs to; None for the all-links row and for other namespaces."""
    if stored.startswith("\0\0"):
        return stored[1:]
    return None if stored == ALL_LINKS or stored.startswith("\0") else stored


def counts_a_link(stored: str) -> bool:
    """Tells whether a stored key is that of a link's row of counts: of its clicks, or of what came of them."""
    return link_of(stored) is not None or link_of(clicks_row(stored)) is not None


def namespace_key(namespace: str, key: str) -> str:
    """Returns the stored key of a row that is not a link's, such as a history's. `namespace` is a plain word."""
    return f"\0{namespace}:{key}"


def group_key(name: str) -> str:
    """Returns the stored key of a group's row."""
    return namespace_key("group", name)


FIRST_GROUP = group_key("")  # stands before the stored keys of all groups


def group_of(stored: str) -> str | None:
    """Returns the group that a stored key belongs to; None for all other rows."""
    return stored.removeprefix(FIRST_GROUP) if stored.startswith(FIRST_GROUP) else None


_OF_BREAKDOWNS = namespace_key("by", "")
BREAKDOWN_KEYS = _OF_BREAKDOWNS, f"{_OF_BREAKDOWNS[:-1]};"  # they lie from the first on, and before the second


def breakdown_key(key: str) -> str:
    """Returns the stored key of a link's breakdown; of that of all links together for ALL_LINKS."""
    return breakdown_of(link_key(key))


def breakdown_of(stored: str) -> str:
    """Returns the stored key of the breakdown that belongs to a row of counts."""
    return _OF_BREAKDOWNS + stored


def counts_key(stored: str) -> str:
    """Returns the stored key of the row of counts of a breakdown; any other stored key as it is."""
    return stored.removeprefix(_OF_BREAKDOWNS)


_OF_MOVED = namespace_key("moved", "")


def moved_key(stored: str) -> str:
    """Returns the stored key of what was called bots of a row of counts: of a link, a group or all links."""
    return _OF_MOVED + stored


def corrected_key(stored: str) -> str:
    """Returns the stored key of the row of counts that a correction is of."""
    return counts_key(stored).removeprefix(_OF_MOVED)


def limit_key(event: str, outcome: str) -> str:
    """Returns the stored key of the hits of a limiter's event, by outcome: one of OUTCOMES. Events hold no colon."""
    return namespace_key("limits", f"{event}:{outcome}")


def caller_key(event: str, outcome: str, digest: str) -> str:
    """Returns the stored key of one caller's hits of an event, by outcome; `digest` stands for the caller."""
    return namespace_key(_CALLERS, f"{event}:{outcome}:{digest}")


class Subject(NamedTuple):
    """What a question is about: a stored row of counts, and what it is called in the answer; None: all links."""

    stored: str
    name: str | None


ALL = Subject(ALL_LINKS, None)


def link_subject(key: str) -> Subject:
    """Returns a link as the subject of a question."""
    return Subject(link_key(key), key)


def group_subject(name: str) -> Subject:
    """Returns a group as the subject of a question."""
    return Subject(group_key(name), name)


# What an owner counted of rows that it cannot read: see `clickcurve.buckets.quarantine`.
QUARANTINE = namespace_key("set-aside", "")


def kept_days(stored: str) -> int | None:
    """Returns for how many days the counts of a stored key may be kept; None = for ever."""
    return CALLER_DAYS if stored.startswith(_OF_CALLERS) else None
