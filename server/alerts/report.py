"""Reports by mail: the hits of the last week or month, beside those before, what changed, and what they are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clickcurve.answers.breakdowns import WhyAnswer
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.buckets.measures import measures_of
from clickcurve.keys import ALL, ALL_LINKS, Subject, group_of, group_subject, link_key, link_of, link_subject
from clickcurve.visible import visible
from dashboard.page.audience.differences import difference_of
from dashboard.page.view import PageView
from query.parameters import MAX_TOP, Parameters, Window
from query.queries import Queries
from query.steps import STEPS
from query.zones import MONTH, UTC_ZONE, WEEK, Calendar, Zone
from server.alerts.ledger import ChangedElsewhere, Ledger, Noted
from server.alerts.mail import Mail
from server.settings.events import Unit
from server.settings.reports import Every, Report

SENT_AT_S = 6 * HOUR_S  # after the midnight at which the week or month ends
LISTED = 20
CAUSES = 3
_UNITS: dict[Every, Calendar] = {Every.week: WEEK, Every.month: MONTH}


@dataclass(eq=False)
class PeriodicReport:
    """Sends one report each week or month; a kill or a pause meanwhile may repeat it, with the same id.

    The first one is of the week or month in which the server begins to send them.
    why: the question why a total changed, None where hits are not broken down. units: of the events that are counted.
    """

    report: Report
    queries: Queries
    why: Callable[[Subject, bytes], Awaitable[WhyAnswer]] | None
    ledger: Ledger
    mail: Callable[[Mail], Awaitable[None]]
    clock: Callable[[], float]
    zone: Zone = UTC_ZONE
    units: Mapping[str, Unit] = field(default_factory=dict)

    async def visit(self) -> None:
        """Sends the report that is due, if it was not sent yet; raises NotDelivered, and then the next visit tries."""
        now, unit = int(self.clock()), _UNITS[self.report.every]
        begun = unit.start(max(0, now - SENT_AT_S), self.zone)
        try:
            entry = await self.ledger.read(self.report.source)
            # Noted by a clock that was wrong: what was sent is not known.
            is_ahead = entry.noted.at > begun + unit.longest_s
            if entry.noted.at > begun - DAY_S and not is_ahead:
                return  # by less than a day: the week begins at another hour since the zone was changed
            if entry.noted.at and not is_ahead:
                await self.mail(await self._written(begun, unit))
            await self.ledger.write(self.report.source, entry, Noted(at=begun))
        except ChangedElsewhere:
            return  # another process has sent it meanwhile, too

    async def _written(self, end: int, unit: Calendar) -> Mail:
        start, before = unit.back(end - 1, 0, self.zone), unit.back(end - 1, 1, self.zone)
        span, of, every = self._written_span(start, end), self._of(), self.report.every
        if self.report.prefix:
            hits, hits_before = await self._hits_of_prefix(start, end), await self._hits_of_prefix(before, start)
        else:
            hits, hits_before = [
                await self._hits(self.report.stored, *each) for each in ((start, end), (before, start))
            ]
        lines = [f"Hits of people{of} from {span} ({self.zone.name}): {hits}; the {every} before: {hits_before}.", ""]
        if not self.report.prefix:
            lines += await self._what_came(before, start, end)
            lines += await self._what_changed(before, start, end)
        lists = self.report.prefix or self.report.stored == ALL_LINKS
        lines += await (self._links(before, start, end) if lists else self._days(start, end))
        own = "" if self.report.stored == ALL_LINKS and not of and every is Every.week else f"-{self.report.source}"
        return Mail(f"report-{start}{own}", self.report.mail, f"Clickcurve: hits{of} from {span}", _text(lines), end)

    def _of(self) -> str:
        """Returns what the report is of, for its first sentence; empty for all links."""
        report = self.report
        return f" of {report.subject}" if report.prefix or report.stored != ALL_LINKS else ""

    async def _what_came(self, before: int, start: int, end: int) -> list[str]:
        """Returns a line for each event, with those of the time before."""
        lines = []
        for event in self.units:
            now, earlier = [await self._event(event, *each) for each in ((start, end), (before, start))]
            lines.append(f"{event}: {now}; the {self.report.every} before: {earlier}.")
        return [*lines, ""] if lines else []

    async def _event(self, event: str, start: int, end: int) -> str:
        events, values = [measure.row(self.report.stored) for measure in measures_of(event)]
        count, amount = await self._hits(events, start, end), await self.queries.total_in(values, start, end)
        worth = self.units[event].between(amount.at_least, amount.at_most)
        return f"{count} ({worth})" if amount.at_most else count

    async def _what_changed(self, before: int, start: int, end: int) -> list[str]:
        """Returns a sentence and the values and links that moved the total; nothing where that is not certain."""
        if self.why is None:
            return []
        query = f"from={start}&to={end}&before_from={before}&before_to={start}&limit={CAUSES}"
        why = await self.why(_subject_of(self.report.stored), query.encode())
        difference = difference_of(why, PageView(), self.zone.info)
        if difference is None:
            return []
        causes = [
            f"{name}: {', '.join(f'{cause.text} {cause.change.text}' for cause in each)}"
            for name, each in difference.causes.items()
        ]
        return ["What changed", *filter(None, [difference.explained]), *causes, ""]

    async def _links(self, before: int, start: int, end: int) -> list[str]:
        """Returns the links with the most hits, each with those of the time before."""
        asked = Parameters(start=start, end=end, limit=LISTED, prefix=self.report.prefix)
        top, every = (await self.queries.top(asked)).links, self.report.every
        lines = [
            f"{count:>12,}  {visible(key)}  (the {every} before: {await self._hits(link_key(key), before, start)})"
            for key, count in top
        ]
        return lines or ["No link was hit."]

    async def _days(self, start: int, end: int) -> list[str]:
        """Returns the hits of each day, or of what is kept in place of days."""
        curve = await self.queries.curve_in(self.report.stored, Window(start, end, STEPS["1d"], self.zone))
        return [
            f"{point.count:>12,}  {self._written_span(point.start, point.end)}" for point in curve.answer(None).points
        ]

    async def _hits(self, stored: str, start: int, end: int) -> str:
        span = await self.queries.total_in(stored, start, end)
        return f"{span.at_most:,}" if span.exact else f"{span.at_least:,} to {span.at_most:,}"

    async def _hits_of_prefix(self, start: int, end: int) -> str:
        """Returns the sum of the links of the prefix; only of the greatest, if a list cannot hold all."""
        asked = Parameters(start=start, end=end, limit=MAX_TOP, prefix=self.report.prefix)
        links = (await self.queries.top(asked)).links
        total = f"{sum(count for _, count in links):,}"
        return total if len(links) < MAX_TOP else f"{total} by the {MAX_TOP:,} links with the most"

    def _written_span(self, start: int, end: int) -> str:
        days = dict.fromkeys((self._written_day(start), self._written_day(end - 1)))
        return " to ".join(days)

    def _written_day(self, t: int) -> str:
        return datetime.fromtimestamp(t, self.zone.info).strftime("%d %B %Y")


@dataclass(eq=False)
class Reports:
    """All reports that the settings name."""

    reports: Sequence[PeriodicReport]

    async def visit(self) -> None:
        """Sends each report that is due; raises the first error, when all were tried."""
        errors = []
        for each in self.reports:
            try:
                await each.visit()
            except ClickcurveError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _subject_of(stored: str) -> Subject:
    link, group = link_of(stored), group_of(stored)
    return ALL if link is group is None else link_subject(link) if link is not None else group_subject(group or "")


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
