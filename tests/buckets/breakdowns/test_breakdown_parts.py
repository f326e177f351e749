"""The two parts of bytes: round trips, damage, and the short way of a flush against the long one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import open_part as open_part_module
from clickcurve.buckets.breakdowns import parts as program
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BoundedLadder,
    BreakdownDelta,
    fold_breakdown,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.open_part import BreakdownHead, open_bytes
from clickcurve.buckets.breakdowns.parts import (
    ROW_CAP,
    Parts,
    apply_parts,
    decode_open,
    decode_parts,
    encode_parts,
    join_parts,
    joined_parts,
    parts_due,
    separate_parts,
)
from clickcurve.buckets.errors import CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.buckets.row import MAX_COUNT
from tests.buckets.breakdowns import laws
from tests.buckets.breakdowns.given_breakdowns import (
    Said,
    any_bounded,
    delta_of_said,
    flushes_of,
    lived_breakdown,
    saids,
)
from tests.buckets.given import at, law
from tests.power import one_in

History = tuple[list[Said], list[int]]
NOON = at("2024-03-15T12:00")
TODAY = NOON // DAY_S
NOTHING = BreakdownDelta({})


@law
@given(saids(), any_bounded)
def test_what_is_encoded_decodes_to_the_same_breakdown(history: History, bounded: BoundedLadder) -> None:
    row = lived_breakdown(flushes_of(*history), bounded)
    for _ in range(3):
        parts = encode_parts(row, bounded)
        assert decode_parts(parts) == row
        assert encode_parts(decode_parts(parts), bounded) == parts
        assert separate_parts(joined_parts(parts)) == parts
        assert parts_due(parts, bounded) == laws.breakdown_due(row, bounded)
        head = parts.head
        assert (head.mark, head.fold_day, head.first) == (row.mark, row.fold_day, row.first)
        row = fold_breakdown(row, row.fold_day + 20, bounded)


erasures = st.lists(st.sampled_from([0, 0, 0, 3, 9]), min_size=1, max_size=5)


@law
@given(saids(), any_bounded, erasures)
def test_a_flush_of_the_open_part_gives_what_the_whole_breakdown_gives(
    history: History, bounded: BoundedLadder, erased: list[int]
) -> None:
    laws.the_short_way_is_the_long_one(laws.Engine(), *history, bounded, erased)


@pytest.mark.parametrize(
    ("name", "mutant"),
    one_in(
        3,
        [
            ("_is_open_only", lambda *_: True),
            ("_first", lambda first, _: first),
            ("trim", lambda counts, _: counts),
            ("_land_days", lambda days, _: None),
            ("open_bytes_beside", lambda head, _, hours, days: open_bytes(head, hours, days)),
        ],
    ),
)
def test_the_law_of_the_short_way_notices_its_mutant(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., object]
) -> None:
    monkeypatch.setattr(program, name, mutant)
    narrowest = BoundedLadder(BREAKDOWN.ladder, (1, 1, 1, 1))
    drawn = st.tuples(saids(), st.just(narrowest), erasures).map(lambda all_: (*all_[0], all_[1], all_[2]))
    assert laws.noticed(lambda *arguments: laws.the_short_way_is_the_long_one(laws.Engine(), *arguments), drawn)


@law
@given(saids(), any_bounded, st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_folding_by_flushes_of_nothing_is_folding(history: History, bounded: BoundedLadder, steps: list[int]) -> None:
    row = lived_breakdown(flushes_of(*history), bounded)
    parts = encode_parts(row, bounded)
    for mark, step in enumerate(steps, row.mark + 1):
        row = fold_breakdown(row, row.fold_day + step, bounded)._replace(mark=mark)
        parts = apply_parts(parts, NOTHING, mark, row.fold_day, 0, bounded)
        assert parts == encode_parts(row, bounded)


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


@pytest.mark.parametrize("days_ago", [0, 3, 20, 60, 500])
@pytest.mark.parametrize("ours", range(4))
@pytest.mark.parametrize("more", range(4))
def test_visitors_of_a_day_in_two_rows_that_are_joined_are_not_added(days_ago: int, ours: int, more: int) -> None:
    """Quarantined hits have visitors that the row may have too: of days that are numbers nobody knows how many."""
    then, day = TODAY, TODAY + days_ago
    t = (NOON // HOUR_S) * HOUR_S
    rows = [
        fold_breakdown(
            lived_breakdown([([Said(t, (("ref", "r"),), 2, n) for n in of_row], then)], BREAKDOWN), day, BREAKDOWN
        )
        for of_row in (range(ours), range(1, 1 + more))
    ]
    first, second = (encode_parts(row, BREAKDOWN) for row in rows)
    whole = decode_parts(join_parts(first, second, BREAKDOWN))
    assert check_breakdown(whole, BREAKDOWN) == []
    visitors = len({*range(ours), *range(1, 1 + more)})
    if whole.days:
        assert [len(each.visitors.members) for each in whole.days.values()] == [visitors]
        return
    numbers = [number for tier in whole.visitor_days for number in tier.values()]
    assert sum(number.at_least for number in numbers) <= visitors <= sum(number.at_most for number in numbers)
    assert all(number.exact == (not ours or not more) for number in numbers)
    assert sum(number.known for number in numbers) == 2 * (ours + more)


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
    for damaged in (Parts(parts.open, b""), Parts(parts.open, parts.closed + b"\0"), Parts(b"", parts.closed)):
        with pytest.raises(RowCorrupt):
            decode_parts(damaged)


def test_parts_that_do_not_belong_together_are_noticed() -> None:
    with pytest.raises(RowCorrupt, match="does not belong to its open part: that of mark 2 has"):
        decode_parts(Parts(SMALL.open, DEFLATED.closed))
    before = encode_parts(lived_breakdown([(hits_of(24 * 20, 1), TODAY)], BREAKDOWN), BREAKDOWN)
    after = apply_parts(before, delta_of_said(hits_of(24 * 20, 1)), 2, TODAY, 0, BREAKDOWN)
    for torn in (Parts(before.open, after.closed), Parts(after.open, before.closed), Parts(after.open, b"")):
        with pytest.raises(RowCorrupt, match="does not belong"):
            decode_parts(torn)


def test_without_the_checksums_damage_is_read_as_a_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_part_module, "require_whole", lambda _: None)
    monkeypatch.setattr(program, "_require_belong", lambda *_: None)
    sound, unnoticed = decode_parts(SMALL), 0
    for damaged in (Parts(SMALL.open[:2] + b"\x07" + SMALL.open[3:], SMALL.closed), Parts(SMALL.open, b"")):
        unnoticed += decode_parts(damaged) != sound
    assert unnoticed == 2


def test_a_breakdown_of_another_ladder_is_not_applied_to() -> None:
    other = BoundedLadder(type(BREAKDOWN.ladder).parse("3600:3,month"), (2, 2))
    with pytest.raises(RowCorrupt, match="of 4 tiers does not fit a ladder of 2"):
        apply_parts(SMALL, NOTHING, 99, TODAY, 0, other)


def test_a_flush_of_the_newest_hour_leaves_the_older_block_as_it_is() -> None:
    hours = [(hits_of(ago, 30, 3, ago), TODAY) for ago in (30, 9, 2, 1)]
    parts = encode_parts(lived_breakdown(hours, BREAKDOWN), BREAKDOWN)
    older = parts.opened().older
    assert older.deflated
    again = apply_parts(parts, delta_of_said(hits_of(1, 4, 2, seed=9)), 9, TODAY, 0, BREAKDOWN)
    assert again.opened().older == older
    next_hour = apply_parts(again, delta_of_said(hits_of(0, 4, 2, seed=9)), 10, TODAY, 0, BREAKDOWN)
    assert next_hour.opened().older != older


# --- reading in part ------------------------------------------------------------------------------------------------
@law
@given(saids(), any_bounded, st.sets(st.sampled_from(["ref", "country", "tag.shop", "os"])))
def test_some_dimensions_are_read_as_all_are(history: History, bounded: BoundedLadder, only: set[str]) -> None:
    row = lived_breakdown(flushes_of(*history), bounded)
    parts = encode_parts(row, bounded)
    wanted = {name: tiers for name, tiers in row.dimensions.items() if name in only}
    assert decode_parts(parts, only) == row._replace(dimensions=wanted)
    hours = {name: (tiers[0], *({},) * (len(tiers) - 1)) for name, tiers in wanted.items() if tiers[0]}
    assert decode_open(parts, only) == row._replace(dimensions=hours, visitor_days=bounded.empty.visitor_days)


# --- sizes ----------------------------------------------------------------------------------------------------------
def flood(seed: int, hours: int = 40, dimensions: int = 3, values: int = 250) -> BreakdownDelta:
    """Values that no deflating makes shorter, in many hours: an attack."""
    chance = Random(seed)
    said = {
        f"tag.t{n}": {
            (NOON // HOUR_S - ago) * HOUR_S: {
                f"{chance.getrandbits(200):x}": chance.randint(1, 9) for _ in range(values)
            }
            for ago in range(hours)
        }
        for n in range(dimensions)
    }
    return BreakdownDelta(said)


def test_above_the_row_cap_the_caps_are_halved_for_good() -> None:
    parts = apply_parts(None, delta_of_said(hits_of(24 * 9, 50)), 1, TODAY, 0, BREAKDOWN)
    deltas = [flood(1), flood(2)]
    for mark, delta in enumerate(deltas, 2):
        parts = apply_parts(parts, delta, mark, TODAY, 0, BREAKDOWN)
        assert len(parts.open) + len(parts.closed) <= ROW_CAP
    row = decode_parts(parts)
    assert row.shift == parts.head.shift > 1
    assert check_breakdown(row, BREAKDOWN) == []
    for name in deltas[0].values:
        sent = sum(sum(values.values()) for delta in deltas for values in delta.values[name].values())
        assert sum(counts.recorded() for tier in row.dimensions[name] for counts in tier.values()) == sent
    later = apply_parts(parts, NOTHING, 9, TODAY + 100, 0, BREAKDOWN)
    assert len(later.open) + len(later.closed) < ROW_CAP / 3
    assert decode_parts(later).shift == row.shift
    assert apply_parts(later, flood(3, hours=1), 10, TODAY, 5, BREAKDOWN).open[1] & 8 == 0  # an erasure starts again


def test_without_the_row_cap_the_same_flood_is_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ROW_CAP", 1 << 40)
    parts = apply_parts(None, flood(1), 2, TODAY, 0, BREAKDOWN)
    assert len(parts.open) + len(parts.closed) > 2 * ROW_CAP


def test_folds_on_the_way_do_not_change_what_the_row_cap_does() -> None:
    first, second = flood(1, hours=12), flood(2, hours=12)
    at_once = apply_parts(None, first, 1, TODAY, 0, BREAKDOWN)
    folded = apply_parts(at_once, NOTHING, 2, TODAY + 3, 0, BREAKDOWN)
    folded = apply_parts(folded, NOTHING, 3, TODAY + 40, 0, BREAKDOWN)
    straight = apply_parts(at_once, second, 4, TODAY + 40, 0, BREAKDOWN)
    assert apply_parts(folded, second, 4, TODAY + 40, 0, BREAKDOWN) == straight


def test_a_flood_of_long_alike_values_is_bounded_too() -> None:
    """They deflate to little, but what is inflated is bounded as well."""
    values = {f"{'x' * 90}{n:06}": 1 for n in range(300)}
    hours = {(NOON // HOUR_S - ago) * HOUR_S: values for ago in range(36)}
    delta = BreakdownDelta({f"tag.t{n}": hours for n in range(6)})
    parts = apply_parts(None, delta, 1, TODAY, 0, BREAKDOWN)
    assert len(parts.open) <= ROW_CAP
    assert decode_parts(parts).shift > 0


# --- what is not encoded --------------------------------------------------------------------------------------------
def test_counts_are_exact_or_refused() -> None:
    parts = apply_parts(None, BreakdownDelta({"ref": {NOON: {"a": MAX_COUNT}}}), 1, TODAY, 0, BREAKDOWN)
    assert decode_parts(parts).dimensions["ref"][0][NOON].values == {"a": MAX_COUNT}
    with pytest.raises(CountTooLarge, match=r"the largest count is 2\*\*127"):
        apply_parts(parts, BreakdownDelta({"ref": {NOON: {"a": 1}}}), 2, TODAY, 0, BREAKDOWN)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ref", "a\0b", "a zero byte in it"),
        ("", "a", "name of 0 bytes"),
        ("x" * 256, "a", "name of 256 bytes"),
        ("ref", "\ud800", "surrogates"),
    ],
)
def test_what_cannot_be_a_text_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        apply_parts(None, BreakdownDelta({name: {NOON: {value: 1}}}), 1, TODAY, 0, BREAKDOWN)


def test_a_merged_breakdown_is_not_encoded() -> None:
    rows = [lived_breakdown([(hits_of(24 * 9, 1, 1, seed), TODAY - 8), ([], TODAY)], BREAKDOWN) for seed in (1, 2)]
    with pytest.raises(ValueError, match="a merged breakdown is not stored"):
        encode_parts(merge_breakdowns(rows, TODAY, BREAKDOWN), BREAKDOWN)


HEAD = BreakdownHead(4, 1, TODAY, 0, None, 0, TODAY, 0, 0, None)


@pytest.mark.parametrize(
    ("hours", "days", "said"),
    [
        ({NOON: b"\x0c\x04\x01a\x00"}, {}, "out of range"),
        ({NOON: b"\x02\x06\xfe\x00"}, {}, "out of range"),
        ({NOON: b"\x01\x04\x01a\x01\x00"}, {}, "a count of 0"),
        ({NOON: b"\x01\x08\x03a\0a\x00"}, {}, "a value or dimension twice"),
        ({NOON: b"\x01\x08\x01a\x00"}, {}, "1 texts, not 2"),
        ({NOON: b"\x01\x04\x09a\x00"}, {}, "texts of 9 bytes"),
        ({NOON: b"\x01\x04\x01a\x03\x01"}, {}, "a column of 3 bytes a number"),
        ({NOON: b"\x01\x04\x01a\x02\x01"}, {}, "a column of 2 bytes, 1 are there"),
        ({NOON: b"\x00\x00"}, {}, "a dimension without a name"),
        ({}, {TODAY * DAY_S: b"\x00\x02\x00"}, "1 bytes for 2 visitors"),
    ],
)
def test_bytes_with_a_true_checksum_that_are_no_breakdown_are_refused(
    hours: dict[int, bytes], days: dict[int, bytes], said: str
) -> None:
    with pytest.raises(RowCorrupt, match=said):
        decode_open(Parts(open_bytes(HEAD, hours, days), b""))


def test_what_inflates_to_much_is_refused() -> None:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflater.compress(bytes(50_000_000)) + deflater.flush()
    honest = open_bytes(HEAD, {NOON: b"\x01\x04\x01a\x00"}, {})
    head = bytearray(honest[: honest.index(b"\x01\x0c\x05")])
    head[1] |= 1
    body = bytes(head) + bomb
    with pytest.raises(RowCorrupt, match="not one deflated body"):
        decode_open(Parts(body + zlib.crc32(body).to_bytes(4, "little"), b""))
