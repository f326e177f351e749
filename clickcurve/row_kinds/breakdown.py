"""Breakdowns: of rows of counts, and of what was called bots of them."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN as AS_SET
from clickcurve.buckets.breakdowns.parts import Parts, encode_parts, head_of_joined, joined_parts, separate_parts
from clickcurve.keys import breakdown_of, moved_key
from clickcurve.row_kinds.kind import RowKind


@dataclass(frozen=True, slots=True, eq=False)
class _Breakdown(RowKind):
    beside_counts: bool = True
    has_values: bool = True

    def read(self, data: bytes) -> Parts:
        return separate_parts(data)

    def erasure_known(self, data: bytes) -> int:
        return head_of_joined(data).erased_at

    def emptied(self, data: bytes, erased_at: int) -> bytes:
        head = head_of_joined(data)
        row = AS_SET.empty._replace(fold_day=head.fold_day, mark=head.mark, erased_at=erased_at)
        return joined_parts(encode_parts(row, AS_SET))


BREAKDOWN = _Breakdown(breakdown_of(""), "breakdown", "breakdown of ")
NAMED = _Breakdown(breakdown_of(moved_key("")), "correction", "breakdown of disavowed hits of ", corrects=True)
