"""Rows of counts: of links, groups, all links, events beside these, the limiter; and what was called bots of a row."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.buckets.codec import decode, decode_header, encode
from clickcurve.buckets.row import EMPTY, Row
from clickcurve.keys import moved_key
from clickcurve.row_kinds.kind import RowKind


@dataclass(frozen=True, slots=True, eq=False)
class _Counts(RowKind):
    def read(self, data: bytes) -> Row:
        return decode(data)

    def erasure_known(self, data: bytes) -> int:
        return decode_header(data).erased_at

    def emptied(self, data: bytes, erased_at: int) -> bytes:
        row = decode_header(data)
        return encode(
            EMPTY._replace(
                fold_day=row.fold_day,
                mark=row.mark,
                erased_at=erased_at,
                erased=row.erased + row.lifetime,
                erased_bots=row.erased_bots + row.bots,
            )
        )


COUNTS = _Counts("", "row")
CORRECTION = _Counts(moved_key(""), "correction", "disavowed hits of ", corrects=True)
