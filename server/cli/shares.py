"""`clickcurve share KEY`, `clickcurve share list|revoke`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import GROUP_BYTES, require_key
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import Result, ShorthandGroup
from server.cli.store.inspect import opened
from server.http.shares import MAX_DAYS, Shares
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from server.tokens.audit import PROMPT, AuditLog

USUAL_DAYS = 30
_CREATE = "create"


@contextmanager
def _shares(settings: Settings) -> Iterator[tuple[Shares, AuditLog]]:
    """Opens the shares of the settings' store, which servers may use meanwhile, and its audit log."""
    with opened(settings.store) as store:  # not a new one: no server would know its secret, nor take the address
        yield Shares(store), AuditLog(store, open_clock(settings).now)


@click.group("share", cls=ShorthandGroup, left_out=_CREATE)
def share_command() -> None:
    """Make, list and revoke addresses that show one link or group to anybody.

    `clickcurve share KEY` prints such an address: a page of this link alone, without a token, until the end of the day
    in the address. For a key that is named list, revoke or create, write `clickcurve share create list`. The command
    writes to the server's database: run it on the server's machine, with the server's --data or --store.

    \b
    Examples:
      clickcurve share launch --days 30
      clickcurve share spring --group --url https://clicks.example
      clickcurve share spring-sale --events
      clickcurve share list
      clickcurve share revoke 1f2e3d4c5b6a
    """


@share_command.command(_CREATE)
@click.argument("key")
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=USUAL_DAYS,
    show_default=True,
    help="How many days after today it is valid.",
)
@click.option("--group", "is_group", is_flag=True, help="KEY is the name of a group.")
@click.option("--events", is_flag=True, help="Also show what came of the clicks: events and the sums of their values.")
@with_settings("data", "store", "url", "config", helps={"url": "What the address begins with: the server's own URL."})
def create_share(settings: Settings, key: str, days: int, is_group: bool, events: bool) -> Result:
    """Print an address that shows this link to anybody who has it.

    It shows clicks, and events with --events alone. No server is asked: the share is written to the database.

    \b
    Examples:
      clickcurve share create launch
      clickcurve share create launch --days 7 --url https://clicks.example
      clickcurve share create spring --group
      clickcurve share create spring-sale --events
    """
    require_key(key, ParameterInvalid)
    if is_group and len(key.encode()) > GROUP_BYTES:
        raise ParameterInvalid(
            "this cannot be the name of a group", field="key", value=key, rule=f"{GROUP_BYTES} bytes at most"
        )
    kind = "group" if is_group else "link"
    with _shares(settings) as (shares, audit):
        audit.note(PROMPT, "share made", f"{kind} {key}" + ", with events" * events)
        trusted = open_clock(settings)
        signed = shares.add(kind, key, days, int(trusted.now()), int(trusted.careful()), events=events)
    address = f"{settings.url.rstrip('/')}/share/{signed}"
    share_id, until, _ = signed.split(".")
    made = {"id": share_id, "kind": kind, "name": key, "until": until, "events": events, "address": address}
    return Result([address], [made])


@share_command.command("list")
@with_settings("data", "store", "config")
def list_shares(settings: Settings) -> Result:
    """List what is shared: id, last day, what it is, and whether it shows events beside clicks.

    \b
    Examples:
      clickcurve share list
    """
    with _shares(settings) as (shares, _):
        listed = shares.all()
    lines = (
        f"{share.id}  {share.until}  {'events' if share.events else 'clicks'}  {share.kind:<5}  {share.name}"
        for share in listed
    )
    return Result(lines, [msgspec.to_builtins(share) for share in listed])


@share_command.command("revoke")
@click.argument("share_id", metavar="ID")
@with_settings("data", "store", "config")
def revoke_share(settings: Settings, share_id: str) -> Result:
    """Revoke the address with this id (see `share list`); all running servers of the store know at once.

    \b
    Examples:
      clickcurve share revoke 1f2e3d4c5b6a
    """
    with _shares(settings) as (shares, audit):
        is_revoked = shares.remove(share_id)
        if is_revoked:
            audit.note(PROMPT, "share revoked", share_id)
    if not is_revoked:
        raise Failed(f"nothing is shared as {share_id}; `clickcurve share list` shows all")
    return Result([f"revoked {share_id}"], [{"revoked": share_id}])
