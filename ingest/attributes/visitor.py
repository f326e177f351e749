"""Who a visitor is, and the hash that alone is kept of it.

A visitor is known by the name that the shortener gives, else by address and agent. Only a hash of that leaves this
file, under a salt of its UTC day: the same visitor has other hashes on another day and at another link, and none can be
computed again once the salt is deleted. What names a visitor is never repeated: errors are answered and logged.
"""

from __future__ import annotations

from hashlib import blake2b

from clickcurve.buckets.breakdowns.visitors import HASH_BYTES


def who_of(visitor: str | None, address: str | None, agent: str | None) -> str | None:
    """Returns what identifies the visitor in the fields of a hit; None if they do not suffice.

    address: as `address_of` writes it, which is the same in any spelling, also as an IPv4 address inside an IPv6 one.
    """
    if visitor is not None:
        return f"visitor {visitor}"
    return f"{address} {agent}" if address and agent is not None else None


def visitor_hash(salt: bytes, key: str, who: str) -> int:
    """Returns the hash of a visitor under a day's salt, for one link or group."""
    salted = f"{key}\0{who}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(salted, digest_size=HASH_BYTES, key=salt).digest())
