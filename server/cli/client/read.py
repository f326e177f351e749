"""`clickcurve total | curve | top`: questions to a running server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any

import click

from server.cli.client import draw
from server.cli.client.api import Client, link_path
from server.cli.options import Command, with_settings
from server.settings import Settings


def _with_parameters(*names: str) -> Callable[[Command], Command]:
    """Adds flags that are passed on to the server as they are."""
    table = {
        "from": "Start: epoch seconds or ISO 8601 in --tz.",
        "to": "End, not included.",
        "last": "The last N units, the current one included: 60m 24h 7d 8w 12mo 2y.",
        "step": "Width of a point: auto, native, or like 5m 1h 1d 1w 1mo.",
        "tz": "Time zone of days, weeks and months, like Europe/Vienna.",
        "bots": "exclude (default), include or only.",
        "limit": "How many links.",
    }

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = click.option(f"--{name}", f"{name}_", help=table[name])(command)
        return command

    return decorate


def _parameters(flags: dict[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in flags.items()}


def _terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _lacks_blocks() -> bool:
    """Returns whether the terminal lacks block characters."""
    return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)


@click.command("total")
@click.argument("key", required=False)
@_with_parameters("from", "to", "last", "tz", "bots")
@click.option("--json", "as_json", is_flag=True, help="The server's answer as it is.")
@with_settings("url", "token", "config")
def total_command(settings: Settings, key: str | None, as_json: bool, **flags: Any) -> None:
    """Print how often the link KEY was hit; without KEY, all links together.

    Without a range: the link's summary. With one: its total, or the bounds where the range cuts a bucket.

    \b
    Examples:
      clickcurve total launch
      clickcurve total launch --last 7d --tz Europe/Vienna
      clickcurve total --from 2026-01-01 --to 2026-02-01
    """
    query = _parameters(flags)
    ranged = any(query[name] is not None for name in ("from", "to", "last"))
    summary = key is not None and not ranged
    with Client(settings) as client:
        answer = client.get(link_path(key, "" if summary else "total"), query)
    if as_json:
        click.echo(answer.text)
    elif summary:
        _print_lines(draw.link_lines(answer.json()))
    else:
        found = answer.json()
        between = f"between {found['at_least']:,} and {found['at_most']:,} (the range cuts a bucket)"
        click.echo(f"{found['total']:,}" if found["exact"] else between)


@click.command("curve")
@click.argument("key", required=False)
@_with_parameters("last", "from", "to", "step", "tz", "bots")
@click.option("--json", "as_json", is_flag=True, help="The server's answer as it is.")
@click.option("--csv", "as_csv", is_flag=True, help="start,end,count,state")
@with_settings("url", "token", "config")
def curve_command(settings: Settings, key: str | None, as_json: bool, as_csv: bool, **flags: Any) -> None:
    """Draw the hits of the link KEY over time; without KEY, of all links together.

    A point that is `open` still grows; one that is `partial` is a whole bucket that the range cuts; a dot instead of a
    count stands before the first hit.

    \b
    Examples:
      clickcurve curve launch
      clickcurve curve launch --last 30d --tz Asia/Kolkata
      clickcurve curve --from 2026-01-01 --step 1w --csv
    """
    with Client(settings) as client:
        accept = "text/csv" if as_csv else "application/json"
        answer = client.get(link_path(key, "curve"), _parameters(flags), accept)
    if as_json or as_csv:
        click.echo(answer.text.rstrip("\n"))
    else:
        _print_lines(draw.curve_lines(answer.json(), _terminal_width(), _lacks_blocks()))


@click.command("top")
@_with_parameters("last", "limit", "tz", "bots")
@click.option("--json", "as_json", is_flag=True, help="The server's answer as it is.")
@with_settings("url", "token", "config")
def top_command(settings: Settings, as_json: bool, **flags: Any) -> None:
    """List the links with the most hits.

    \b
    Examples:
      clickcurve top
      clickcurve top --last 7d --limit 100
    """
    with Client(settings) as client:
        answer = client.get("/v1/links", {"sort": "hits", **_parameters(flags)})
    if as_json:
        click.echo(answer.text)
    else:
        _print_lines(draw.top_lines(answer.json()["links"], _terminal_width(), _lacks_blocks()))
