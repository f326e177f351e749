from __future__ import annotations

import zlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.codec import MAX_CELLS, VERSION, decode, decode_header, encode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.integers import put_varint, zigzag
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, MINUTE_S, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Delta, Row, add, apply, check, fold
from tests.buckets.given import Hit, at, cells_at, hits, law, moments, row_of, rows

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
FOLDED = fold(EMPTY, TODAY, CLICKS)


def flushed(people: dict[int, int], day: int, bots: dict[int, int] | None = None) -> Row:
    """A row as a flush of an owner four years old leaves it: folded, with a mark of seven digits."""
    return apply(EMPTY, Delta(people, bots or {}), 8_000_000, day, 0, CLICKS)


@law
@given(rows(), st.booleans())
def test_what_is_encoded_decodes_to_the_same_row(made: tuple[Row, Ladder], deflate: bool) -> None:
    row, ladder = made
    assert check(row, ladder) == []
    data = encode(row, deflate=deflate)
    assert decode(data) == row
    assert encode(decode(data), deflate=deflate) == data
    assert decode_header(data) == row._replace(people_cells=(), bot_cells=())


def test_rows_without_a_hit_round_trip() -> None:
    for row in (EMPTY, FOLDED, fold(EMPTY, 40_000, Ladder.parse("86400")), FOLDED._replace(mark=5, erased_at=9)):
        assert decode(encode(row)) == row


@pytest.mark.parametrize("count", [1, 2, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1, 2**64, MAX_COUNT])
def test_counts_of_every_width_round_trip(count: int) -> None:
    row = add(FOLDED, Delta({NOON: count}, {NOON: count, NOON + 60: 1} if count < MAX_COUNT else {}), CLICKS)
    assert decode(encode(row)) == row


@pytest.mark.parametrize("gap", [1, 2, 255, 256, 65_535, 65_536, 2_000_000])
def test_gaps_of_every_width_round_trip(gap: int) -> None:
    row = add(EMPTY, Delta({0: 1, gap * 60: 2, (gap + 1) * 60: 1, (2 * gap + 1) * 60: 1}, {}), CLICKS)
    assert decode(encode(row)) == row


