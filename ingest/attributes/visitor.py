"""Who a visitor is, as a hash, and the groups that a hit's link is in.

A visitor is known by the name that the shortener gives, else by address and agent. Only a hash of that is kept, under a
salt of its UTC day: the same visitor has other hashes on another day and at another link, and none can be computed
again once the salt is deleted. What names a visitor is never repeated: errors are answered and logged.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from clickcurve.buckets.breakdowns.visitors import HASH_BYTES
from clickcurve.buckets.errors import HitRejected
from clickcurve.keys import GROUP_BYTES
from ingest.attributes.country import address_of
from ingest.attributes.text import text_of

VISITOR_RULE = "1 to 128 visible ASCII characters"
GROUPS = 4
GROUPS_RULE = f"a list of at most {GROUPS} names of 1 to {GROUP_BYTES} bytes"
VISITOR_PATTERN = r"^[!-~]{1,128}\Z"
# Names that certainly are good; others may be, and are looked at one by one.
GROUP_PATTERN = r"^([ -~]{1,64}|[^\x00-\x1f\x7f-\x9f]{1,16})\Z"
_VISITOR = re.compile(VISITOR_PATTERN)


def is_visitor(value: object) -> bool:
    """Tells whether a value can be the field `visitor` of a hit."""
    return isinstance(value, str) and _VISITOR.search(value) is not None


def require_visitor(value: object) -> None:
    """Raises HitRejected unless the field `visitor` of a hit is valid."""
    if not is_visitor(value):
        raise HitRejected("visitor is not a valid text", field="visitor", value=None, rule=VISITOR_RULE)


def require_groups(value: object) -> None:
    """Raises HitRejected unless the field `groups` of a hit is valid."""
    if not isinstance(value, list) or len(value) > GROUPS:
        raise HitRejected("groups is not a valid list", field="groups", value=value, rule=GROUPS_RULE)
    for name in value:
        require_group(name, "groups", GROUPS_RULE)


def are_groups(value: object) -> bool:
    """Tells whether a value can be the field `groups` of a hit."""
    try:
        require_groups(value)
    except HitRejected:
        return False
    return True


def require_group(name: object, field: str, rule: str) -> None:
    """Raises HitRejected unless a value of this field is a name of a group."""
    if not text_of(name, field, rule, GROUP_BYTES):
        raise HitRejected("a group's name is empty", field=field, value="", rule=rule)


def who_of(visitor: str | None, address: str | None, agent: str | None) -> str | None:
    """Returns what identifies the visitor in the fields of a hit; None if they do not suffice.

    An address is the same in any spelling, also as an IPv4 address inside an IPv6 one.
    """
    if visitor is not None:
        return f"visitor {visitor}"
    return f"{address_of(address)} {agent}" if address is not None and agent is not None else None


def visitor_hash(salt: bytes, key: str, who: str) -> int:
    """Returns the hash of a visitor under a day's salt, for one link or group."""
    salted = f"{key}\0{who}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(salted, digest_size=HASH_BYTES, key=salt).digest())
