"""What is sent: links popular by Zipf's law, their hits over 400 days, and what visitors say, from one seed.

`Workload` draws keys and whole loads of plain hits. `Visitors` draws hits as JSON with referrers, countries, agents and
sources, drawn as links have them. Referrers are whole URLs: a third of the hits has none, half of the others come from
20,000 hosts by Zipf 1.1, the rest from 30 of the link's own. Browsers send a page's address to its own site only,
unless it asks for more: a third has a path, of 50 pages by Zipf. Countries: half the link's own, else all by Zipf.
Agents: some 300 by Zipf. A tenth says a source. Times ascend.
"""

from __future__ import annotations

import json
import random
from array import array
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, pairwise, product
from typing import NamedTuple, TypeVar

from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day


@dataclass(frozen=True, slots=True)
class Workload:
    """`links` links share `hits` hits of the `days` days before `end` (epoch seconds)."""

    links: int
    hits: int
    days: int
    end: int
    skew: float = 1.2
    seed: int = 20_260_101

    def key(self, rank: int) -> str:
        """The key of the link of this popularity rank, scattered: neighbours in the store are not alike."""
        return f"k{rank * 7_919 % self.links:05d}"

    def shares(self) -> list[int]:
        """Hits of each link by rank; `hits` in all."""
        weights = zipf(self.links, self.skew)
        sums = [round(weight * self.hits / weights[-1]) for weight in weights]
        return [upto - before for before, upto in pairwise([0, *sums])]

    def draw(self, count: int, seed: int = 0) -> list[str]:
        """Keys by popularity, `count` draws."""
        chance = random.Random(self.seed + seed)
        sums = zipf(self.links, self.skew)
        return [self.key(bisect(sums, chance.random() * sums[-1])) for _ in range(count)]

    def distinct(self, count: int, seed: int = 0) -> list[str]:
        """`count` different keys, the first that a draw by popularity meets."""
        found: dict[str, None] = {}
        while len(found) < count:
            found.update(dict.fromkeys(self.draw(count, seed)))
            seed += 1
        return list(found)[:count]

    def bodies(self, hits_each: int) -> Iterator[bytes]:
        """All hits as NDJSON bodies: every link's first half, link by link in scattered order, then every second half.

        So each row is written at half its size and replaced later, as rows are in life. A hit says the start of the
        bucket that keeps it: the rows are the same as with its minute, and a flush has fewer counts to add.
        """
        chance = random.Random(self.seed)
        ranks = list(range(self.links))
        chance.shuffle(ranks)
        shares, starts = self.shares(), self._starts()

        def lines() -> Iterator[str]:
            for half, rank in product((0, 1), ranks):
                key, count = self.key(rank), shares[rank] // 2 + half * (shares[rank] % 2)
                yield from (
                    f'{{"key":"{key}","ts":{starts[tick]}}}\n' for tick in array("H", chance.randbytes(2 * count))
                )

        left = lines()
        while body := "".join(islice(left, hits_each)):
            yield body.encode()

    def _starts(self) -> list[int]:
        """When hits happen, 65,536 equally likely moments; half are of the last two fifths of the days."""
        day, minutes = fold_day(self.end), self.days * DAY_S // 60
        ages = (int(minutes * ((turn + 0.5) / 65_536) ** 1.35) + 1 for turn in range(65_536))
        return [CLICKS.kept(self.end - age * 60, day)[0] for age in ages]


def age_s(chance: random.Random) -> int:
    """Draws how long ago a hit of 400 days was: half are of the last two fifths of them."""
    return int(400 * DAY_S * chance.random() ** 1.35)


@cache
def zipf(n: int, skew: float) -> list[float]:
    """Returns the sums of the weights of n things by popularity."""
    return list(accumulate(1 / (rank + 1) ** skew for rank in range(n)))


def batch(keys: Sequence[str], at: int) -> list[str]:
    """One hit a key as JSON texts, spread over the last minutes before `at`."""
    return [f'{{"key":"{key}","ts":{at - index % 240}}}' for index, key in enumerate(keys)]


T = TypeVar("T")
LINKS = 100_000
ATTRIBUTES = ("ref", "country", "ua", "source")  # that hits say
DIMENSIONS = ("ref", "country", "device", "source")  # by which they are broken down
COUNTRIES = [code for code in VOCABULARIES[1].values["country"] if code not in ("", "AP", "EU")]
LANGUAGES = [a + b for a in "abcdefgh" for b in "abcdefgh"]
_SYLLABLES = [a + b for a in "bcdfghjklmnpqrstvwxyz" for b in "aeiou"]


