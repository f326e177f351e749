"""Which links an expression of another tool means: those whose keys match, or those with the most hits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from clickcurve.buckets.measures import CLICKS, Measure
from clickcurve.budget import KEYS, ROWS, spend
from query.parameters import BY_KEY, MAX_TOP, Parameters
from query.queries import Queries

MOST_LOOKED_AT = 10_000  # keys that are compared for one expression
LEAST_RANKED = 100  # rows that a ranking reads at least


async def matching_keys(
    queries: Queries,
    matches: Callable[[str], Awaitable[bool]],
    most: int,
    prefix: str = "",
    of_groups: bool = False,
    measure: Measure = CLICKS,
) -> tuple[list[str], bool]:
    """Returns the first links or groups that match, in their order, and whether there may be more.

    measure: an event, for those alone that have any.
    """
    matching: list[str] = []
    after: str | None = None
    for _ in range(MOST_LOOKED_AT // MAX_TOP):
        await spend(KEYS, MAX_TOP)
        asked = Parameters(sort=BY_KEY, prefix=prefix, after=after, limit=MAX_TOP, measure=measure)
        page = await queries.key_page(asked, of_groups)
        matching += [key for key, _ in page.links if await matches(key)]
        after = page.after
        if after is None or len(matching) > most:
            break
    return matching[:most], after is not None or len(matching) > most


async def greatest_links(
    queries: Queries, start: int, end: int, n: int, measure: Measure = CLICKS
) -> list[tuple[str, int]]:
    """Returns the n links with the most hits in a range, with these, without reading each link."""
    await spend(ROWS, max(LEAST_RANKED, n))
    return (await queries.top(Parameters(start=start, end=end, limit=n, measure=measure))).links
