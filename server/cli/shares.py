"""`clickcurve share KEY`, `clickcurve share list|revoke`."""

from __future__ import annotations

from dataclasses import asdict

import click

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import GROUP_BYTES, require_key
from server import clock
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.http import shares
from server.process import data_folder
from server.settings import Settings

USUAL_DAYS = 30
_CREATE = "create"


class _ShareGroup(ReportingGroup):
    """`share KEY` is `share create KEY`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        own = first in self.commands or first in ctx.help_option_names or not args
        return super().parse_args(ctx, args if own else [_CREATE, *args])


@click.group("share", cls=_ShareGroup)
def share_command() -> None:
    """Make, list and revoke addresses that show one link or group to anybody.

    `clickcurve share KEY` prints such an address: a page to look at, without a token, until the end of the day in it.
    Of other links it shows nothing. A key that is called list, revoke or create: `clickcurve share create list`.

    \b
    Examples:
      clickcurve share launch --days 30
      clickcurve share spring --group --url https://clicks.example
      clickcurve share list
      clickcurve share revoke 1f2e3d4c5b6a
    """


@share_command.command(_CREATE)
@click.argument("key")
@click.option(
    "--days",
    type=click.IntRange(1, shares.MAX_DAYS),
    default=USUAL_DAYS,
    show_default=True,
    help="For how many days after today.",
)
@click.option("--group", "is_group", is_flag=True, help="KEY is the name of a group.")
@with_settings("data", "url", "config")
def create_share(settings: Settings, key: str, days: int, is_group: bool) -> Result:
    """Print an address that shows this link to anybody who has it."""
    require_key(key, ParameterInvalid)
    if is_group and len(key.encode()) > GROUP_BYTES:
        raise ParameterInvalid("no group has such a name", field="key", value=key, rule=f"{GROUP_BYTES} bytes at most")
    data_folder.prepare(settings.data)
    kind = "group" if is_group else "link"
    signed = shares.add_share(data_folder.shares_file(settings.data), kind, key, days, int(clock.now()))
    address = f"{settings.url.rstrip('/')}/share/{signed}"
    share_id, until, _ = signed.split(".")
    return Result([address], [{"id": share_id, "kind": kind, "name": key, "until": until, "address": address}])


@share_command.command("list")
@with_settings("data", "config")
def list_shares(settings: Settings) -> Result:
    """List what is shared: id, last day, what it is."""
    found = shares.load_shares(data_folder.shares_file(settings.data)).shares
    lines = (f"{share.id}  {share.until}  {share.kind:<5}  {share.name}" for share in found)
    return Result(lines, [asdict(share) for share in found])


@share_command.command("revoke")
@click.argument("share_id", metavar="ID")
@with_settings("data", "config")
def revoke_share(settings: Settings, share_id: str) -> Result:
    """Revoke the address with this id (see `share list`); a running server knows at once."""
    if not shares.remove_share(data_folder.shares_file(settings.data), share_id):
        raise Failed(f"nothing is shared as {share_id}; `clickcurve share list` shows all")
    return Result([f"revoked {share_id}"], [{"revoked": share_id}])
