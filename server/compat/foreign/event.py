"""An event of somebody else's product as a hit of ours, by a table of where that product says what.

A place is a path of names in the event, such as `context.page.url`; the first place that says something counts. What a
product does not say in the event may stand in header fields of the request (`Product.in_headers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.keys import decoded_once
from ingest.attributes.campaign import UTM, campaign_of_query
from ingest.hit import is_id
from server.compat.foreign.outcomes import Event, Outcomes, Places, Units, counted_name, value_of
from server.settings.sites import Site

Headers: TypeAlias = Mapping[str, str]  # of the request, names in lower case

LONGEST_URL = 8_192
KIND = "kind"  # the reason why an event is no hit: it tells of something else
KEY = "key"  # ... or of a page that the settings do not count
_SITES = 10**9  # above all numbers of sites
_WEB = ("http", "https")  # an app sends addresses of another scheme, whose host is no domain
# Fields of a hit that are texts of the event as they are.
_TEXTS = ("ref", "ua", "ip", "country", "lang", "visitor")
_IN_HEADERS = {"ua": "user-agent", "ip": "x-forwarded-for", "lang": "accept-language"}


class NotCounted(Exception):
    """An event that is no hit. reason: one of a few words, for /metrics; what: a sentence."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason, self.what = reason, what


@dataclass(frozen=True, slots=True)
class Product:
    """Where a product says what in its events.

    is_click: whether an event is a visit of a page or a click. outcomes: what came of clicks; other events are no hits.
    key, host, id, ts, query: places; url: places of addresses, from which key, host and query come where the product
    does not say these. texts: places of the fields of a hit by name; campaign: of `source` and of the names of UTM.
    in_headers: fields that the request's header says where the event does not; own_agent: a word of the agent of its
    own libraries, who is no visitor. none: texts that stand for no referrer. qr: the place that is true of a click by a
    QR code. site: the place of the site that a hit is of.
    """

    name: str
    is_click: Callable[[Event], bool]
    url: Places = ()
    key: Places = ()
    host: Places = ()
    query: Places = ()
    id: Places = ()
    ts: Places = ()
    texts: Mapping[str, Places] = field(default_factory=dict)
    campaign: Mapping[str, Places] = field(default_factory=dict)
    in_headers: frozenset[str] = frozenset()
    own_agent: str = ""
    none: frozenset[str] = frozenset()
    qr: str = ""
    site: str = ""
    outcomes: Outcomes | None = None


class ReadHit(NamedTuple):
    """The hit that an event is. without_value: why the amount that it has does not count, else empty."""

    hit: dict[str, Any]
    without_value: str = ""


def read_hit(product: Product, event: Event, headers: Headers, hosts: Hosts, units: Units) -> ReadHit:
    """Returns the hit that an event is: a click, or one of the events that have units. Raises NotCounted."""
    if product.is_click(event):
        return ReadHit(hit_of(product, event, headers, hosts))
    outcomes = product.outcomes
    name = counted_name(outcomes, event, units) if outcomes else ""
    if outcomes is None or not name:
        raise NotCounted(KIND, "only visits, clicks and the events of the settings are hits")
    if _text_at(event, outcomes.key):  # a whole key, which says its host itself if keys have one
        product, hosts = replace(product, url=(), host=(), key=outcomes.key), HOSTS_IGNORED
    itself = replace(
        product,
        id=product.id if outcomes.id is None else outcomes.id,
        ts=product.ts if outcomes.ts is None else outcomes.ts,
    )
    hit = hit_of(itself, event, headers, hosts) | {"event": name}
    value = value_of(
        _at_one(event, outcomes.amount), _at_one(event, outcomes.currency), units[name], outcomes.in_smallest
    )
    if value.value is not None:
        hit["value"] = value.value
    return ReadHit(hit, value.reason)


def hit_of(product: Product, event: Event, headers: Headers, hosts: Hosts) -> dict[str, Any]:
    """Returns the hit of a link that an event is; raises NotCounted if it names none."""
    key, query = _link(product, event, hosts)
    source, utm = campaign_of_query(_text_at(event, product.query) or query)
    hit: dict[str, Any] = {"key": key, "id": _id(product, event), "ts": _ts(product, event)}
    for name in _TEXTS:
        text = _text_at(event, product.texts.get(name, ()))
        if not text and name in product.in_headers:
            text = headers.get(_IN_HEADERS[name], "")
            if name == "ua" and product.own_agent and product.own_agent in text:
                text = ""  # it would be judged as a bot
        if text not in product.none:
            hit[name] = text
    if len(hit.get("country", "")) != 2:  # a name: the address tells better
        hit.pop("country", None)
    by_qr = bool(product.qr) and at(event, product.qr) is True
    hit["source"] = "qr" if by_qr else _text_at(event, product.campaign.get("source", ())) or source
    said = {name: _text_at(event, product.campaign.get(f"utm_{name}", ())) or utm.get(name) for name in UTM}
    hit["utm"] = {name: text for name, text in said.items() if text}
    return {name: value for name, value in hit.items() if value not in (None, "", {})}


def in_site(product: Product, event: Event, hit: dict[str, Any], sites: Mapping[str, Site]) -> dict[str, Any]:
    """Returns a hit as its site has it: behind the prefix, in the group. A site that is unknown changes nothing."""
    named = at(event, product.site) if product.site else None
    if type(named) is int and 0 <= named < _SITES:  # in a bulk of JSON
        named = str(named)
    site = sites.get(named) if isinstance(named, str) else None
    if site is None:
        return hit
    return hit | {"key": site.prefix + hit["key"]} | ({"groups": [site.group]} if site.group else {})


def at(event: object, place: str) -> object:
    """Returns what stands at a place of an event; None: nothing, or it is no object."""
    value = event
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _at_one(event: Event, places: Places) -> object:
    """Returns the first that stands at one of the places; None: nothing does."""
    return next((value for place in places if (value := at(event, place)) is not None), None)


def _text_at(event: Event, places: Places) -> str:
    """Returns the first text that stands at one of the places; "" for none."""
    return next((value for place in places if isinstance(value := at(event, place), str) and value), "")


def _link(product: Product, event: Event, hosts: Hosts) -> tuple[str, str]:
    """Returns the key and the query of the link."""
    address, path = _text_at(event, product.url), _text_at(event, product.key)
    try:
        parts = urlsplit(address if len(address) <= LONGEST_URL else "")
    except ValueError:
        parts = urlsplit("")
    host = parts.netloc.rpartition("@")[2] if parts.scheme in _WEB else ""
    path = path or decoded_once(parts.path)
    key = hosts.key(path.removeprefix("/"), host or _text_at(event, product.host))
    if not key:
        raise NotCounted(
            "no link", f"the event names no link: an address with a path, of at most {LONGEST_URL:,} characters"
        )
    return key, parts.query


def _id(product: Product, event: Event) -> str:
    """Returns the id of the event, which no other product has; a digest if the sent one breaks a rule."""
    sent = _text_at(event, product.id)
    if not sent:
        return ""
    own = f"{product.name}:{sent}"
    if is_id(own):
        return own
    return f"{product.name}:{blake2b(sent.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def _ts(product: Product, event: Event) -> object:
    """Returns when it was, as it is sent; digits in quotes are a number, and many are milliseconds."""
    for place in product.ts:
        value = at(event, place)
        if isinstance(value, str) and value.isascii() and value.isdigit() and 10 <= len(value) <= 16:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 10**12 <= value < 10**16:
            return value / 1000  # milliseconds, as programs of browsers count
        if isinstance(value, int | float | str) and not isinstance(value, bool) and value != "":
            return value
    return None
