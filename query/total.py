"""A link's totals: for a range with its bounds, for its life, and at a glance with the whole days of its last month."""

from __future__ import annotations

from clickcurve.answers.counts import SummaryAnswer, TotalAnswer, TotalBefore
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span, total
from clickcurve.buckets.row import Row
from query.parameters import Parameters, require_range, resolve_before, resolve_range
from query.zones import DAY


def lifetime(row: Row, bots: Bots) -> int:
    """Returns everything ever counted: people with their opening, bots, or both. The row needs no buckets."""
    if bots is Bots.include:
        return row.lifetime + row.bots
    called = 0 if row.disavowed is None else min(row.disavowed.total, row.lifetime - row.opening)
    return row.bots + called if bots is Bots.only else row.lifetime - called


def make_total(row: Row, name: str | None, parameters: Parameters, now: int, ladder: Ladder) -> TotalAnswer:
    """Returns the total that is requested of a current row."""
    require_range(parameters)
    asked = resolve_range(parameters, now, row.first)
    if asked is None:
        count = lifetime(row, parameters.bots)
        return TotalAnswer(name, None, None, count, count, count, True)
    start, end = asked
    span = total(row, start, end, parameters.bots, ladder)
    if parameters.compare is None:
        return TotalAnswer(name, start, end, *_known(span))
    before = resolve_before(parameters, asked, now, ladder.kept(now, row.fold_day)[1])
    assert before is not None  # a comparison is asked for
    compared = TotalBefore(before[0], before[1], *_known(total(row, *before, parameters.bots, ladder)))
    return TotalAnswer(name, start, end, *_known(span), compared)


def _known(span: Span) -> tuple[int | None, int, int, bool]:
    """Returns the total of a span if it is known, its bounds, and whether they meet."""
    return span.at_most if span.exact else None, span.at_least, span.at_most, span.exact


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
