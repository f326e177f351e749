"""Which answers of an application are hits, and with which fields: for the middleware beside this file. Pure.

As in `clickcurve import`: a GET that is answered by a redirect is a hit; the key is the path without its first slash
and without the query, percent-decoded once. What a visitor's browser says is made fit for the server, which cuts it in
any case. A browser that fetches a link before anybody has clicked says so: its hit is a bot's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote

from clickcurve.keys import decoded_once
from clickcurve.limiter.http.address import addresses

REDIRECTS = frozenset({301, 302, 303, 307, 308})
FIELDS = ("ua", "ref", "lang", "ip", "source", "utm")
_HEADERS = {"ua": "user-agent", "ref": "referer", "lang": "accept-language"}
_UTM = ("source", "medium", "campaign")
_BYTES = {"ua": 2048, "ref": 2048, "lang": 1024, "source": 64, "utm": 2048}
_MOST_PARAMETERS = 100
# What browsers send with a fetch before a click: `prefetch;prerender`, and older ones `prefetch` or `preview`.
_AHEAD_HEADERS = ("sec-purpose", "purpose", "x-purpose", "x-moz")
_AHEAD = re.compile(rb"\s*(?:prefetch|prerender|preview)\b", re.IGNORECASE)
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class TakesHits(Protocol):
    """A client, sync or async."""

    @property
    def hit(self) -> Callable[..., None]: ...


class RedirectCounter:
    """Reports an application's redirects.

    statuses: of the answers that count. prefix: of the paths that count; it is not part of the key. fields: what is
    said of a visitor beside the key. trusted_proxies: networks of one's own proxies, whose X-Forwarded-For is believed.
    """

    def __init__(
        self,
        clicks: TakesHits,
        *,
        statuses: Collection[int] = REDIRECTS,
        prefix: str = "/",
        fields: Collection[str] = FIELDS,
        trusted_proxies: str = "",
    ) -> None:
        if unknown := set(fields) - set(FIELDS):
            raise ValueError(f"unknown fields {sorted(unknown)}; known: {', '.join(FIELDS)}")
        self._clicks = clicks
        self._statuses = frozenset(statuses)
        self._prefix = prefix
        self._headers = [(name, header) for name, header in _HEADERS.items() if name in fields]
        self._fields = frozenset(fields)
        self._addresses = addresses(trusted_proxies, ipv6_prefix=128)

    def wants(self, method: str, status: int) -> bool:
        return status in self._statuses and method == "GET"

    def count(self, path: str, query: str, header: Callable[[str], bytes | None], peer: str | None) -> None:
        """Reports one hit if the path has a key. path: percent-encoded. header: gives one by its name in lower case."""
        key = decoded_once(path.removeprefix(self._prefix))
        if not key or not path.startswith(self._prefix):
            return
        attributes: dict[str, Any] = {name: _fit(name, header(of) or b"") for name, of in self._headers}
        if "ip" in self._fields:
            attributes["ip"] = self._address(peer or "", header("x-forwarded-for"))
        if "=" in query:
            attributes |= {name: value for name, value in _campaign(query).items() if name in self._fields}
        attributes["bot"] = any(_AHEAD.match(header(name) or b"") for name in _AHEAD_HEADERS)
        self._clicks.hit(key, **{name: value for name, value in attributes.items() if value})

    def _address(self, peer: str, forwarded: bytes | None) -> str | None:
        headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded)]
        address = self._addresses.client({"client": (peer, 0), "headers": headers})
        try:
            return str(ip_address(address))
        except ValueError:
            return None  # a local socket, or a test's client


def encoded_path(raw: bytes) -> str:
    """Returns a path as it was sent, with escapes for its bytes that are no visible ASCII."""
    return quote(raw, safe=_PRINTABLE)


def _fit(name: str, value: bytes) -> str:
    """Returns what the server takes of a text: as many bytes as it allows, without control characters."""
    return _CONTROL.sub(" ", value[: _BYTES[name]].decode("utf-8", "ignore")).strip()


def _campaign(query: str) -> dict[str, Any]:
    """Returns `source` and `utm` where the query of a link names them."""
    try:
        given = dict(reversed(parse_qsl(query, max_num_fields=_MOST_PARAMETERS)))
    except ValueError:
        return {}  # more parameters than anybody names a campaign with
    utm = {name: _fit("utm", given.get(f"utm_{name}", "").encode()) for name in _UTM}
    source = _fit("source", (given.get("source") or given.get("src") or "").encode())
    return {"source": source, "utm": {name: value for name, value in utm.items() if value}}
