"""Whatever adds rows up holds true bounds after any corrections: sums, all links, lists, and what other tools add."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from clickcurve.answers.counts import CurveAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import ALL, link_subject
from query.parameters import Window
from query.steps import STEPS
from query.zones import UTC_ZONE
from server.compat.graphite.series import AskedSpan, SeriesReader
from server.compat.prometheus.increases import Increases, Moments, Sources
from server.compat.prometheus.promql import Increase, Matcher, SumBy
from tests.power import at
from tests.query.test_disavowed import FINE, SPAM, Asked, story

KEYS = ("a", "b", "c", "d")
AGES_S = (0, 600, 3 * HOUR_S, 30 * HOUR_S, 5 * DAY_S, 20 * DAY_S, 60 * DAY_S, 200 * DAY_S, 500 * DAY_S)
LENGTHS_S = (300, HOUR_S, 7 * HOUR_S, DAY_S, 9 * DAY_S, 100 * DAY_S, 700 * DAY_S)
STEPS_ASKED = ("5m", "1h", "1d", "1w", "1mo", "native")


class RawHit(NamedTuple):
    key: str
    t: int
    many: int
    ref: str
    bot: bool


class World(Asked):
    """The raw hits beside their rows. bots: those that are bots, or called so."""

    def __init__(self, folder: Path, drawn: random.Random) -> None:
        super().__init__(folder)
        self.drawn = drawn
        self.hits: list[RawHit] = []
        self.called: set[RawHit] = set()

    async def act(self) -> None:
        drawn = self.drawn
        for _ in range(drawn.randrange(1, 9)):
            ago_s = drawn.choice(AGES_S) + drawn.randrange(2 * HOUR_S)
            key, ref, bot = drawn.choice(KEYS), drawn.choice((SPAM, FINE, "")), drawn.random() < 0.15
            count = len(self.hits) * 100 + drawn.randrange(1, 90)  # no two sums of hits are alike
            await self.hit(key, ago_s, count, ref, bot)
            self.hits.append(RawHit(key, (self.nodes.now - ago_s) // 60 * 60, count, ref, bot))
        if drawn.random() < 0.6:
            await self.owner.flush()
        for key in drawn.sample(KEYS, drawn.choice((0, 1, 1, 2))):
            if drawn.random() < 0.7:
                await self.call(key)
                self.called |= {hit for hit in self.hits if (hit.key, hit.ref, hit.bot) == (key, SPAM, False)}
            else:
                await self.call_back(key)
                self.called -= {hit for hit in self.called if hit.key == key}
        self.nodes.now += drawn.choice((0, 60, HOUR_S, DAY_S, 3 * DAY_S, 40 * DAY_S))

    def truth(self, keys: tuple[str, ...], start: int, end: int, bots: Bots) -> int:
        found = 0
        for hit in self.hits:
            is_bot = hit.bot or hit in self.called
            is_counted = bots is Bots.include or is_bot == (bots is Bots.only)
            found += hit.many if hit.key in keys and start <= hit.t < end and is_counted else 0
        return found

    def span(self) -> tuple[int, int]:
        """A range that begins where hits lie, mostly inside a bucket in which some of them may be called."""
        around = self.drawn.choice(self.hits).t
        start = around + self.drawn.randrange(-2 * HOUR_S, HOUR_S)
        if self.drawn.random() < 0.2:
            start -= start % self.drawn.choice((HOUR_S, DAY_S))
        return start, start + self.drawn.choice(LENGTHS_S)

    def hold(self, answer: CurveAnswer, keys: tuple[str, ...], bots: Bots) -> None:
        """A curve's points tile, count just what lies in them, and its bounds are those of the range."""
        points = answer.points
        assert all(one.end == other.start for one, other in pairwise(points))
        if points:
            assert answer.total == self.truth(keys, points[0].start, points[-1].end, bots)
        assert answer.total == sum(point.count for point in points)
        for point in points:
            assert point.count == self.truth(keys, point.start, point.end, bots)
        assert answer.at_least <= self.truth(keys, answer.start, answer.end, bots) <= answer.at_most
        assert answer.exact == (answer.at_least == answer.at_most)


