"""The curve of a set of links: each row is read by itself, and its points and bounds are added.

So the bounds are narrower than those of one common row: each link's first and last hit shows on which side of
a cut its hits lie.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import astuple, replace
from operator import add

from clickcurve.buckets.disavowed import Disavowed
from clickcurve.buckets.errors import BodyUnreadable, ParameterInvalid, shown
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.ranges import Bots, Span
from clickcurve.buckets.row import Row, fold
from clickcurve.budget import POINTS, spend
from clickcurve.keys import require_key
from query.curve import Curve, Grids, counts_along
from query.parameters import Parameters, Window, resolve_until
from query.reader import HEAD, Reader

MAX_KEYS = 1_000
KEYS_RULE = f"a list of at most {MAX_KEYS:,} keys"
BODY_BYTES = 4 << 20  # a thousand keys of a thousand bytes, all of them escaped
_ROWS_AT_ONCE = 16  # some milliseconds of work without a turn for others


def keys_to_sum(body: bytes) -> list[str]:
    """Returns the keys that a body names, a JSON object with `keys`; raises BodyUnreadable, ParameterInvalid."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise BodyUnreadable("the body is not JSON", rule='{"keys": [...]}') from None
    if not isinstance(asked, dict):
        raise BodyUnreadable("the body is not a JSON object", rule='{"keys": [...]}')
    for name in asked.keys() - {"keys"}:
        raise ParameterInvalid(f"{shown(name)} is not known here", field=name, value=asked[name], rule="keys")
    keys = asked.get("keys")
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        what = f"names {len(keys):,} keys" if isinstance(keys, list) else "is not a list"
        raise ParameterInvalid(f"keys {what}", field="keys", value=keys, rule=KEYS_RULE)
    return [require_key(key, ParameterInvalid) for key in keys]


async def sum_of_rows(
    reader: Reader,
    grids: Grids,
    stored: Sequence[str],
    parameters: Parameters,
    now: int,
    window: Window | None,
    since: int,
) -> Curve:
    """Returns the curve of these stored rows together; window and since are those of one row's curve."""
    if window is None:
        heads = [row async for row in _current_rows(reader, stored, now, since=HEAD)]
        window, since = resolve_until(parameters, _earliest(heads)), 0
    day, again, called = fold_day(now), True, list[Disavowed]()
    while again:
        again = False
        grid = await grids.grid(window, reader.ladder, day)
        for each in called:
            grid = grid.without(each.cuts)
        sum_ = Curve(grid, grid.open_from(now), [0] * max(0, len(grid.edges) - 1), Span(0, 0, 0), None)
        async for row in _current_rows(reader, stored, now, since=since, bots=parameters.bots is not Bots.exclude):
            if row.fold_day > day:  # another owner's clock is ahead: its row says which buckets are kept
                day, again = row.fold_day, True
                break
            if (
                row.disavowed is not None
                and parameters.bots is not Bots.include
                and any(map(row.disavowed.cuts, grid.edges))
            ):
                called.append(row.disavowed)  # one of its buckets is cut: all links get one point there
                again = True
            await spend(POINTS, len(grid.edges))
            sum_ = _with_row(sum_, fold(row, day, reader.ladder), parameters.bots, reader.ladder)
    return sum_


def _with_row(sum_: Curve, row: Row, bots: Bots, ladder: Ladder) -> Curve:
    counts, span = counts_along(row, sum_.grid, bots, ladder)
    return replace(
        sum_,
        counts=list(map(add, sum_.counts, counts)),
        span=Span(*map(add, astuple(sum_.span), astuple(span))),
        first=_earliest((sum_, row)),
    )


def _earliest(some: Iterable[Curve | Row]) -> int | None:
    return min((each.first for each in some if each.first is not None), default=None)


async def _current_rows(
    reader: Reader, stored: Sequence[str], now: int, *, since: int, bots: bool = True
) -> AsyncIterator[Row]:
    """Yields the current rows, some read at once; others have their turn in between."""
    for at in range(0, len(stored), _ROWS_AT_ONCE):
        keys = stored[at : at + _ROWS_AT_ONCE]
        for row in await asyncio.gather(*(reader.row(key, now, since=since, bots=bots) for key in keys)):
            yield row
        await asyncio.sleep(0)
