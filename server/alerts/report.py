"""The weekly report: how many hits the last week had, beside the week before, what changed, and the greatest links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from clickcurve.answers import WhyAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import ALL, ALL_LINKS, Subject, link_key
from clickcurve.visible import visible
from dashboard.page.audience.differences import difference_of
from dashboard.page.view import PageView
from query.parameters import Parameters
from query.queries import Queries
from query.zones import UTC_ZONE, WEEK, Zone
from server.alerts.ledger import ChangedElsewhere, Ledger, Noted
from server.alerts.mail import Mail

SOURCE = "weekly-report"
SENT_AT_S = 6 * HOUR_S  # after Monday's midnight
WEEK_S = 7 * DAY_S
LISTED = 20
CAUSES = 3


@dataclass(eq=False)
class WeeklyReport:
    """Sends each week's report once; a kill or a pause meanwhile may repeat it, with the same id.

    The first one is of the week in which the server begins to send them.
    why: the question why a total changed, None where hits are not broken down.
    """

    to: tuple[str, ...]
    queries: Queries
    why: Callable[[Subject, bytes], Awaitable[WhyAnswer]] | None
    ledger: Ledger
    mail: Callable[[Mail], Awaitable[None]]
    clock: Callable[[], float]
    zone: Zone = UTC_ZONE

    async def visit(self) -> None:
        """Sends the report that is due, if it was not sent yet; raises NotDelivered, and then the next visit tries."""
        now = int(self.clock())
        week = WEEK.start(max(0, now - SENT_AT_S), self.zone)
        try:
            entry = await self.ledger.read(SOURCE)
            is_ahead = entry.noted.at > week + WEEK_S  # noted by a clock that was wrong: what was sent is not known
            if entry.noted.at > week - DAY_S and not is_ahead:
                return  # by less than a day: the week begins at another hour since the zone was changed
            if entry.noted.at and not is_ahead:
                await self.mail(await self._report(week))
            await self.ledger.write(SOURCE, entry, Noted(at=week))
        except ChangedElsewhere:
            return  # another process has sent it meanwhile, too

    async def _report(self, end: int) -> Mail:
        start, before = WEEK.back(end - 1, 0, self.zone), WEEK.back(end - 1, 1, self.zone)
        week = f"{self._written_day(start)} to {self._written_day(end - 1)}"
        hits, hits_before = await self._hits(ALL_LINKS, start, end), await self._hits(ALL_LINKS, before, start)
        top = await self.queries.top(Parameters(start=start, end=end, limit=LISTED))
        lines = [f"Hits of people from {week} ({self.zone.name}): {hits}; the week before: {hits_before}.", ""]
        lines += await self._what_changed(before, start, end)
        lines += [
            f"{count:>12,}  {visible(key)}  (the week before: {await self._hits(link_key(key), before, start)})"
            for key, count in top.links
        ]
        text = "\n".join(lines if top.links else [*lines, "No link was hit."]) + "\n"
        return Mail(f"report-{start}", self.to, f"Clickcurve: hits from {week}", text, end)

    async def _what_changed(self, before: int, start: int, end: int) -> list[str]:
        """Returns a sentence and the values and links that moved the total; nothing where that is not certain."""
        if self.why is None:
            return []
        query = f"from={start}&to={end}&before_from={before}&before_to={start}&limit={CAUSES}"
        difference = difference_of(await self.why(ALL, query.encode()), PageView(), self.zone.info)
        if difference is None:
            return []
        causes = [
            f"{name}: {', '.join(f'{cause.text} {cause.change.text}' for cause in each)}"
            for name, each in difference.causes.items()
        ]
        return ["What changed", *filter(None, [difference.explained]), *causes, ""]

    async def _hits(self, stored: str, start: int, end: int) -> str:
        span = await self.queries.total_in(stored, start, end)
        return f"{span.at_most:,}" if span.exact else f"{span.at_least:,} to {span.at_most:,}"

    def _written_day(self, t: int) -> str:
        return datetime.fromtimestamp(t, self.zone.info).strftime("%d %B %Y")
