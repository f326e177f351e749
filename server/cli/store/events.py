"""`clickcurve events list|delete`: what a store holds of events, and forgetting one that is counted no more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from server import clock
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import Result, reports
from server.cli.store.inspect import opened, reading
from server.events.deleting import Deletion, EventSums, sums_of_events
from server.events.known_events import noted_names
from server.process.kept_clock import open_clock
from server.settings.table import Settings

WAIT_S, LOOK_S = 60, 0.5  # for the servers of the store


@reports("list")
@with_settings("data", "store", "ladder", "config", "events_names")
def list_events(settings: Settings) -> Result:
    """List events: whether the settings count it, its hits, the sum of its values, and its links.

    The numbers are those of all links, as they were counted; what a running server has not flushed yet is missing.

    \b
    Examples:
      clickcurve events list --data /var/lib/clickcurve
    """
    with reading(settings) as (store, _):
        found, names = sums_of_events(store), {*noted_names(store), *settings.events_names}
    events = [_event(settings, name, found.get(name, EventSums())) for name in sorted(names)]
    return Result(map(_line, events) if events else ["no event is counted, and none is stored"], events)


@reports("delete")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@with_settings("data", "store", "ladder", "config", "events_names")
def delete_event(settings: Settings, name: str, dry_run: bool) -> Result:
    """Delete all that was counted of the event NAME, of all links and groups.

    Take it out of the settings and start the servers again first. Clicks stay as they are. The servers of the store
    go on meanwhile: each moves what it holds into the store, which is waited for.

    \b
    Examples:
      clickcurve events delete lead --dry-run
      clickcurve events delete lead
    """
    if name in settings.events_names:
        raise Failed(f"the settings still count {name}: take it out of events_names, and start the servers again")
    with opened(settings.store, settings.ladder, read_only=dry_run) as store:
        if name not in (names := noted_names(store)):
            raise Failed(f"the store has no event {name!r}; events: {', '.join(sorted(names)) or 'none'}")
        event = _event(settings, name, sums_of_events(store).get(name, EventSums()))
        if dry_run:
            return Result([f"would be deleted: {_line(event)}"], [event | {"deleted": False}])
        deletion = Deletion(store, name)
        try:
            _wait(deletion, name)
        except Failed:
            deletion.end(is_deleted=False)
            raise
        deletion.erase(int(open_clock(settings).careful()) * 1_000_000)
        deletion.end(is_deleted=True)
    return Result([f"deleted: {_line(event)}"], [event | {"deleted": True}])


def _wait(deletion: Deletion, name: str) -> None:
    """Waits until no owner holds hits of an event; raises Failed where that does not come."""
    until = clock.monotonic() + WAIT_S
    while waiting := deletion.waiting():
        if clock.monotonic() > until:
            owners = ", ".join(f"{each.owner} ({each.place})" for each in waiting)
            raise Failed(
                f"nothing was deleted: these owners are open and may hold hits of {name}, but do not answer: {owners};"
                " start their servers, or retire them with `clickcurve owners retire`"
            )
        clock.pause(LOOK_S)
    if counting := deletion.counting():
        owners = ", ".join(map(str, counting))
        raise Failed(f"nothing was deleted: servers still count {name}, those of the owners {owners}")


def _event(settings: Settings, name: str, sums: EventSums) -> dict[str, Any]:
    return {"event": name, "counted": name in settings.events_names, **asdict(sums)}


def _line(event: dict[str, Any]) -> str:
    counted = "" if event["counted"] else "; counted no more"
    return (
        f"{event['event']}: {event['people']:,} of people, {event['bots']:,} of bots, values {event['value']:,}, "
        f"of {event['links']:,} links{counted}"
    )
