"""Raw hits beside rows of several owners, some of which die, and their corrections: for laws to be held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from types import ModuleType
from typing import NamedTuple

from clickcurve.buckets.breakdowns import disavow as product
from clickcurve.buckets.breakdowns.answers import breakdown_total, lacked_together
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    NOT_GIVEN,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    apply_breakdown,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.check import check_against_counts, check_breakdown
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, CalledLink, Moved, disavowed_of, spans_of
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, HOUR_S, MINUTE_S, fold_day
from clickcurve.buckets.ranges import Bots, between, total
from clickcurve.buckets.row import EMPTY, Delta, Row, apply, check, fold, merge

NARROW = BoundedLadder(BREAKDOWN.ladder, (3, 3, 2, 2))
REFS, COUNTRIES, DIMENSIONS = ("", "a", "b", "c", "d", "e", "spam"), ("", "DE", "US", "FR", "XX"), ("ref", "country")
Rule = tuple[str, str]


class RawHit(NamedTuple):
    t: int
    said: tuple[str, str]
    hits: int
    rules: set[Rule]  # that call it a bot

    def says(self, dimension: str) -> str:
        return self.said[DIMENSIONS.index(dimension)]


def weight(hits: Iterable[RawHit]) -> int:
    return sum(hit.hits for hit in hits)


class OwnerRows:
    """The rows of a link and of its correction, of one owner."""

    def __init__(self, bounded: BoundedLadder) -> None:
        self.counts, self.breakdown, self.moved, self.named = EMPTY, bounded.empty, EMPTY, CORRECTIONS.empty
        self.mark = 0


class World:
    """The raw hits, and what owners have of them."""

    def __init__(self, rng: Random, module: ModuleType = product) -> None:
        self.rng, self.module = rng, module
        self.bounded = rng.choice((NARROW, BREAKDOWN))
        self.now = 1_700_000_000 + rng.randrange(900 * DAY_S)
        self.hits: list[RawHit] = []
        self.rows = [OwnerRows(self.bounded) for _ in range(rng.randrange(1, 4))]
        self.dead = 0
        self.used: set[str] = set()  # dimensions by which something was called

    @property
    def is_exact(self) -> bool:
        """Whether nothing was trimmed and one dimension was used."""
        return self.bounded is BREAKDOWN and len(self.used) < 2

    def flush_hits(self) -> None:
        people: Counter[int] = Counter()
        bots: Counter[int] = Counter()
        values: dict[str, dict[int, Counter[str]]] = {}
        for _ in range(self.rng.randrange(1, 9)):
            ago = self.rng.choice((0, 0, 0, 3 * HOUR_S, 2 * DAY_S, 40 * DAY_S, 500 * DAY_S))
            t = (self.now - self.rng.randrange(ago + HOUR_S)) // MINUTE_S * MINUTE_S
            if self.rng.random() < 0.1:
                bots[t] += 1
                continue
            said = self.rng.choice(REFS), self.rng.choice(COUNTRIES)
            self.hits.append(RawHit(t, said, self.rng.choice((1, 1, 2, 9)), set()))
            people[t] += self.hits[-1].hits
            for name, value in zip(DIMENSIONS, said, strict=True) if any(said) else ():
                values.setdefault(name, {}).setdefault(t - t % HOUR_S, Counter())[value] += self.hits[-1].hits
        row = self.writer()
        for _ in range(self.rng.choice((1, 1, 2))):
            row.counts = apply(row.counts, Delta(people, bots), row.mark, fold_day(self.now), 0, CLICKS)
            delta = BreakdownDelta(values)
            row.breakdown = apply_breakdown(row.breakdown, delta, row.mark, fold_day(self.now), 0, self.bounded)

    def writer(self) -> OwnerRows:
        row = self.rng.choice(self.rows[self.dead :])
        row.mark += 1
        return row

    def correct(self, correction: product.Correction) -> None:
        """Writes a correction as one owner that lives does; now and then it is written again."""
        if not correction:
            return
        row = self.writer()
        for _ in range(self.rng.choice((1, 1, 2))):
            row.moved = apply(row.moved, correction.counts, row.mark, fold_day(self.now), 0, CLICKS)
            row.named = apply_breakdown(row.named, correction.named, row.mark, fold_day(self.now), 0, CORRECTIONS)

    def erase(self) -> None:
        """Empties all rows, as a link that is deleted."""
        self.hits = []
        for row in self.rows:
            row.counts, row.breakdown, row.moved, row.named = EMPTY, self.bounded.empty, EMPTY, CORRECTIONS.empty

    def link(self) -> CalledLink:
        day = fold_day(self.now)
        counts, moved = (
            fold(merge(rows, CLICKS), day, CLICKS)
            for rows in ([row.counts for row in self.rows], [row.moved for row in self.rows])
        )
        breakdown = merge_breakdowns([row.breakdown for row in self.rows], day, self.bounded)
        named = merge_breakdowns([row.named for row in self.rows], day, CORRECTIONS)
        return CalledLink(counts, breakdown, Moved(moved, named), CLICKS)

    def read(self) -> tuple[Row, product.CorrectedBreakdown]:
        """The rows as an answer is made of them."""
        link = self.link()
        row = link.counts._replace(disavowed=disavowed_of(link.moved.counts, link.counts.fold_day, CLICKS))
        return row, self.module.without_called(link.breakdown, link.moved, CLICKS)

    def span(self) -> tuple[int, int]:
        if self.rng.random() < 0.4:
            return 0, END_OF_TIME
        start = self.now - self.rng.randrange(self.rng.choice((DAY_S, 40 * DAY_S, 600 * DAY_S)))
        start -= start % 60
        return start, start + self.rng.choice((HOUR_S, DAY_S, 90 * DAY_S, 700 * DAY_S))


def act(world: World, dimensions: tuple[str, ...]) -> None:
    """Does one thing of a history, and holds what it must keep."""
    rng = world.rng
    what = rng.choice(("hits", "hits", "time", "disavow", "disavow", "disavow", "back", "death", "erasure"))
    dimension = rng.choice(dimensions)
    rule = dimension, rng.choice(("spam", "a", "b") if dimension == "ref" else ("XX", "DE"))
    if what == "hits":
        world.flush_hits()
    elif what == "time":
        row, _ = world.read()
        months = {BREAKDOWN.ladder.bucket(3, hit.t) for hit in world.hits}
        people = {span: between(row, span, Bots.exclude) for span in months}
        world.now += rng.choice((HOUR_S, DAY_S, 3 * DAY_S, 35 * DAY_S, 420 * DAY_S))
        row, _ = world.read()
        assert {span: between(row, span, Bots.exclude) for span in months} == people, "a fold changed a corrected sum"
    elif what == "death":
        world.dead = min(world.dead + 1, len(world.rows) - 1)
    elif what == "disavow":
        world.used.add(dimension)
        _disavow(world, rule)
    elif what == "erasure":
        _erase_under_way(world, rule)
    else:
        _call_back(world, rule)


def _call_back(world: World, rule: Rule) -> None:
    """Undoes a rule; sometimes another one calls the same value in a part of the range."""
    kept = world.span() if world.rng.random() < 0.3 else (0, 0)
    link = world.link()
    world.correct(world.module.call_back(link, *rule, [kept]))
    for hit in world.hits:
        low, high = link.span(hit.t)
        if not kept[0] <= low < high <= kept[1]:
            hit.rules.discard(rule)


def _erase_under_way(world: World, rule: Rule) -> None:
    """The link is deleted, and hit again, after a correction was computed and before it is written."""
    link = world.link()
    late = world.module.disavow(link, *rule, *world.span())
    if world.rng.random() < 0.5:
        late = world.module.call_back(link, *rule)
    world.erase()
    world.flush_hits()
    world.correct(late)
    world.correct(world.module.call_back_all(world.link()))
    assert not world.module.call_back_all(world.link()), "nothing is called any more"
    assert all(count == 0 for _, _, count in spans_of(world.link().moved.counts, fold_day(world.now), CLICKS))


def _disavow(world: World, rule: Rule) -> None:
    since, until = world.span()
    link = world.link()
    found = world.module.disavow(link, *rule, since, until)
    meant = [hit for hit in world.hits if hit.says(rule[0]) == rule[1] and rule not in hit.rules]
    in_range = weight(hit for hit in meant if since <= hit.t < until)
    assert found.at_least <= in_range <= found.at_most, "the bounds of a dry run"
    for hit in meant:
        low, high = link.span(hit.t)
        if since <= low and high <= until:
            hit.rules.add(rule)
    world.correct(found)
    assert not world.module.disavow(world.link(), *rule, since, until), "calling twice is not calling once"


def hold_laws(world: World) -> None:
    link = world.link()
    assert not check(link.moved.counts, CLICKS)
    assert not check_breakdown(link.moved.named, CORRECTIONS)
    assert not check_against_counts(link.moved.named, link.moved.counts, CORRECTIONS, CLICKS)
    row, corrected = world.read()
    for span in {link.span(hit.t) for hit in world.hits}:
        inside = [hit for hit in world.hits if span[0] <= hit.t < span[1]]
        left, both, bots = (between(row, span, series)[0] for series in (Bots.exclude, Bots.include, Bots.only))
        counted = weight(inside)
        marked = weight(hit for hit in inside if hit.rules)
        gone = counted - left
        assert left + bots == both, "people and bots are not what they were together"
        assert 0 <= gone <= marked and (gone == marked or not world.is_exact), "called are others than were meant"
        for name in DIMENSIONS:
            _hold_values(world, corrected, name, span, inside, left)
    for start, end in (world.span() for _ in range(4)):
        people, bots_ = (total(row, start, end, series, CLICKS) for series in (Bots.exclude, Bots.only))
        true = weight(hit for hit in world.hits if start <= hit.t < end and not hit.rules)
        assert 0 <= people.at_least <= people.at_most <= people.total, "bounds"
        assert true <= people.at_most and (people.at_least <= true or not world.is_exact), "bounds of a cut range"
        assert 0 <= bots_.at_least <= bots_.at_most <= bots_.total


def _hold_values(
    world: World,
    corrected: product.CorrectedBreakdown,
    name: str,
    span: tuple[int, int],
    inside: list[RawHit],
    left: int,
) -> None:
    part = breakdown_total(corrected.breakdown, name, *span, world.bounded)
    recorded = weight(hit for hit in inside if any(hit.said))
    unsaid = weight(inside) - recorded
    assert part.recorded + unsaid == left, "the parts are not the whole"
    assert min(part.values.values(), default=1) > 0 <= part.other and 0 <= part.slack <= part.other
    unsure = sum(n for at, n in corrected.unsure.get(name, {}).items() if span[0] <= at < span[1])
    for value in {hit.says(name) for hit in inside if any(hit.said)}:
        true = weight(hit for hit in inside if hit.says(name) == value and any(hit.said) and not hit.rules)
        at_least, at_most = part.bounds(value)
        assert true <= at_most + (unsure if value == NOT_GIVEN else 0), "too few of a value"
        assert at_least <= true or not world.is_exact, "too many of a value"
    named = {hit.says(name) for hit in inside if any(hit.said)} - {NOT_GIVEN}
    true = weight(hit for hit in inside if hit.says(name) in named and any(hit.said) and not hit.rules)
    kept = sum(part.values.get(value, 0) for value in named)
    assert true <= kept + lacked_together(len(named), part.slack, part.other), "too few of all values together"


def same_answers(one: tuple[Row, Breakdown], other: tuple[Row, Breakdown]) -> bool:
    """Whether two reads of a link say the same."""
    return one[0] == other[0] and {
        name: [dict(tier) for tier in tiers] for name, tiers in one[1].dimensions.items()
    } == {name: [dict(tier) for tier in tiers] for name, tiers in other[1].dimensions.items()}