@pytest.mark.parametrize("seed", range(at(quick=6, full=60)))
def test_what_is_added_up_is_between_its_bounds(seed: int, tmp_path: Path) -> None:
    async def told(asked: Asked) -> None:
        assert isinstance(asked, World)
        for _ in range(6):
            await asked.act()
            for _ in range(3):
                start, end = asked.span()
                bots = asked.drawn.choice(list(Bots))
                await sums(asked, start, end, bots)
                await lists(asked, start, end, bots)
            await other_tools(asked, start, end)

    story(told, tmp_path, lambda folder: World(folder, random.Random(seed)))


async def sums(asked: World, start: int, end: int, bots: Bots) -> None:
    step = asked.drawn.choice([step for step in STEPS_ASKED if end - start < 5_000 * (STEPS[step].average_s or 60)])
    query = f"from={start}&to={end}&bots={bots}".encode()
    along = query + f"&step={step}".encode()
    each = []
    for key in KEYS:
        curve = await asked.queries.curve(link_subject(key), along)
        asked.hold(curve, (key,), bots)
        each.append(await asked.queries.total(link_subject(key), query))
        assert each[-1].at_least <= asked.truth((key,), start, end, bots) <= each[-1].at_most
        assert (curve.at_least, curve.at_most) == (each[-1].at_least, each[-1].at_most)
    some = tuple(asked.drawn.sample(KEYS, asked.drawn.randrange(1, len(KEYS) + 1)))
    summed = await asked.queries.sum(list(some), along)
    asked.hold(summed, some, bots)
    own = [total for key, total in zip(KEYS, each, strict=True) if key in some]
    assert (summed.at_least, summed.at_most) == (sum(t.at_least for t in own), sum(t.at_most for t in own))
    asked.hold(await asked.queries.curve(ALL, along), KEYS, bots)
    everything = await asked.queries.total(ALL, query)
    assert everything.at_least <= asked.truth(KEYS, start, end, bots) <= everything.at_most


async def lists(asked: World, start: int, end: int, bots: Bots) -> None:
    """A list counts what each link's own total over the same whole buckets says, and is exact where this is true."""
    listed = await asked.queries.links(f"from={start}&to={end}&bots={bots}".encode())
    counts = {each.key: each.count for each in listed.links}
    assert list(counts) == sorted(counts, key=lambda key: (-counts[key], key))
    day = (await asked.reader.row("a", asked.nodes.now)).fold_day
    low, high = (asked.queries.ladder.kept(t, day) for t in (start, end - 1))
    for key in KEYS:
        whole = await asked.queries.total(link_subject(key), f"from={low[0]}&to={high[1]}&bots={bots}".encode())
        assert counts.get(key, 0) == whole.at_most
        assert asked.truth((key,), start, end, bots) <= counts.get(key, 0)
        if listed.exact:
            assert counts.get(key, 0) == asked.truth((key,), start, end, bots)
    life = {each.key: each.count for each in (await asked.queries.links(f"bots={bots}".encode())).links}
    assert life == {key: count for key in KEYS if (count := asked.truth((key,), 0, 1 << 40, bots))}


async def other_tools(asked: World, start: int, end: int) -> None:
    span = AskedSpan(start, end, UTC_ZONE, 1_000)
    reader = SeriesReader(asked.queries, None)
    for key in KEYS:
        (series,) = await reader.read(f"clicks.{key}", span)
        window = Window(start, end, STEPS[series.step], UTC_ZONE)
        edges = (await asked.queries.curve_in(key, window)).grid.edges
        assert sum(series.known()) == asked.truth((key,), edges[0], edges[-1], Bots.exclude)
    moments, over_s = Moments(asked.nodes.now, asked.nodes.now, 60), asked.drawn.choice((HOUR_S, DAY_S, 30 * DAY_S))
    increases = Increases(Sources(asked.queries, None), moments, asked.nodes.now)
    selected = Increase((Matcher("key", "=~", "|".join(KEYS)),), over_s)
    summed, each = await increases.series(SumBy(selected, ())), await increases.series(selected)
    assert len(summed) <= 1
    assert sum(one.samples.get(0, 0) for one in summed) == sum(one.samples.get(0, 0) for one in each)
