"""Random requests to every route: those that the OpenAPI document describes, other tools' routes, and the pages.

The routes are those of the server's own table (`ROUTES`). Parameters have values that are good, that are odd, or that
come from a hostile family. A seed repeats all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from dashboard.page.view import NAMES as VIEW
from server.app.parts import ROUTES

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
KEYS = ("launch", "a/b", "k0001", "k0500", "nothing", "a" * 1_000)

# The names of the parameters of routes that the document does not describe; a POST sends them as a form.
OTHERS: Mapping[str, Sequence[str]] = {
    "/render": ("target", "from", "until", "maxDataPoints", "format", "tz", "meta"),
    "/metrics/find": ("query", "format"),
    "/metrics/find/": ("query", "format"),
    "/metrics/expand": ("query", "query"),
    "/functions": (),
    "/version": (),
    "/tags/autoComplete/{what}": ("expr", "limit"),
    "/api/v1/query": ("query", "time"),
    "/api/v1/query_range": ("query", "start", "end", "step"),
    "/api/v1/labels": ("match[]",),
    "/api/v1/label/{name}/values": ("match[]", "limit"),
    "/api/v1/series": ("match[]", "match[]", "limit"),
    "/api/v1/metadata": (),
    "/metrics/links": ("top",),
    "/v4/bitlinks/{host}/{key}/clicks": ("unit", "units", "unit_reference"),
    "/v4/bitlinks/{host}/{key}/clicks/summary": ("unit", "units", "unit_reference"),
    "/v4/bitlinks/{host}/{key}/{facet}": ("unit", "units", "unit_reference", "size"),
    "/api/event": (),
    "/api/event/{token}": (),
    "/v1/metrics": (),
    "/v1/logs": (),
    "/mcp": (),
    "/matomo.php": ("idsite", "rec", "url", "link", "action_name", "urlref", "ua", "cip", "token_auth", "send_image"),
    "/api/send": (),
    "/api/send/{token}": (),
    "/api/batch": (),
    "/api/batch/{token}": (),
    "/api/v0/count": (),
    "/i/v0/e/": (),
    "/batch/": (),
    "/v1/from/segment/v1/{kind}": (),
    "/v1/from/dub": (),
    "/login": ("next", "token"),
    "/logout": (),
    "/share/{signed}": VIEW,
    "/share/{signed}/curve": ("last", "from", "to", "step", "tz", "bots", "times"),
    "/share/{signed}/hours": ("last", "from", "to", "tz", "bots"),
    "/share/{signed}/by/{dimension}": ("last", "from", "to", "tz", "limit", "value"),
    "/share/{signed}/by/{dimension}/curve": ("last", "from", "to", "step", "tz", "value", "times"),
    "/share/{signed}/why": ("last", "from", "to", "before_from", "before_to", "tz", "limit"),
    "/share/{signed}/visitors": ("last", "from", "to", "tz", "times"),
    "/share/{signed}/curve.svg": ("last", "from", "to", "step", "w", "h", "theme"),
    "/share/{signed}/badge.svg": ("last", "label"),
    "/static/{name}": (),
    "/help": (),
    "/help/{topic}": (),
    "/": VIEW,
    "/links": VIEW,
    "/links.csv": VIEW,
    "/compare": (*VIEW, "key", "key", "group"),
    "/compare.csv": (*VIEW, "key", "key", "group"),
    "/links/{key}": VIEW,
    "/groups/{name}": VIEW,
    "/links/{key}/share": ("days", "do", "revoke", "token"),
    "/groups/{name}/share": ("days", "do", "revoke", "token"),
    "/limits": VIEW,
    "/system": VIEW,
    "/node": (),
    "/docs": (),
    "/openapi.json": (),
}
GOOD: Mapping[str, Sequence[str]] = {
    "key": KEYS,
    "name": ("spring", "key", "country", "nothing"),
    "topic": ("page", "bots", "README", "nothing", "../page"),
    "dimension": ("ref", "country", "bot", "nothing"),
    "facet": ("referrers", "countries", "devices"),
    "event": ("login", "nothing"),
    "from": ("0", "2026-01-01", "-6h", "20251001", "now-1d"),
    "to": ("2026-06-01", "2027-01-01T10:30"),
    "until": ("now", "-1h", "+8000y", "20261231"),
    "last": ("24h", "7d", "12mo", "400d", "90y", "999999999m"),
    "step": ("auto", "1m", "1h", "1d", "1w", "1mo", "1y", "native", "60", "3600"),
    "tz": ("UTC", "Europe/Berlin", "Asia/Kolkata", "Africa/Casablanca", "America/St_Johns"),
    "bots": ("include", "only", "exclude"),
    "format": ("json", "csv", "rows"),
    "limit": ("1", "20", "1000"),
    "sort": ("hits", "key", "change"),
    "q": ("k0", "0", "/b", "LAUNCH"),
    "contains": ("k0", "0", "/b"),
    "prefix": ("k0", "a/", "nothing"),
    "after": KEYS,
    "by": ("ref", "country", "source"),
    "page": ("1", "2", "9"),
    "compare": ("before", "year", "2025-01-01"),
    "before_from": ("2025-01-01", "-60d"),
    "before_to": ("2025-06-01", "-30d"),
    "theme": ("light", "dark"),
    "label": ("hits",),
    "do": ("share",),
    "days": ("1", "30"),
    "revoke": ("", "0"),
    "id": ("0", "x"),
    "what": ("tags", "values"),
    "host": ("sho.rt", "localhost"),
    "source": ("log", "export"),
    "kind": ("batch", "page", "track"),
    "url": ("https://h/launch", "https://h/a/b?utm_source=x"),
    "reservation": ("0", "x"),
    "outcome": ("asked", "admitted"),
    "value": ("news.example", "DE", ""),
    "w": ("100", "2000"),
    "h": ("100", "1000"),
    "maxDataPoints": ("1", "100", "10000"),
    "start": ("0", "1767225600"),
    "end": ("1767225600", "1798761600"),
    "time": ("1767225600.5", "2026-03-01T00:00:00Z"),
    "unit": ("minute", "hour", "day", "week", "month"),
    "units": ("-1", "1", "30", "100000"),
    "unit_reference": ("2026-03-01", "9998-12-31"),
    "top": ("1", "1000"),
    "match[]": ("clicks", 'clicks{key=~"l.*"}', 'clicks{country=~".+"}'),
    "query": (
        "*",
        "clicks.*",
        "clicks.k0*.ref.*",
        "clicks.{a,b,l*}",
        "sum(increase(clicks[1d]))",
        'increase(clicks{key=~"k0.*"}[60s])',
        "topk(10, sum by (ref) (increase(clicks[3600s])))",
        "sum by (key,ref) (increase(clicks[1d]))",
        "1 + 1",
    ),
    "target": (
        "total",
        "clicks.launch",
        "clicks.k00*",
        "sumSeries(clicks.k0*)",
        "highest(clicks.*, 10, 'sum')",
        "aliasByNode(clicks.k00*.ref.*, 1, 3)",
        "summarize(timeShift(clicks.launch, '1w'), '1d')",
        "aliasSub(clicks.*, '(^.*$)', '\\1 A')",
    ),
}
ODD = (
    *("", "0", "-1", "1e999", "-1e999", "NaN", "1e308", "9" * 19, "9" * 400, "0x10", "1_0", "\u0661", "true", "null"),
    *("+9000y", "-9000y", "+999999999y", "9999-12-31", "9998-12-31T23:59:60Z", "253370764799", "1767225600000"),
    *(
        "2026-02-30",
        "24:00_20260101",
        "%",
        "%ff",
        "\0",
        "\ud7ff",
        "\u202e",
        "\U0001f600",
        "../..",
        "//",
        "a\nb",
        "'",
        '"',
    ),
    *(
        "clicks{",
        "clicks." + "{a," * 9,
        "increase(clicks[1h]) or 1",
        "timeShift(total,'+9999y')",
        "constantLine(1e999)",
    ),
    *(
        'increase(clicks{key=~"' + "(|.)" * 40 + 'NO"}[1h])',
        'increase(clicks{key=~"(a+)+b"}[1h])',
        "f(" * 30,
        "(" * 300,
    ),
    *(
        'increase(clicks{key!~"' + "a|" * 2_000 + '"}[1h])',
        "clicks." + "*a" * 200,
        "clicks." + "[" * 2_000,
        "1" * 6_000,
    ),
    *("sumSeries(" + "clicks.k0*," * 300 + "total)", "sumSeries(" + "total," * 900 + "total)", "1+" * 2_000 + "1"),
)
HEADS = 0.1  # of requests by GET that are asked by HEAD
UNITS = ("a", "1", "[", "{", "(", '"', "\\", " ", ",", "/", "%41", "&a=b", ";q=1", "\u0301\u0323")
BODIES: Sequence[Callable[[random.Random], object]] = (
    lambda source: [{"key": source.choice(KEYS), "ref": f"r{source.randrange(999)}.example"}] * source.choice((1, 500)),
    lambda source: {"key": "launch", "ts": source.choice((0, -1, 1.5, 10**30, "x", None, "2026-01-01"))},
    lambda source: {"key": "launch", "count": source.choice((0, 10**30, 1e400, True)), "ua": source.choice(ODD)},
    lambda source: {"keys": [source.choice(KEYS) for _ in range(source.choice((1, 1_000)))]},
    lambda source: {"n": "pageview", "u": f"http://h/{source.choice(ODD)}?utm_source={source.choice(ODD)}"},
    lambda source: {"requests": [f"?idsite=1&rec=1&url=https://h/{source.choice(ODD)}", source.choice(ODD), 1]},
    lambda source: {"type": "event", "payload": {"website": "w", "hostname": "h", "url": source.choice(ODD)}},
    lambda source: {"hits": [{"path": source.choice(("/launch", *ODD)), "ref": source.choice(ODD)}] * 20},
    lambda source: {"event": "$pageview", "properties": {"$current_url": f"https://h/{source.choice(ODD)}"}},
    lambda source: {"batch": [{"type": "page", "context": {"page": {"url": source.choice(ODD)}}}, {}, 1]},
    lambda source: {"name": source.choice(("made", *ODD)), "scopes": ["read"], "prefix": source.choice((None, "a/"))},
    lambda source: {"user": source.choice(ODD), "ip": "203.0.113.7", "cost": source.choice((1, 0, 10**20))},
    lambda source: {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric(source)]}]}]},
    lambda source: "[" * source.choice((10, 60_000)),
    lambda source: "[" + "0," * source.choice((10, 100_000)) + "0]",
    lambda source: '{"a":' * source.choice((10, 50_000)),
)


class RandomRequest(NamedTuple):
    """One request. group: what it is called in counts of requests."""

    group: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


def metric(source: random.Random) -> dict[str, Any]:
    """Returns a metric of OTLP, whose points may be odd."""
    points = [
        {
            "attributes": [{"key": "key", "value": {"stringValue": source.choice(KEYS)}}],
            "asInt": count,
            "timeUnixNano": at,
        }
        for count in (1, "2", -1, 10**30)
        for at in (1_780_000_000 * 10**9, 0, -1, 10**30, "x")
    ]
    sums = {"isMonotonic": True, "aggregationTemporality": source.choice((1, 2, "x")), "dataPoints": points * 20}
    return {"name": source.choice(("clicks", "x" * 9_000)), "sum": sums}


def random_requests(
    document: Mapping[str, Any], seed: int, known: Mapping[str, Sequence[str]] | None = None
) -> Iterator[RandomRequest]:
    """Yields requests for ever. document: the server's OpenAPI document; known: good values that this server has."""
    named = {**described(document), **OTHERS}
    table = [(each.path, each.methods.split(), named[each.path]) for each in ROUTES.routes]
    table.append(("/nothing", ["GET", "POST", "PUT", "DELETE", "OPTIONS"], ("a",)))
    good = {**GOOD, **(known or {})}
    source = random.Random(seed)
    while True:
        path, methods, names = source.choice(table)
        method = source.choice(methods)
        if method == "GET" and source.random() < HEADS:
            method = "HEAD"
        yield made(source, path, method, names, good)


