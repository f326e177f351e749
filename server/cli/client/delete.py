"""`clickcurve delete`: forgets a link, after a question."""

from __future__ import annotations

import sys

import click

from clickcurve.visible import visible
from server.cli.client.api import NamedServer, link_path
from server.cli.main import USAGE, Failed
from server.cli.options import with_settings
from server.cli.output import Result, reports
from server.settings.table import Settings


@reports("delete")
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings("url", "token", "config")
def delete_command(settings: Settings, key: str, yes: bool) -> Result:
    """Delete the link KEY with its whole history. A hit that comes later counts from zero.

    Its hits stay in the total of all links together. If the server has tokens, the token needs the scope admin.

    \b
    Examples:
      clickcurve delete launch
      clickcurve delete launch --yes --url https://clicks.example --token cc_...
    """
    with NamedServer(settings) as client:
        if not yes:
            if not sys.stdin.isatty():
                raise Failed("nobody can be asked to confirm: give --yes", USAGE)
            total = client.ask(link_path(key, "total"), {})
            question = f"Delete {visible(key)} with {total['total']:,} hits? It cannot be undone"
            if not click.confirm(question, err=True):
                return Result(["nothing was deleted"], [{"key": key, "deleted": False}])
        client.delete(link_path(key, ""))
    return Result([f"{key} is deleted"], [{"key": key, "deleted": True}])
