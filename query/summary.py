"""A link at a glance: its life, and the whole days of its last month."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.row import Row
from query.parameters import Parameters
from query.total import lifetime
from query.zones import DAY


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts, and the starts of the minutes of the first and last hit (None: never hit)."""

    lifetime: int
    today: int
    yesterday: int
    last_7d: int
    last_30d: int
    bots: int
    first_hit: int | None
    last_hit: int | None
    opening: int


def make_summary(row: Row, parameters: Parameters, now: int, ladder: Ladder) -> Summary:
    """Returns the summary of a current row.

    Days begin at midnight of the requested zone, and today is among the 7 and the 30. Where such a midnight lies inside
    a kept bucket (a zone that is not whole hours ahead), `last_7d` and `last_30d` count that bucket whole, as a curve
    over them does; between yesterday and the day before it belongs to the latter, as an edge between two points of a
    curve does.
    """
    end = DAY.after(now, parameters.zone)

    def days(n: int) -> int:
        return total(row, DAY.back(now, n - 1, parameters.zone), end, parameters.bots, ladder).total

    yesterday, today = (_edge_up(DAY.back(now, n, parameters.zone), row.fold_day, ladder) for n in (1, 0))
    return Summary(
        lifetime=lifetime(row, parameters.bots),
        today=days(1),
        yesterday=total(row, yesterday, today, parameters.bots, ladder).total,
        last_7d=days(7),
        last_30d=days(30),
        bots=row.bots,
        first_hit=row.first,
        last_hit=row.last,
        opening=0 if parameters.bots is Bots.only else row.opening,
    )


def _edge_up(t: int, fold_day: int, ladder: Ladder) -> int:
    start, end = ladder.kept(t, fold_day)
    return t if t == start else end
