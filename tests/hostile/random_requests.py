"""Random requests to every route: those that the OpenAPI document describes, other tools' routes, and the pages.

Parameters have values that are good, that are odd, or that come from a hostile family. A seed repeats all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
KEYS = ("launch", "a/b", "k0001", "k0500", "nothing", "a" * 1_000)

# Other tools' routes and the pages, with the names of their parameters; by GET and POST where both are known.
OTHERS: Mapping[str, tuple[str, Sequence[str]]] = {
    "/render": ("GET POST", ("target", "from", "until", "maxDataPoints", "format", "tz", "meta")),
    "/metrics/find": ("GET POST", ("query", "format")),
    "/metrics/expand": ("GET POST", ("query", "query")),
    "/functions": ("GET POST", ()),
    "/version": ("GET POST", ()),
    "/tags/autoComplete/tags": ("GET", ("expr", "limit")),
    "/api/v1/query": ("GET POST", ("query", "time")),
    "/api/v1/query_range": ("GET POST", ("query", "start", "end", "step")),
    "/api/v1/labels": ("GET POST", ("match[]",)),
    "/api/v1/label/{name}/values": ("GET", ("match[]", "limit")),
    "/api/v1/series": ("GET POST", ("match[]", "match[]", "limit")),
    "/api/v1/metadata": ("GET", ()),
    "/metrics/links": ("GET", ("top",)),
    "/v4/bitlinks/{host}/{key}/clicks": ("GET", ("unit", "units", "unit_reference")),
    "/v4/bitlinks/{host}/{key}/clicks/summary": ("GET", ("unit", "units", "unit_reference")),
    "/v4/bitlinks/{host}/{key}/{facet}": ("GET", ("unit", "units", "unit_reference", "size")),
    "/api/event": ("POST", ()),
    "/v1/metrics": ("POST", ()),
    "/login": ("GET POST", ("next", "token")),
    "/logout": ("POST", ()),
    "/share/{id}": ("GET", ("last", "from", "to")),
    "/": ("GET", ("q", "last", "from", "to", "step", "tz")),
    "/links/{key}": ("GET", ("last", "from", "to", "step", "tz", "bots")),
    "/groups/{name}": ("GET", ("last", "from", "to", "step", "tz", "bots")),
    "/limits": ("GET", ("last",)),
    "/system": ("GET", ()),
    "/links": ("GET", ()),
    "/docs": ("GET", ()),
    "/openapi.json": ("GET", ()),
    "/nothing": ("GET POST PUT DELETE", ("a",)),
}
GOOD: Mapping[str, Sequence[str]] = {
    "key": KEYS,
    "name": ("spring", "key", "country", "nothing"),
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
    "sort": ("hits", "key"),
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
UNITS = ("a", "1", "[", "{", "(", '"', "\\", " ", ",", "/", "%41", "&a=b", ";q=1", "\u0301\u0323")
BODIES: Sequence[Callable[[random.Random], object]] = (
    lambda source: [{"key": source.choice(KEYS), "ref": f"r{source.randrange(999)}.example"}] * source.choice((1, 500)),
    lambda source: {"key": "launch", "ts": source.choice((0, -1, 1.5, 10**30, "x", None, "2026-01-01"))},
    lambda source: {"key": "launch", "count": source.choice((0, 10**30, 1e400, True)), "ua": source.choice(ODD)},
    lambda source: {"keys": [source.choice(KEYS) for _ in range(source.choice((1, 1_000)))]},
    lambda source: {"n": "pageview", "u": f"http://h/{source.choice(ODD)}?utm_source={source.choice(ODD)}"},
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


def random_requests(document: Mapping[str, Any], seed: int) -> Iterator[RandomRequest]:
    """Yields requests for ever; document: the server's OpenAPI document."""
    routes = {path: (" ".join(methods), names) for path, (methods, names) in described(document).items()}
    table = [(path, methods.split(), names) for path, (methods, names) in {**routes, **OTHERS}.items()]
    source = random.Random(seed)
    while True:
        path, methods, names = source.choice(table)
        yield made(source, path, source.choice(methods).upper(), names)


def described(document: Mapping[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    """Returns the methods of each path in the document, and the names of their parameters in the query."""
    found = {}
    for path, operations in document["paths"].items():
        given = [each for operation in operations.values() for each in operation.get("parameters", ())]
        found[path] = list(operations), [each["name"] for each in given if each["in"] == "query"]
    return found


def made(source: random.Random, path: str, method: str, names: Sequence[str]) -> RandomRequest:
    """Makes one request of a path."""
    parts = [quote(value(source, part[1:-1]), safe="") if part[:1] == "{" else part for part in path.split("/")]
    fields = [(name, value(source, name)) for name in names if source.random() < 0.6]
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in fields)[:50_000]
    headers, body = odd_headers(source), None
    target = "/".join(parts)[:50_000]
    if method == "POST" and (names or not query) and path in OTHERS and OTHERS[path][1]:
        headers["Content-Type"], body = FORM, query.encode()
    else:
        target += f"?{query}" if query else ""
        if method in ("POST", "PUT"):
            content = source.choice(BODIES)(source)
            body = (content if isinstance(content, str) else json.dumps(content)).encode("utf-8", "replace")
            headers.setdefault("Content-Type", JSON)
    return RandomRequest(f"{method} {path}", method, target, headers, body)


def value(source: random.Random, name: str) -> str:
    """Returns a value of a parameter: mostly a good one."""
    chosen = source.random()
    if chosen < 0.6:
        return source.choice(GOOD.get(name, KEYS))
    if chosen < 0.85:
        return source.choice(ODD)
    return source.choice(UNITS) * source.choice((10, 1_000, 8_000))


def odd_headers(source: random.Random) -> dict[str, str]:
    """Returns header fields that some requests have."""
    found = {}
    for name in ("Accept", "Accept-Encoding", "Cookie", "Content-Type", "If-None-Match", "X-Forwarded-For", "Origin"):
        if source.random() < 0.05:
            unit = source.choice(UNITS[:-1])
            found[name] = (unit * source.choice((1, 100, 3_000))).strip() or "x"
    return found