def described(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the names of the parameters in the query of each path in the document."""
    found = {}
    for path, operations in document["paths"].items():
        given = [each for operation in operations.values() for each in operation.get("parameters", ())]
        found[path] = sorted({each["name"] for each in given if each["in"] == "query"})
    return found


def made(
    source: random.Random, path: str, method: str, names: Sequence[str], good: Mapping[str, Sequence[str]]
) -> RandomRequest:
    """Makes one request of a path: some have good values alone, some have every parameter that there is."""
    odd, many = source.choice((0.0, 0.0, 0.1, 0.4)), source.choice((0.2, 0.6))

    def value(name: str) -> str:
        chosen = source.random()
        if chosen >= odd:
            return source.choice(good.get(name, KEYS))
        return source.choice(ODD) if chosen * 2 >= odd else source.choice(UNITS) * source.choice((10, 1_000, 8_000))

    parts = [quote(value(part[1:-1]), safe="") if part[:1] == "{" else part for part in path.split("/")]
    fields = [(name, value(name)) for name in names if source.random() < many]
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in fields)[:50_000]
    headers, body = odd_headers(source), None
    target = "/".join(parts)[:50_000]
    if method == "POST" and OTHERS.get(path):
        headers["Content-Type"], body = FORM, query.encode()
    else:
        target += f"?{query}" if query else ""
        if method in ("POST", "PUT"):
            content = source.choice(BODIES)(source)
            body = (content if isinstance(content, str) else json.dumps(content)).encode("utf-8", "replace")
            headers.setdefault("Content-Type", JSON)
    return RandomRequest(f"{method} {path}", method, target, headers, body)


def odd_headers(source: random.Random) -> dict[str, str]:
    """Returns header fields that some requests have."""
    found = {}
    for name in ("Accept", "Accept-Encoding", "Cookie", "Content-Type", "If-None-Match", "X-Forwarded-For", "Origin"):
        if source.random() < 0.05:
            unit = source.choice(UNITS[:-1])
            found[name] = (unit * source.choice((1, 100, 3_000))).strip() or "x"
    return found
