"""A link at a glance: its life, and the whole days of its last month."""

from __future__ import annotations

from clickcurve.answers import SummaryAnswer
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.row import Row
from query.parameters import Parameters
from query.total import lifetime
from query.zones import DAY


def make_summary(row: Row, name: str, parameters: Parameters, now: int, ladder: Ladder) -> SummaryAnswer:
    """Returns the summary of a current row.

    Days begin at midnight of the requested zone, and today is among the 7 and the 30. Where such a midnight lies inside
    a kept bucket (a zone that is not whole hours ahead, hours being kept), that bucket counts whole, and the summary is
    not exact unless it is known on which side of midnight its hits are.
    """
    zone = parameters.zone
    end = DAY.after(now, zone)
    yesterday = total(row, DAY.back(now, 1, zone), DAY.back(now, 0, zone), parameters.bots, ladder)
    today, week, month = (total(row, DAY.back(now, n - 1, zone), end, parameters.bots, ladder) for n in (1, 7, 30))
    return SummaryAnswer(
        key=name,
        lifetime=lifetime(row, parameters.bots),
        today=today.at_most,
        yesterday=yesterday.at_most,
        last_7d=week.at_most,
        last_30d=month.at_most,
        bots=lifetime(row, Bots.only),
        first_hit=row.first,
        last_hit=row.last,
        opening=0 if parameters.bots is Bots.only else row.opening,
        exact=all(span.exact for span in (today, yesterday, week, month)),
    )
