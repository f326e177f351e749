"""A large batch is counted in steps, between which others run: as it would be at once, whatever is asked meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from ingest.attributes.profile import Profile
from ingest.batch import Batch, Identified
from ingest.buffer import IDS_AT_ONCE, Buffer
from ingest.counts import COUNTS_AT_ONCE
from ingest.hit import Hit
from ingest.hit_sums import HitSums, batch_of_hits

MINUTE = 1_700_000_040
LATE = MINUTE - 400 * 86_400
MANY = 20_000
STORED = [ALL_LINKS, *map(link_key, "ab"), *map(group_key, "ag")]


def minutes() -> Batch:
    return Batch(people={LATE + 60 * n: {"launch": 1} for n in range(MANY)})


def links() -> Batch:
    return Batch(bots={MINUTE: {f"link-{n}": 2 for n in range(MANY)}})


def unsummed() -> Batch:
    return Batch(keys={MINUTE: [f"link-{n}" for n in range(MANY)], LATE: [f"late-{n}" for n in range(MANY)]})


def ids() -> Batch:
    return Batch(identified=[Identified(f"visit-{n}", {MINUTE: {f"link-{n % 99}": 1}}, {}) for n in range(MANY)])


def attributes() -> Batch:
    sums = HitSums()
    for n in range(MANY):
        profile = Profile(("ref",), (f"host-{n}.example",), known=True)
        sums.add(Hit("launch", MINUTE, 1, None, False, profile, (n,), (group_key("spring"),)))
    return sums.batch(None)


def of_one_id() -> Batch:
    return Batch(identified=[Identified("the whole", minutes().people, {})])


@pytest.mark.parametrize("batch", [minutes, links, unsummed, ids, of_one_id, attributes])
def test_no_step_counts_more_than_some_thousands(batch: Callable[[], Batch]) -> None:
    large = batch()
    buffer, before = Buffer(MINUTE - 86_400), 0
    steps = buffer.adding(large, 1, visible=True)
    for _ in steps:
        assert buffer.entries() - before <= 2 * COUNTS_AT_ONCE
        assert len(buffer.undecided) - before <= IDS_AT_ONCE or not large.identified
        before = buffer.entries()
    assert buffer.entries() >= MANY


hits = st.builds(
    Hit,
    st.sampled_from("ab"),
    st.sampled_from([MINUTE, MINUTE + 60, LATE]),
    st.integers(1, 3),
    st.sampled_from([None, None, "visit-1", "visit-2"]),
    st.booleans(),
    st.sampled_from([None, Profile(("ref",), ("x.example",), known=True), Profile(("ref", "country"), ("", "DE"))]),
    st.just(()),
    st.sampled_from([(), (group_key("g"),), (group_key("a"), group_key("g"))]),
)


@given(st.lists(st.lists(hits, min_size=1, max_size=8), min_size=1, max_size=3), st.booleans(), st.booleans())
def test_steps_count_what_is_counted_at_once(batches: list[list[Hit]], visible: bool, refused: bool) -> None:
    """And in between no breakdown has more hits of a dimension than its row has.

    An id is in one batch alone: what is sent again waits until the one under way is counted.
    """
    at_once, in_steps = Buffer(MINUTE), Buffer(MINUTE)
    batches = [[with_id(hit, number) for hit in of_batch] for number, of_batch in enumerate(batches)]
    others = {hit.id for of_batch in batches for hit in of_batch if hit.id} if refused else set()
    for number, of_batch in enumerate(batches):
        at_once.add_batch(batch_of_hits(of_batch), number + 1, visible)
    at_once.decide(others)
    with patch("ingest.counts.COUNTS_AT_ONCE", 1), patch("ingest.buffer.IDS_AT_ONCE", 1):
        under_way = [in_steps.adding(batch_of_hits(of), at + 1, visible) for at, of in enumerate(batches)]
        while under_way:
            for steps in [*under_way]:
                if next(steps, "end") == "end":
                    under_way.remove(steps)
                check_dimensions(in_steps)
        for _ in in_steps.deciding(others):
            check_dimensions(in_steps)
    for stored in STORED:
        assert in_steps.delta_of_row(stored) == at_once.delta_of_row(stored)
        assert in_steps.delta_of_breakdown(breakdown_of(stored)) == at_once.delta_of_breakdown(breakdown_of(stored))
    assert (in_steps.since_us, in_steps.until_us) == (at_once.since_us, at_once.until_us)
    assert (in_steps.entries(), in_steps.hits()) == (at_once.entries(), at_once.hits())


def with_id(hit: Hit, number: int) -> Hit:
    return structs.replace(hit, id=f"{hit.id}-{number}") if hit.id else hit


def check_dimensions(buffer: Buffer) -> None:
    for stored in STORED:
        row = buffer.delta_of_row(stored)
        counted = sum(row.people.values()) + sum(row.bots.values())
        for by_hour in buffer.delta_of_breakdown(breakdown_of(stored)).values.values():
            assert sum(sum(by_value.values()) for by_value in by_hour.values()) <= counted
