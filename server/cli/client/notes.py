"""`clickcurve note`, `clickcurve notes`: what happened at a moment, written and listed beside hits."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from server.cli.client.api import NamedServer, segment_of, with_server
from server.cli.client.read import with_parameters
from server.cli.main import USAGE, Failed
from server.cli.output import Result, reports

_PATH = "/v1/notes"


@reports("note")
@click.argument("text")
@click.option("--key", help="Beside the hits of this link.")
@click.option("--group", help="Beside the hits of this group.")
@click.option("--at", help="When: epoch seconds or ISO 8601, UTC where it has no offset. Default: now.")
@with_server
def note_command(server: NamedServer, text: str, key: str | None, group: str | None, at: str | None) -> Result:
    """Note what happened beside the hits of a link or a group; without --key and --group, of all links.

    Curves, pictures and the page show it at its moment. If the server has tokens, the token needs the scope write.

    \b
    Examples:
      clickcurve note 'The newsletter went out' --key spring-sale
      clickcurve note 'New home page' --at 2026-03-01T09:00+01:00
    """
    meant = {"text": text, "key": key, "group": group, "at": at}
    body = json.dumps({name: value for name, value in meant.items() if value is not None}).encode()
    note = server.send(_PATH, body, {"Content-Type": "application/json"}).json()
    return Result([_line(note, ZoneInfo("UTC"))], [note])


@reports("notes")
@with_parameters("last", "from", "to", "tz")
@click.option("--key", help="Of this link alone.")
@click.option("--group", help="Of this group alone.")
@click.option("--delete", "note_id", metavar="ID", help="Delete the note with this id, and list nothing.")
@with_server
def notes_command(server: NamedServer, note_id: str | None, **flags: Any) -> Result:
    """List what is noted, oldest first: when, of which kind, beside what, and the id.

    \b
    Examples:
      clickcurve notes --last 30d
      clickcurve notes --key spring-sale --tz Europe/Vienna
      clickcurve notes --delete 1f2e3d4c5b6a7988
    """
    if note_id is not None:
        if any(value is not None for name, value in flags.items() if name != "tz"):
            raise Failed("--delete takes an id and nothing else", USAGE)
        server.delete(f"{_PATH}/{segment_of(note_id)}")
        return Result([f"deleted {note_id}"], [{"deleted": note_id}])
    notes = server.ask(_PATH, flags)["notes"]
    zone = ZoneInfo(flags["tz"] or "UTC")
    return Result([_line(each, zone) for each in notes] or ["nothing is noted"], notes)


def _line(note: Any, zone: ZoneInfo) -> str:
    beside = f"link {note['key']}" if note["key"] else f"group {note['group']}" if note["group"] else "all links"
    at = f"{datetime.fromtimestamp(note['at'], zone):%Y-%m-%d %H:%M}"
    return f"{at}  {note['kind']:<7}  {note['text']}  ({beside}; {note['id']})"
