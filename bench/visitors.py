"""Visitors drawn from one seed: hits as JSON with referrers, countries, agents and sources, drawn as links have them.

Referrers are whole URLs: a third of the hits has none, half of the others come from 20,000 hosts by Zipf 1.1, the rest
from 30 of the link's own. Browsers send a page's address to its own site only, unless it asks for more: a third has a
path, of 50 pages by Zipf. Countries: half the link's own, else all by Zipf. Agents: some 300 by Zipf, or those of an
access log, as its referrers are. A tenth says a source. Times ascend.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.workload import zipf
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES

LINKS = 100_000
COUNTRIES = VOCABULARIES[1].values["country"][1:]
LANGUAGES = [a + b for a in "abcdefgh" for b in "abcdefgh"]
_SYLLABLES = [a + b for a in "bcdfghjklmnpqrstvwxyz" for b in "aeiou"]
_MODELS = ("SM-S918B", "SM-A546B", "SM-G991B", "Pixel 7", "Pixel 8 Pro", "CPH2449", "M2101K6G", "2201117TG", "moto g84")
_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
_DESKTOPS = ("Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64")
_COMBINED = re.compile(r'\S+ \S+ \S+ \[[^]]*\] "[^"]*" \d+ \S+ "([^"]*)" "([^"]*)"')


def agents() -> list[str]:
    """Browsers, apps and bots of these years, in many versions."""
    found = []
    for version in range(112, 132):
        chrome = f"Chrome/{version}.0.0.0"
        found += [f"Mozilla/5.0 ({system}) {_WEBKIT} {chrome} Safari/537.36" for system in _DESKTOPS]
        found.append(f"Mozilla/5.0 (Linux; Android 10; K) {_WEBKIT} {chrome} Mobile Safari/537.36")
        found.append(f"Mozilla/5.0 ({_DESKTOPS[0]}) {_WEBKIT} {chrome} Safari/537.36 Edg/{version}.0.0.0")
        found += [
            f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0" for system in _DESKTOPS[::2]
        ]
    for major in (16, 17, 18):
        for minor in range(6):
            safari = f"{_APPLE} Version/{major}.{minor} Mobile/15E148 Safari/604.1"
            found.append(f"Mozilla/5.0 (iPhone; CPU iPhone OS {major}_{minor} like Mac OS X) {safari}")
            found.append(f"Mozilla/5.0 (iPad; CPU OS {major}_{minor} like Mac OS X) {safari}")
    for place, model in enumerate(_MODELS):
        for build in range(8):
            view = f"Version/4.0 Chrome/{120 + build}.0.6099.{40 + place} Mobile Safari/537.36"
            phone = f"Mozilla/5.0 (Linux; Android 1{build % 5}; {model}; wv) {_WEBKIT} {view}"
            found.append(f"{phone} Instagram 31{build}.0.0.37.120 Android (3{build}/1{build % 5}; 450dpi; 1080x2115)")
    bots = ("Googlebot/2.1", "bingbot/2.0", "AhrefsBot/7.0", "facebookexternalhit/1.1", "Twitterbot/1.0")
    return found + [f"Mozilla/5.0 (compatible; {bot})" for bot in bots]


class Taste(NamedTuple):
    """A dimension's values by popularity and how skewed that is; the share of hits that do not say one; how many values
    are a link's own, and their share."""

    values: Sequence[str]
    skew: float
    none: float
    own: int
    own_share: float


def _host(number: int) -> str:
    chance = random.Random(number)
    word = "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(2, 5)))
    return word + chance.choice((".com", ".com", ".org", ".net", ".de", ".co.uk", ".io"))


HOSTS = list(dict.fromkeys(_host(i) for i in range(20_000)))
TASTES = {
    "ref": Taste(HOSTS, 1.1, 0.35, 30, 0.325),
    "country": Taste(COUNTRIES, 1.2, 0.0, 1, 0.5),
    "device": Taste(["phone", "desktop", "tablet", "tv"], 1.5, 0.0, 1, 0.0),
}


