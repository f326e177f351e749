"""What comes of made-up clicks: some visitors leave their address (a lead), some buy (a sale).

It depends on the link and on where they come from: readers of a newsletter buy, and those who scroll mostly go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ingest.attributes.channel import channel_of
from ingest.attributes.dimensions import CHANNEL
from server.demo.audience import AUDIENCES, Shares
from server.demo.traffic import MadeUpLink, YearBucket, drawn_hits
from server.settings.events import NO_UNIT, Unit

LEAD, SALE = "lead", "sale"
UNITS: Mapping[str, Unit] = {LEAD: NO_UNIT, SALE: Unit("EUR", 2)}
_PRICES = {1_900: 30, 2_900: 34, 4_990: 24, 9_900: 9, 24_900: 3}  # cents -> how many of 100 sales
# Link -> event -> how many of all its clicks.
RATES: Mapping[str, Mapping[str, float]] = {
    "home": {LEAD: 0.012, SALE: 0.004},
    "docs": {LEAD: 0.009},
    "launch": {LEAD: 0.05, SALE: 0.014},
    "spring-sale": {LEAD: 0.01, SALE: 0.045},
    "summer-sale": {LEAD: 0.01, SALE: 0.052},
    "newsletter/1": {SALE: 0.031},
    "newsletter/2": {SALE: 0.036},
    "newsletter/3": {SALE: 0.028},
    "newsletter/4": {SALE: 0.041},
    "podcast": {LEAD: 0.03, SALE: 0.019},
}
# Referrer -> how many times as often as the usual visitor.
EAGER: Mapping[str, float] = {
    "mail.example": 2.4, "blog.example": 1.8, "search.example": 1.5, "forum.example": 1.2, "news.example": 0.7,
    "video.example": 0.4, "social.example": 0.3, "photos.example": 0.2,
}  # fmt: skip


class Outcome(NamedTuple):
    """Something that came of a click. start: of the bucket that it counts in. amount: 0 for none."""

    event: str
    start: int
    amount: int
    attributes: Mapping[str, str]


def outcomes_of_year(
    chance: Random, link: MadeUpLink, buckets: Sequence[YearBucket], events: Collection[str]
) -> Iterator[Outcome]:
    """Yields what came of the clicks of a link, with all that is judged from what such a hit says."""
    shares = _shares_of_eager(link.audience)
    for event, rate in RATES.get(link.key, {}).items():
        for start, people, _ in buckets if event in events else ():
            for _ in range(min(people, drawn_hits(chance, people * rate))):
                said = {name: chance.choices(list(each), list(each.values()))[0] for name, each in shares.items()}
                said[CHANNEL] = channel_of(said["ref"], said["source"], {})
                yield Outcome(event, start, _amount(chance, event), said)


def outcomes_of_click(
    chance: Random, link: MadeUpLink, attributes: Mapping[str, str], events: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Yields what comes of one click that says this: events with their amounts, mostly none."""
    usual = _mean_eagerness(AUDIENCES[link.audience]["ref"])
    for event, rate in RATES.get(link.key, {}).items():
        if event in events and chance.random() < rate * EAGER.get(attributes.get("ref", ""), 1.0) / usual:
            yield event, _amount(chance, event)


def _amount(chance: Random, event: str) -> int:
    return chance.choices(list(_PRICES), list(_PRICES.values()))[0] if event == SALE else 0


def _shares_of_eager(audience: str) -> dict[str, Mapping[str, float]]:
    """Returns how those divide of whose clicks something comes: as all, and by referrer as they are eager."""
    shares = AUDIENCES[audience]
    by_ref = {ref: weight * EAGER.get(ref, 1.0) for ref, weight in shares["ref"].items()}
    return {**shares, "ref": by_ref}


def _mean_eagerness(shares: Shares) -> float:
    return sum(weight * EAGER.get(ref, 1.0) for ref, weight in shares.items()) / sum(shares.values())
