"""Visitors of now: made-up hits that a thread sends to the server while it runs, some each second."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import httpx

from server.demo.audience import said_by_one
from server.demo.traffic import BOTS, LINKS

EVERY_S = 1.0
MOST_AT_ONCE = 4
_BOT = "Mozilla/5.0 (compatible; Googlebot/2.1)"
_AGENTS = {
    "phone": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.5 Mobile/15E148 Safari/604.1",
    "tablet": "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
    "Mobile/15E148 Safari/604.1",
    "desktop": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "tv": "Mozilla/5.0 (SMART-TV; Linux; Tizen 8.0) AppleWebKit/537.36 (KHTML, like Gecko) TV Safari/537.36",
    "other": "Mozilla/5.0",
}


def made_up_hits(chance: Random, now: int) -> list[dict[str, Any]]:
    """Returns the hits of one moment, perhaps none: the busier links more often."""
    hour = now - now % 3_600
    weights = [max(link.expected(hour, now), 0.01) for link in LINKS]
    return [_made_up_hit(chance, weights) for _ in range(chance.randint(0, MOST_AT_ONCE))]


def _made_up_hit(chance: Random, weights: list[float]) -> dict[str, Any]:
    link = chance.choices(LINKS, weights)[0]
    said = said_by_one(chance, link.audience)
    agent = _AGENTS[said.pop("device")]
    return {
        "key": link.key,
        "ua": _BOT if chance.random() < BOTS else agent,
        "visitor": f"visitor-{chance.randint(1, 900)}",
        **({"groups": [link.group]} if link.group else {}),
        **said,
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
