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
from server.alerts.ledger import Ledger
from server.alerts.mail import MailServer
from server.alerts.message import Ways
from server.alerts.report import WeeklyReport
from server.alerts.watch import AlertWatch
from server.alerts.webhook import Webhooks, webhook_client
from server.metrics import Sample
from server.settings.table import Settings
from storage.contract import Store


def new_message_id() -> str:
    return f"msg_{secrets.token_hex(12)}"


def ways_of(settings: Settings, now: Callable[[], float]) -> Ways:
    mails = MailServer(settings.smtp, settings.mail_from, settings.smtp_password)
    return Ways(Webhooks(webhook_client, now).send, mails.send, zone(settings.timezone))


def make_watch(
    settings: Settings,
    store: Store,
    queries: Queries,
    breakdowns: BreakdownQueries | None,
    trusted: clock.TrustedClock,
) -> tuple[AlertWatch, WeeklyReport]:
    """Returns the watch over the alerts, and the weekly report; each is idle where the settings name none.

    breakdowns: with the names that strangers may see.
    """
    changes = None if breakdowns is None else ChangeQueries(queries, breakdowns)
    causes = None if changes is None or breakdowns is None else CauseFinder(changes, breakdowns, settings.page_least)
    ledger, ways = Ledger(store), ways_of(settings, trusted.now)
    watch = AlertWatch(
        settings.alerts, queries, ledger, ways, causes, trusted.now, new_message_id, trusted.careful, clock.running
    )
    why = None if changes is None else changes.why
    return watch, WeeklyReport(settings.weekly_report, queries, why, ledger, ways.mail, trusted.careful, ways.zone)


def samples_of_alerts(watch: AlertWatch) -> Iterator[Sample]:
    """Yields what there is to say of alerts on /metrics."""
    yield Sample("clickcurve_alerts_firing", sum(watch.firing.values()))
    for outcome, many in watch.messages.items():
        yield Sample("clickcurve_alert_messages_total", many, (outcome,))
