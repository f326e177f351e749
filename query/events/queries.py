"""The questions what came of clicks, from parameters as they are written to answers. Free of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clickcurve.answers.events import EventsAnswer, EventsByAnswer, Within
from clickcurve.buckets.breakdowns.answers import Bounds
from clickcurve.buckets.measures import CLICKS, measures_of
from clickcurve.buckets.ranges import total
from clickcurve.buckets.row import Row
from clickcurve.keys import Subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.unrecorded import series_of
from query.breakdowns.values import count_values
from query.counted import KnownEvents
from query.events.rates import EventCounts, EventValues, events_by, is_exact
from query.parameters import EVENTS, EVENTS_BY, Parameters, parse_parameters, parse_query, resolve_range
from query.reader import HEAD, Reader
from query.total import lifetime


@dataclass(eq=False)
class EventQueries:
    """Answers for a node what came of clicks; all that one answer says is of one moment. clock: epoch seconds.

    breakdowns: None where hits are not broken down. `query` as in `query.queries`, and the same errors are raised.
    """

    reader: Reader
    events: KnownEvents
    clock: Callable[[], float]
    breakdowns: BreakdownQueries | None = None

    async def of(self, subject: Subject, query: bytes) -> EventsAnswer:
        """Returns the events of a subject beside its clicks, in a range or in all time."""
        parameters, now = parse_parameters(parse_query(query, EVENTS)), int(self.clock())
        names = [*self.events.names()]
        keys = _rows(subject, names)
        read = await self.reader.of_one_moment(keys, now, since=0 if parameters.ranged else HEAD)
        span = resolve_range(parameters, now, read.rows[0].first)
        clicks, *counted = (self._count(row, span, parameters) for row in read.rows)
        events = [EventCounts(name, *counted[2 * at : 2 * at + 2]) for at, name in enumerate(names)]
        return EventsAnswer(
            key=subject.name,
            start=None if span is None else span[0],
            end=None if span is None else span[1],
            clicks=Within(*clicks),
            events=[each.answer(clicks) for each in events],
            exact=read.is_settled and is_exact(clicks) and all(each.is_exact for each in events),
        )

    def _count(self, row: Row, span: tuple[int, int] | None, parameters: Parameters) -> Bounds:
        if span is None:
            count = lifetime(row, parameters.bots)
            return Bounds(count, count)
        counted = total(row, *span, parameters.bots, self.reader.ladder)
        return Bounds(counted.at_least, counted.at_most)

    async def by(self, subject: Subject, dimension: str, query: bytes) -> EventsByAnswer:
        """Returns the same of people by the values of a dimension; raises DimensionUnknown."""
        breakdowns = self.breakdowns
        assert breakdowns is not None, "without dimensions the route is switched off"
        parameters, now = parse_parameters(parse_query(query, EVENTS_BY)), int(self.clock())
        names = [*self.events.names()]
        rows, is_settled = await breakdowns.read_of_one_moment(_rows(subject, names), now, dimension, parameters)
        asked = resolve_range(parameters, now, rows[0].counts.first)
        # A clock that was set back may leave rows folded to different days: all are counted in the widest buckets.
        widest = max(rows, key=lambda row: row.counts.fold_day)
        span = None if asked is None else widest.whole_span(*asked)

        def answer() -> EventsByAnswer:
            clicks, *counted = found = [count_values(row, dimension, span) for row in rows]
            events = [EventValues(name, *counted[2 * at : 2 * at + 2]) for at, name in enumerate(names)]
            inside = asked is None or all(
                total(row.counts, *asked, series_of(dimension), row.ladder).at_least == each.total
                for row, each in zip(rows, found, strict=True)
            )
            return events_by(subject.name, clicks, events, parameters.limit, is_settled and inside)

        return await breakdowns.count_all(rows, answer)


def _rows(subject: Subject, names: Sequence[str]) -> list[str]:
    """Returns the stored keys of a subject's clicks, and of each event and its values."""
    measures = [CLICKS, *(measure for name in names for measure in measures_of(name))]
    return [measure.row(subject.stored) for measure in measures]
