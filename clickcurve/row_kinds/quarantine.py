"""Rows in quarantine: of each owner one, which holds rows of all other kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clickcurve.buckets.quarantine import AnyRow, decode_quarantined
from clickcurve.keys import QUARANTINE as KEY
from clickcurve.row_kinds.kind import RowKind


@dataclass(frozen=True, slots=True, eq=False)
class _Quarantine(RowKind):
    has_values: bool = True

    def read(self, data: bytes) -> Mapping[str, AnyRow]:
        return decode_quarantined(data)

    def erasure_known(self, data: bytes) -> int:
        return 0

    def emptied(self, data: bytes, erased_at: int) -> bytes:
        return data


QUARANTINE = _Quarantine(KEY, "row")
