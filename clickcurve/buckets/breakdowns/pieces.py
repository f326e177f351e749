"""The pieces of an open part: what an hour knows of each dimension, and a day of its visitors."""

from __future__ import annotations

from collections.abc import Container, Mapping

from clickcurve.buckets.breakdowns.bodies import (
    dimension_bytes,
    or_corrupt,
    put_texts,
    read_dimension,
    read_texts,
    value_codes,
)
from clickcurve.buckets.breakdowns.breakdown import ValueCounts
from clickcurve.buckets.breakdowns.visitors import EXACT, OpenDay, visitor_bytes, visitors_of
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES
from clickcurve.buckets.integers import put_sized_column, put_varint, sized_column, varints


def hour_bytes(dimensions: Mapping[str, ValueCounts]) -> bytes:
    """Writes what an hour knows of each dimension."""
    out = bytearray()
    for name in sorted(dimensions):
        values, other, slack = dimensions[name]
        out += dimension_bytes(name)
        ordered = sorted(values)
        codes = value_codes(name, ordered)
        put_varint(out, len(values) << 2 | (codes is not None) << 1 | bool(other))
        if codes is None:
            put_texts(out, ordered)
        else:
            out += bytes(codes)
        put_sized_column(out, [values[value] for value in ordered])
        if other:
            put_sized_column(out, (other, slack))
    return bytes(out)


@or_corrupt
def hour_of(data: bytes, version: int, only: Container[str] | None = None) -> dict[str, ValueCounts]:
    """Reads what an hour knows of each dimension, or only of some; raises RowCorrupt for anything else."""
    at, end = 0, len(data)
    dimensions = {}
    while at < end:
        name, at = read_dimension(data, at, version)
        (size,), at = varints(data, at, 1)
        n = size >> 2
        if only is not None and name not in only:
            at = _after_values(data, at, size)
            continue
        if size & 2:
            known = VOCABULARIES[version].values[name]
            values = [known[code] for code in data[at : at + n]]
            at += n
        else:
            values, at = read_texts(data, at, n)
        counts, at = sized_column(data, at, n)
        other = slack = 0
        if size & 1:
            (other, slack), at = sized_column(data, at, 2)
        counted = dict(zip(values, counts, strict=True))
        if len(counted) != n or 0 in counts or name in dimensions:
            raise ValueError(f"{name}: a value or dimension twice, or a count of 0")
        dimensions[name] = ValueCounts(counted, other, slack)
    return dimensions


def _after_values(data: bytes, at: int, size: int) -> int:
    """Returns where the values and counts that begin here end."""
    n = size >> 2
    if size & 2:
        at += n
    elif n:
        (length,), at = varints(data, at, 1)
        at += length
    _, at = sized_column(data, at, n)
    return sized_column(data, at, 2)[1] if size & 1 else at


def day_bytes(day: OpenDay) -> bytes:
    """Writes the visitors of a day: their hits, the number of members (257: registers), the set."""
    out = bytearray()
    put_varint(out, day.known)
    put_varint(out, len(day.visitors.members) if day.visitors.exact else EXACT + 1)
    return bytes(out) + visitor_bytes(day.visitors)


@or_corrupt
def day_of(data: bytes) -> OpenDay:
    """Reads the visitors of a day; raises RowCorrupt for anything else."""
    (known, n), at = varints(data, 0, 2)
    return OpenDay(visitors_of(data[at:], n), known)