_WEBKIT, _APPLE = "AppleWebKit/537.36 (KHTML, like Gecko)", "AppleWebKit/605.1.15 (KHTML, like Gecko)"
_WINDOWS, _MAC, _LINUX = "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64"
_IN_APP = "Version/4.0 Chrome/1{n}.0.6099.40 Mobile Safari/537.36 Instagram 3{n}.0.0.37.120 Android (31/11; 1080x2115)"
# Browsers and apps of these years; each in twenty versions.
AGENTS = (
    *(f"({system}) {_WEBKIT} Chrome/1{{n}}.0.0.0 Safari/537.36" for system in (_WINDOWS, _MAC, _LINUX)),
    f"(Linux; Android 10; K) {_WEBKIT} Chrome/1{{n}}.0.0.0 Mobile Safari/537.36",
    f"({_WINDOWS}) {_WEBKIT} Chrome/1{{n}}.0.0.0 Safari/537.36 Edg/1{{n}}.0.0.0",
    *(f"({system}; rv:1{{n}}.0) Gecko/20100101 Firefox/1{{n}}.0" for system in (_WINDOWS, _LINUX)),
    f"(iPhone; CPU iPhone OS 17_{{n}} like Mac OS X) {_APPLE} Version/17.{{n}} Mobile/15E148 Safari/604.1",
    f"(iPad; CPU OS 17_{{n}} like Mac OS X) {_APPLE} Version/17.{{n}} Mobile/15E148 Safari/604.1",
    *(
        f"(Linux; Android 14; {model}; wv) {_WEBKIT} {_IN_APP}"
        for model in ("SM-S918B", "SM-A546B", "Pixel 7", "CPH2449")
    ),
)
BOTS = ("Googlebot/2.1", "bingbot/2.0", "AhrefsBot/7.0", "facebookexternalhit/1.1", "Twitterbot/1.0")


def agents() -> list[str]:
    """Browsers, apps and bots."""
    found = [agent.format(n=n) for n in range(12, 32) for agent in AGENTS]
    return [f"Mozilla/5.0 {agent}" for agent in (*found, *(f"(compatible; {bot})" for bot in BOTS))]


class Taste(NamedTuple):
    """A dimension's values by popularity and how skewed that is; the share of hits that do not say one; how many values
    are a link's own, and their share."""

    values: Sequence[str]
    skew: float
    none: float
    own: int
    own_share: float

    def draw(self, chance: random.Random, hits: int, own: Callable[[int, int], str]) -> Iterator[str]:
        """Yields what hits say: some nothing, some what their link's own visitors say, the others what all links' do.

        own: returns of the hit at this place the link's own value of this rank.
        """
        ranks = drawn(chance, range(self.own), 1.2, hits)
        everywhere = drawn(chance, self.values, self.skew, hits)
        for place, (rank, common) in enumerate(zip(ranks, everywhere, strict=True)):
            turn = chance.random()
            yield "" if turn < self.none else own(place, rank) if turn < self.none + self.own_share else common


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
    """Returns what the hits of one link say."""
    own = chance.sample(TASTES[name].values, TASTES[name].own)
    return TASTES[name].draw(chance, hits, lambda _, rank: own[rank])


def drawn(chance: random.Random, of: Sequence[T], skew: float, n: int) -> list[T]:
    """Returns n of these, by popularity."""
    return chance.choices(of, cum_weights=zipf(len(of), skew), k=n)


class Visitors:
    """Draws hits."""

    def __init__(self, seed: int = 7) -> None:
        self._chance, self._agents = random.Random(seed), agents()
        self._chance.shuffle(self._agents)

    def hits(
        self, n: int, names: Sequence[str], until: int, keys: Sequence[str] | None = None
    ) -> list[dict[str, object]]:
        """Returns hits of the ten minutes before `until`, with these of ref, country, ip, ua and source.

        keys: of the hits, each at `until`.
        """
        chance = self._chance
        links = drawn(chance, range(LINKS), 1.2, n)

        def said(name: str) -> Iterator[str]:
            of = TASTES[name].values
            own = lambda place, rank: of[(links[place] * 7_919 + rank * 104_729) % len(of)]  # noqa: E731
            return TASTES[name].draw(chance, n, own)

        pages = [f"posts/{page}/about" if chance.random() < 0.3 else "" for page in drawn(chance, range(50), 1.2, n)]
        says = {
            "ref": [host and f"https://{host}/{page}" for host, page in zip(said("ref"), pages, strict=True)],
            "country": list(said("country")),
            "ua": drawn(chance, self._agents, 1.0, n),
            "source": [chance.choice(("qr", "email", "print")) if chance.random() < 0.1 else "" for _ in links],
            "ip": [".".join(map(str, chance.randbytes(4))) for _ in links],
        }
        hits = []
        for place, link in enumerate(links):
            hit: dict[str, object] = {"key": f"link{link}", "ts": until - 600 + place * 600 // n}
            if keys is not None:
                hit = {"key": keys[place], "ts": until}
            hits.append(hit | {name: says[name][place] for name in names if says[name][place]})
        return hits

    def bodies(self, n: int, batch: int, names: Sequence[str], until: int) -> list[bytes]:
        """Returns n batches of hits as JSON arrays."""
        return [json.dumps(self.hits(batch, names, until), separators=(",", ":")).encode() for _ in range(n)]
