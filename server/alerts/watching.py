"""Joins the parts of alerts and of reports as the settings say."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from clickcurve.buckets.measures import clicks_row
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.why import ChangeQueries
from query.queries import Queries
from query.zones import zone
from server import clock
from server.alerts.cause import CauseFinder
from server.alerts.ledger import Ledger, Noted
from server.alerts.mail import MailServer
from server.alerts.message import Ways, bounds_text, span_end
from server.alerts.report import PeriodicReport, Reports
from server.alerts.watch import AlertWatch
from server.alerts.webhook import Webhooks, webhook_client
from server.job import DutyWork, Job
from server.metrics import Family, Sample
from server.settings.alerts import Alert, Shape
from server.settings.reports import weekly_report
from server.settings.table import Settings
from server.timeline.known_notes import KnownNotes
from server.timeline.note import NoteKind
from storage.contract import Store

ALERTS_S = 20
REPORT_S = 600  # one is sent once a week or month; looks more often, to go on where it failed


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


def _work_of(alert: Alert) -> str:
    """Says what an alert asks for; the usual shape is left out, as versions that knew no other did."""
    shape = () if alert.shape is Shape.standard else (alert.shape.value,)
    return " ".join((alert.source, alert.url, str(alert.mail), *shape))


class Alerting:
    """The watch over the alerts, and the reports; each is idle where the settings name none.

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
        why = None if changes is None else changes.why
        asked = (*weekly_report(settings.weekly_report), *settings.reports)
        units = {name: settings.unit(name) for name in settings.events_names}
        parts = queries, why, ledger, ways.mail, trusted.careful, ways.zone, units
        self._reports = Reports([PeriodicReport(each, *parts) for each in asked])
        self._settings = settings

    async def _mark(self, alert: Alert, noted: Noted) -> None:
        """Notes beside the hits of an alert that it fires."""
        text = f"{alert.name}: {alert.when}, {bounds_text(*noted.counted[:2])}"
        row = clicks_row(alert.stored)
        end = span_end(noted.at)
        span = end - alert.condition.length_s, end
        await self._notes.write_own(NoteKind.alert, row, text, note_id=f"alert-{noted.id}", at=noted.at, span=span)

    def jobs(self) -> Iterator[Job]:
        """Yields the jobs that the settings ask for: duties, of one process for all."""
        settings = self._settings
        if settings.alerts:
            work = DutyWork([*map(_work_of, settings.alerts)], self._watch.close)
            yield Job("alerts", self._watch.visit, ALERTS_S, at_start=False, duty=work)
        if self._reports.reports:
            work = DutyWork([*settings.weekly_report, *(f"{each.source} {each.mail}" for each in settings.reports)])
            # Named as in versions that had no other: so one process of either version sends them.
            yield Job("weekly_report", self._reports.visit, REPORT_S, at_start=False, duty=work)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        yield Sample("clickcurve_alerts_firing", sum(self._watch.firing.values()))
        for outcome, many in self._watch.messages.items():
            yield Sample("clickcurve_alert_messages_total", many, (outcome,))

    async def close(self) -> None:
        """Ends what is under way."""
        await self._watch.close()
