"""Counts without dates, of many links, on their way to a target: each installation's are taken once.

What came to a total since it was taken over cannot be told from what was there, for neither has a date. So the totals
of one installation are one source: the same ones again add nothing, and other ones are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from ingest.batch import SourceStep
from ingest.imports.chunk import Chunk
from ingest.imports.importer import ImportSummary
from ingest.imports.products.takeover import history_bytes
from ingest.imports.retry import Sender
from ingest.imports.target import ImportRefused

_LINES_AT_ONCE = 20_000


async def send_openings(sender: Sender, name: str, openings: Mapping[str, int], summary: ImportSummary) -> None:
    """Sends the openings that are not counted yet; raises ImportRefused if the name was used for other ones."""
    lines = [history_bytes({"key": key, "opening": count}) for key, count in openings.items()]
    if not lines:
        return
    digest = blake2b(b"".join(lines), digest_size=16).hexdigest()
    kept = await sender.offset(name)
    if kept.offset and kept.tail != digest:
        raise ImportRefused(
            "totals without dates were taken over before, and these are others: what came since cannot be told from "
            "what was counted then. With --label NAME they are those of another installation, and count beside",
            value=name,
        )
    summary.from_byte = kept.offset
    at = 0
    for first in range(0, len(lines), _LINES_AT_ONCE):
        data = b"".join(lines[first : first + _LINES_AT_ONCE])
        start, at = at, at + len(data)
        if start < kept.offset:
            continue
        summary.lines += data.count(b"\n")
        summary.add_taken(await sender.send(Chunk(SourceStep(name, start, at, digest), history=data)))
    summary.to_byte = at
