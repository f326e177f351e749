"""The question why a total changed, from parameters as they are written to the answer. Free of HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.answers.breakdowns import DimensionAnswer, LinkChange, TimeRange, TotalChange, WhyAnswer
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.measures import Measure
from clickcurve.budget import ROWS, spend
from clickcurve.keys import ALL, Subject, link_subject
from query.breakdowns.causes import ComparedSpans, align_spans, count_spans, find_causes, spans_around
from query.breakdowns.queries import BreakdownQueries
from query.comparison import TimeSpan
from query.parameters import WHY, Parameters, parse_before, parse_parameters, parse_query, resolve_before, resolve_range
from query.queries import Queries

_DEFAULT_LAST, _DEFAULT_CAUSES = "7d", "5"
_CANDIDATES = 100  # the links of each span that can have changed most


@dataclass(eq=False)
class ChangeQueries:
    """Answers why totals changed, by the dimensions of people's hits and by links."""

    queries: Queries
    breakdowns: BreakdownQueries

    async def why(self, subject: Subject, query: bytes) -> WhyAnswer:
        """Returns why the total of a range differs from that of the range before it, or of another one."""
        given = parse_query(query, WHY)
        usual = {} if given.keys() & {"from", "to", "last"} else {"last": _DEFAULT_LAST}
        parameters = parse_parameters({"limit": _DEFAULT_CAUSES, **usual, **given})
        given_before = parse_before(given, parameters.zone)
        measure = self.queries.events.checked(parameters.measure)
        now = self.queries.now()
        dimensions = [name for name in self.breakdowns.dimensions if name not in OF_BOTS]
        row = await self.breakdowns.read(measure.row(subject.stored), now, dimensions)
        asked = resolve_range(parameters, now, row.counts.first)
        assert asked is not None  # there is a `last` at least
        now_end = row.bounded.ladder.kept(now, row.counts.fold_day)[1]
        until_now = asked[0], min(asked[1], max(asked[0], now_end))
        if given_before is not None:
            spans = align_spans(row, given_before, asked)
        elif parameters.compare is not None:
            given_before = resolve_before(parameters, asked, now, now_end)
            assert given_before is not None
            spans = align_spans(row, given_before, until_now)
        else:
            spans = spans_around(row, asked, now)

        def causes_by_dimension() -> list[DimensionAnswer]:
            return [find_causes(row, name, spans, parameters.limit) for name in dimensions]

        explained = await self.breakdowns.count(row, causes_by_dimension)
        explained.sort(key=lambda each: -each.explains)
        before, after = (count_spans(row, [span], "") for span in (spans.before, spans.after))
        same_length = spans.after[1] - spans.after[0] == spans.before[1] - spans.before[0]
        is_whole = spans.after == until_now and (same_length if given_before is None else spans.before == given_before)
        return WhyAnswer(
            subject.name,
            *spans.after,
            TimeRange(*spans.before),
            TotalChange(before, after, after - before),
            same_length,
            explained,
            await self._by_link(spans, parameters.limit, measure) if subject == ALL else [],
            is_whole and all(cause.at_least == cause.at_most for each in explained for cause in each.causes),
        )

    async def _by_link(self, spans: ComparedSpans, limit: int, measure: Measure) -> list[LinkChange]:
        """Returns the links that certainly changed most: a change is at most the greater of both counts.

        So no link that is among the first of neither span can have changed by more than the last of these have hits.
        """
        ranked = [await self._ranked(span, measure) for span in (spans.before, spans.after)]
        most_of_others = max(min(each.values()) if len(each) == _CANDIDATES else 0 for each in ranked)
        changes = []
        for key in sorted({*ranked[0], *ranked[1]}):
            before, after = [
                each[key] if key in each else await self._count(key, span, measure)
                for each, span in zip(ranked, (spans.before, spans.after), strict=True)
            ]
            if abs(after - before) > most_of_others:
                changes.append(LinkChange(key, before, after, after - before))
        return sorted(changes, key=lambda each: (-abs(each.change), each.key))[:limit]

    async def _ranked(self, span: TimeSpan, measure: Measure) -> dict[str, int]:
        if span[0] >= span[1]:
            return {}
        return dict((await self.queries.top(Parameters(*span, limit=_CANDIDATES, measure=measure))).links)

    async def _count(self, key: str, span: TimeSpan, measure: Measure) -> int:
        await spend(ROWS)
        return (await self.queries.total_in(measure.row(link_subject(key).stored), *span)).total
