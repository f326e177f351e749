"""A taken buffer turned around and let go, in steps that never keep the event loop waiting for long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from random import Random
from time import thread_time

from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.batch import Batch
from ingest.buffer import Buffer
from ingest.counts import ENTRIES_PER_PAUSE
from ingest.deltas import NOTHING, DeltasByKey
from tests.power import examples

MINUTE = 1_800_000_000
MANY = 100_000
LONGEST_STEP = 0.4  # of what all these keys take to be sorted in one step, with the conversions before it: 0.05 s

keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


def no_pause() -> None:
    """Goes on."""


def filled(people: dict[str, int], late: dict[str, int], others: dict[str, int]) -> Buffer:
    buffer = Buffer(MINUTE)
    others = {group_key(name): count for name, count in others.items()}
    buffer.add_batch(Batch(people={MINUTE: people, MINUTE - 60: late}, others={MINUTE: others}), 1, False)
    return buffer


counts = st.dictionaries(keys, st.integers(1, 5), max_size=30)


MORE = {f"{n * 7919 % 1_500:04d}": 1 for n in range(1_500)}  # keys of more than one range


@settings(max_examples=examples(60))
@given(counts, counts, counts, st.sets(keys, max_size=5), st.sampled_from([{}, MORE]))
def test_ranges_hold_every_key_once_in_order_and_each_key_adds_what_was_counted(
    people: dict[str, int], late: dict[str, int], others: dict[str, int], more: set[str], many: dict[str, int]
) -> None:
    people = people | many
    buffer = filled(people, late, others)
    turned = DeltasByKey.of(buffer, no_pause)
    ranges = turned.ranges({*map(link_key, more), ALL_LINKS}, no_pause)
    ordered = [*chain.from_iterable(map(sorted, ranges))]
    stored = {*map(link_key, [*people, *late, *more]), *map(group_key, others)}
    assert ordered == sorted(stored)
    assert len(ranges) > 1 or not many
    assert all(max(one) < min(other) for one, other in pairwise(filter(None, ranges)))
    for key in {*people, *late}:
        answer = {MINUTE: people.get(key, 0), MINUTE - 60: late.get(key, 0)}
        assert turned.take(link_key(key)) == Delta({minute: count for minute, count in answer.items() if count}, {})
    assert turned.people == {}, "what was asked for is let go"
    assert turned.take(ALL_LINKS) == buffer.all_links()


def test_a_group_that_bots_alone_named_keeps_their_hits() -> None:
    buffer, spring = Buffer(MINUTE), group_key("spring")
    buffer.others.bots.add({MINUTE: {spring: 3}}, MINUTE)
    assert DeltasByKey.of(buffer, no_pause).take(spring) == Delta({}, {MINUTE: 3})


def test_what_was_counted_and_taken_back_adds_nothing() -> None:
    buffer = filled({"a": 2, "b": 1}, {"a": 4}, {})
    buffer.links.people.add({MINUTE: {"a": 2}, MINUTE - 60: {"a": 4}}, MINUTE, -1)
    turned = DeltasByKey.of(buffer, no_pause)
    assert turned.take(link_key("a")) is NOTHING
    assert turned.take(link_key("b")) == Delta({MINUTE: 1}, {})


def longest_step_s(work: Callable[[Callable[[], None]], object]) -> float:
    """Returns the most processor time between two pauses of this work."""
    steps = [thread_time()]
    work(lambda: steps.append(thread_time()))
    steps.append(thread_time())
    return max(after - before for before, after in pairwise(steps))


def test_no_step_of_a_large_buffer_holds_the_event_loop_for_long() -> None:
    links = [f"link-{n:06d}" for n in range(MANY)]
    Random(1).shuffle(links)
    buffer = filled(dict.fromkeys(links, 1), dict.fromkeys(links[: MANY // 2], 2), {})
    turned = DeltasByKey.of(buffer, no_pause)

    def sort(pause: Callable[[], None]) -> None:
        for range_ in turned.ranges((), pause):
            sorted(range_)
            pause()

    def sort_at_once(pause: Callable[[], None]) -> None:
        sorted(map(link_key, links))

    most_s = LONGEST_STEP * longest_step_s(sort_at_once)
    assert longest_step_s(sort) < most_s
    assert longest_step_s(buffer.drain) < most_s
    assert not any(buffer.links.people.slots.values()) and not buffer.links.people.late


def test_a_buffer_is_let_go_in_small_steps() -> None:
    buffer = filled({f"link-{n}": 1 for n in range(10 * ENTRIES_PER_PAUSE)}, {}, {})
    left: list[int] = []
    buffer.drain(lambda: left.append(len(buffer.links.people.slots[MINUTE])))
    assert left == [n * ENTRIES_PER_PAUSE for n in range(9, -1, -1)]
