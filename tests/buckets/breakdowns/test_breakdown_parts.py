"""The two parts of bytes: round trips, damage, and the short way of a flush against the long one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import parts as program
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BreakdownDelta,
    CappedLadder,
    apply_breakdown,
    breakdown_due,
    fold_breakdown,
)
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.open_part import head_of
from clickcurve.buckets.breakdowns.parts import (
    Parts,
    apply_parts,
    decode_parts,
    encode_parts,
    joined_parts,
    parts_due,
    separate_parts,
)
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from tests.buckets.breakdowns.given_breakdowns import (
    Said,
    any_capped,
    delta_of_said,
    flushes_of,
    lived_breakdown,
    saids,
)
from tests.buckets.given import at, law

History = tuple[list[Said], list[int]]
NOON = at("2024-03-15T12:00")
TODAY = NOON // DAY_S
NOTHING = BreakdownDelta({})


@law
@given(saids(), any_capped)
def test_what_is_encoded_decodes_to_the_same_breakdown(history: History, capped: CappedLadder) -> None:
    row = lived_breakdown(flushes_of(*history), capped)
    for _ in range(3):
        parts = encode_parts(row, capped)
        assert decode_parts(parts) == row
        assert encode_parts(decode_parts(parts), capped) == parts
        assert separate_parts(joined_parts(parts)) == parts
        assert parts_due(parts, capped) == breakdown_due(row, capped)
        head = head_of(parts.open)
        assert (head.mark, head.fold_day, head.first) == (row.mark, row.fold_day, row.first)
        row = fold_breakdown(row, row.fold_day + 20, capped)


@law
@given(saids(), any_capped, st.data())
def test_a_flush_of_the_open_part_gives_what_the_whole_breakdown_gives(
    history: History, capped: CappedLadder, data: st.DataObject
) -> None:
    parts: Parts | None = None
    row = capped.empty
    for mark, (found, day) in enumerate(flushes_of(*history), 1):
        erased_at = data.draw(st.sampled_from([0, 0, 0, mark]))
        delta = delta_of_said(found)
        row = apply_breakdown(row, delta, mark, day, erased_at, capped)
        parts = apply_parts(parts, delta, mark, day, erased_at, capped)
        assert parts == encode_parts(row, capped)
        assert apply_parts(parts, delta, mark, day + 1, erased_at, capped) is parts


@law
@given(saids(), any_capped, st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_folding_by_flushes_of_nothing_is_folding(history: History, capped: CappedLadder, steps: list[int]) -> None:
    row = lived_breakdown(flushes_of(*history), capped)
    parts = encode_parts(row, capped)
    for mark, step in enumerate(steps, row.mark + 1):
        row = fold_breakdown(row, row.fold_day + step, capped)._replace(mark=mark)
        parts = apply_parts(parts, NOTHING, mark, row.fold_day, 0, capped)
        assert parts == encode_parts(row, capped)


def hits_of(ago_hours: int, values: int, visitors: int = 0, seed: int = 1) -> list[Said]:
    chance = Random(seed)
    t = (NOON // HOUR_S - ago_hours) * HOUR_S
    return [
        Said(
            t,
            (("ref", f"r{chance.randrange(10**9)}.example"), ("country", chance.choice(["DE", "US", ""]))),
            1 + n % 3,
            chance.getrandbits(40) if n < visitors else None,
        )
        for n in range(max(values, visitors))
    ]


def test_the_closed_part_is_the_same_object_until_something_falls_out_of_its_tier() -> None:
    flushes = [(hits_of(24 * 40, 3), TODAY), (hits_of(24 * 5, 3), TODAY)]
    parts = encode_parts(lived_breakdown(flushes, BREAKDOWN), BREAKDOWN)
    assert len(parts.closed) > 50
    due = parts_due(parts, BREAKDOWN)
    assert due is not None
    assert due > TODAY
    for mark, day in enumerate(range(TODAY, due), 10):
        after = apply_parts(parts, delta_of_said(hits_of(-24 * (day - TODAY), 2)), mark, day, 0, BREAKDOWN)
        if day < TODAY + 2:
            assert after.closed is parts.closed
        else:
            assert after.closed != parts.closed  # the hours of the first of these days have left
        parts = after
    assert apply_parts(parts, NOTHING, 99, due, 0, BREAKDOWN).closed != parts.closed
    late = apply_parts(parts, delta_of_said(hits_of(24 * 9, 1)), 100, due - 1, 0, BREAKDOWN)
    assert late.closed != parts.closed


def test_an_open_part_is_read_and_written_without_the_closed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    row = lived_breakdown([(hits_of(24 * 40, 300), TODAY), (hits_of(1, 5), TODAY)], BREAKDOWN)
    parts = encode_parts(row, BREAKDOWN)

    def never(*_: object) -> None:
        raise AssertionError("the closed part was opened")

    monkeypatch.setattr(program, "read_closed", never)
    monkeypatch.setattr(program, "closed_bytes", never)
    apply_parts(parts, delta_of_said(hits_of(0, 5)), 9, TODAY, 0, BREAKDOWN)
    with pytest.raises(AssertionError, match="was opened"):
        apply_parts(parts, delta_of_said(hits_of(24 * 3, 5)), 9, TODAY, 0, BREAKDOWN)


# --- bytes that are not those of a breakdown ------------------------------------------------------------------------
DEFLATED = encode_parts(
    lived_breakdown(
        [(hits_of(24 * ago, 60, 5, ago), TODAY) for ago in (400, 90, 60, 20, 9)] + [(hits_of(2, 40, 300), TODAY)],
        BREAKDOWN,
    ),
    BREAKDOWN,
)
SMALL = encode_parts(
    lived_breakdown([(hits_of(24 * 20, 1, 1), TODAY), (hits_of(1, 1, 1), TODAY)], BREAKDOWN), BREAKDOWN
)


@pytest.mark.parametrize("parts", [SMALL, DEFLATED], ids=["small", "deflated"])
@pytest.mark.parametrize("joined", [True, False])
def test_every_damaged_byte_is_noticed(parts: Parts, joined: bool) -> None:
    assert check_breakdown(decode_parts(parts), BREAKDOWN) == []
    size = len(parts.open)
    data = joined_parts(parts)
    for where in range(len(data)):
        for flip in (0x01, 0x80, 0x55):
            damaged = data[:where] + bytes((data[where] ^ flip,)) + data[where + 1 :]
            with pytest.raises(RowCorrupt):
                decode_parts(separate_parts(damaged) if joined else Parts(damaged[:size], damaged[size:]))


@pytest.mark.parametrize("parts", [SMALL, DEFLATED], ids=["small", "deflated"])
def test_every_truncation_and_every_added_byte_is_noticed(parts: Parts) -> None:
    data = joined_parts(parts)
    for cut in range(len(data)):
        with pytest.raises(RowCorrupt):
            separate_parts(data[:cut])
    with pytest.raises(RowCorrupt):
        separate_parts(data + b"\0")
    for damaged in (parts._replace(closed=b""), parts._replace(closed=parts.closed + b"\0"), parts._replace(open=b"")):
        with pytest.raises(RowCorrupt):
            decode_parts(damaged)


def test_parts_that_do_not_belong_together_are_noticed() -> None:
    with pytest.raises(RowCorrupt, match="does not belong to its open part: that of mark 2 has"):
        decode_parts(Parts(SMALL.open, DEFLATED.closed))
    before = encode_parts(lived_breakdown([(hits_of(24 * 20, 1), TODAY)], BREAKDOWN), BREAKDOWN)
    after = apply_parts(before, delta_of_said(hits_of(24 * 20, 1)), 2, TODAY, 0, BREAKDOWN)
    for torn in (Parts(before.open, after.closed), Parts(after.open, before.closed), after._replace(closed=b"")):
        with pytest.raises(RowCorrupt, match="does not belong"):
            decode_parts(torn)


def test_a_breakdown_of_another_ladder_is_not_applied_to() -> None:
    other = CappedLadder(type(BREAKDOWN.ladder).parse("3600:3,month"), (2, 2))
    with pytest.raises(RowCorrupt, match="of 4 tiers does not fit a ladder of 2"):
        apply_parts(SMALL, NOTHING, 99, TODAY, 0, other)
