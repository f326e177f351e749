"""The laws of calling hits bots and calling them back, against raw hits; and that they find planted faults."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import disavow as product
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.disavow import call_back, disavow, reconcile
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.disavowed import Disavowed
from clickcurve.buckets.ladder import CLICKS, END_OF_TIME
from clickcurve.buckets.ranges import Bots, between, total
from clickcurve.buckets.row import EMPTY
from tests.buckets.breakdowns.disavow_world import DIMENSIONS, World, act, hold_laws, same_answers, weight
from tests.buckets.breakdowns.planted import planted
from tests.power import one_in

SEEDS = st.integers(0, 2**64 - 1)


def history(seed: int, module: ModuleType = product) -> World:
    rng = Random(seed)
    world = World(rng, module)
    dimensions = rng.choice((("ref",), DIMENSIONS))
    for _ in range(rng.randrange(3, 16)):
        act(world, dimensions)
        hold_laws(world)
    return world


@given(SEEDS)
def test_corrections_keep_their_laws(seed: int) -> None:
    history(seed)


@given(SEEDS, st.sampled_from([2, 33, 40, 400]))
def test_corrections_keep_their_laws_where_values_are_kept_for_a_time(seed: int, days: int) -> None:
    rng = Random(seed)
    world = World(rng)
    world.bounded = BoundedLadder(BREAKDOWN.ladder, world.bounded.caps, (KeptTime("ref", days),))
    for _ in range(rng.randrange(3, 16)):
        act(world, DIMENSIONS)
        hold_laws(world)


@given(SEEDS)
@settings(max_examples=50)
def test_after_all_is_called_back_every_answer_is_as_it_was(seed: int) -> None:
    world = history(seed)
    for dimension in DIMENSIONS:
        for value in {hit.says(dimension) for hit in world.hits}:
            world.correct(call_back(world.link(), dimension, value))
    link = world.link()
    row, corrected = world.read()
    assert row.disavowed is None
    assert same_answers((row, corrected.breakdown), (link.counts, link.breakdown))


@given(SEEDS)
@settings(max_examples=100)
def test_the_order_of_rules_changes_no_answer(seed: int) -> None:
    """Rules of one second, and undone in the same one, may be carried out in any order: each by its own value."""
    world = history(seed)
    rng = Random(seed)
    rules = [("ref", "spam"), ("ref", "a"), ("country", "XX"), ("country", "DE")]
    undone = {rule: rng.random() < 0.4 for rule in rules}
    spans = {rule: world.span() for rule in rules}
    found = []
    for order in (rules, rng.sample(rules, 4)):
        here = history(seed)
        for rule in order:
            here.correct(call_back(here.link(), *rule) if undone[rule] else disavow(here.link(), *rule, *spans[rule]))
        row, corrected = here.read()
        found.append((row, corrected.breakdown))
    assert same_answers(*found)


@given(SEEDS)
@settings(max_examples=50)
def test_what_was_called_of_an_erased_link_is_called_back(seed: int) -> None:
    world = history(seed)
    for rows in world.rows:
        rows.counts, rows.breakdown = EMPTY, world.bounded.empty
    world.hits.clear()
    row, _ = world.read()
    assert total(row, 0, END_OF_TIME, Bots.exclude, CLICKS).at_most == 0, "answers stop at 0 until then"
    world.correct(reconcile(world.link()))
    assert world.read()[0].disavowed is None
    world.flush_hits()
    assert sum(between(world.read()[0], (0, END_OF_TIME), Bots.exclude)) == weight(world.hits)


def test_two_dimensions_may_mean_the_same_hits_and_two_values_never_do() -> None:
    world = World(Random(1))
    while not {"a", "b"} <= {hit.says("ref") for hit in world.hits}:
        world.flush_hits()
    everything = 0, END_OF_TIME
    for value in ("a", "b"):
        world.correct(disavow(world.link(), "ref", value, *everything))
    ours = weight(hit for hit in world.hits if hit.says("ref") in ("a", "b"))
    row, _ = world.read()
    assert row.disavowed is not None and row.disavowed.total <= ours
    before = row.disavowed.total
    for value in {hit.says("country") for hit in world.hits}:
        world.correct(disavow(world.link(), "country", value, *everything))
    row, _ = world.read()
    assert row.disavowed is not None
    assert before <= row.disavowed.total <= weight(world.hits)


PLANTED = {
    "dimensions add up": ("(called_already := min(more, called - sum(before.values()))) > 0", "(called_already := 0)"),
    "twice counts twice": ("counts.values.get(value, 0) - before.get(value, 0)", "counts.values.get(value, 0)"),
    "cut buckets are called": ("if not since <= low < high <= until:", "if False:"),
    "back below another dimension": (" - sure)", ")"),
    "what was called twice goes back once": ("called[dimension].pop(value, 0)", "called[dimension].get(value, 0)"),
    "called back values stay called": ("count - back.get(value, 0)", "count"),
    "other dimensions keep their bounds": ("count - by_others for value", "count for value"),
    "the slack does not grow": ("min(slack + by_others, max(0, left))", "min(slack, max(0, left))"),
    "hits without a value stay certain": ("maybe = min(by_others, values.get(NOT_GIVEN, 0))", "maybe = 0"),
    "trimmed values take nothing off other": ("other = max(0, other + left)", "pass"),
    "a dry run forgets the slack": ("(0 if value == NOT_GIVEN else min(counts.slack, counts.other))", "0"),
    "back is called as people": (
        "Delta(people, bots), BreakdownDelta({BACK",
        "Delta(bots, people), BreakdownDelta({BACK",
    ),
    "an undo of what another dimension calls is lost": ("people[low] = gone - back", "bots[low] = back"),
    "hits of an erased link stay called": ("(count := most.get(low, 0) + max(0, over.get(low, 0)))", "(count := 0)"),
    "hits of an erased link stay called back": (
        "(count := most.get(low, 0) + max(0, -over.get(low, 0)))",
        "(count := most.get(low, 0))",
    ),
    "values of an erased link stay called": ("BACK + name if left > 0 else name", "BACK + name"),
    "what another rule keeps is called back": ("if any(since <= low and high <= until for", "if any(False for"),
    "the start of the range": ("called_values(link.moved.named, dimension, low)\n        more", "{}\n        more"),
}


@pytest.mark.parametrize(("right", "wrong"), one_in(3, PLANTED.values()), ids=PLANTED)
def test_the_laws_find_a_planted_fault(right: str, wrong: str) -> None:
    module = planted(product, right, wrong)
    for seed in range(3_000):
        try:
            history(seed, module)
        except (AssertionError, ValueError):
            return
    pytest.fail("3,000 histories found nothing")


def test_spans_that_are_called_are_found_by_a_range() -> None:
    called = Disavowed.of([(0, 60, 3), (60, 120, 0), (120, 180, 2)])
    assert called == Disavowed(5, (0, 120), (60, 180), (3, 2))
    assert [*called.overlapping(60, 120)] == []
    assert [*called.overlapping(59, 121)] == [(0, 60, 3), (120, 180, 2)]
    assert [called.cuts(edge) for edge in (0, 30, 60, 130, 180)] == [None, (0, 60), None, (120, 180), None]
    assert Disavowed.of([(0, 60, 0)]) is None
