"""What other products send, as their senders and manuals have it, and the hit that each is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from server.compat.foreign.event import NotCounted, Product, read_hit
from server.compat.foreign.outcomes import NO_EVENTS
from server.compat.foreign.products import DUB, GOATCOUNTER, MATOMO, PLAUSIBLE, POSTHOG, SEGMENT, UMAMI

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36"
HEADERS = {"user-agent": CHROME, "x-forwarded-for": "192.0.2.7, 10.0.0.1", "accept-language": "de-AT,de;q=0.8"}

# Shlink 5 by its PHP tracker: the visitor's agent is the request's, the country a name.
SHLINK = {
    "idsite": "1",
    "rec": "1",
    "apiv": "1",
    "r": "123456",
    "cip": "192.0.2.5",
    "cdt": "2026-11-27 10:00:00",
    "_id": "0123456789abcdef",
    "url": "https://s.test/abc?utm_source=mail",
    "urlref": "https://news.example/x",
    "country": "Austria",
    "type": "valid_short_url",
    "action_name": "A title",
    "token_auth": "cc_x",
}
DUB_CLICK = {
    "id": "evt_1",
    "event": "link.clicked",
    "createdAt": "2026-02-03T09:35:58.000Z",
    "data": {
        "click": {
            "id": "d0UtZqE0BZuBPrJS",
            "timestamp": "2026-02-03T09:35:57.926Z",
            "url": "https://dub.co",
            "country": "US",
            "ua": CHROME,
            "referer": "(direct)",
            "refererUrl": "(direct)",
            "qr": True,
            "ip": "63.141.57.109",
        },
        "link": {"domain": "dub.sh", "key": "track-test", "shortLink": "https://dub.sh/track-test"},
    },
}
SEGMENT_PAGE = {
    "type": "page",
    "messageId": "m-1",
    "timestamp": "2026-11-27T10:00:00.000Z",
    "anonymousId": "anon-1",
    "properties": {"url": "https://s.test/abc", "referrer": "https://a.example/"},
    "context": {
        "ip": "8.8.8.8",
        "userAgent": CHROME,
        "locale": "en-US",
        "campaign": {"name": "tps", "source": "news", "medium": "email"},
    },
}
POSTHOG_VIEW = {
    "event": "$pageview",
    "distinct_id": "u1",
    "uuid": "0190-1",
    "timestamp": "2026-11-27T10:00:00+00:00",
    "properties": {
        "$current_url": "https://s.test/abc",
        "$referrer": "$direct",
        "$ip": "192.0.2.5",
        "$raw_user_agent": CHROME,
        "utm_source": "x",
    },
}
UMAMI_VIEW = {
    "type": "event",
    "payload": {
        "website": "50429a93",
        "hostname": "s.test",
        "url": "/abc?utm_medium=cpc",
        "referrer": "https://a.example/",
        "language": "en-US",
        "ip": "192.0.2.5",
        "userAgent": CHROME,
        "timestamp": 1764237600,
    },
}
GOATCOUNTER_VIEW = {
    "path": "/abc",
    "ref": "https://a.example/",
    "user_agent": CHROME,
    "ip": "192.0.2.5",
    "created_at": "2026-11-27T10:00:00Z",
    "query": "utm_campaign=spring",
    "session": "s1",
}
PLAUSIBLE_VIEW = {"n": "pageview", "u": "https://s.test/abc", "d": "s.test", "r": None, "v": 23}


def hit_of(product: Product, event: dict[str, Any], headers: dict[str, str], hosts: Hosts) -> dict[str, Any]:
    """Returns the hit where the settings name no events."""
    return read_hit(product, event, headers, hosts, NO_EVENTS).hit


HITS: list[tuple[Product, dict[str, Any], dict[str, Any]]] = [
    (
        MATOMO,
        SHLINK,
        {
            "key": "abc",
            "ts": "2026-11-27 10:00:00",
            "ref": "https://news.example/x",
            "ua": CHROME,
            "ip": "192.0.2.5",
            "utm": {"source": "mail"},
        },
    ),
    (
        DUB,
        DUB_CLICK,
        {
            "key": "track-test",
            "id": "dub:d0UtZqE0BZuBPrJS",
            "ts": "2026-02-03T09:35:57.926Z",
            "ua": CHROME,
            "country": "US",
            "source": "qr",
            "ip": "63.141.57.109",
        },
    ),
    (
        SEGMENT,
        SEGMENT_PAGE,
        {
            "key": "abc",
            "id": "segment:m-1",
            "ts": "2026-11-27T10:00:00.000Z",
            "ref": "https://a.example/",
            "ua": CHROME,
            "ip": "8.8.8.8",
            "lang": "en-US",
            "visitor": "anon-1",
            "utm": {"source": "news", "medium": "email", "campaign": "tps"},
        },
    ),
    (
        POSTHOG,
        POSTHOG_VIEW,
        {
            "key": "abc",
            "id": "posthog:0190-1",
            "ts": "2026-11-27T10:00:00+00:00",
            "ua": CHROME,
            "ip": "192.0.2.5",
            "visitor": "u1",
            "utm": {"source": "x"},
        },
    ),
    (
        UMAMI,
        UMAMI_VIEW,
        {
            "key": "abc",
            "ts": 1764237600,
            "ref": "https://a.example/",
            "ua": CHROME,
            "ip": "192.0.2.5",
            "lang": "en-US",
            "utm": {"medium": "cpc"},
        },
    ),
    (
        GOATCOUNTER,
        GOATCOUNTER_VIEW,
        {
            "key": "abc",
            "ts": "2026-11-27T10:00:00Z",
            "ref": "https://a.example/",
            "ua": CHROME,
            "ip": "192.0.2.5",
            "visitor": "s1",
            "utm": {"campaign": "spring"},
        },
    ),
    (PLAUSIBLE, PLAUSIBLE_VIEW, {"key": "abc", "ua": CHROME, "ip": "192.0.2.7, 10.0.0.1"}),
]
PRODUCTS = [product for product, _, _ in HITS]


@pytest.mark.parametrize(("product", "event", "hit"), HITS, ids=[product.name for product in PRODUCTS])
def test_an_event_is_a_hit(product: Product, event: dict[str, Any], hit: dict[str, Any]) -> None:
    assert hit_of(product, event, HEADERS, HOSTS_IGNORED) == hit


@pytest.mark.parametrize("product", [MATOMO, UMAMI, POSTHOG, SEGMENT, DUB, PLAUSIBLE], ids=lambda each: each.name)
def test_the_host_is_in_the_key_where_the_settings_say_so(product: Product) -> None:
    event = next(event for each, event, _ in HITS if each is product)
    key = hit_of(product, event, HEADERS, Hosts(in_key=True))["key"]
    assert key == ("dub.sh/track-test" if product is DUB else "s.test/abc")


@pytest.mark.parametrize(
    ("product", "event", "reason"),
    [
        (MATOMO, SHLINK | {"type": "invalid_short_url", "orphan": "true"}, "kind"),
        (MATOMO, SHLINK | {"e_c": "video", "e_a": "play"}, "kind"),
        (MATOMO, SHLINK | {"ping": "1"}, "kind"),
        (MATOMO, SHLINK | {"url": "https://s.test/"}, "no link"),
        (MATOMO, SHLINK | {"url": "https://[s.test/abc"}, "no link"),
        (UMAMI, {"type": "identify", "payload": {"url": "/abc"}}, "kind"),
        (UMAMI, {"type": "event", "payload": {"url": "/abc", "name": "signup"}}, "kind"),
        (GOATCOUNTER, {"path": "click-x", "event": True}, "kind"),
        (POSTHOG, POSTHOG_VIEW | {"event": "$autocapture"}, "kind"),
        (SEGMENT, SEGMENT_PAGE | {"type": "track", "event": "Order Completed"}, "kind"),
        (SEGMENT, {"type": "page"}, "no link"),
        (DUB, DUB_CLICK | {"event": "sale.created"}, "kind"),
        (PLAUSIBLE, {"n": "engagement", "u": "https://s.test/abc"}, "kind"),
    ],
)
def test_what_is_no_click_is_not_counted(product: Product, event: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotCounted) as not_counted:
        hit_of(product, event, HEADERS, HOSTS_IGNORED)
    assert not_counted.value.reason == reason


def test_ids_of_strangers_become_ids() -> None:
    def id_of(text: str) -> str:
        return str(hit_of(SEGMENT, SEGMENT_PAGE | {"messageId": text}, HEADERS, HOSTS_IGNORED)["id"])

    assert id_of("m 1") != id_of("m 2") and id_of("é") == id_of("é")
    assert all(len(id_of(text)) <= 128 and id_of(text).isascii() for text in ("x" * 500, "m 1", "\ud800", "é"))


@pytest.mark.parametrize(
    ("sent", "ts"),
    [
        ("1764237600", 1764237600),
        (1764237600123, 1764237600.123),
        ("1764237600123", 1764237600.123),
        (True, None),
        pytest.param("1" * 5_000, "1" * 5_000, id="more digits than a number may have"),
        pytest.param(10**400, 10**400, id="more than a float can be"),
    ],
)
def test_times_in_numbers_are_read_in_seconds(sent: object, ts: object) -> None:
    assert hit_of(MATOMO, SHLINK | {"cdt": sent}, HEADERS, HOSTS_IGNORED).get("ts") == ts


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.just("https://s.test/a")
KEYS = st.sampled_from(
    [
        "type",
        "event",
        "url",
        "path",
        "payload",
        "properties",
        "context",
        "page",
        "data",
        "link",
        "click",
        "key",
        "$current_url",
        "name",
    ]
)
TREES = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=5))


@given(st.sampled_from(PRODUCTS), st.dictionaries(KEYS, TREES, max_size=6))
def test_any_event_is_a_hit_or_is_not_counted(product: Product, event: dict[str, Any]) -> None:
    try:
        hit = hit_of(product, event, HEADERS, HOSTS_IGNORED)
    except NotCounted:
        return
    assert isinstance(hit["key"], str) and hit["key"]
    assert all(
        isinstance(hit.get(name, ""), str) for name in ("ref", "ua", "ip", "country", "lang", "visitor", "id", "source")
    )
