"""The rows of what is called bots, of all keys of a list that have one: few, and read before any list is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from clickcurve.buckets.row import Row

MovedRows: TypeAlias = Callable[[int], Awaitable[Mapping[str, Row]]]  # of now: by the stored key that is corrected


async def no_moved_rows(now: int) -> Mapping[str, Row]:
    """Returns none: nothing is called bots."""
    return {}
