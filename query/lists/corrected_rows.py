"""The rows of a list some hits of which are called bots: read one by one, where they may be on the page."""

from __future__ import annotations

from typing import Protocol

from clickcurve.buckets.row import Row


class ReadCorrected(Protocol):
    """Reads the row of a stored key if some of its hits are called bots; else None. Is `query.reader.Reader`'s."""

    async def __call__(self, key: str, now: int, *, since: int = 0) -> Row | None: ...


async def nothing_corrected(key: str, now: int, *, since: int = 0) -> Row | None:
    """Returns None: no hits are called bots."""
    return None
