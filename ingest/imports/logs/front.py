"""Who asked and for which host, as far as the words before a line's time say it.

`%h %l %u`, perhaps with `%v` or `%v:%p` in front, is what servers write. Behind proxies, in containers and through
syslog the words may also be an address with its port, a list of X-Forwarded-For, or times and names of programs:

    203.0.113.7 - ann                         a.example:443 203.0.113.7 - -
    203.0.113.7, 10.0.0.3 - -                 "203.0.113.7" - -
    2026-11-27T10:00:00Z 203.0.113.7 - -      Nov 27 10:00:00 web1 nginx: 203.0.113.7 - -
"""

from __future__ import annotations

import re
from typing import NamedTuple

from clickcurve.buckets.errors import HitRejected
from clickcurve.hosts import host_of_key
from ingest.attributes.country import address_of

WORDS = 16  # of the front that are looked at
_BARE = re.compile(r"\[([0-9A-Fa-f:.%]++)\](?::[0-9]{1,5})?|([0-9.]++):[0-9]{1,5}")  # brackets and port of an address
_OF_SERVER = re.compile(r"(?:\[[^\]]*+\]|[^:]*+):(?:80|443)\Z")  # no client has these ports
NO_TEXT = "\ufeff\0"  # a byte order mark, and what a file holds where it was truncated under its writer
_NUMBERS = re.compile(r"[0-9.:]*\Z")


class Front(NamedTuple):
    """client: the address, as `address_of` writes it; None if there is none. host: "" if none stands before it."""

    client: str | None
    host: str


def read_front(front: str) -> Front:
    """Reads what stands before the time. A host is the word next to the address, if it looks like one."""
    first, _, rest = front.partition(" ")
    if rest.startswith("- ") and (client := client_of(first)) is not None:
        return Front(client, "")  # nearly all lines
    words = front.lstrip(NO_TEXT).replace('"', "").replace(",", ", ").split(None, WORDS)[:WORDS]
    for place, word in enumerate(words):
        client = None if place + 1 < len(words) and _OF_SERVER.match(word) else client_of(word)
        if client is None:
            continue
        before = words[place - 1] if place else ""
        if is_host(before, is_first=place == 1):
            return Front(client, before)
        behind = words[place + 1] if place + 2 < len(words) else ""
        return Front(client, behind if is_host(behind) else "")
    return Front(None, "")


def client_of(text: str) -> str | None:
    """Returns the first address of a list, without its port; None if there is none."""
    for word in text.split(",", WORDS)[:WORDS]:
        bare = _BARE.fullmatch(word.strip(' "'))
        try:
            return address_of(bare[1] or bare[2] if bare else word)
        except HitRejected:
            continue
    return None


def is_host(word: str, is_first: bool = False) -> bool:
    """Tells whether a word is a host: with a dot and no number at its end, or an address with a port of servers.

    A name without a dot is one where it stands first, as `%v` does; elsewhere it may be a program's or a user's.
    """
    host = host_of_key(word)
    if not host or word.endswith(":"):  # `nginx:` is what syslog puts before a line
        return False
    if _OF_SERVER.match(word) and client_of(word) is not None:
        return True
    name = host.partition(":")[0].rstrip(".")
    *_, last = name.split(".")
    return not _NUMBERS.match(last) and ("." in name or is_first)
