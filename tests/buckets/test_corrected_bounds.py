"""The upper bounds of a link some hits of which are called bots hold for any range from now on."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.codec import encode
from clickcurve.buckets.corrected_bounds import corrected_bounds_in
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.upper_bounds import UNREADABLE, UpperBounds, most_since
from storage.contract import StoredLink, StoredRow
from tests.buckets.breakdowns.disavow_world import DIMENSIONS, World, act
from tests.power import examples

SEEDS = st.integers(0, 2**64 - 1)


def bounds_of(world: World) -> UpperBounds:
    link = stored([encode(owner.counts) for owner in world.rows])
    return corrected_bounds_in(link, stored([encode(owner.moved) for owner in world.rows]), CLICKS)


def stored(rows: list[bytes]) -> StoredLink:
    return StoredLink(0, tuple(StoredRow(owner, data) for owner, data in enumerate(rows)))


@given(SEEDS)
@settings(max_examples=examples(2_000))
def test_no_corrected_row_counts_more_in_a_range_than_its_bound(seed: int) -> None:
    """Whenever the range is asked for: by then spans of what is called are wider, and a range may cut them."""
    rng = Random(seed)
    world = World(rng)
    for _ in range(rng.randrange(2, 12)):
        act(world, DIMENSIONS)
    bounds = bounds_of(world)
    for _ in range(4):
        row, _ = world.read()
        called = 0 if row.disavowed is None else row.disavowed.total
        assert most_since(bounds, None, True, False) == row.lifetime - min(called, row.lifetime), "of people, in life"
        assert most_since(bounds, None, False, True) == row.bots + min(called, row.lifetime), "of bots, in life"
        since = world.now - rng.randrange(rng.choice((DAY_S, 9 * DAY_S, 90 * DAY_S, 900 * DAY_S)))
        since = CLICKS.kept(max(0, since), row.fold_day)[0]
        until = since + rng.choice((HOUR_S, 30 * DAY_S, 1_000 * DAY_S))
        for bots in Bots:
            counted = total(row, since, until, bots, CLICKS).total
            assert counted <= most_since(bounds, since, bots is not Bots.only, bots is not Bots.exclude)
        world.now += rng.choice((0, HOUR_S, DAY_S, 8 * DAY_S, 40 * DAY_S, 400 * DAY_S))


@given(SEEDS)
def test_what_is_called_ranks_a_link_by_what_is_left(seed: int) -> None:
    """A wave of one value leaves nothing, in any window; and all of it is bots then."""
    world = World(Random(seed))
    world.flush_hits()
    for value in {hit.says("ref") for hit in world.hits}:
        world.correct(world.module.disavow(world.link(), "ref", value, 0, 1 << 40))
    row, _ = world.read()
    left = row.lifetime - (row.disavowed.total if row.disavowed else 0)
    bounds = bounds_of(world)
    if not left:
        assert set(bounds[1:-2]) == {0}
    assert bounds[-1] == row.bots + row.lifetime - left


def test_a_damaged_row_comes_first_everywhere() -> None:
    assert corrected_bounds_in(stored([b"damaged"]), stored([]), CLICKS) == UNREADABLE
