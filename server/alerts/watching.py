"""Joins the parts of alerts and of the weekly report as the settings say."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.why import ChangeQueries
from query.queries import Queries
from query.zones import zone
from server import clock
from server.alerts.cause import CauseFinder
from server.alerts.ledger import Ledger, Noted
from server.alerts.mail import MailServer
from server.alerts.message import Ways, bounds_text
from server.alerts.report import WeeklyReport
from server.alerts.watch import AlertWatch
from server.alerts.webhook import Webhooks, webhook_client
from server.job import DutyWork, Job
from server.metrics import Family, Sample
from server.settings.alerts import Alert
from server.settings.table import Settings
from server.timeline.known_notes import KnownNotes
from server.timeline.note import NoteKind
from storage.contract import Store

ALERTS_S = 20
REPORT_S = 600  # it is sent once a week; looks more often, to go on where it failed


FAMILIES = {
    "clickcurve_alerts_firing": Family("Alerts that fire, of those that this node keeps."),
    "clickcurve_alert_messages_total": Family(
        "Messages of alerts by outcome: delivered, failed (sent again), given up.", ("outcome",)
    ),
}


def new_message_id() -> str:
    return f"msg_{secrets.token_hex(12)}"


def ways_of(settings: Settings, now: Callable[[], float]) -> Ways:
    mails = MailServer(settings.smtp, settings.mail_from, settings.smtp_password)
    return Ways(Webhooks(webhook_client, now).send, mails.send, zone(settings.timezone))


class Alerting:
    """The watch over the alerts, and the weekly report; each is idle where the settings name none.

    breakdowns: with the names that strangers may see.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        queries: Queries,
        breakdowns: BreakdownQueries | None,
        trusted: clock.TrustedClock,
        notes: KnownNotes,
    ) -> None:
        changes = None if breakdowns is None else ChangeQueries(queries, breakdowns)
        causes = (
            None if changes is None or breakdowns is None else CauseFinder(changes, breakdowns, settings.page_least)
        )
        ledger, ways = Ledger(store), ways_of(settings, trusted.now)
        times = trusted.now, new_message_id, trusted.careful, clock.running
        self._watch = AlertWatch(settings.alerts, queries, ledger, ways, causes, *times, self._mark)
        self._notes = notes
        why, self._addresses = None if changes is None else changes.why, settings.weekly_report
        self._report = WeeklyReport(self._addresses, queries, why, ledger, ways.mail, trusted.careful, ways.zone)
        self._alerts = settings.alerts

    async def _mark(self, alert: Alert, noted: Noted) -> None:
        """Notes beside the hits of an alert that it fires."""
        text = f"{alert.name}: {alert.when}, {bounds_text(*noted.counted[:2])} hits"
        await self._notes.write_own(NoteKind.alert, alert.stored, text, note_id=f"alert-{noted.id}", at=noted.at)

    def jobs(self) -> Iterator[Job]:
        """Yields the jobs that the settings ask for: duties, of one process for all."""
        if self._alerts:
            work = DutyWork([f"{each.source} {each.url} {each.mail}" for each in self._alerts], self._watch.close)
            yield Job("alerts", self._watch.visit, ALERTS_S, at_start=False, duty=work)
        if self._addresses:
            work = DutyWork(self._addresses)
            yield Job("weekly_report", self._report.visit, REPORT_S, at_start=False, duty=work)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        yield Sample("clickcurve_alerts_firing", sum(self._watch.firing.values()))
        for outcome, many in self._watch.messages.items():
            yield Sample("clickcurve_alert_messages_total", many, (outcome,))

    async def close(self) -> None:
        """Ends what is under way."""
        await self._watch.close()