def values(name: str, hits: int, chance: random.Random) -> Iterator[str]:
    """What a link's hits say: some nothing, some what its own visitors say, the others what all links' do."""
    taste = TASTES[name]
    own = chance.sample(taste.values, taste.own)
    here = chance.choices(own, cum_weights=zipf(len(own), 1.2), k=hits)
    everywhere = chance.choices(taste.values, cum_weights=zipf(len(taste.values), taste.skew), k=hits)
    for special, common in zip(here, everywhere, strict=True):
        turn = chance.random()
        yield "" if turn < taste.none else special if turn < taste.none + taste.own_share else common


class Visitors:
    """Draws hits. log: an access log whose referrers and agents they have instead."""

    def __init__(self, seed: int = 7, log: Path | None = None) -> None:
        self._rng = random.Random(seed)
        self._agents, self._referrers = agents(), list[str]()
        if log is not None:
            opened = gzip.open if log.suffix == ".gz" else open
            with opened(log, "rt", errors="replace") as file:
                lines = [match.groups() for line in file if (match := _COMBINED.match(line))]
            self._referrers, self._agents = [line[0] for line in lines], [line[1] for line in lines]
        else:
            self._rng.shuffle(self._agents)
        sizes = {"links": (LINKS, 1.2), "hosts": (len(HOSTS), 1.1), "own": (30, 1.2), "pages": (50, 1.2)}
        sizes |= {"countries": (len(COUNTRIES), 1.2), "agents": (len(self._agents), 0 if log else 1.0)}
        self._weights = {name: zipf(*size) for name, size in sizes.items()}

    def _draws(self, of: str, n: int) -> list[int]:
        weights = self._weights[of]
        return self._rng.choices(range(len(weights)), cum_weights=weights, k=n)

    def hits(self, n: int, names: Sequence[str], until: int) -> list[dict[str, object]]:
        """Returns hits of the ten minutes before `until`, with these of ref, country, ip, ua and source."""
        links, numbers = self._draws("links", n), self._draws("agents", n)
        says = {"ref": self._refs(links), "country": self._countries(links), "ua": [self._agents[i] for i in numbers]}
        says["source"] = [self._rng.choice(("qr", "email", "print")) if self._rng.random() < 0.1 else "" for _ in links]
        says["ip"] = [".".join(map(str, self._rng.randbytes(4))) for _ in links]
        if self._referrers:
            says["ref"] = [self._referrers[i] for i in numbers]
        hits = []
        for place, link in enumerate(links):
            hit: dict[str, object] = {"key": f"link{link}", "ts": until - 600 + place * 600 // n}
            hit |= {name: says[name][place] for name in names if says[name][place]}
            hits.append(hit)
        return hits

    def _refs(self, links: Sequence[int]) -> list[str]:
        chance = self._rng.random
        found = []
        everywhere, own, pages = (self._draws(of, len(links)) for of in ("hosts", "own", "pages"))
        for link, common, special, page in zip(links, everywhere, own, pages, strict=True):
            turn = chance()
            host = HOSTS[common if turn < 0.675 else (link * 7_919 + special * 104_729) % len(HOSTS)]
            path = f"posts/{page}/about-{host[:5]}" if chance() < 0.3 else ""
            found.append("" if turn < 0.35 else f"https://{host}/{path}")
        return found

    def _countries(self, links: Sequence[int]) -> list[str]:
        everywhere = self._draws("countries", len(links))
        return [
            COUNTRIES[link * 31 % 60 if self._rng.random() < 0.5 else common]
            for link, common in zip(links, everywhere, strict=True)
        ]

    def bodies(self, n: int, batch: int, names: Sequence[str], until: int) -> list[bytes]:
        """Returns n batches of hits as JSON arrays."""
        return [json.dumps(self.hits(batch, names, until), separators=(",", ":")).encode() for _ in range(n)]
