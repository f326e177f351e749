"""What made-up hits say: of each kind of link, how its hits divide by referrer, country, device, source and channel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from random import Random

from ingest.attributes.channel import channel_of
from ingest.attributes.dimensions import CHANNEL

NOT_GIVEN = ""
Shares = Mapping[str, int]  # value -> its weight beside the others

_COUNTRIES: Shares = {
    "DE": 38, "US": 16, "AT": 9, "GB": 8, "CH": 7, "FR": 7, "NL": 5, "PL": 4, "IN": 4, "BR": 2, "SE": 2, "JP": 1,
}  # fmt: skip
_USUAL: Mapping[str, Shares] = {
    "ref": {
        NOT_GIVEN: 38, "search.example": 20, "social.example": 16, "news.example": 10, "mail.example": 5,
        "video.example": 4, "forum.example": 3, "wiki.example": 2, "blog.example": 1, "photos.example": 1,
        "maps.example": 1, "chat.example": 1,
    },
    "country": _COUNTRIES,
    "device": {"phone": 55, "desktop": 38, "tablet": 5, "tv": 1, "other": 1},
    "source": {NOT_GIVEN: 80, "qr": 14, "email": 6},
}  # fmt: skip
# What differs for links that stand in mails, on paper, or among programmers.
AUDIENCES: Mapping[str, Mapping[str, Shares]] = {
    "wide": _USUAL,
    "mail": {
        **_USUAL,
        "ref": {NOT_GIVEN: 62, "mail.example": 33, "chat.example": 3, "forum.example": 2},
        "source": {NOT_GIVEN: 8, "email": 92},
    },
    "print": {
        **_USUAL,
        "ref": {NOT_GIVEN: 90, "maps.example": 6, "search.example": 4},
        "country": {"DE": 71, "AT": 14, "CH": 9, "NL": 3, "FR": 3},
        "device": {"phone": 93, "tablet": 6, "desktop": 1},
        "source": {NOT_GIVEN: 7, "qr": 93},
    },
    "code": {
        **_USUAL,
        "ref": {NOT_GIVEN: 34, "code.example": 31, "search.example": 19, "forum.example": 9, "news.example": 7},
        "country": {**_COUNTRIES, "US": 34, "IN": 19},
        "device": {"desktop": 84, "phone": 13, "tablet": 2, "other": 1},
        "source": {NOT_GIVEN: 100},
    },
}


def _channels(shares: Mapping[str, Shares]) -> Shares:
    """Returns how hits divide by channel: as they are judged at the door by referrer and source."""
    weights: Counter[str] = Counter()
    for ref, of_ref in shares["ref"].items():
        for source, of_source in shares["source"].items():
            weights[channel_of(ref, source, {})] += of_ref * of_source
    return weights


# With what is judged from the others; a hit does not say it.
JUDGED: Mapping[str, Mapping[str, Shares]] = {
    name: {**shares, CHANNEL: _channels(shares)} for name, shares in AUDIENCES.items()
}
_FEW = 40  # hits that are drawn one by one; of more, a bell is as good, and one draw for each value


def hits_by_value(chance: Random, hits: int, shares: Shares) -> Counter[str]:
    """Divides hits by the shares of values, as independent visitors would; the parts are the whole."""
    if hits <= _FEW:
        return Counter(chance.choices(list(shares), list(shares.values()), k=hits))
    counts: Counter[str] = Counter()
    left, weight_left = hits, sum(shares.values())
    for value, weight in shares.items():
        part = weight / weight_left
        drawn = round(chance.gauss(left * part, math.sqrt(left * part * (1 - part)))) if part < 1 else left
        if count := min(left, max(0, drawn)):
            counts[value] = count
        left, weight_left = left - count, weight_left - weight
    return counts


def attributes_of_one(chance: Random, audience: str) -> dict[str, str]:
    """Returns what one hit says of each dimension, without what it does not give."""
    drawn = {name: chance.choices(list(each), list(each.values()))[0] for name, each in AUDIENCES[audience].items()}
    return {name: value for name, value in drawn.items() if value}
