"""What each product says where: Matomo, Umami, Plausible, GoatCounter, PostHog, Segment and RudderStack, Dub.

Sources: Matomo's "Tracking HTTP API" and its PHP tracker, as Shlink calls it; Umami's `api/send` route; Plausible's
"Events API"; GoatCounter's API reference, `/api/v0/count`; PostHog's "Capture API"; Segment's "HTTP API Source" and its
common fields, which RudderStack has too; Dub's webhook schemas.
"""

from __future__ import annotations

from server.compat.foreign.event import Event, Product, at

# Matomo: parameters of requests that are no visit of a page: events, goals, orders, searches, content, downloads,
# links that leave, media, and the sign that somebody is still there.
_MATOMO_OTHER = "e_c", "e_a", "idgoal", "ec_id", "search", "c_n", "c_p", "download", "link", "ma_id", "ping", "cra"
# Shlink: visits of no short link.
_SHLINK_ORPHANS = ("base_url", "invalid_short_url", "regular_404")


def _is_matomo_click(event: Event) -> bool:
    if event.get("orphan") or event.get("type") in _SHLINK_ORPHANS:
        return False
    return not any(event.get(name) for name in _MATOMO_OTHER)


MATOMO = Product(
    "matomo",
    _is_matomo_click,
    url=("url",),
    ts=("cdt",),
    texts={"ref": ("urlref",), "ua": ("ua",), "ip": ("cip",), "country": ("country",), "lang": ("lang",)},
    in_headers=frozenset(("ua", "ip")),
)
UMAMI = Product(
    "umami",
    lambda event: event.get("type") == "event" and not at(event, "payload.name"),
    url=("payload.url",),
    host=("payload.hostname",),
    ts=("payload.timestamp",),
    texts={
        "ref": ("payload.referrer",),
        "ua": ("payload.userAgent",),
        "ip": ("payload.ip",),
        "lang": ("payload.language",),
        "visitor": ("payload.id",),
    },
    in_headers=frozenset(("ua", "ip", "lang")),
    own_agent=" Umami/",  # Mozilla/5.0 Umami/0.4.0
)
PAGE_VIEW = "pageview"
PLAUSIBLE = Product(
    "plausible",
    lambda event: (event.get("name") or event.get("n")) == PAGE_VIEW,
    url=("url", "u"),
    host=("domain", "d"),
    texts={"ref": ("referrer", "r")},
    in_headers=frozenset(("ua", "ip")),
)
GOATCOUNTER = Product(
    "goatcounter",
    lambda event: not event.get("event"),
    url=("path",),
    query=("query",),
    ts=("created_at",),
    texts={
        "ref": ("ref",),
        "ua": ("user_agent",),
        "ip": ("ip",),
        "lang": ("language",),
        "visitor": ("session",),
    },
)
POSTHOG = Product(
    "posthog",
    lambda event: event.get("event") == "$pageview",
    url=("properties.$current_url",),
    id=("uuid", "properties.$insert_id"),
    ts=("timestamp", "properties.timestamp"),
    texts={
        "ref": ("properties.$referrer",),
        "ua": ("properties.$raw_user_agent", "properties.$user_agent"),
        "ip": ("properties.$ip",),
        "country": ("properties.$geoip_country_code",),
        "lang": ("properties.$browser_language",),
        "visitor": ("distinct_id", "properties.distinct_id"),
    },
    campaign={f"utm_{name}": (f"properties.utm_{name}",) for name in ("source", "medium", "campaign")},
    none=frozenset(("$direct",)),
)
SEGMENT = Product(
    "segment",
    lambda event: event.get("type") in ("page", None) and not event.get("event"),
    url=("properties.url", "context.page.url"),
    id=("messageId",),
    ts=("timestamp", "originalTimestamp"),
    texts={
        "ref": ("properties.referrer", "context.page.referrer"),
        "ua": ("context.userAgent",),
        "ip": ("context.ip",),
        "lang": ("context.locale",),
        "visitor": ("anonymousId", "userId"),
    },
    campaign={
        "utm_source": ("context.campaign.source",),
        "utm_medium": ("context.campaign.medium",),
        "utm_campaign": ("context.campaign.name",),
    },
)
DUB = Product(
    "dub",
    lambda event: event.get("event") == "link.clicked",
    key=("data.link.key",),
    host=("data.link.domain",),
    id=("data.click.id",),
    ts=("data.click.timestamp", "createdAt"),
    texts={
        "ref": ("data.click.refererUrl", "data.click.referer"),
        "ua": ("data.click.ua",),
        "ip": ("data.click.ip",),
        "country": ("data.click.country",),
    },
    none=frozenset(("(direct)",)),
    qr="data.click.qr",
)
