"""Totals and curves against a plain list of all hits: any range, step, zone and moment, any number of owners, flushes
whole or half done, folded late or never, with an erasure in between."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.ranges import Bots
from query.steps import STEPS, auto_step
from query.zones import Fixed, Unit, Zone, zone
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes

DAY_S = 86_400
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
]
WIDTHS = {"minute": 60, "five_minute": 300, "hour": 3600, "day": DAY_S, "week": 7 * DAY_S, "month": 2_629_746}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp())


# Ages at which tiers end and begin, so that draws fall near them.
AGES = [0, 60, 3600, *(DAY_S * days for days in (1, 2, 3, 4, 34, 40, 126, 140, 491, 520, 900))]
ages = st.one_of(
    st.sampled_from(AGES).flatmap(lambda age: st.integers(max(0, age - 5000), age + 5000)),
    st.integers(-300, 3 * DAY_S),
    st.integers(0, 900 * DAY_S),
)
nows = st.one_of(
    st.integers(at("2026-01-01"), at("2029-01-01")),
    st.sampled_from(["2026-03-01", "2028-03-01", "2027-01-01", "2026-03-29T01:00", "2026-11-01T06:00"]).flatmap(
        lambda text: st.integers(at(text) - 4000, at(text) + 4000)
    ),
)


@dataclass(frozen=True)
class Question:
    start: int
    end: int
    step: str
    tz: str
    bots: Bots

    @property
    def query(self) -> str:
        return f"from={self.start}&to={self.end}&tz={self.tz}&bots={self.bots}"


@st.composite
def worlds(draw: st.DrawFn) -> QueriedNodes:
    """A link hit at many ages, by two owners that flushed now and then and folded at other times."""
    now = draw(nows)
    nodes = QueriedNodes(owners=2)
    moments = sorted(draw(st.lists(ages.filter(lambda age: age >= 0), max_size=4)), reverse=True)
    for age in [*moments, 0]:
        nodes.now = now - age
        for _ in range(draw(st.integers(0, 6))):
            hit_at = now - draw(ages)
            if hit_at <= nodes.now + 300:
                count, bot, owner = draw(st.tuples(st.integers(1, 9), st.booleans(), st.integers(1, 2)))
                nodes.hit("k", hit_at, count, bot, owner)
        match draw(st.sampled_from(["flush", "begin", "fold", "erase", "nothing"])) if age else "nothing":
            case "flush":
                nodes.flush()
            case "fold":
                nodes.fold()
            case "erase":
                nodes.erase("k")
    nodes.owners[1].flush(now)  # what others have not flushed cannot show here
    if draw(st.booleans()):
        nodes.owners[0].begin(now)
    return nodes


@st.composite
def questions(draw: st.DrawFn, now: int) -> Question:
    start, end = sorted((now - draw(ages), now - draw(ages)))
    return Question(
        start,
        max(end, start + draw(st.sampled_from([1, 60, 7200]))),
        draw(st.sampled_from([*STEPS, "auto"])),
        draw(st.sampled_from(ZONES)),
        draw(st.sampled_from(list(Bots))),
    )


def raw_count(nodes: QueriedNodes, question: Question) -> int:
    wanted = {Bots.exclude: (False,), Bots.only: (True,), Bots.include: (False, True)}[question.bots]
    return sum(hit.count for hit in nodes.hits if question.start <= hit.t < question.end and hit.bot in wanted)


def nearest_edge(t: int, now: int) -> int:
    start, end = CLICKS.kept(t, fold_day(now))
    return start if t - start < end - t else end


def expected_edges(question: Question, now: int) -> list[int]:
    """Where points must begin and end, from the rules, bucket by bucket."""
    day, where = fold_day(now), zone(question.tz)
    step = STEPS.get(question.step) or auto_step(question.start, question.end, where)
    first, last = CLICKS.kept(question.start, day)[0], CLICKS.kept(question.end - 1, day)[1]
    edges = {first, last}
    wanted = {nearest_edge(t, now) for t in inner_edges(step.unit, question, where, now)} if step.unit else set()
    bucket = first
    while bucket < last:
        tier = CLICKS.tiers[CLICKS.tier_of(bucket, day)]
        bucket = CLICKS.kept(bucket, day)[1]
        finer = step.average_s < WIDTHS[tier.name]
        if finer or bucket in wanted:
            edges.add(bucket)
    return sorted(edges)


def inner_edges(unit: Unit, question: Question, where: Zone, now: int) -> list[int]:
    """The step's edges strictly inside the range; those of fixed steps only where buckets are not wider anyway."""
    low = question.start
    if isinstance(unit, Fixed):
        wider = [
            cut
            for tier, cut in zip(CLICKS.tiers[1:], CLICKS.cuts(fold_day(now)), strict=False)
            if WIDTHS[tier.name] > unit.width_s
        ]
        low = max(low, wider[0] - 1)
    return list(unit.edges(low - 1, question.end, where))


