"""The laws of erasing a value, against raw hits; and that they find planted faults."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import erased as product
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    NOT_GIVEN,
    Breakdown,
    BreakdownDelta,
    apply_breakdown,
    fold_breakdown,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, call_back, disavow
from clickcurve.buckets.breakdowns.parts import decode_parts, encode_parts
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, HOUR_S, fold_day
from tests.buckets.breakdowns.disavow_world import DIMENSIONS, NARROW, World, hold_laws, weight
from tests.buckets.breakdowns.planted import planted
from tests.power import one_in

SECRET = b"secret"
WORD = "ref", "spam"


def words_in(module: ModuleType, row: str | None = None) -> product.ErasedWords:
    digest = module.digest_of(SECRET, *WORD)
    words: product.ErasedWords = module.ErasedWords(SECRET, [module.ErasedWord("1", WORD[0], digest, row)])
    return words


def buckets(row: Breakdown, dimension: str) -> dict[int, object]:
    return {start: counts for tier in row.dimensions.get(dimension, ()) for start, counts in tier.items()}


def erase_all(world: World, module: ModuleType) -> None:
    """Erases the value in the rows of all owners, the dead ones too, and holds what each must keep."""
    words = words_in(module)
    instead, renamed = words.instead("a", False), words.instead("a", True)
    assert instead is not None and renamed is not None
    for owner in world.rows:
        before, named = owner.breakdown, owner.named
        owner.breakdown, owner.named = module.erase_words(before, instead), module.erase_words(named, renamed)
        assert not check_breakdown(owner.breakdown, world.bounded)
        assert not check_breakdown(owner.named, CORRECTIONS)
        for row, old in ((owner.breakdown, before), (owner.named, named)):
            for name in old.dimensions:
                sums = [
                    {at: counts.recorded() for tier in each.dimensions[name] for at, counts in tier.items()}
                    for each in (old, row)
                ]
                assert sums[0] == sums[1], "a sum has changed"
                for tier in row.dimensions[name] if name in ("ref", "-ref") else ():
                    assert all(WORD[1] not in counts.values for _, counts in tier.items()), "the value is there still"
            for name in old.dimensions.keys() - {"ref", "-ref"}:
                assert row.dimensions[name] is old.dimensions[name], "another dimension has changed"
        assert module.erase_words(owner.breakdown, instead) is owner.breakdown, "twice is not once"
        day = fold_day(world.now) + world.rng.choice((0, 1, 5, 50, 500))
        if world.bounded is BREAKDOWN:
            folded = module.erase_words(fold_breakdown(before, day, world.bounded), instead)
            assert fold_breakdown(owner.breakdown, day, world.bounded) == folded, "it depends on the days of folds"
        parts = encode_parts(before, world.bounded)
        as_stored, hits = module.erase_in_parts(parts, instead, world.bounded)
        assert decode_parts(as_stored) == decode_parts(encode_parts(owner.breakdown, world.bounded))
        assert (as_stored is parts) == (hits == 0), "a row without the value is written"
        assert hits == sum(c.values.get(WORD[1], 0) for tier in before.dimensions.get("ref", ()) for c in tier.values())


def land_late(world: World, module: ModuleType) -> None:
    """Lands hits with the value, as they come from clients that go on, at once and a second time."""
    instead = words_in(module).instead("a", False)
    assert instead is not None
    row = world.writer()
    hour = (world.now - world.rng.choice((0, 3 * HOUR_S, 40 * DAY_S))) // HOUR_S * HOUR_S
    delta = BreakdownDelta({"ref": {hour: {"spam": 4, "a": 1}}, "country": {hour: {"DE": 5}}})
    without = module.erase_in_delta(delta, instead)
    assert without.values["country"] is delta.values["country"] or without.values["country"] == delta.values["country"]
    for _ in range(2):
        row.breakdown = apply_breakdown(row.breakdown, without, row.mark, fold_day(world.now), 0, world.bounded)
    expected = module.erase_words(
        apply_breakdown(world.bounded.empty, delta, 1, fold_day(world.now), 0, world.bounded), instead
    )
    landed = apply_breakdown(world.bounded.empty, without, 1, fold_day(world.now), 0, world.bounded)
    assert landed == expected, "it lands otherwise than it is erased"
    assert not any(WORD[1] in c.values for tier in row.breakdown.dimensions["ref"] for c in tier.values())


def hold_bounds(world: World) -> None:
    """Every value has true bounds, the erased one too."""
    later = fold_day(world.now) + world.rng.choice((0, 1, 5, 50, 500))
    words = merge_breakdowns([owner.breakdown for owner in world.rows], later, world.bounded)
    for start in {world.bounded.ladder.kept(hit.t, words.fold_day) for hit in world.hits}:
        inside = [hit for hit in world.hits if start[0] <= hit.t < start[1] and any(hit.said)]
        for name in DIMENSIONS:
            part = breakdown_total(words, name, *start, world.bounded)
            assert part.recorded == weight(inside), "the parts are not the whole"
            for value in {hit.says(name) for hit in inside}:
                true = weight(hit for hit in inside if hit.says(name) == value)
                at_least, at_most = part.bounds(value)
                assert at_least <= true <= at_most, f"{value} has no true bounds"
                assert (name, value) != WORD or at_least == 0


def history(seed: int, module: ModuleType = product) -> None:
    rng = Random(seed)
    world = World(rng)
    for _ in range(rng.randrange(2, 12)):
        world.flush_hits()
        world.now += rng.choice((0, HOUR_S, DAY_S, 20 * DAY_S, 200 * DAY_S))
        if rng.random() < 0.1:
            world.dead = min(world.dead + 1, len(world.rows) - 1)
    called = rng.random() < 0.5
    if called:
        world.used.add("ref")
        world.correct(disavow(world.link(), *WORD, 0, END_OF_TIME))
        for hit in world.hits:
            if hit.says("ref") == WORD[1]:
                hit.rules.add(WORD)
        if rng.random() < 0.3:
            world.correct(call_back(world.link(), *WORD))
            for hit in world.hits:
                hit.rules.discard(WORD)
        hold_laws(world)
    left = [world.link().counts, world.link().moved.counts]
    erase_all(world, module)
    assert [world.link().counts, world.link().moved.counts] == left, "an erasure changes no count"
    hold_laws(world)
    if not called:
        hold_bounds(world)
    for _ in range(rng.randrange(3)):
        world.flush_hits()
        erase_all(world, module)
        world.now += rng.choice((HOUR_S, 35 * DAY_S, 420 * DAY_S))
        if not called:
            hold_bounds(world)
    if called:  # the rule has the new name: what it called can be called back
        world.correct(call_back(world.link(), "ref", product.ERASED + "1"))
        row, _ = world.read()
        assert row.disavowed is None, "a rule of an erased value cannot be undone"
    land_late(world, module)


@given(st.integers(0, 2**64 - 1))
def test_an_erasure_keeps_its_laws(seed: int) -> None:
    history(seed)


def test_one_row_is_meant_or_all() -> None:
    words = words_in(product, "a")
    assert words and words.is_erased("a", *WORD)
    assert not words.is_erased("b", *WORD) and not words.is_erased("a", "ref", "fine")
    assert words.instead("b", False) is None
    assert not words.is_erased("a", "country", WORD[1]) and not words.is_erased("a", "ref", NOT_GIVEN)
    assert words_in(product).is_erased("b", *WORD) and not product.NO_WORDS
    renamed = words.instead("a", True)
    assert renamed is not None
    assert [renamed(name, WORD[1]) for name in ("ref", "-ref", "country")] == ["erased:1", "erased:1", None]


def test_what_is_remembered_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "_VALUES_MOST", 10)
    words = words_in(product)
    for n in range(100):
        assert not words.is_named("ref", f"{n}")
        assert len(words._found) <= 10
    assert words.is_named(*WORD)


PLANTED = {
    "the slack does not grow": ("other, slack = other + count, slack + count", "other = other + count"),
    "hits are dropped": ("other, slack = other + count, slack + count", "pass"),
    "hits gave no value": ("other, slack = other + count, slack + count", 'values[""] = values.get("", 0) + count'),
    "one tier only": ("    for tier in tiers:\n        buckets", "    for tier in tiers[:1]:\n        buckets"),
    "the value stays": ("count = values.pop(value)", "count = values[value]"),
    "a correction forgets the value": ("return ERASED + word.id if is_correction else CUT_OFF", "return CUT_OFF"),
    "called back values keep the name": ("dimension.removeprefix(BACK) if is_correction else dimension", "dimension"),
    "every value": ("word.dimension == dimension and word.digest == digest", "word.dimension == dimension"),
    "values of a new name are lost": ("values[name] = values.get(name, 0) + count", "pass"),
    "late hits keep the value": ("left[name] = left.get(name, 0) + counts[value]", "left[value] = counts[value]"),
    "late hits leave the slack": ("left[CUT_SLACK] = left.get(CUT_SLACK, 0) + counts[value]", "pass"),
    "hits are not counted": ("if instead(dimension, value) is not None)", "if False)"),
}


@pytest.mark.parametrize(("right", "wrong"), one_in(3, PLANTED.values()), ids=PLANTED)
def test_the_laws_find_a_planted_fault(right: str, wrong: str) -> None:
    module = planted(product, right, wrong)
    for seed in range(1_000):
        try:
            history(seed, module)
        except (AssertionError, ValueError, KeyError):
            return
    pytest.fail("1,000 histories found nothing")


def test_narrow_caps_are_kept() -> None:
    row = NARROW.empty
    for n, value in enumerate(("a", "b", "c", "d", "spam", "spam")):
        row = apply_breakdown(row, BreakdownDelta({"ref": {0: {value: 2 + n}}}), n + 1, 0, 0, NARROW)
    instead = words_in(product).instead("a", False)
    assert instead is not None
    assert not check_breakdown(product.erase_words(row, instead), NARROW)
