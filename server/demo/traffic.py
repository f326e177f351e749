"""A year of made-up hits: links with habits of their own, in the buckets that a store keeps of that year."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S, Ladder, fold_day

YEAR_DAYS = 365
BOTS = 0.07  # of the hits of people, how many more are bots'
_SEED = 20_260_301
_GAUSSIAN_FROM = 40.0  # expected hits above which a bell is as good, and one draw
# Of a day's hits, by hour of UTC: few at night, most at noon and after supper.
_HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 9, 9, 8, 9, 10, 9, 8, 8, 8, 9, 10, 11, 11, 9, 6, 3)
_HOURS_SUM = sum(_HOURS)


@dataclass(frozen=True, slots=True)
class MadeUpLink:
    """A link. daily: hits of people on a usual day. begun, ended: days ago. peaks: days ago, and how many times more.

    weekend: how many of a weekday's hits it has then. grows: so many times in a year. After a peak its hits halve each
    day. audience: whose hits they are, see `audience.py`.
    """

    key: str
    daily: float
    begun: int = YEAR_DAYS
    ended: int = -1
    weekend: float = 1.0
    grows: float = 1.0
    peaks: tuple[tuple[int, float], ...] = ()
    audience: str = "wide"
    group: str = ""

    def expected(self, hour: int, now: int) -> float:
        """Returns the hits to expect in the hour that begins at `hour`, epoch seconds."""
        ago = (now - hour) / DAY_S
        if not self.ended < ago <= self.begun:
            return 0.0
        rate: float = self.daily * self.grows ** (1 - ago / YEAR_DAYS)
        for day, times in self.peaks:
            if day - ago >= 0:
                rate += self.daily * times * 0.5 ** (day - ago)
        if (hour // DAY_S + 3) % 7 >= 5:  # 1 January 1970 was a Thursday
            rate *= self.weekend
        return rate * _HOURS[hour // HOUR_S % 24] / _HOURS_SUM


class YearBucket(NamedTuple):
    """The hits of one link in one kept bucket."""

    start: int
    people: int
    bots: int


LINKS = (
    MadeUpLink("home", 420, grows=1.6),
    MadeUpLink("docs", 310, weekend=0.35, grows=2.2, audience="code", group="product"),
    MadeUpLink("launch", 60, begun=75, peaks=((74, 80.0), (30, 15.0)), group="campaigns"),
    MadeUpLink(
        "spring-sale", 90, begun=250, ended=205, weekend=1.7, peaks=((249, 12.0), (207, 9.0)), group="campaigns"
    ),
    MadeUpLink(
        "summer-sale", 110, begun=160, ended=120, weekend=1.6, peaks=((159, 14.0), (122, 10.0)), group="campaigns"
    ),
    MadeUpLink("newsletter/1", 4, begun=320, peaks=((320, 160.0),), audience="mail", group="newsletter"),
    MadeUpLink("newsletter/2", 5, begun=230, peaks=((230, 190.0),), audience="mail", group="newsletter"),
    MadeUpLink("newsletter/3", 6, begun=140, peaks=((140, 240.0),), audience="mail", group="newsletter"),
    MadeUpLink("newsletter/4", 8, begun=50, peaks=((50, 260.0),), audience="mail", group="newsletter"),
    MadeUpLink("menu", 75, weekend=2.4, audience="print", group="on paper"),
    MadeUpLink("wifi", 38, weekend=1.9, grows=1.2, audience="print", group="on paper"),
    MadeUpLink("jobs", 24, weekend=0.2),
    MadeUpLink("talk-slides", 2, begun=190, peaks=((190, 300.0),), audience="code"),
    MadeUpLink("map", 33, weekend=1.8, audience="print", group="on paper"),
    MadeUpLink("podcast", 48, begun=280, grows=3.0, peaks=((7, 6.0), (14, 6.0), (21, 5.0))),
    MadeUpLink("repo", 130, weekend=0.6, grows=1.9, peaks=((96, 22.0),), audience="code", group="product"),
    MadeUpLink("support", 65, weekend=0.3, group="product"),
    MadeUpLink("status", 9, peaks=((63, 150.0), (11, 90.0)), audience="code", group="product"),
    MadeUpLink("survey", 3, begun=33, ended=12, peaks=((33, 140.0),), audience="mail"),
    MadeUpLink("größe", 7, weekend=1.3),
    MadeUpLink("a/b", 5),
    MadeUpLink("old-campaign", 12, ended=300, group="campaigns"),
)


def made_up_years(now: int, ladder: Ladder) -> Iterator[tuple[MadeUpLink, list[YearBucket]]]:
    """Yields each link that has hits, with its kept buckets; the same for the same minute."""
    now -= now % MINUTE_S
    chance = Random(_SEED + now)
    buckets = list(_kept_buckets(now, ladder))
    for link in LINKS:
        hours: dict[int, float] = {}
        kept = []
        for start, end in buckets:
            people = drawn_hits(chance, _expected_in(link, start, end, now, hours))
            bots = drawn_hits(chance, BOTS * people)
            if people or bots:
                kept.append(YearBucket(start, people, bots))
        if kept:
            yield link, kept


def _kept_buckets(now: int, ladder: Ladder) -> Iterator[tuple[int, int]]:
    """Yields the buckets that are kept of the year before the minute of now."""
    day, at = fold_day(now), now - YEAR_DAYS * DAY_S
    at = ladder.kept(at, day)[1]
    while at < now:
        start, at = ladder.kept(at, day)
        yield start, at


def _expected_in(link: MadeUpLink, start: int, end: int, now: int, hours: dict[int, float]) -> float:
    """Adds up what to expect in a bucket: whole hours, or a part of one."""
    expected = 0.0
    hour = start - start % HOUR_S
    while hour < end:
        if hour not in hours:
            hours[hour] = link.expected(hour, now)
        inside_s = min(end, hour + HOUR_S) - max(start, hour)
        expected += hours[hour] * inside_s / HOUR_S
        hour += HOUR_S
    return expected


def drawn_hits(chance: Random, expected: float) -> int:
    """Draws a number of hits where so many are to be expected, as independent visitors come."""
    if expected <= 0:
        return 0
    if expected > _GAUSSIAN_FROM:
        return max(0, round(chance.gauss(expected, math.sqrt(expected))))
    most, product, drawn = math.exp(-expected), chance.random(), 0
    while product > most:
        product *= chance.random()
        drawn += 1
    return drawn
