"""`clickcurve alerts`: sends a test message on every way that the settings file names."""

from __future__ import annotations

import asyncio

import click

from server import clock
from server.alerts.mail import Mail
from server.alerts.message import TEST, AlertMessage
from server.alerts.watching import mail_server, new_message_id
from server.alerts.webhook import NotDelivered, Webhooks, webhook_client
from server.cli.main import FAILED, USAGE, Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.settings.alerts import Alert
from server.settings.table import Settings


@click.group("alerts", cls=ReportingGroup)
def alerts_command() -> None:
    """Try the alerts of the settings file.

    \b
    Examples:
      clickcurve alerts test --config clickcurve.toml
    """


@alerts_command.command("test")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@with_settings("config", "smtp", "smtp_password", "mail_from")
def test_alerts(settings: Settings, names: tuple[str, ...]) -> Result:
    """Send a test message for each alert, or for those named: by its webhook, by mail, or both.

    The message has the type `alert.test`, and is signed like any other. No server is asked, and nothing is noted.

    \b
    Examples:
      clickcurve alerts test --config clickcurve.toml
      clickcurve alerts test --config clickcurve.toml 'launch is hot'
    """
    alerts = [alert for alert in settings.alerts if not names or alert.name in names]
    if missing := set(names) - {alert.name for alert in alerts}:
        raise Failed(f"there is no alert {sorted(missing)[0]!r} in the settings", USAGE)
    if not alerts:
        raise Failed("the settings have no alerts: name the file with [[alerts]] by --config", USAGE)
    sent = asyncio.run(_tested(settings, alerts))
    lines = [f"{one['alert']}, by {one['way']}: {'sent' if one['sent'] else one['reason']}" for one in sent]
    return Result(lines, sent, 0 if all(one["sent"] for one in sent) else FAILED)


async def _tested(settings: Settings, alerts: list[Alert]) -> list[dict[str, object]]:
    webhooks, mails = Webhooks(webhook_client, clock.now), mail_server(settings)
    sent: list[dict[str, object]] = []
    for alert in alerts:
        message = AlertMessage(new_message_id(), TEST, int(clock.now()), alert, ())
        for way in alert.ways:
            reason = None
            try:
                if way == "url":
                    await webhooks.send(alert.url, alert.secret, message.id, message.body())
                else:
                    text = message.text()
                    await mails.send(Mail(message.id, alert.mail, message.subject_line(), text, message.at))
            except NotDelivered as error:
                reason = error.detail
            sent.append({"alert": alert.name, "way": way, "sent": reason is None, "reason": reason, "id": message.id})
    return sent
