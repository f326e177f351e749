"""The page over HTTP: how long its parts take at 100,000 links, and how much is sent, compressed as browsers ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from time import perf_counter

import httpx

from bench import servers
from bench.command import Options
from bench.measure import Line
from bench.reads import loaded
from testing.client import http_client

AIM_MS, AIM_KB = 1_000, 20
_FILES = ("/static/page.css", "/static/page.js", "/static/icon.svg")
_SKEW = 0.5  # flat enough that of a million links and twice as many hits the last link has a hit
_RANKED = 'table class="links"'
_BY_CHANGE = "/links?last=30d&sort=change"


def page(options: Options) -> Iterator[Line]:
    """The first views that must rank links, then each kind of page; on a server that was just started."""
    workload, data = replace(options.workload(), skew=_SKEW), options.folder / "data"
    loaded(data, workload)
    with servers.clickcurve(data) as server, http_client(server.url) as http:
        for what, path in {"all links": "/", "links by change": _BY_CHANGE}.items():
            begun = perf_counter()
            first_ms = _ms(answer := http.get(path))
            while _RANKED not in answer.text:
                answer = http.get(path).raise_for_status()
            ranked = f"ranked after {perf_counter() - begun:.1f} s"
            yield Line(f"page of {what}, first", f"{first_ms:.0f} ms", ranked, f"< {AIM_MS:,} ms")
        link = f"/links/{workload.draw(1, seed=3)[0]}"
        views = {
            "all links": "/",
            "links by change": _BY_CHANGE,
            "search": "/links?q=a",
            "a link": link,
            "a link, 48 h": f"{link}?last=48h",
        }
        files = sum(_sent(http.get(path)) for path in _FILES)
        for what, path in views.items():
            found = [http.get(path) for _ in range(20 * min(options.rounds, 3))]
            sent = f"{(_sent(found[-1]) + files) / 1_000:.1f} kB with style and script"
            yield Line(f"page of {what}, c1", f"{median(map(_ms, found)):.1f} ms", sent, f"< {AIM_KB} kB")


def _ms(answer: httpx.Response) -> float:
    return answer.raise_for_status().elapsed.total_seconds() * 1_000


def _sent(answer: httpx.Response) -> int:
    return int(answer.headers["content-length"])
