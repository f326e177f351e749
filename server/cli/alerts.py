"""`clickcurve alerts`: sends test messages, and says when alerts would have fired."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from clickcurve.answers.counts import PointAnswer
from clickcurve.buckets.measures import measured
from clickcurve.keys import group_of, link_of
from query.parameters import MEASURES
from server import clock
from server.alerts.condition import Hindsight
from server.alerts.message import TEST, AlertMessage, span_end
from server.alerts.watching import new_message_id, ways_of
from server.alerts.webhook import NotDelivered
from server.cli.client.api import NamedServer, group_path, link_path
from server.cli.client.draw import range_text
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
      clickcurve alerts try --config clickcurve.toml --last 90d
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
    sent = asyncio.run(_tested(settings, _named(settings, names)))
    lines = [f"{one['alert']}, by {one['way']}: {'sent' if one['sent'] else one['reason']}" for one in sent]
    return Result(lines, sent, 0 if all(one["sent"] for one in sent) else FAILED)


def _named(settings: Settings, names: tuple[str, ...]) -> list[Alert]:
    """Returns the alerts of these names, all of them without a name."""
    alerts = [alert for alert in settings.alerts if not names or alert.name in names]
    if missing := set(names) - {alert.name for alert in alerts}:
        raise Failed(f"there is no alert {sorted(missing)[0]!r} in the settings", USAGE)
    if not alerts:
        raise Failed("the settings have no alerts: name the file with [[alerts]] by --config", USAGE)
    return alerts


@alerts_command.command("try")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--last", default="90d", show_default=True, help="The last N units: 24h 7d 8w 12mo 2y.")
@with_settings("url", "token", "config")
def try_alerts(settings: Settings, names: tuple[str, ...], last: str) -> Result:
    """Say when each alert, or those named, would have fired, by the hits that a server keeps.

    A condition is judged at the end of each minute, and by the hits of now: those that were reported late are in it.
    Where only buckets are kept that are too wide for the condition, the time is listed as unknown. Times are UTC.

    \b
    Examples:
      clickcurve alerts try --config clickcurve.toml
      clickcurve alerts try --config clickcurve.toml 'launch is hot' --last 12mo
    """
    with NamedServer(settings) as server:
        tried = [_tried(server, alert, last) for alert in _named(settings, names)]
    return Result((line for one in tried for line in _tried_lines(one)), tried)


def _tried(server: NamedServer, alert: Alert, last: str) -> dict[str, Any]:
    measure, clicks = measured(alert.stored)
    counted = {"event": measure.event, "measure": MEASURES[measure.of_values]} if measure.event else {}
    asked = server.ask(_path_of(clicks, "total"), {"last": last, **counted})
    since = max(0, asked["from"] - 2 * alert.condition.length_s)
    curve = server.ask(_path_of(clicks, "curve"), {"from": since, "to": asked["to"], "step": "native", **counted})
    points = msgspec.convert(curve["points"], list[PointAnswer])
    until = min(asked["to"], span_end(int(clock.now())))
    periods = Hindsight(alert.condition, points, curve["first_hit"]).periods(asked["from"], until)
    return {
        "alert": alert.name,
        "of": alert.subject,
        "when": alert.when,
        "from": asked["from"],
        "to": until,
        "periods": [
            {"from": each.start, "to": each.end, "state": "unknown" if each.met is None else "firing"}
            for each in periods
            if each.met is not False
        ],
    }


def _path_of(clicks: str, question: str) -> str:
    """Returns the path of a question about a row of clicks."""
    link, group = link_of(clicks), group_of(clicks)
    return link_path(link, question) if group is None else group_path(group, question)


def _tried_lines(tried: dict[str, Any]) -> Iterator[str]:
    """Yields the alert, then each time in which it fires or may fire."""
    utc, periods = "UTC", tried["periods"]
    yield f"{tried['alert']}: {tried['of']}, {tried['when']}, {range_text(tried, utc)}"
    for each in periods:
        why = "" if each["state"] == "firing" else ": the buckets that are kept are too wide"
        yield f"  {each['state']:<7}  {range_text(each, utc)}{why}"
    fired = sum(each["state"] == "firing" for each in periods)
    unknown = " beside the unknown" if fired < len(periods) else ""
    yield f"  it would have fired {fired:,} time{'' if fired == 1 else 's'}{unknown}"


async def _tested(settings: Settings, alerts: list[Alert]) -> list[dict[str, object]]:
    ways = ways_of(settings, clock.now)
    sent: list[dict[str, object]] = []
    for alert in alerts:
        message = AlertMessage(new_message_id(), TEST, int(clock.now()), alert, ())
        for way in alert.ways:
            reason = None
            try:
                await ways.send(message, way)
            except NotDelivered as error:
                reason = error.detail
            sent.append({"alert": alert.name, "way": way, "sent": reason is None, "reason": reason, "id": message.id})
    return sent
