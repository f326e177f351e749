"""The hits of the last minutes: what a page asks again and again to be live."""

from __future__ import annotations

from clickcurve.answers.counts import NowAnswer
from clickcurve.buckets.ladder import MINUTE_S, Ladder
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.row import Row

_MINUTES, _FEW = 30, 5
RECENT_S = _MINUTES * MINUTE_S


def recent_hits(row: Row, name: str | None, bots: Bots, now: int, ladder: Ladder) -> NowAnswer:
    """Returns the hits of the minute that holds now and of those before, of a current row.

    Where no minutes are kept, wider buckets count whole in each minute that they hold.
    """
    end = now - now % MINUTE_S + MINUTE_S
    few, many = (total(row, max(0, end - n * MINUTE_S), end, bots, ladder) for n in (_FEW, _MINUTES))
    ends = range(end - RECENT_S + MINUTE_S, end + 1, MINUTE_S)
    minutes = [total(row, max(0, at - MINUTE_S), at, bots, ladder).at_most for at in ends]
    return NowAnswer(name, now, few.at_most, many.at_most, few.exact and many.exact, minutes)
