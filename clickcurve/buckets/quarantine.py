"""What an owner counted of rows that it cannot read, kept until they can be read again.

A damaged row must not keep the others from being flushed. What a flush would add to it is added to a quarantined row.
There is one for each damaged row. All of an owner are stored together under one key, as JSON with the rows in base64; a
breakdown is a list of one, its parts joined. Marks make this exact: a quarantined row has the mark of the last flush
that it includes. Once the damaged row can be read again, the next flush adds the quarantined one to it and gives it its
own mark. So a row with the mark of a flush includes all that was in quarantine.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.breakdowns.parts import Parts, decode_parts, joined_parts, separate_parts
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.row import Row

AnyRow = Row | Parts


def is_row_damaged(data: bytes) -> bool:
    """Returns whether these bytes of counts cannot be read as a row; reads all of them."""
    try:
        codec.decode(data)
    except RowCorrupt:
        return True
    return False


def encode_quarantined(rows: Mapping[str, AnyRow]) -> bytes:
    """Returns the bytes of an owner's quarantined rows, given by stored key."""
    return json.dumps({key: _as_json(rows[key]) for key in sorted(rows)}).encode()


def decode_quarantined(data: bytes) -> dict[str, AnyRow]:
    """Returns the rows, by stored key. Raises RowCorrupt."""
    try:
        return {str(key): _of_json(row) for key, row in json.loads(data).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise RowCorrupt(f"not a list of quarantined rows: {error}") from error


def quarantined_hits(row: AnyRow) -> tuple[int, int]:
    """Returns how many hits of people and of bots a row has, as far as its kind says."""
    if isinstance(row, Row):
        return row.lifetime, row.bots
    breakdown = decode_parts(row)
    recorded = {
        name: sum(bucket.recorded() for tier in tiers for bucket in tier.values())
        for name, tiers in breakdown.dimensions.items()
    }
    bots = max((recorded.pop(name, 0) for name in OF_BOTS), default=0)
    return max(recorded.values(), default=0), bots


def _as_json(row: AnyRow) -> object:
    if isinstance(row, Row):
        return b64encode(codec.encode(row)).decode()
    return [b64encode(joined_parts(row)).decode()]


def _of_json(row: object) -> AnyRow:
    if isinstance(row, list):
        (parts,) = row
        return separate_parts(b64decode(parts, validate=True))
    return codec.decode(b64decode(str(row), validate=True))
