"""A thin client of the HTTP interface for tests: one method a route, answers as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

JSON = Any  # an answer of the server, as json.loads gives it
Query = Mapping[str, str | int | float]


def http_client(url: str, timeout_s: float = 600.0, fresh: bool = False) -> httpx.Client:
    """Returns a client of a server without TLS. With `fresh` each request goes over a connection of its own.

    A client that may meet TLS first loads the system's certificates: 47 ms of processor time, for each client.
    """
    headers = {"Connection": "close"} if fresh else {}
    # By default httpx opens another connection after five idle seconds, which may lead to another worker.
    kept = httpx.Limits(keepalive_expiry=None)
    return httpx.Client(base_url=url, timeout=timeout_s, headers=headers, limits=kept, trust_env=False, verify=False)


class Clickcurve:
    """Talks to one server over one kept connection, or with `fresh` over one for each request.

    Methods that return JSON raise `httpx.HTTPStatusError`.
    """

    def __init__(self, url: str, timeout_s: float = 600.0, fresh: bool = False) -> None:
        self.http = http_client(url, timeout_s, fresh)

    # --- writing ---------------------------------------------------------------------------------------------------
    def hit(self, key: str, headers: Mapping[str, str] | None = None) -> JSON:
        """One hit of `key` now; the receipt."""
        return _json(self.http.post(f"/v1/hits/{_path(key)}", headers=dict(headers or {})))

    def send(self, hits: object, headers: Mapping[str, str] | None = None) -> JSON:
        """POST one hit or a list of hits as JSON; the receipt."""
        return _json(self.http.post("/v1/hits", json=hits, headers=dict(headers or {})))

    def send_body(self, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """POST raw bytes; the answer as it is."""
        return self.http.post("/v1/hits", content=body, headers=dict(headers or {}))

    def erase(self, key: str) -> int:
        """DELETE a link; the status."""
        return self.http.delete(f"/v1/links/{_path(key)}").status_code

    # --- reading ---------------------------------------------------------------------------------------------------
    def link(self, key: str, **query: str | int | float) -> JSON:
        return self._get(f"/v1/links/{_path(key)}", query)

    def total(self, key: str | None = None, **query: str | int | float) -> JSON:
        """The total of a link, or of all links together. Write `from_=` for the parameter `from`."""
        return self._get("/v1/total" if key is None else f"/v1/links/{_path(key)}/total", query)

    def curve(self, key: str | None = None, **query: str | int | float) -> JSON:
        """The curve of a link, or of all links together. Write `from_=` for the parameter `from`."""
        return self._get("/v1/curve" if key is None else f"/v1/links/{_path(key)}/curve", query)

    def top(self, **query: str | int | float) -> JSON:
        return self._get("/v1/links", {"sort": "hits", **query})

    def groups(self, **query: str | int | float) -> JSON:
        return self._get("/v1/groups", query)

    def lifetimes(self, keys: Iterable[str], bots: str = "exclude") -> dict[str, int]:
        """The lifetime total of each key."""
        return {key: self.total(key, bots=bots)["total"] for key in keys}

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name with labels, as printed."""
        lines = self.http.get("/metrics").raise_for_status().text.splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def metric(self, name: str) -> float:
        """The sum of one metric over all its labels; 0 when it has no sample yet."""
        return sum(value for full, value in self.metrics().items() if full.partition("{")[0] == name)

    def _get(self, path: str, query: Query) -> JSON:
        return _json(self.http.get(path, params={name.rstrip("_"): value for name, value in query.items()}))

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _path(key: str) -> str:
    return quote(key, safe="")


def _json(answer: httpx.Response) -> JSON:
    return answer.raise_for_status().json()