def check_curve(curve: dict[str, Any], nodes: QueriedNodes, question: Question) -> None:
    points, now = curve["points"], nodes.now
    assert [(p["start"], p["end"]) for p in points] == list(pairwise(expected_edges(question, now)))
    assert [p["count"] for p in points] == [nodes.counted("k", p["start"], p["end"], question.bots) for p in points]
    assert sum(p["count"] for p in points) == curve["total"] >= curve["at_most"]
    for p in points:
        cut = p["start"] < question.start or p["end"] > question.end
        assert p["state"] == ("open" if p["end"] > now else "partial" if cut else "complete")
    assert (curve["from"], curve["to"], curve["tz"]) == (question.start, question.end, question.tz)
    assert curve["first_hit"] == min((hit.t // 60 * 60 for hit in nodes.hits), default=None)


def check_bounds(answer: dict[str, Any], nodes: QueriedNodes, question: Question) -> None:
    assert answer["at_least"] <= raw_count(nodes, question) <= answer["at_most"]
    assert answer["exact"] == (answer["at_least"] == answer["at_most"])
    assert (answer["at_least"], answer["at_most"]) == expected_bounds(nodes, question)


def expected_bounds(nodes: QueriedNodes, question: Question) -> tuple[int, int]:
    """What buckets, and the minutes of the first and the last hit, leave open, hit by hit."""
    minutes = [hit.t // 60 * 60 for hit in nodes.hits]
    certain = possible = 0
    for hit in nodes.hits:
        if hit.bot not in {Bots.exclude: (False,), Bots.only: (True,), Bots.include: (False, True)}[question.bots]:
            continue
        bucket = CLICKS.kept(hit.t, fold_day(nodes.now))
        low, high = max(bucket[0], min(minutes)), min(bucket[1], max(minutes) + 60)
        certain += hit.count if question.start <= low and high <= question.end else 0
        possible += hit.count if low < question.end and high > question.start else 0
    return certain, possible


@settings(max_examples=examples(600))
@given(st.data())
def test_every_curve_and_total_agrees_with_the_raw_hits(data: st.DataObject) -> None:
    nodes = data.draw(worlds())
    question = data.draw(questions(nodes.now))
    curve = nodes.curve("k", f"{question.query}&step={question.step}")
    check_curve(curve, nodes, question)
    check_bounds(curve, nodes, question)
    total = nodes.total("k", question.query)
    check_bounds(total, nodes, question)
    assert [total[name] for name in ("from", "to", "at_least", "at_most", "exact")] == [
        curve[name] for name in ("from", "to", "at_least", "at_most", "exact")
    ]
    assert total["total"] == (total["at_most"] if total["exact"] else None)
    life = nodes.total("k", f"bots={question.bots}")
    assert life["total"] == nodes.counted("k", 0, 2**40, question.bots)
    assert life["exact"] and life["from"] is None and life["to"] is None


@settings(max_examples=examples(150))
@given(worlds(), st.sampled_from(ZONES), st.sampled_from(list(Bots)), st.sampled_from([*STEPS, "auto"]))
def test_the_summary_is_the_curve_of_the_same_days(nodes: QueriedNodes, tz: str, bots: Bots, step: str) -> None:
    ahead = [hit for hit in nodes.hits if hit.t > nodes.now - nodes.now % 60 + 59]
    question = f"tz={tz}&bots={bots}"
    summary = nodes.summary("k", question)
    if not ahead:
        # A hit stamped minutes ahead is today's at once, but a curve's only when the step that holds it has begun.
        assert summary["last_7d"] == nodes.curve("k", f"{question}&last=7d&step={step}")["at_most"]
        assert summary["last_30d"] == nodes.curve("k", f"{question}&last=30d&step={step}")["at_most"]
        assert summary["today"] == nodes.curve("k", f"{question}&last=1d&step={step}")["at_most"]
    spans = [nodes.total("k", f"{question}&last={last}") for last in ("7d", "30d")]
    assert [summary["last_7d"], summary["last_30d"]] == [span["at_most"] for span in spans]
    assert summary["exact"] == all(span["exact"] for span in spans)
    days = nodes.curve("k", f"{question}&last=30d&step=1d")["points"]
    assert (summary["yesterday"], summary["today"]) == (days[-2]["count"], days[-1]["count"])
    assert summary["yesterday"] == nodes.counted("k", days[-2]["start"], days[-2]["end"], bots)
    assert summary["last_hit"] == max((hit.t // 60 * 60 for hit in nodes.hits), default=None)
