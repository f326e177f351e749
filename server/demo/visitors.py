"""Visitors of now: made-up hits that a thread sends to the server while it runs, some each second."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import httpx

from server.demo.traffic import LINKS

EVERY_S = 1.0
MOST_AT_ONCE = 4
_AGENTS = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
    "Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile "
    "Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1)",
)
_AGENT_WEIGHTS = (30, 25, 25, 12, 8)
_REFERRERS = ("", "news.example", "search.example", "social.example", "mail.example", "video.example")
_REFERRER_WEIGHTS = (40, 12, 20, 18, 6, 4)
_COUNTRIES = ("DE", "AT", "CH", "US", "FR", "GB", "NL", "PL", "IN", "BR")
_COUNTRY_WEIGHTS = (38, 9, 7, 16, 7, 8, 5, 4, 4, 2)
_SOURCES = ("", "qr", "email")
_SOURCE_WEIGHTS = (80, 14, 6)


def made_up_hits(chance: Random, now: int) -> list[dict[str, Any]]:
    """Returns the hits of one moment, perhaps none: the busier links more often."""
    hour = now - now % 3_600
    weights = [max(link.expected(hour, now), 0.01) for link in LINKS]
    return [_made_up_hit(chance, weights) for _ in range(chance.randint(0, MOST_AT_ONCE))]


def _made_up_hit(chance: Random, weights: list[float]) -> dict[str, Any]:
    def one_of(values: tuple[str, ...], by: tuple[int, ...]) -> str:
        return chance.choices(values, by)[0]

    said = {
        "ref": one_of(_REFERRERS, _REFERRER_WEIGHTS),
        "source": one_of(_SOURCES, _SOURCE_WEIGHTS),
        "country": one_of(_COUNTRIES, _COUNTRY_WEIGHTS),
    }
    return {
        "key": chance.choices(LINKS, weights)[0].key,
        "ua": one_of(_AGENTS, _AGENT_WEIGHTS),
        "visitor": f"visitor-{chance.randint(1, 900)}",
        **{name: text for name, text in said.items() if text},
    }


def send_visitors(url: str, clock: Callable[[], float], pause: Callable[[float], None], chance: Random) -> None:
    """Sends hits until the process ends; one moment's hits are lost if the server does not take them."""
    with httpx.Client(base_url=url, timeout=10.0, trust_env=False) as client:
        while True:
            pause(EVERY_S)
            if hits := made_up_hits(chance, int(clock())):
                try:
                    client.post("/v1/hits", json=hits)
                except httpx.TransportError:
                    continue  # it is starting, or ends
