"""`clickcurve clock accept`: an operator says that the system's clock is right."""

from __future__ import annotations

import click

from server import data_folder
from server.cli.client.api import NO_QUERY, NamedServer
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.process.kept_clock import keep, open_clock
from server.settings.table import Settings


@click.group("clock", cls=ReportingGroup)
def clock_command() -> None:
    """Say that the clock of this machine is right.

    A server does not believe a clock that jumps. It stamps hits by the new time when that has held for ten minutes, and
    folds and forgets nothing by it before it has held for 24 hours.

    \b
    Examples:
      clickcurve clock accept
    """


@clock_command.command("accept")
@click.option(
    "--folder", is_flag=True, help="Of the data folder of --data, which no server holds, instead of a server."
)
@with_settings("url", "token", "data", "store", "config")
def accept_clock(settings: Settings, folder: bool) -> Result:
    """Make the server take the time of its machine at once, also for what cannot be undone.

    Look at that time before (`date`): what is folded by a wrong one stays folded. If the server has tokens, the token
    needs the scope admin. Each server of a cluster has a clock of its own.

    \b
    Examples:
      clickcurve clock accept
      clickcurve clock accept --folder --data /var/lib/clickcurve
    """
    if folder:
        accepted = _accept_in_folder(settings)
    else:
        with NamedServer(settings) as server:
            accepted = server.call("/v1/clock/accept", NO_QUERY, {})
    return Result([f"the clock is accepted; the time has moved by {accepted['moved_s']:+,.1f} s"], [accepted])


def _accept_in_folder(settings: Settings) -> dict[str, object]:
    if not settings.data.is_dir():
        raise Failed(f"there is no data folder {settings.data}; --data DIR names another one")
    with data_folder.held(settings.data, settings.store, "clickcurve clock accept"):
        trusted = open_clock(settings)
        moved_s = trusted.accept()
        try:
            keep(settings.data, trusted)
        except OSError as error:
            raise Failed(f"the data folder {settings.data} cannot be written: {error.strerror}") from error
    return {"clock": trusted.status().state, "moved_s": round(moved_s, 3), "now": int(trusted.now())}
