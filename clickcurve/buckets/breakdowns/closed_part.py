"""The closed part of a breakdown as bytes, and back: all buckets that are older than the finest tier.

`docs/breakdown-format.md` describes it byte by byte. Buckets' starts are written once for all dimensions: they have the
same ones, but for the days before one was switched on. A dimension's texts are in one table, the commonest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import accumulate, compress, pairwise

from clickcurve.buckets.breakdowns.bodies import (
    deflate,
    dimension_bytes,
    inflate,
    or_corrupt,
    put_texts,
    read_dimension,
    read_texts,
    require_version,
    value_codes,
)
from clickcurve.buckets.breakdowns.breakdown import Tiers, ValueCounts
from clickcurve.buckets.breakdowns.columns import ColumnTier
from clickcurve.buckets.breakdowns.visitors import NO_DAYS, VisitorDays
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES, VOCABULARY
from clickcurve.buckets.integers import after_sized_column, put_sized_column, put_varint, sized_column, varints
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME

_DEFLATED, _VISITORS = 1, 2
_LEVEL = 6  # of deflating: 4 to 6 % fewer bytes than level 1; a closed part is written once a day at most
_MAX_BUCKETS = 100_000  # in one tier: bounds what bad bytes can cost

Numbers = tuple[Mapping[int, VisitorDays], ...]


def closed_bytes(dimensions: Mapping[str, Tiers], visitor_days: Numbers) -> bytes:
    """Writes the tiers after the finest; b"" if they hold nothing."""
    # As dicts: each bucket is looked up, which a `ColumnTier` does in Python.
    coarse = {
        name: tuple([dict(tier.items()) for tier in tiers[1:]]) for name, tiers in dimensions.items() if any(tiers[1:])
    }
    if not coarse and not any(visitor_days):
        return b""
    body = bytearray()
    starts = _all_starts([*coarse.values(), visitor_days])
    _put_starts(body, starts)
    put_varint(body, len(coarse))
    for name in sorted(coarse):
        _put_dimension(body, name, coarse[name], starts)
    if any(visitor_days):
        for tier, of_tier in zip(visitor_days, starts, strict=True):
            _put_numbers(body, tier, of_tier)
    deflated, packed = deflate(bytes(body), _LEVEL)
    flags = _DEFLATED * deflated | _VISITORS * any(map(bool, visitor_days))
    return bytes((VOCABULARY | len(visitor_days) + 1 << 4, flags)) + packed


def _all_starts(dimensions: Sequence[Sequence[Mapping[int, object]]]) -> list[list[int]]:
    return [sorted({start for tier in tiers for start in tier}) for tiers in zip(*dimensions, strict=True)]


def _put_starts(out: bytearray, starts: list[list[int]]) -> None:
    """Writes which tiers hold anything; of each the number of starts, the first, and the gaps, in days.

    The first start of a tier is written as the days before the one of the finer tier: coarse is old.
    """
    out.append(sum(1 << tier for tier, of_tier in enumerate(starts) if of_tier))
    newer = 0
    for of_tier in starts:
        if of_tier:
            days = [start // DAY_S for start in of_tier]
            put_varint(out, len(days))
            put_varint(out, newer - days[0] if newer else days[0])
            put_sized_column(out, [late - early for early, late in pairwise(days)])
            newer = days[0]


def _put_dimension(out: bytearray, name: str, tiers: Tiers, starts: list[list[int]]) -> None:
    in_buckets: Counter[str] = Counter()
    for tier in tiers:
        for counts in tier.values():
            in_buckets.update(counts.values.keys())
    table = sorted(in_buckets, key=lambda value: (-in_buckets[value], value))
    codes = value_codes(name, table)
    out += dimension_bytes(name)
    if codes is None:
        put_varint(out, len(table) << 1)
        put_texts(out, table)
        numbers = {value: number for number, value in enumerate(table)}
    else:
        put_varint(out, 1)
        numbers = dict(zip(table, codes, strict=True))
    for tier, of_tier in zip(tiers, starts, strict=True):
        if of_tier:
            _put_tier(out, tier, of_tier, numbers)


_NOTHING = ValueCounts({})


def _put_tier(out: bytearray, tier: Mapping[int, ValueCounts], starts: list[int], numbers: Mapping[str, int]) -> None:
    """Writes a tier's columns: how many values each bucket has and whether others, their numbers, counts, the rest.

    A bucket's numbers ascend and are written as the first and the gaps: 5 % fewer bytes for a busy row.
    """
    buckets = [tier.get(start, _NOTHING) for start in starts]
    put_sized_column(out, [len(values) << 1 | bool(other) for values, other, _ in buckets])
    written: list[int] = []
    of_values: list[int] = []
    of_others: list[int] = []
    for values, other, slack in buckets:
        ordered = sorted([(numbers[value], count) for value, count in values.items()])
        before = 0
        for number, _ in ordered:
            written.append(number - before)
            before = number
        of_values += [count for _, count in ordered]
        if other:
            of_others += (other, slack)
    put_sized_column(out, written)
    put_sized_column(out, of_values)
    put_sized_column(out, of_others)


def _put_numbers(out: bytearray, tier: Mapping[int, VisitorDays], starts: list[int]) -> None:
    numbers = [tier.get(start, NO_DAYS) for start in starts]
    sizes = [number.size for number in numbers]
    if None in sizes:
        raise ValueError("visitor-days of several owners: a merged breakdown is not stored")
    put_sized_column(out, [(number.size or 0) << 1 | (not number.exact) for number in numbers])
    put_sized_column(out, [number.known for number in numbers])


@or_corrupt
def read_closed(data: bytes, tiers: int, only: Container[str] | None = None) -> tuple[dict[str, Tiers], Numbers]:
    """Reads the tiers after the finest of `tiers`: each dimension's, or only of some, and the visitor-days.

    Raises RowCorrupt for anything else.
    """
    if not data:
        return {}, ({},) * (tiers - 1)
    require_version(data[0])
    if data[0] >> 4 != tiers or data[1] & ~3:
        raise ValueError(f"a closed part of {data[0] >> 4} tiers, flags {data[1]:#x}")
    version, flags = data[0] & 15, data[1]
    body = inflate(data[2:]) if flags & _DEFLATED else data[2:]
    starts, at = _read_starts(body, tiers - 1)
    (n,), at = varints(body, at, 1)
    dimensions: dict[str, Tiers] = {}
    for _ in range(n):
        name, at = read_dimension(body, at, version)
        if name in dimensions:
            raise ValueError(f"{name}: twice")
        if only is None or name in only:
            closed_tiers, at = _read_tiers(body, at, starts, VOCABULARIES[version].values.get(name, ()))
            dimensions[name] = ({}, *closed_tiers)
        else:
            at = _after_tiers(body, at, starts)
    numbers: Numbers = ({},) * (tiers - 1)
    if flags & _VISITORS:
        numbers, at = _read_numbers(body, at, starts)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the end")
    return dimensions, numbers


def _read_starts(body: bytes, tiers: int) -> tuple[list[list[int]], int]:
    present, at = body[0], 1
    if present >> tiers:
        raise ValueError(f"tiers {present:#x} of {tiers}")
    starts: list[list[int]] = []
    newer = 0
    for tier in range(tiers):
        if not present >> tier & 1:
            starts.append([])
            continue
        (n, first), at = varints(body, at, 2)
        if not 0 < n <= _MAX_BUCKETS:
            raise ValueError(f"{n} buckets in a tier")
        first = newer - first if newer else first
        gaps, at = sized_column(body, at, n - 1)
        days = list(accumulate(gaps, initial=first))
        if 0 in gaps or first < 0 or days[-1] >= END_OF_TIME // DAY_S:
            raise ValueError(f"a gap of 0, or buckets from day {first} to {days[-1]}")
        starts.append([day * DAY_S for day in days])
        newer = first
    return starts, at


def _read_tiers(
    body: bytes, at: int, starts: list[list[int]], vocabulary: Sequence[str]
) -> tuple[list[Mapping[int, ValueCounts]], int]:
    (size,), at = varints(body, at, 1)
    table = vocabulary
    if not size & 1:
        table, at = read_texts(body, at, size >> 1)
        if len(set(table)) != len(table):
            raise ValueError("a value twice in the table")
    tiers: list[Mapping[int, ValueCounts]] = []
    for of_tier in starts:
        tier: Mapping[int, ValueCounts] = {}
        if of_tier:
            tier, at = _read_tier(body, at, of_tier, table)
        tiers.append(tier)
    return tiers, at


def _after_tiers(body: bytes, at: int, starts: list[list[int]]) -> int:
    """Returns where the tiers that begin here end."""
    (size,), at = varints(body, at, 1)
    if size > 1:
        (length,), at = varints(body, at, 1)
        at += length
    for of_tier in starts:
        sizes, at = sized_column(body, at, len(of_tier))
        for n in _column_sizes(sizes):
            at = after_sized_column(body, at, n)
    return at


def _column_sizes(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Returns how many numbers the columns of a tier have whose buckets have these sizes."""
    values = sum([size >> 1 for size in sizes])
    return values, values, 2 * sum([size & 1 for size in sizes])


