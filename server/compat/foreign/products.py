"""What each product says where: Matomo, Umami, Plausible, GoatCounter, PostHog, Segment and RudderStack, Dub.

Sources: Matomo's "Tracking HTTP API" and its PHP tracker, as Shlink calls it; Umami's `api/send` route; Plausible's
"Events API"; GoatCounter's API reference, `/api/v0/count`; PostHog's "Capture API"; Segment's "HTTP API Source" and its
common fields, which RudderStack has too, and its e-commerce events; Dub's webhook schemas. GoatCounter's events have
their name where a page has its path: they name no link.
"""

from __future__ import annotations

from collections.abc import Iterator

from server.compat.foreign.event import Product, at
from server.compat.foreign.outcomes import LEAD, SALE, Event, Outcomes

# Matomo: parameters of requests that are no visit of a page: events, goals, orders, searches, content, downloads,
# links that leave, media, and the sign that somebody is still there.
_MATOMO_OTHER = "e_c", "e_a", "idgoal", "ec_id", "search", "c_n", "c_p", "download", "link", "ma_id", "ping", "cra"
# Shlink: visits of no short link.
_SHLINK_ORPHANS = ("base_url", "invalid_short_url", "regular_404")

_GOALS = 10**9  # above all numbers of goals


def _is_matomo_click(event: Event) -> bool:
    if event.get("orphan") or event.get("type") in _SHLINK_ORPHANS:
        return False
    return not any(event.get(name) for name in _MATOMO_OTHER)


def _matomo_outcomes(event: Event) -> Iterator[object]:
    """Yields `sale` of an order, `goal_7` of a goal, category and action of an event; nothing of a cart."""
    category, action, goal = (event.get(name) for name in ("e_c", "e_a", "idgoal"))
    if event.get("ec_id"):
        yield SALE
    elif goal and isinstance(goal, str | int) and goal not in ("0", True):
        yield f"goal_{goal}" if isinstance(goal, str) or 0 < goal < _GOALS else ""
    elif isinstance(category, str) and isinstance(action, str):
        yield f"{category} {action}"
        yield action


def _segment_outcomes(event: Event) -> Iterator[object]:
    """Yields the name of a `track` call, then `sale` of a completed order; nothing of other calls."""
    if event.get("type") in ("track", None):
        yield event.get("event")
        if event.get("event") == "Order Completed":
            yield SALE


def _posthog_outcomes(event: Event) -> Iterator[object]:
    """Yields the name of an event that is not one of PostHog's own, then `sale` of a completed order."""
    name = event.get("event")
    if isinstance(name, str) and not name.startswith("$"):
        yield from _segment_outcomes({"event": name})


def _dub_outcomes(event: Event) -> Iterator[object]:
    """Yields the name that its owner gave a lead or a sale, then `lead` or `sale`."""
    for kind, name in (("lead.created", LEAD), ("sale.created", SALE)):
        if event.get("event") == kind:
            yield at(event, "data.eventName")
            yield name


MATOMO = Product(
    "matomo",
    _is_matomo_click,
    url=("url",),
    ts=("cdt",),
    texts={"ref": ("urlref",), "ua": ("ua",), "ip": ("cip",), "country": ("country",), "lang": ("lang",)},
    in_headers=frozenset(("ua", "ip")),
    site="idsite",
    outcomes=Outcomes(_matomo_outcomes, amount=("revenue",), id=("ec_id",)),
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
    outcomes=Outcomes(
        lambda event: [at(event, "payload.name")] if event.get("type") == "event" else [],
        amount=("payload.data.revenue",),
        currency=("payload.data.currency",),
        key=("payload.data.key",),
    ),
)
PAGE_VIEW = "pageview"
PLAUSIBLE = Product(
    "plausible",
    lambda event: (event.get("name") or event.get("n")) == PAGE_VIEW,
    url=("url", "u"),
    host=("domain", "d"),
    texts={"ref": ("referrer", "r")},
    in_headers=frozenset(("ua", "ip")),
    outcomes=Outcomes(
        lambda event: [event.get("name") or event.get("n")],
        amount=("revenue.amount", "$.amount"),
        currency=("revenue.currency", "$.currency"),
        key=("props.key", "p.key"),
    ),
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
    outcomes=Outcomes(
        _posthog_outcomes,
        amount=("properties.revenue", "properties.total"),
        currency=("properties.currency",),
        key=("properties.key",),
    ),
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
    outcomes=Outcomes(
        _segment_outcomes,
        amount=("properties.revenue", "properties.total"),
        currency=("properties.currency",),
        key=("properties.key",),
    ),
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
    outcomes=Outcomes(
        _dub_outcomes,
        amount=("data.sale.amount",),
        currency=("data.sale.currency",),
        in_smallest=True,
        id=("id",),
        ts=("createdAt",),
    ),
)
