"""Breakdowns against a plain list of all hits: words and none, several owners, flushes whole or half done, folds, late
hits, an erasure, a dimension that is switched on in the middle, and caps so small that every bucket loses values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.check import common_span
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from query.steps import STEPS
from tests.power import examples
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.test_against_raw_hits import ZONES, ages, nows

NAMES = ("ref", "country", "bot")
VALUES = ["", "", "a.example", "b.example", "c", 'q"uote, comma', "ä…", "z"]
SMALL = BoundedLadder(BREAKDOWN.ladder, (2, 1, 2, 1))
# The second is coarser than a breakdown's, so that its months cut nothing, but hold days and weeks of the breakdown.
LADDERS = [CLICKS, CLICKS, Ladder.parse("days"), Ladder.parse("3600:1,month"), Ladder.parse("60:1,604800:400,6048000")]


@st.composite
def said(draw: st.DrawFn, on: tuple[str, ...], bot: bool) -> tuple[tuple[str, str], ...]:
    names = [name for name in on if (name == "bot") == bot]
    if not draw(st.booleans()):
        return ()
    return tuple((name, draw(st.sampled_from(VALUES))) for name in names)


@st.composite
def worlds(draw: st.DrawFn) -> AttributeNodes:
    """A link, hit at many ages, by two owners; `ref` is switched on in the middle, or was on from the first."""
    now = draw(nows)
    moments = sorted(draw(st.lists(ages.filter(lambda age: age >= 0), max_size=4)), reverse=True)
    switched_at = draw(st.sampled_from([None, *moments, 0]))
    since = dict.fromkeys(NAMES, 0)
    if switched_at is not None:
        since["ref"] = now - switched_at
    nodes = AttributeNodes(
        now, since, 2, draw(st.sampled_from([SMALL, SMALL, BREAKDOWN])), draw(st.sampled_from(LADDERS))
    )
    for age in [*moments, 0]:
        nodes.now = now - age
        on = NAMES if switched_at is None or age <= switched_at else ("country", "bot")
        for _ in range(draw(st.integers(0, 12))):
            t = now - draw(ages)
            if t > nodes.now + 300:
                continue
            bot = draw(st.sampled_from([False, False, False, True]))
            hit = AttributeHit(
                draw(st.sampled_from(["k", "k", "other"])),
                t,
                draw(st.integers(1, 9)),
                bot,
                draw(said(on, bot)),
                draw(st.one_of(st.none(), st.integers(0, 3))),
            )
            nodes.accept(hit, draw(st.integers(1, 2)))
        if not age:
            break
        match draw(st.sampled_from(["flush", "flush", "fold", "erase", "nothing"])):
            case "flush":
                nodes.owners[draw(st.integers(0, 1))].flush(nodes.now)
            case "fold":
                for owner in nodes.owners:
                    owner.flush(nodes.now, ("", "k", "other"))
            case "erase":
                nodes.erase("k")
    nodes.owners[1].flush(now)  # what others have not flushed cannot show here
    if draw(st.booleans()):
        nodes.owners[0].begin(now)
    return nodes


def written(t: int) -> str:
    """A moment as a query may have it: a number below 10,000 would be taken for a year."""
    return str(t) if t == 0 or t > 9_999 else f"{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class Question:
    key: str | None
    dimension: str
    start: int
    end: int
    tz: str

    @property
    def query(self) -> str:
        return f"from={written(self.start)}&to={written(self.end)}&tz={self.tz}"


@st.composite
def questions(draw: st.DrawFn, nodes: AttributeNodes) -> Question:
    around = st.one_of(
        ages.map(lambda age: nodes.now - age),
        st.sampled_from([hit.t for hit in nodes.everything] + [max(1, nodes.since["ref"])]).map(lambda t: t - 1),
    )
    start, end = sorted((draw(around), draw(around)))
    start = max(0, start)
    return Question(
        draw(st.sampled_from(["k", "k", None])),
        draw(st.sampled_from(["ref", "ref", "ref", "country", "bot"])),
        start,
        max(end, start + draw(st.sampled_from([1, 60, 7200]))),
        draw(st.sampled_from(ZONES)),
    )


def check_answer(answer: dict[str, Any], nodes: AttributeNodes, question: Question, limit: int) -> None:
    """The laws of one answer: parts are the total, every bound is true, the order is that of the counts."""
    hits = nodes.of(question.key, question.dimension, answer["from"], answer["to"])
    values, unrecorded = nodes.truth(hits, question.dimension)
    shown = {each["value"]: (each["at_least"], each["at_most"]) for each in answer["values"]}
    parts = sum(at_least for at_least, _ in shown.values()) + answer["not_shown"]["count"]
    assert parts + answer["other"] + answer["unrecorded"] == answer["total"] == sum(hit.count for hit in hits)
    for value, (at_least, at_most) in shown.items():
        assert at_least <= values[value] <= at_most
    assert answer["unrecorded"] >= unrecorded
    if "" in shown:
        assert answer["unrecorded"] - (shown[""][1] - shown[""][0]) <= unrecorded
        assert values[""] - shown[""][0] == answer["unrecorded"] - unrecorded
    else:
        assert not values[""] and answer["unrecorded"] == unrecorded
    if "" in shown and not any(low <= hit.t < high for low, high in [switch_bucket(nodes, question)] for hit in hits):
        assert shown[""][0] == shown[""][1]
    assert answer["shown"] == len(shown) == len(answer["values"]) <= limit + 1
    ranked = [each for each in answer["values"] if each["value"]]
    assert ranked == sorted(ranked, key=lambda each: (-each["at_least"], each["value"]))
    if len(shown) <= limit:
        assert answer["values"] == sorted(answer["values"], key=lambda each: (-each["at_least"], each["value"]))


def switch_bucket(nodes: AttributeNodes, question: Question) -> tuple[int, int]:
    """The only bucket in which silent hits and unrecorded ones may be taken for each other."""
    since = nodes.since[question.dimension]
    return common_span(since, since + 1, fold_day(nodes.now), nodes.bounded.ladder, nodes.store.ladder())


def check_exact(answer: dict[str, Any], nodes: AttributeNodes, question: Question) -> None:
    if answer["exact"]:
        assert all(each["at_least"] == each["at_most"] for each in answer["values"])
        if answer["from"] is not None:
            inside = nodes.of(question.key, question.dimension, question.start, question.end)
            assert sum(hit.count for hit in inside) == answer["total"]


def check_one_value(answer: dict[str, Any], nodes: AttributeNodes, question: Question, ranged: str) -> None:
    """A value alone has the bounds that it has in the list; one that is not kept has some, too."""
    listed = {each["value"]: each for each in answer["values"]}
    hits = nodes.of(question.key, question.dimension, answer["from"], answer["to"])
    values, _ = nodes.truth(hits, question.dimension)
    for value in ("", "a.example", "never said"):
        alone = nodes.by(question.key, question.dimension, f"{ranged}&value={value}")
        (found,) = alone["values"]
        assert found["at_least"] <= values[value] <= found["at_most"]
        assert found == listed.get(value, found)
        if value not in listed:
            assert found["at_least"] == 0
            assert found["at_most"] <= answer["other"]
        parts = found["at_least"] + alone["not_shown"]["count"] + alone["other"] + alone["unrecorded"]
        assert parts == alone["total"] == answer["total"]
        assert alone["shown"] + alone["not_shown"]["values"] == len({*listed, value})


@settings(max_examples=examples(400))
@given(st.data())
def test_every_answer_agrees_with_the_raw_hits(data: st.DataObject) -> None:
    nodes = data.draw(worlds())
    if not nodes.everything:
        nodes.accept(AttributeHit("k", nodes.now))
    question = data.draw(questions(nodes))
    for ranged in (question.query, ""):
        answer = nodes.by(question.key, question.dimension, f"{ranged}&limit=1000")
        check_answer(answer, nodes, question, 1000)
        check_exact(answer, nodes, question)
        check_one_value(answer, nodes, question, ranged)
        few = nodes.by(question.key, question.dimension, f"{ranged}&limit=1")
        check_answer(few, nodes, question, 1)
        assert few["shown"] + few["not_shown"]["values"] == answer["shown"]
        assert few["values"][:1] == answer["values"][:1]
        lines = [[each["value"], str(each["at_least"]), str(each["at_most"])] for each in answer["values"]]
        rest = [["(other)", *[str(answer["other"])] * 2], ["(unrecorded)", *[str(answer["unrecorded"])] * 2]]
        csv = nodes.by_csv(question.key, question.dimension, f"{ranged}&limit=1000")
        assert csv == [["value", "at_least", "at_most"], *lines, *rest]
        span = f"from={answer['from']}&to={answer['to']}&" if answer["from"] is not None else ""
        bots = "only" if question.dimension == "bot" else "exclude"
        total = nodes.total(question.key, f"{span}bots={bots}")
        assert total["total"] == answer["total"]
    if answer["from"] is not None:
        assert answer["from"] <= question.start and question.end <= answer["to"]


@settings(max_examples=examples(250))
@given(st.data(), st.sampled_from([*STEPS, "auto"]), st.sampled_from(["", "a.example", "z", "never said"]))
def test_every_curve_of_a_value_agrees_with_the_raw_hits(data: st.DataObject, step: str, value: str) -> None:
    nodes = data.draw(worlds())
    if not nodes.everything:
        nodes.accept(AttributeHit("k", nodes.now))
    question = data.draw(questions(nodes))
    curve = nodes.curve(question.key, question.dimension, f"{question.query}&step={step}&value={value}")
    points = curve["points"]
    assert points[0]["start"] <= question.start and question.end <= points[-1]["end"]
    assert all(before["end"] == after["start"] for before, after in pairwise(points))
    for point in points:
        hits = nodes.of(question.key, question.dimension, point["start"], point["end"])
        truth = nodes.truth(hits, question.dimension)[0][value]
        assert point["at_least"] <= truth <= point["at_most"]
    of_range = nodes.of(question.key, question.dimension, question.start, question.end)
    assert curve["at_least"] <= nodes.truth(of_range, question.dimension)[0][value] <= curve["at_most"]
    assert curve["exact"] == (curve["at_least"] == curve["at_most"])
    whole = nodes.by(
        question.key, question.dimension, f"from={points[0]['start']}&to={points[-1]['end']}&value={value}"
    )
    assert (whole["from"], whole["to"]) == (points[0]["start"], points[-1]["end"])
    assert sum(point["at_least"] for point in points) == whole["values"][0]["at_least"]
    assert sum(point["at_most"] for point in points) == whole["values"][0]["at_most"]
    assert curve["at_least"] <= whole["values"][0]["at_least"] <= curve["at_most"]


some_values = st.lists(st.sampled_from(["", "a.example", "b.example", "c", "z", "never said"]), min_size=1, unique=True)


def truth_of(nodes: AttributeNodes, question: Question, start: int | None, end: int | None, asked: Asked) -> int:
    """The hits of whole minutes whose value is one of those asked for, or none of those left out."""
    hits = nodes.of(question.key, question.dimension, start, end)
    values = nodes.truth(hits, question.dimension)[0]
    named = sum(values[value] for value in asked.values)
    return sum(hit.count for hit in hits) - named if asked.name == "not" else named


@dataclass(frozen=True)
class Asked:
    """Several values together, or all but these."""

    name: str
    values: list[str]

    @property
    def query(self) -> str:
        return "&".join(f"{self.name}={quote(value)}" for value in self.values)


@settings(max_examples=examples(300))
@given(st.data(), st.builds(Asked, st.sampled_from(["value", "not"]), some_values))
def test_values_together_and_all_but_some_agree_with_the_raw_hits(data: st.DataObject, asked: Asked) -> None:
    nodes = data.draw(worlds())
    if not nodes.everything:
        nodes.accept(AttributeHit("k", nodes.now))
    question = data.draw(questions(nodes))
    for ranged in (question.query, ""):
        answer = nodes.by(question.key, question.dimension, f"{ranged}&{asked.query}&limit=2")
        parts = sum(each["at_least"] for each in answer["values"]) + answer["not_shown"]["count"]
        assert parts + answer["other"] + answer["unrecorded"] == answer["total"]
        named = answer["values"]
        if asked.name == "not":
            assert answer["not"] == asked.values
            assert not {each["value"] for each in named} & set(asked.values)
            named = nodes.by(
                question.key, question.dimension, f"{ranged}&value={'&value='.join(map(quote, asked.values))}"
            )
            named = named["values"]
        assert sorted(each["value"] for each in named) == sorted(asked.values)
        at_least, at_most = (sum(each[name] for each in named) for name in ("at_least", "at_most"))
        if asked.name == "not":
            at_least, at_most = max(0, answer["total"] - at_most), answer["total"] - at_least
        found = answer.get("sum", {"at_least": at_least, "at_most": at_most})
        assert at_least <= found["at_least"] <= found["at_most"] <= at_most, "never wider than the sum"
        truth = truth_of(nodes, question, answer["from"], answer["to"], asked)
        assert found["at_least"] <= truth <= found["at_most"]
        assert ("sum" in answer) == (asked.name == "not" or len(asked.values) > 1)


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([*STEPS, "auto"]), st.builds(Asked, st.sampled_from(["value", "not"]), some_values))
def test_every_curve_of_several_values_agrees_with_the_raw_hits(data: st.DataObject, step: str, asked: Asked) -> None:
    nodes = data.draw(worlds())
    if not nodes.everything:
        nodes.accept(AttributeHit("k", nodes.now))
    question = data.draw(questions(nodes))
    curve = nodes.curve(question.key, question.dimension, f"{question.query}&step={step}&{asked.query}")
    points = curve["points"]
    for point in points:
        truth = truth_of(nodes, question, point["start"], point["end"], asked)
        assert point["at_least"] <= truth <= point["at_most"]
    truth = truth_of(nodes, question, question.start, question.end, asked)
    assert curve["at_least"] <= truth <= curve["at_most"]
    assert curve["value"] == (asked.values[0] if asked.name == "value" and len(asked.values) == 1 else None)
    span = f"from={points[0]['start']}&to={points[-1]['end']}"
    whole = nodes.by(question.key, question.dimension, f"{span}&{asked.query}")
    found = whole.get("sum") or whole["values"][0]
    assert found["at_least"] <= sum(point["at_least"] for point in points)
    assert sum(point["at_most"] for point in points) <= found["at_most"], "buckets by themselves know no less"


@settings(max_examples=examples(100))
@given(st.data())
def test_an_answer_is_the_same_before_and_after_a_flush_and_a_fold(data: st.DataObject) -> None:
    nodes = data.draw(worlds())
    asked = [(key, name) for key in ("k", None) for name in NAMES]
    before = [nodes.by(key, name, "limit=1000") for key, name in asked]
    visitors = nodes.visitors("k")
    if nodes.owners[0]._taken is not None:
        nodes.owners[0].complete()
    for _ in range(2):
        for owner in nodes.owners:
            owner.flush(nodes.now, ("", "k", "other"))
        assert [nodes.by(key, name, "limit=1000") for key, name in asked] == before
        assert nodes.visitors("k") == visitors


@settings(max_examples=examples(60))
@given(st.data())
def test_each_hit_of_people_has_a_known_visitor_or_is_unknown(data: st.DataObject) -> None:
    """Of a range: in the whole days, or wider kept buckets, that hold it."""
    days = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 30, 200, 500]), min_size=1, max_size=6))
    nodes = AttributeNodes(1_772_366_400, {"ref": 0, "bot": 0}, 2, SMALL, data.draw(st.sampled_from(LADDERS)))
    for later in days:
        nodes.now += later * DAY_S
        for _ in range(data.draw(st.integers(0, 5))):
            bot = data.draw(st.booleans())
            words = () if data.draw(st.booleans()) else (("bot", "B") if bot else ("ref", "a"),)
            visitor = data.draw(st.sampled_from([None, 1, 2])) if words else None
            count = data.draw(st.integers(1, 3))
            nodes.accept(AttributeHit("k", nodes.now, count, bot, words, visitor), data.draw(st.integers(1, 2)))
        for owner in nodes.owners:
            if data.draw(st.booleans()):
                owner.flush(nodes.now)
    nodes.owners[1].flush(nodes.now)  # what others have not flushed cannot show here
    since = nodes.now - data.draw(st.sampled_from(days)) * DAY_S
    day = since - since % DAY_S
    until = day + data.draw(st.sampled_from([1, 2, 10, 900])) * DAY_S
    whole = nodes.by("k", "ref", f"from={day}&to={until}")
    for query, low, high in (
        ("", 0, 2**40),
        (f"from={day}&to={until}", whole["from"], whole["to"]),
        (f"from={since}&to={until - 1}", whole["from"], whole["to"]),
    ):
        hits = nodes.of("k", "ref", low, high)
        assert nodes.visitors("k", query)["unknown"] == sum(hit.count for hit in hits if hit.visitor is None)


@settings(max_examples=examples(150))
@given(st.data())
def test_visitors_do_not_depend_on_when_they_are_flushed(data: st.DataObject) -> None:
    """Hits of today and yesterday, flushed at any later time by one owner, have the visitors of the raw hits."""
    nodes = AttributeNodes(1_772_366_400, {"ref": 0}, 1, SMALL, data.draw(st.sampled_from(LADDERS)))
    (owner,) = nodes.owners
    visitors: dict[int, set[int]] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        nodes.now += data.draw(
            st.sampled_from([0, 60, 5 * 3_600, DAY_S, 2 * DAY_S, 3 * DAY_S, 40 * DAY_S, 400 * DAY_S])
        )
        for _ in range(data.draw(st.integers(0, 3))):
            t, visitor = nodes.now - data.draw(st.sampled_from([0, DAY_S])), data.draw(st.integers(0, 3))
            nodes.accept(AttributeHit("k", t, 1, said=(("ref", "a"),), visitor=visitor))
            visitors.setdefault(t - t % DAY_S, set()).add(visitor)
        match data.draw(st.sampled_from(["wait", "begin", "complete", "flush"])):
            case "begin" if owner._taken is None:
                owner.begin(nodes.now)
            case "complete" if owner._taken is not None:
                owner.complete()
            case "flush" if owner._taken is None:
                owner.flush(nodes.now, data.draw(st.sampled_from([(), ("k",)])))
        answer = nodes.visitors("k")
        assert (answer["visitor_days"], answer["unknown"], answer["exact"]) == (
            sum(map(len, visitors.values())),
            0,
            True,
        )
        for day in answer["days"]:
            assert day["visitors"] == sum(len(of) for at, of in visitors.items() if day["start"] <= at < day["end"])


def test_a_day_of_the_switch_is_told_apart_by_minutes_while_they_are_kept() -> None:
    """100 hits before a switch at 12:30, 40 after it, one hour: minutes of counts tell them apart."""
    noon = 1_772_366_400
    nodes = AttributeNodes(noon + 3599, {"ref": noon + 1800})
    nodes.accept(AttributeHit("k", noon + 600, 100))
    nodes.accept(AttributeHit("k", noon + 2400, 40))
    nodes.accept(AttributeHit("k", noon + 2400, 5, said=(("ref", "a"),)))
    answer = nodes.by("k", "ref")
    assert answer["values"] == [
        {"value": "", "at_least": 40, "at_most": 45},
        {"value": "a", "at_least": 5, "at_most": 5},
    ]
    assert (answer["unrecorded"], answer["total"], answer["exact"]) == (100, 145, False)
    nodes.now += 300 * DAY_S  # a week of counts, too: nothing tells them apart any more
    answer = nodes.by("k", "ref")
    assert answer["values"] == [
        {"value": "a", "at_least": 5, "at_most": 5},
        {"value": "", "at_least": 0, "at_most": 140},
    ]
    assert answer["unrecorded"] == 140


@pytest.mark.parametrize("flushed", [False, True])
def test_what_came_without_dates_is_unrecorded_and_part_of_the_life(flushed: bool) -> None:
    nodes = AttributeNodes(1_772_366_400, {"ref": 0, "bot": 0})
    nodes.accept(AttributeHit("k", nodes.now, 3, said=(("ref", "a"),)))
    nodes.owners[0].opening("k", 40)
    if flushed:
        nodes.owners[0].flush(nodes.now)
    for key in ("k", None):
        answer = nodes.by(key, "ref")
        assert (answer["unrecorded"], answer["total"], answer["exact"]) == (40, 43, True)
        assert nodes.total(key)["total"] == 43
        assert nodes.by(key, "bot")["total"] == 0
        assert nodes.by(key, "ref", "last=1d")["unrecorded"] == 0


@pytest.mark.parametrize("stored", [False, True])
def test_pending_hits_land_where_their_flush_will_land_them(stored: bool) -> None:
    """Late ones in their day at once: cut by the hour first, their values would lack more."""
    nodes = AttributeNodes(1_772_366_400, {"ref": 0}, bounded=SMALL)
    late = nodes.now - 10 * DAY_S
    if stored:
        nodes.now = late
        nodes.accept(AttributeHit("k", late, 1, said=(("ref", "e"),)))
        nodes.owners[0].flush(late)
        nodes.now = late + 10 * DAY_S
    for value, count in (("a", 5), ("b", 3), ("c", 2), ("d", 1)):
        nodes.accept(AttributeHit("k", late, count, said=(("ref", value),)))
    before = nodes.by("k", "ref")
    assert before["values"] == [{"value": "a", "at_least": 5, "at_most": 8}]
    nodes.owners[0].flush(nodes.now)
    assert nodes.by("k", "ref") == before
