"""Work on all buffered links, in steps: there can be 300,000, and the event loop has its turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias, TypeVar

STEP = 1_000  # some 0.1 ms

# Yields tables of the names of links or groups that have hits which may not be in the store. The most that these may be
# is the sum of what all tables say of a name. It may be taken in steps, and the tables are the caller's.
Buffered: TypeAlias = Callable[[], Iterable[dict[str, int]]]

T = TypeVar("T")


async def in_steps(values: Iterable[T], size: int = STEP) -> AsyncIterator[list[T]]:
    """Yields the values in lists, after each of which the loop has its turn."""
    rest = iter(values)
    while some := list(islice(rest, size)):
        yield some
        await asyncio.sleep(0)


async def summed_in_steps(tables: Iterable[dict[str, int]]) -> dict[str, int]:
    """Returns the sum of each name's counts, in the first table that has any."""
    sums: dict[str, int] = {}
    for table in tables:
        if not sums:
            sums = table
            await asyncio.sleep(0)
            continue
        async for some in in_steps(table.items()):
            for name, count in some:
                sums[name] = sums.get(name, 0) + count
    return sums


async def at_least(counts: Mapping[str, int], least: int) -> list[str]:
    """Returns the names with a count of `least` or more."""
    names: list[str] = []
    async for some in in_steps(counts.items(), 10 * STEP):
        names += [name for name, count in some if count >= least]
    return names
