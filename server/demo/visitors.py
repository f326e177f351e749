"""Visitors of now: made-up hits that a thread sends to the server while it runs, as many as the hour has in the past.

One link has a burst when the demo begins, so that a curve moves while somebody looks for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any

import httpx

from clickcurve.buckets.ladder import HOUR_S
from server.demo.audience import attributes_of_one
from server.demo.bots import one_bot
from server.demo.shop import outcomes_of_click
from server.demo.traffic import BOTS, LINKS, MadeUpLink, drawn_hits

EVERY_S = 1.0
BURST_KEY = "home"
BURST_HITS = 24.0  # in all; half of them in the first minute, half of the rest in the next, and so on
BURST_HALVES_S = 60.0
_AGENTS = {
    "phone": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.5 Mobile/15E148 Safari/604.1",
    "tablet": "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
    "Mobile/15E148 Safari/604.1",
    "desktop": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "tv": "Mozilla/5.0 (SMART-TV; Linux; Tizen 8.0) AppleWebKit/537.36 (KHTML, like Gecko) TV Safari/537.36",
    "other": "Mozilla/5.0",
}


def expected_hits(link: MadeUpLink, now: int, running_s: float) -> float:
    """Returns the people to expect within EVERY_S from now on, when a demo has run for so long."""
    expected = link.expected(now - now % HOUR_S, now) * EVERY_S / HOUR_S
    if link.key == BURST_KEY:
        expected += BURST_HITS * (1 - 0.5 ** (EVERY_S / BURST_HALVES_S)) * 0.5 ** (running_s / BURST_HALVES_S)
    return expected


def made_up_hits(chance: Random, now: int, running_s: float, events: Collection[str] = ()) -> list[dict[str, Any]]:
    """Returns the hits from now on for EVERY_S, mostly none: the busier links more often.

    events: those that are counted; what comes of a click comes with it.
    """
    expected = [expected_hits(link, now, running_s) for link in LINKS]
    hits = drawn_hits(chance, sum(expected) * (1 + BOTS))
    return [hit for link in chance.choices(LINKS, expected, k=hits) for hit in _made_up_hit(chance, link, events)]


def _made_up_hit(chance: Random, link: MadeUpLink, events: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yields a click, and what comes of it unless it is a bot's."""
    attributes = attributes_of_one(chance, link.audience)
    agent, is_bot = _AGENTS[attributes.pop("device")], chance.random() < BOTS / (1 + BOTS)
    hit = {
        "key": link.key,
        "ua": one_bot(chance).agent if is_bot else agent,
        "visitor": f"visitor-{chance.randint(1, 900)}",
        **({"groups": [link.group]} if link.group else {}),
        **attributes,
    }
    yield hit
    for event, amount in outcomes_of_click(chance, link, attributes, () if is_bot else events):
        yield {**hit, "event": event, **({"value": amount} if amount else {})}


def send_visitors(
    url: str, clock: Callable[[], float], pause: Callable[[float], None], chance: Random, events: Collection[str]
) -> None:
    """Sends hits until the process ends; one moment's hits are lost if the server does not take them."""
    begun = clock()
    with httpx.Client(base_url=url, timeout=10.0, trust_env=False) as client:
        while True:
            pause(EVERY_S)
            now = clock()
            if hits := made_up_hits(chance, int(now), max(0.0, now - begun), events):
                try:
                    client.post("/v1/hits", json=hits)
                except httpx.TransportError:
                    continue  # it is starting, or ends
