"""Sets of visitors: a function of the members only, exact while small, estimated within the stated error above."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import visitors
from clickcurve.buckets.breakdowns.visitors import (
    EXACT,
    NO_DAYS,
    NO_VISITORS,
    REGISTERS,
    STANDARD_ERROR,
    OpenDay,
    VisitorDays,
    VisitorSet,
    least_members,
    visitor_bytes,
    visitors_of,
)
from tests.buckets.given import law

members = st.integers(0, 2**40 - 1) | st.integers(0, 3)
some = st.sets(members, max_size=40)


def drawn(count: int, seed: int) -> set[int]:
    chance = Random(seed)
    found: set[int] = set()
    while len(found) < count:
        found.add(chance.getrandbits(40))
    return found


def written(found: VisitorSet) -> tuple[bytes, int]:
    return visitor_bytes(found), len(found.members) if found.exact else EXACT + 1


@law
@given(
    st.lists(some | st.integers(0, 99).map(lambda seed: drawn(200, seed)), max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_state_is_a_function_of_the_members(sets: list[set[int]], random: Random) -> None:
    at_once = NO_VISITORS.with_members(frozenset().union(*sets))
    assert at_once.exact == (len(frozenset().union(*sets)) <= EXACT)
    one_by_one = NO_VISITORS
    for each in sets:
        one_by_one = one_by_one.with_members(each).with_members(each)
    assert one_by_one == at_once
    random.shuffle(sets)
    united = NO_VISITORS
    for each in sets:
        united = united.union(NO_VISITORS.with_members(each))
    assert united == at_once
    halves = [NO_VISITORS.with_members(frozenset().union(*half)) for half in (sets[:2], sets[2:])]
    assert halves[0].union(halves[1]) == halves[1].union(halves[0]) == at_once
    data, n = written(at_once)
    assert visitors_of(data, n) == at_once


def test_up_to_256_members_the_size_is_the_number_itself() -> None:
    for count in (0, 1, 255, 256):
        found = NO_VISITORS.with_members(drawn(count, count))
        assert found.exact
        assert found.size() == count
        assert len(visitor_bytes(found)) == 5 * count
    more = NO_VISITORS.with_members(drawn(257, 1))
    assert not more.exact
    assert more.size() >= 257
    assert len(visitor_bytes(more)) == REGISTERS


def errors(count: int, runs: int) -> list[float]:
    sizes = (NO_VISITORS.with_members(drawn(count, 1_000 * count + run)).size() for run in range(runs))
    return [size / count - 1 for size in sizes]


@pytest.mark.parametrize(("count", "runs"), [(400, 150), (1_000, 150), (5_000, 100), (20_000, 60)])
def test_the_estimate_has_the_stated_standard_error(count: int, runs: int) -> None:
    found = errors(count, runs)
    deviation = math.sqrt(sum(error * error for error in found) / runs)
    mean = sum(found) / runs
    assert deviation < STANDARD_ERROR * 1.15
    assert abs(mean) < 3 * STANDARD_ERROR / math.sqrt(runs)
    assert max(map(abs, found)) < 4 * STANDARD_ERROR


def test_the_standard_error_notices_half_as_many_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "REGISTERS", 512)
    monkeypatch.setattr(visitors, "_INDEX_BITS", 9)
    found = errors(5_000, 60)
    assert math.sqrt(sum(error * error for error in found) / len(found)) > STANDARD_ERROR * 1.3


def test_hashes_of_few_bits_are_estimated_too() -> None:
    last_rank = NO_VISITORS.with_members(set(range(300)))  # the rank bits of all are 0
    assert last_rank.registers.count(30) == 300
    assert last_rank.size() > EXACT
    everything = VisitorSet(frozenset(), bytes([30]) * REGISTERS)
    assert everything.size() == 2**40


@pytest.mark.parametrize("member", [-1, 2**40])
def test_what_is_not_a_hash_of_40_bits_is_refused(member: int) -> None:
    with pytest.raises(ValueError, match="not hashes of 40 bits"):
        NO_VISITORS.with_members({5, member})


@pytest.mark.parametrize(
    ("data", "n", "said"),
    [
        (bytes(9), 2, "9 bytes for 2 visitors"),
        (bytes(10), 2, "2 visitors, but 1 different ones"),
        (bytes(REGISTERS), 258, "for 258 visitors"),
        (bytes(REGISTERS - 1), 257, "2047 bytes of registers"),
        (bytes(REGISTERS - 1) + b"\x1f", 257, "of registers for 257"),
    ],
)
def test_bytes_that_are_no_set_are_refused(data: bytes, n: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        visitors_of(data, n)


# --- what is certain --------------------------------------------------------------------------------------------------
few_ranks = st.integers(0, 2**11 - 1) | st.integers(0, 2**9 - 1).map(lambda n: n << 31) | st.integers(0, 2**40 - 1)


@law
@given(st.sets(few_ranks, max_size=600), st.integers(0, 5_000), st.integers(0, 99))
def test_a_set_has_the_members_that_are_certain(some: set[int], more: int, seed: int) -> None:
    """Also of hashes that no chance would draw: the bounds are no estimates."""
    members = some | drawn(more, seed)
    found = NO_VISITORS.with_members(members)
    number = VisitorDays.of_owner(found.size(), found.exact, len(members))
    assert number.at_least <= found.certain_least() <= len(members) <= number.at_most
    assert OpenDay(found, len(members)).as_days().at_least == found.certain_least()
    estimate = number.estimate()
    assert estimate is not None and number.at_least <= estimate <= number.at_most


@pytest.mark.parametrize(
    ("visitors", "estimate", "of_set", "of_number"),
    [(256, 256, 256, 256), (1_000, 1_016, 801, 755), (5_000, 4_992, 1_870, 1_568), (100_000, 99_354, 2_048, 2_018)],
)
def test_the_bounds_are_those_of_the_table_in_the_docs(
    visitors: int, estimate: int, of_set: int, of_number: int
) -> None:
    found = NO_VISITORS.with_members(drawn(visitors, 1))
    assert found.size() == estimate
    assert found.certain_least() == OpenDay(found, 3 * visitors).as_days().at_least == of_set
    assert VisitorDays.of_owner(estimate, found.exact, 3 * visitors).at_least == of_number
    row = next(line for line in Path("docs/bounds.md").read_text().splitlines() if line.startswith(f"| {visitors:,} |"))
    cells = [cell.partition("±")[0].strip(" |") for cell in row.split(" | ")]
    assert cells[2:4] == [f"{of_set:,}", f"{of_number:,}"] and cells[1] in (f"{estimate:,}", "counted")


@pytest.mark.parametrize("size", [257, 300, 512, 700, 1_500, 4_096, 60_000])
def test_days_that_add_up_to_a_size_have_no_fewer_members_than_one_day_of_it(size: int) -> None:
    one = least_members(size)
    for part in {1, 2, 100, 255, 256, 257, 258, 300, 400, 512, 1_000, size // 3, size // 2}:
        if part < size:
            rest = size - part
            of_both = sum(days if days <= EXACT else least_members(days) for days in (part, rest))
            assert of_both >= one


# --- numbers of days --------------------------------------------------------------------------------------------------
numbers = st.builds(
    lambda size, exact, known: VisitorDays.of_owner(size, exact or size <= EXACT, size + known),
    st.integers(0, 9) | st.integers(257, 900),
    st.booleans(),
    st.integers(0, 3),
)


@law
@given(st.lists(numbers, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_numbers_of_owners_are_bounds(found: list[VisitorDays], random: Random) -> None:
    total = NO_DAYS
    for number in found:
        total = total.with_owner(number)
    some_visitors = [number for number in found if number.at_most]
    assert total.at_least == max(number.at_least for number in found)
    assert total.at_most == sum(number.at_most for number in found)
    assert total.exact == (len(some_visitors) == 0 or (len(some_visitors) == 1 and some_visitors[0].exact))
    assert (total.estimate() is None) == (len(some_visitors) > 1)
    assert total.known == sum(number.known for number in found)
    random.shuffle(found)
    again = NO_DAYS
    for number in found:
        again = number.with_owner(again)
    assert again == total


def test_numbers_of_days_add_up() -> None:
    estimated = VisitorDays.of_owner(300, exact=False, known=400)
    days = VisitorDays.of_owner(3, known=4).with_days(estimated).with_days(NO_DAYS)
    assert days == VisitorDays.of_owner(303, exact=False, known=404)
    with pytest.raises(ValueError, match="several owners"):
        days.with_owner(estimated).with_days(estimated)


@given(st.sets(st.integers(0, 400), max_size=300), st.sets(st.integers(0, 400), max_size=300))
def test_visitors_of_a_day_under_two_salts_are_between_their_bounds(before: set[int], after: set[int]) -> None:
    hashes = {(1, who) for who in before} | {(2, who) for who in after}
    counted = VisitorDays.of_owner(len(hashes), known=len(hashes))
    found = counted.under(2)
    assert found.at_least <= len(before | after) <= found.at_most
    assert (found.estimate() is None) == (not found.exact) == (len(hashes) > 1)
    assert counted.under(1) == counted
