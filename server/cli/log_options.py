"""Flags that say how access logs are read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any, TypeVar

import click

from clickcurve.buckets.errors import ClickcurveError
from ingest.imports.access_log import PROPOSED_EXCLUDES, LogOptions
from ingest.imports.logs.line_reader import client_field
from ingest.imports.logs.log_format import own_format
from query.zones import zone
from server.cli.main import USAGE, Failed

Command = TypeVar("Command", bound=Callable[..., Any])
_DECODED, _AS_SENT = "decoded", "as-sent"
_FLAGS = ("format", "client_field", "exclude", "tz", "once_per_click", "keys")


def log_options(command: Command) -> Command:
    """Gives a command the flags that `options_of` reads."""
    decorators = (
        click.option(
            "--format",
            metavar="TEXT",
            help="The log's own format: nginx's log_format or Apache's LogFormat. Without it, lines are recognised.",
        ),
        click.option(
            "--client-field",
            metavar="FIELD",
            help="Where the client's address stands behind a proxy: the number of a field behind the line's known ones,"
            " last, or the name of a field of the format or of JSON.",
        ),
        click.option(
            "--exclude",
            metavar="PATTERN",
            multiple=True,
            help=f"Keys that are no links, with * and ?, such as {', '.join(PROPOSED_EXCLUDES)}; may be repeated.",
        ),
        click.option(
            "--tz", metavar="ZONE", help="The zone of times that name none, such as Europe/Vienna  [default: UTC]"
        ),
        click.option(
            "--once-per-click", is_flag=True, help="Leave out the redirect from http to https before a link's own."
        ),
        click.option(
            "--keys",
            type=click.Choice([_DECODED, _AS_SENT]),
            default=_DECODED,
            help="Keys percent-decoded, or as the address was sent, as versions up to 0.2.0 kept them.",
        ),
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def taken_options(given: dict[str, Any]) -> LogOptions:
    """Takes the flags of `log_options` out of what a command was given; raises Failed for one that is wrong."""
    text, field, excluded, tz, once_per_click, keys = (given.pop(name) for name in _FLAGS)
    try:
        client = client_field(field or "")
        own = own_format(text, client.name) if text else None
        place = zone(tz).info if tz else UTC
    except ClickcurveError as error:
        flag = (error.field or "format").replace("_", "-")
        raise Failed(f"--{flag}: {error.detail}; write {error.rule}", USAGE) from None
    return LogOptions(place, own, client, excluded, keys == _AS_SENT, once_per_click)
