"""What hits say, from the journal's bytes into the buffer: as exact as counts, whatever happens to ids and links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, group_key, group_of
from ingest.attributes.profile import Profile
from ingest.batch import (
    AttributeCounts,
    Batch,
    BatchAttributes,
    GroupCounts,
    HourProfiles,
    Identified,
    decode_batch,
    encode_batch,
)
from ingest.buffer import Buffer, replay
from ingest.counts import KEY_PROFILE_BYTES, PROFILE_BYTES
from ingest.hit import Hit
from ingest.hit_sums import HitSums, batch_of_hits
from ingest.journal.contract import Frame

DOCUMENT = Path("docs/journal-format.md")
HOUR, DAY = 1_700_000_000 - 1_700_000_000 % 3_600, 1_700_000_000 - 1_700_000_000 % 86_400
MINUTE, LATE = HOUR + 120, HOUR - 7_200
BEFORE, NOW = ("ref",), ("ref", "country")  # what was divided before a restart, and what is now
PROFILES = [
    None,
    Profile(BEFORE, ("a.example",)),
    Profile(NOW, ("a.example", "DE")),
    Profile(NOW, ("", "DE")),
    Profile(("bot",), ("Googlebot",)),
]
KEYS = ("a", "b")
GROUPS = (group_key("a"), group_key("g"))  # one with the name of a link


class SentHit(NamedTuple):
    key: str
    minute: int
    hits: int
    profile: Profile | None
    groups: tuple[str, ...] = ()  # by their stored keys


class Step(NamedTuple):
    """One batch: hits of one id, if it has one. `refused`: another owner has claimed it; `seen`: it is in answers."""

    hits: list[SentHit]
    with_id: bool = False
    seen: bool = False
    refused: bool = False


class Erase(NamedTuple):
    stored: str


hits = st.builds(
    SentHit,
    st.sampled_from(KEYS),
    st.sampled_from([MINUTE, LATE]),
    st.integers(1, 4),
    st.sampled_from(PROFILES),
    st.sampled_from([(), (), GROUPS[:1], GROUPS]),
)
batches = st.builds(Step, st.lists(hits, min_size=1, max_size=4), st.booleans(), st.booleans(), st.booleans())
steps = st.lists(batches | st.builds(Erase, st.sampled_from([*KEYS, *GROUPS])), max_size=10)
Values = Mapping[str, Mapping[int, Mapping[str, int]]]


def values_in(buffer: Buffer, key: str = ALL_LINKS) -> Values:
    return buffer.delta_of_breakdown(breakdown_key(key)).values


def batch_of_step(step: Step, id_: str) -> Batch:
    sums = HitSums()
    for key, minute, count, profile, groups in step.hits:
        sums.add(Hit(key, minute, count, None, False, profile, (), groups))
    return sums.batch(id_ if step.with_id else None)


def values_of(hits: list[SentHit], key: str | None = None) -> Values:
    """What hits add to breakdowns, counted hit by hit and dimension by dimension."""
    found: dict[str, dict[int, dict[str, int]]] = {}
    for of, minute, count, profile, _ in hits:
        if profile is not None and key in (None, of):
            for name, value in zip(profile.dimensions, profile.values, strict=True):
                cell = found.setdefault(name, {}).setdefault(minute - minute % 3_600, {})
                cell[value] = cell.get(value, 0) + count
    return found


def check_groups(buffer: Buffer, hits: list[SentHit]) -> None:
    """No erasure of a link reduces a group; one of the group has taken its name from the hits before."""
    for stored in GROUPS:
        named = [hit for hit in hits if stored in hit.groups]
        minutes: Counter[int] = Counter()
        for hit in named:
            minutes[hit.minute] += hit.hits
        assert buffer.delta_of_breakdown(breakdown_of(stored)).values == values_of(named)
        delta = buffer.delta_of_row(stored)
        assert (delta.people, delta.bots) == (minutes, {})
    assert {*chain.from_iterable(buffer.counted_beside(group_of))} >= {
        group_of(stored) for hit in hits for stored in hit.groups
    }


@given(steps, st.integers(0, 10), st.permutations(range(10)))
def test_what_is_left_is_what_was_neither_refused_nor_erased(
    steps: list[Step | Erase], decided_at: int, order: list[int]
) -> None:
    """Ids are decided before the step `decided_at`: after that links are erased only, as in a flush."""
    buffer, frames, erasures = Buffer(MINUTE), list[Frame](), dict[str, int]()
    left: list[SentHit] = []
    ever: list[SentHit] = []
    of_groups: list[SentHit] = []
    refused = {str(at) for at, step in enumerate(steps) if isinstance(step, Step) and step.with_id and step.refused}
    for at, step in enumerate(steps):
        if at == decided_at:
            buffer.decide(refused)
        if isinstance(step, Erase):
            buffer.erase(step.stored, at + 1)
            erasures[step.stored] = at + 1
            left = [hit for hit in left if hit[0] != step.stored]
            of_groups = [hit._replace(groups=tuple({*hit.groups} - {step.stored})) for hit in of_groups]
        elif at < decided_at:
            payload = encode_batch(batch_of_step(step, str(at)))
            frames.append(Frame(at + 1, payload))
            read = decode_batch(payload)
            assert isinstance(read, Batch)
            buffer.add_batch(read, at + 1, step.seen)
            if not (step.with_id and step.refused):
                left += step.hits
                ever += step.hits
                of_groups += step.hits
    if len(steps) <= decided_at:
        buffer.decide(refused)
    again = replay(frames, erasures, LATE)  # other hours are late for it
    again.decide(refused)
    for found in (buffer, again):
        for key in KEYS:
            assert values_in(found, key) == values_of(left, key)
        assert values_in(found) == values_of(ever)
        check_groups(found, of_groups)
    shuffled = Buffer(MINUTE)
    for at in order:
        if at < len(frames) and not erasures:
            read = decode_batch(frames[at].payload)
            assert isinstance(read, Batch)
            shuffled.add_batch(read, frames[at].accepted_us, visible=True)
    shuffled.decide(refused)
    if not erasures:
        assert values_in(shuffled) == values_of(ever)


@given(st.lists(batches, max_size=6))
def test_each_dimension_adds_up_to_the_hits_that_said_something_of_it(steps: list[Step]) -> None:
    buffer = Buffer(MINUTE)
    sums: Counter[str] = Counter()
    for at, step in enumerate(steps):
        buffer.add_batch(batch_of_step(step, str(at)), at + 1, visible=True)
        for _, _, count, profile, _ in step.hits:
            sums.update(dict.fromkeys(profile.dimensions if profile else (), count))
    found = {
        name: sum(sum(by_value.values()) for by_value in by_hour.values())
        for name, by_hour in values_in(buffer).items()
    }
    assert found == sums


def test_an_erasure_that_failed_leaves_words_as_they_were() -> None:
    buffer = Buffer(MINUTE)
    buffer.add_batch(batch_of_hits([Hit("a", MINUTE, 2, None, False, PROFILES[2])]), 1, visible=True)
    before = values_in(buffer, "a")
    erased = buffer.erase("a", 2)
    assert (values_in(buffer, "a"), values_in(buffer)) == ({}, before)
    buffer.restore("a", erased)
    assert values_in(buffer, "a") == before == {"ref": {HOUR: {"a.example": 2}}, "country": {HOUR: {"DE": 2}}}


def test_profiles_and_words_count_in_the_bound_on_memory() -> None:
    sizes = []
    for profiles in ([None], [PROFILES[2]], [PROFILES[2], PROFILES[2]], [PROFILES[2], PROFILES[3]]):
        buffer = Buffer(MINUTE)
        for at, profile in enumerate(profiles):
            buffer.add_batch(batch_of_hits([Hit("a", MINUTE, 1, None, False, profile)]), at + 1, visible=True)
        assert buffer.entries() == 1 + len(set(profiles) - {None})
        sizes.append(buffer.bytes_held())
    assert sizes[1] - sizes[0] > PROFILE_BYTES + KEY_PROFILE_BYTES
    assert sizes[2] == sizes[1]
    assert sizes[3] - sizes[2] > PROFILE_BYTES + KEY_PROFILE_BYTES


def test_a_batch_without_words_has_the_bytes_that_it_always_had() -> None:
    batch = batch_of_hits([Hit("a", MINUTE, 1, "visit-17", False)])
    assert batch.attributes is None
    old: list[object] = [{}, {}, [["visit-17", {MINUTE: {"a": 1}}, {}]], {}, None, {}]
    assert encode_batch(batch) == b"b" + msgspec.msgpack.encode(old)


def test_the_documented_batch_with_words_is_what_is_written_and_read() -> None:
    """Its kind is one of its own, so that a program which knows no words refuses it, as it does any unknown kind."""
    block = re.search(r"```payload\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block
    documented = bytes.fromhex("".join(line.split("|")[0] for line in block[1].splitlines()))
    first = Profile(("ref", "country"), ("news.example", ""))
    attributes = BatchAttributes(
        kinds=[(first.dimensions, False), (("bot",), False)],
        profiles=[(0, *first.values), (1, "Googlebot")],
        links=AttributeCounts({HOUR: HourProfiles(["a", "a"], [0, 1], [2, 1])}, {DAY: {"a": [0x123456789A]}}),
        groups=GroupCounts({MINUTE: {group_key("news"): 3}}),
    )
    batch = Batch(people={MINUTE: {"a": 3}}, bots={MINUTE: {"a": 1}}, attributes=attributes)
    assert documented[:1] == b"p"
    assert encode_batch(batch) == documented
    assert decode_batch(documented) == batch
    assert attributes.table() == [first, Profile(("bot",), ("Googlebot",))]


def test_the_hits_of_an_id_are_counted_with_what_they_say_once_it_is_claimed() -> None:
    batch = batch_of_hits([Hit("a", MINUTE, 1, "visit-17", False, PROFILES[2])])
    assert batch.attributes is not None
    buffer = Buffer(MINUTE)
    buffer.add_batch(batch, 1, visible=False)
    plain = Batch(identified=[Identified("other", {MINUTE: {"a": 1}}, {})])
    buffer.add_batch(plain, 2, visible=False)
    assert values_in(buffer, "a") == {}
    buffer.decide({"other"})
    assert values_in(buffer, "a") == {"ref": {HOUR: {"a.example": 1}}, "country": {HOUR: {"DE": 1}}}
