"""Stored keys: under which key a row of a link, of a rule's history or of all links together is stored."""

from __future__ import annotations

# The row of all links together. Keys have at least one byte, so the empty key is free.
ALL_LINKS = ""

# What is counted of each event of the limiter, each in a row of its own: all that was asked for, and what was admitted.
OUTCOMES = ("asked", "admitted")

# Of callers nothing is kept longer than 31 days: so many fold days, the hour by which those begin late, and a pass over
# quiet rows that may come some hours later.
CALLER_DAYS = 30
_CALLERS = "callers"
_OF_CALLERS = f"\0{_CALLERS}:"


def link_key(key: str) -> str:
    """The stored key of a link: the key itself, but a leading NUL is doubled, which keeps namespaces apart."""
    return "\0" + key if key.startswith("\0") else key


def namespace_key(namespace: str, key: str) -> str:
    """The stored key of a row that is not a link's, such as a rule's history. `namespace` is a plain word."""
    return f"\0{namespace}:{key}"


def limit_key(event: str, outcome: str) -> str:
    """The stored key of what a limiter's event was asked, or admitted: one of OUTCOMES. Event names hold no colon."""
    return namespace_key("limits", f"{event}:{outcome}")


def caller_key(event: str, outcome: str, digest: str) -> str:
    """The stored key of what one caller asked for in an event, or was admitted; `digest` stands for the caller."""
    return namespace_key(_CALLERS, f"{event}:{outcome}:{digest}")


def kept_days(stored: str) -> int | None:
    """For how many days the counts of a stored key may be kept; None = for ever."""
    return CALLER_DAYS if stored.startswith(_OF_CALLERS) else None


def link_of(stored: str) -> str | None:
    """The link a stored key belongs to; None for the all-links row and for other namespaces."""
    if stored.startswith("\0\0"):
        return stored[1:]
    return None if stored == ALL_LINKS or stored.startswith("\0") else stored