def test_the_largest_times_round_trip() -> None:
    last_minute = at("9999-12-31T23:59")
    row = add(EMPTY, Delta({0: 1, last_minute: 1}, {}), CLICKS)
    assert decode(encode(row)) == row
    assert decode(encode(fold(row, last_minute // DAY_S, CLICKS))).fold_day == last_minute // DAY_S


# --- how large a row can be -----------------------------------------------------------------------------------------
FULLEST = at("1998-01-03") // DAY_S  # a day with the most week pieces and days that the calendar ever gives
MOST_BUCKETS = 2_992  # of people, without months


def newest(day: int) -> int:
    """The end of the last minute that can be in a row on a fold day: it ends an hour late, and clocks differ."""
    return (day + 1) * DAY_S + 3_600 + 300 + 60


def all_starts(day: int, ladder: Ladder = CLICKS) -> list[list[int]]:
    """The start of every bucket that a row can hold on a fold day, tier by tier; months of ten years."""
    tiers = []
    until = newest(day)
    for tier, cut in enumerate([*ladder.cuts(day)[:-1], ladder.bucket(5, (day - 4_000) * DAY_S)[0]]):
        starts = [cut] if cut < until else []
        while starts and (end := ladder.bucket(tier, starts[-1])[1]) < until:
            starts.append(end)
        tiers.append(starts)
        until = cut
    return tiers


def fullest(day: int, count: Random, per_minute: int) -> dict[int, int]:
    """A row's worth of traffic: counts in every bucket, as steady as the sum of that many minutes is."""
    hits_ = {}
    for tier, starts in enumerate(all_starts(day)):
        for start in starts:
            minutes = (CLICKS.bucket(tier, start)[1] - start) // 60
            hits_[start] = max(1, round(count.gauss(per_minute * minutes, (per_minute * minutes) ** 0.5)))
    return hits_


def test_a_row_is_bounded_whatever_the_traffic() -> None:
    days = [*range(FULLEST - 40, FULLEST + 40), *range(at("2023-12-01") // DAY_S, at("2024-12-01") // DAY_S)]
    sizes = {day: sum(map(len, all_starts(day)[:-1])) for day in days}
    assert max(sizes.values()) == sizes[FULLEST] == MOST_BUCKETS
    for day in (min(sizes, key=sizes.__getitem__), FULLEST):
        row = flushed(fullest(day, Random(1), 2), day)
        assert cells_at(row.people_cells[:-1]) == sizes[day]
        assert check(row, CLICKS) == []


@pytest.mark.parametrize(
    ("name", "day", "most", "pages"),
    [
        ("quarter", FULLEST, MOST_BUCKETS, ("README.md", "docs/promises.md", "docs/settings.md", "docs/row-format.md")),
        ("days", at("1980-12-06") // DAY_S, 3_550, ("docs/promises.md", "docs/settings.md")),
    ],
)
def test_the_docs_say_how_many_buckets_a_row_has_at_most(name: str, day: int, most: int, pages: tuple[str]) -> None:
    ladder = Ladder.parse(name)
    assert max(sum(map(len, all_starts(day + n, ladder)[:-1])) for n in range(-40, 40)) == most
    root = Path(__file__).parents[2]
    assert [page for page in pages if f"{most:,}" not in (root / page).read_text()] == []


def test_a_full_row_at_a_thousand_hits_a_minute_is_under_8_kb() -> None:
    row = flushed(fullest(FULLEST, Random(7), 1_000), FULLEST)
    assert cells_at(row.people_cells) > MOST_BUCKETS
    assert len(encode(row)) < 5_500


def test_a_hit_a_week_for_a_year_is_under_200_bytes() -> None:
    random = Random(7)
    for _ in range(50):
        hits_ = {(NOON - week * 7 * DAY_S - random.randrange(7 * DAY_S)) // 60 * 60: 1 for week in range(52)}
        assert len(encode(flushed(hits_, TODAY))) < 120


def test_a_row_without_hits_and_one_with_a_single_hit_are_tiny() -> None:
    assert len(encode(flushed({}, TODAY))) <= 11
    assert len(encode(flushed({NOON: 1}, TODAY))) <= 18


def test_only_large_columns_that_gain_are_deflated() -> None:
    random = Random(7)
    noise = flushed({NOON + 60 * i: random.randrange(2**31, 2**32) for i in range(100)}, TODAY)
    assert encode(noise) == encode(noise, deflate=False)
    plain = flushed({NOON + 60 * i: 1_000 + i % 3 for i in range(200)}, TODAY)
    assert len(encode(plain)) < len(encode(plain, deflate=False)) / 4
    small, more = (flushed({NOON + 60 * i: 2 for i in range(bytes_)}, TODAY) for bytes_ in (150, 151))
    assert encode(small) == encode(small, deflate=False)
    assert encode(more) != encode(more, deflate=False)


# --- reading in part ------------------------------------------------------------------------------------------------
FULL = flushed(fullest(TODAY, Random(3), 1_000), TODAY, fullest(TODAY, Random(4), 100))


@pytest.mark.parametrize("deflate", [True, False])
def test_tiers_that_end_before_since_and_bots_are_left_out(deflate: bool) -> None:
    data = encode(FULL, deflate=deflate)
    cuts = CLICKS.cuts(TODAY)
    for tier, cut in enumerate(cuts[:-1]):
        part = decode(data, since=cut, bots=False)
        assert part.people_cells[: tier + 1] == FULL.people_cells[: tier + 1]
        assert cells_at(part.people_cells[tier + 1 :]) == 0
        assert cells_at(part.bot_cells) == 0
        both = decode(data, since=cut)
        assert both.people_cells == part.people_cells
        assert both.bot_cells[: tier + 1] == FULL.bot_cells[: tier + 1]
    assert decode(data, bots=False).people_cells == FULL.people_cells


def test_a_tier_that_ends_just_after_since_is_read() -> None:
    midnight = at("2024-03-15")
    row = flushed({midnight - 300: 1, midnight - 3_600: 2, midnight: 4}, TODAY)
    for since, wanted in ((midnight - 300, 2), (midnight, 0)):
        assert cells_at(decode(encode(row), since).people_cells[1:]) == wanted


# --- bytes that are not a row ---------------------------------------------------------------------------------------
def reads_or_is_corrupt(data: bytes) -> None:
    try:
        row = decode(data)
    except RowCorrupt:
        return
    assert isinstance(row, Row)
    assert decode_header(data) == row._replace(people_cells=(), bot_cells=())
    check(row, CLICKS)  # whatever it says, it says it


@law
@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\x51\x03" + tail))
def test_garbage_decodes_or_is_corrupt(data: bytes) -> None:
    reads_or_is_corrupt(data)


@law
@given(hits(moments), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3), st.integers(0, 9))
def test_damaged_rows_decode_or_are_corrupt(found: list[Hit], damage: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(encode(row_of(found, TODAY, CLICKS)))
    for where, byte in damage:
        data[where % len(data)] = byte
    reads_or_is_corrupt(bytes(data[: max(0, len(data) - cut)]))


def test_every_truncation_and_every_added_byte_is_corrupt() -> None:
    small = encode(flushed({NOON: 3, NOON - DAY_S: 1}, TODAY, {NOON: 300}))
    for data in (small, encode(FLUSHED_DEFLATED), encode(FULL, deflate=False)):
        for length in (*range(min(40, len(data))), len(data) // 2, len(data) - 1):
            with pytest.raises(RowCorrupt):
                decode(data[:length])
        with pytest.raises(RowCorrupt):
            decode(data + b"\0")


FLUSHED_DEFLATED = flushed({NOON + 60 * i: 7 + i % 3 for i in range(200)}, TODAY)


def test_every_flipped_byte_of_a_deflated_row_decodes_or_is_corrupt() -> None:
    data = encode(FLUSHED_DEFLATED)
    for where in range(len(data)):
        reads_or_is_corrupt(data[:where] + bytes((data[where] ^ 0x55,)) + data[where + 1 :])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "out of range"),
        (b"\x52\x00\x00\x00\x00", "version 2 is not known"),
        (b"\x91\x00\x00\x00\x00", "9 tiers"),
        (b"\x51\x40\x00\x00\x00", "flags 0x40"),
        (b"\x51\x00\x00\x00\x00\x00", "1 bytes after the end"),
        (b"\x51\x00\x00\x01\x00", "fold day -1"),
        (b"\x51\x00" + b"\xff" * 30, "a number without an end"),
        (b"\x51\x01" + b"\xff" * 5 + b"\x7f" + bytes(9), "last hit at"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x20\x01\x00\x00", "tiers 0x20 of 5"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\x00\x00\x00", "0 buckets in a tier"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\xff\xff\x7f\x00\x00", "2097151 buckets in a tier"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\x01\x78\x00", "out of range"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\x01\x60\x01", "buckets from -60"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\x01\x61\x00", "0 bytes of columns, not 1"),
        (b"\x51\x01\x00\x00\x00\x00\x01\x01\x02\x66\x00\x00", "a gap of 0"),
        (b"\x51\x21\x00\x00\x00\x00\x01\x01\x01\x61\x00" + zlib.compress(b"ab"), "not deflated from 1 bytes"),
        (b"\x51\x21\x00\x00\x00\x00\x01\x01\x01\x61\x00abc", "incorrect header check"),
    ],
)
def test_corrupt_bytes_are_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(RowCorrupt, match=said):
        decode(data)


def test_the_last_minute_of_the_calendar_can_be_a_hit_and_what_comes_after_it_is_no_time() -> None:
    last_minute, last_day = END_OF_TIME // MINUTE_S - 1, END_OF_TIME // DAY_S - 1

    def row_with(minute: int, day: int) -> bytes:
        data = bytearray(b"\x51\x01")
        for number in (minute, 0, 0, zigzag(day - minute * MINUTE_S // DAY_S), 1):
            put_varint(data, number)
        return bytes(data + b"\x01\x01\x60\x00")

    assert decode(row_with(last_minute, last_day)).last == END_OF_TIME - MINUTE_S
    for minute, day, said in ((last_minute + 1, last_day, "last hit at"), (last_minute, last_day + 1, "fold day")):
        with pytest.raises(RowCorrupt, match=said):
            decode(row_with(minute, day))


def test_a_zip_bomb_is_not_inflated() -> None:
    head = b"\x51\x21\x00\x00\x00\x00\x01\x01\x01\x61\x00"
    with pytest.raises(RowCorrupt):
        decode(head + zlib.compress(bytes(50_000_000)))


def test_bytes_that_claim_many_buckets_cost_little() -> None:
    most = bytearray()
    n = MAX_CELLS
    while n > 127:
        most.append(n & 127 | 128)
        n >>= 7
    most.append(n)
    row = decode(b"\x51\x01\x00\x00\x00\x00\x01\x01" + bytes(most) + b"\x60\x00")
    assert cells_at(row.people_cells) == MAX_CELLS


@pytest.mark.parametrize(
    "row",
    [
        FOLDED._replace(mark=-1),
        FOLDED._replace(lifetime=-1),
        add(FOLDED, Delta({NOON: 1}, {}), CLICKS)._replace(last=0),
    ],
)
def test_what_is_not_a_row_is_not_encoded(row: Row) -> None:
    with pytest.raises(ValueError, match="below 0"):
        encode(row)


def test_the_version_is_in_the_first_byte() -> None:
    assert encode(EMPTY)[0] & 15 == VERSION
    assert encode(FOLDED)[0] >> 4 == len(CLICKS.tiers)
