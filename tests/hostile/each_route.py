"""A request of every route, with its path and its parameters filled in."""

from __future__ import annotations

from typing import Any

from server.tokens.route_access import RouteEffect

# What is asked beside the path, where a route needs it; the prefix is no part of it.
QUERIES = {
    "/render": "target=clicks.*&target=groups.*&target=total&target=highest(clicks.*,5,'sum')&from=-1h",
    "/metrics/find": "query=*.*",
    "/metrics/find/": "query=clicks.*",
    "/metrics/expand": "query=*.*&query=clicks.*.ref.*",
    "/api/v1/query": "query=increase(clicks{key=~'.*'}[1h])",
    "/api/v1/query_range": "query=sum by (key) (increase(clicks[60s]))&start=-1&end=0&step=60",
    "/api/v1/series": "match[]=clicks",
    "/api/v1/label/{name}/values": "",
    "/v1/links/{key}/by/{dimension}/curve": "value=",
    "/v1/groups/{name}/by/{dimension}/curve": "value=",
    "/v1/by/{dimension}/curve": "value=",
    "/v1/import/{source}": "from=0&to=1",
}


def path_of(route: RouteEffect, key: str, group: str) -> str:
    """The path of a route with its parameters filled in."""
    path = route.path.replace("{key}", key.replace("/", "%2F"))
    label = "key" if route.path.startswith("/api") else group
    filled = {"name": label, "dimension": "ref", "host": "h", "facet": "referrers", "event": "login", "source": "s"}
    for name, value in {**filled, "reservation": "r", "id": "0", "signed": "x", "what": "tags"}.items():
        path = path.replace(f"{{{name}}}", value)
    query = QUERIES.get(route.path, "")
    return f"{path}?{query}" if query else path


def request_of(method: str, path: str) -> dict[str, Any]:
    """What a POST of this path carries."""
    if method != "POST":
        return {}
    if path == "/v1/sum":
        return {"json": {"keys": ["acme/launch"]}}
    if path.startswith("/v1/import/"):
        return {
            "content": b'{"key": "beta/secret", "ts": 1767225600}\n',
            "headers": {"Content-Type": "application/x-ndjson"},
        }
    if path == "/mcp":
        call = {"name": "find_links", "arguments": {}}
        return {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}}
    if path.startswith("/api/event"):
        return {"json": {"name": "pageview", "url": "https://h/beta/secret", "domain": "h"}}
    return {"json": {"key": "beta/secret"}} if path == "/v1/hits" else {}