def _read_tier(body: bytes, at: int, starts: list[int], table: Sequence[str]) -> tuple[ColumnTier, int]:
    sizes, at = sized_column(body, at, len(starts))
    n, _, others_n = _column_sizes(sizes)
    gaps, at = sized_column(body, at, n)
    counts, at = sized_column(body, at, n)
    others, at = sized_column(body, at, others_n)
    if 0 in sizes:  # as of days before the dimension was switched on
        starts = list(compress(starts, sizes))
        sizes = list(filter(None, sizes))
    ends = list(accumulate([size >> 1 for size in sizes], initial=0))
    cut = [start for start, size in zip(starts, sizes, strict=True) if size & 1]
    rest = dict(zip(cut, zip(others[::2], others[1::2], strict=True), strict=True))
    return ColumnTier(table, starts, ends, gaps, counts, rest), at


def _read_numbers(body: bytes, at: int, starts: list[list[int]]) -> tuple[Numbers, int]:
    tiers = []
    for of_tier in starts:
        numbers, at = sized_column(body, at, len(of_tier))
        hits_of_visitors, at = sized_column(body, at, len(of_tier))
        tiers.append(
            {
                start: VisitorDays.of_owner(number >> 1, not number & 1, hits)
                for start, number, hits in zip(of_tier, numbers, hits_of_visitors, strict=True)
                if number or hits
            }
        )
    return tuple(tiers), at
