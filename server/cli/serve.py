"""`clickcurve serve`."""

from __future__ import annotations

import signal

import click

from server.cli.options import with_settings
from server.settings.table import TABLE, Settings


@click.command("serve")
@with_settings(*(setting.name for setting in TABLE if setting.side == "server"))
def serve_command(settings: Settings) -> None:
    """Run the server.

    Accepted hits are in the journal, on the disk, before they are answered. Every 15 seconds they are moved into the
    store. SIGTERM (or Ctrl-C) stops it: no new requests, one last flush, within seconds. Hits that are not flushed
    then, or after a crash, are flushed at the next start.

    \b
    Examples:
      clickcurve serve
      clickcurve serve --data /var/lib/clickcurve --port 8000 --workers 2
      clickcurve token create shortener --scope write && clickcurve serve --host 0.0.0.0

    \b
    Settings in a file instead (--config clickcurve.toml):
      data = "/var/lib/clickcurve"
      workers = 2
    """
    # Until the server listens to it: it would end a process that does not. What comes meanwhile is not lost but waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from server.app.serve import (
        serve,  # the server's libraries are slow to import, and the other commands need none
    )

    raise SystemExit(serve(settings))
