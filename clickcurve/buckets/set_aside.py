"""What an owner counted of rows that it cannot read, kept until they can be read again.

A damaged row must not keep the others from being flushed. What a flush would add to it is added to a row that is set
aside: one for each damaged row, all of an owner together under one stored key, as JSON with the rows in base64. Marks
make that exact: a row that is set aside has the mark of the last flush in it. It is added to the row that it stands in
for by a later flush, which gives that one its own mark. A row that has the mark of a flush has all that was set aside.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

from clickcurve.buckets import codec
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.row import Row


def encode_set_aside(rows: Mapping[str, Row]) -> bytes:
    """Returns the bytes of an owner's rows that are set aside, by stored key."""
    return json.dumps({key: b64encode(codec.encode(rows[key])).decode() for key in sorted(rows)}).encode()


def decode_set_aside(data: bytes) -> dict[str, Row]:
    """Returns the rows, by stored key. Raises RowCorrupt."""
    try:
        return {str(key): codec.decode(b64decode(row, validate=True)) for key, row in json.loads(data).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise RowCorrupt(f"not a list of rows that are set aside: {error}") from error
