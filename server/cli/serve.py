"""`clickcurve serve | demo`: a server, with your data or with a year of made-up traffic."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread

import click

from clickcurve.buckets.errors import SettingInvalid
from server import clock
from server.cli.options import with_settings
from server.cli.output import note
from server.settings.table import TABLE, Settings

# What the visitors and the bots say, unless the settings name others.
DIMENSIONS = ("ref", "country", "device", "source", "channel", "bot_kind", "bot")


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


@click.command("demo")
@click.option("--quiet", is_flag=True, help="No new visitors: only the year before.")
@with_settings("data", "host", "port", "config", without_default=("data",))
def demo_command(settings: Settings, quiet: bool) -> None:
    """Run a server with a year of made-up traffic, of a shop that sells, to look around.

    It is ready within seconds. Visitors keep coming while it runs, as many a minute as in the year before; when it
    begins, one link has a burst. Without --data everything is in a folder that is removed at the end. If port 8080 is
    in use and no other is named, it takes a free one.

    \b
    Examples:
      clickcurve demo
      clickcurve demo --port 9000 --data ./demo
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from server.app.serve import serve  # with the server's libraries, which are slow to import

    with _demo_folder(settings) as data:
        port = open_port(settings)
        settings = replace(settings, data=data, port=port, store=f"sqlite:///{data}/clickcurve.db")
        if settings.origins["breakdown_dimensions"] == "default":
            settings = replace(settings, breakdown_dimensions=DIMENSIONS)
        if settings.origins["events_names"] == "default":
            settings = _with_shop(settings)
        _fill(settings)
        note(f"a year of made-up traffic, in {data}; Ctrl-C ends it")
        url = f"http://{settings.host}:{port}"
        if not quiet:
            Thread(target=_send_from_thread, args=(url, settings.events_names), daemon=True, name="visitors").start()
        raise SystemExit(serve(settings))


@contextmanager
def _demo_folder(settings: Settings) -> Iterator[Path]:
    """Returns the data folder that was named, or one that is removed at the end."""
    if settings.origins["data"] != "default":
        yield settings.data
        return
    with tempfile.TemporaryDirectory(prefix="clickcurve-demo-") as folder:
        yield Path(folder)


def open_port(settings: Settings) -> int:
    """Returns the port to listen on; where nobody names one and the usual one is taken, a free one.

    Raises SettingInvalid. The page of a server on the usual port sends people to the demo as well.
    """
    from server.app.serve import bind

    try:
        probe = bind(settings.host, settings.port)
    except SettingInvalid:
        if settings.origins["port"] != "default":
            raise
        probe = bind(settings.host, 0)
    with probe:
        port: int = probe.getsockname()[1]
        return port


def _fill(settings: Settings) -> None:
    """Puts the year into the folder, unless it is there already."""
    from server import data_folder
    from server.demo.year import fill
    from storage.from_uri import open_store

    with (
        data_folder.held(settings.data, settings.store, "clickcurve demo"),
        closing(open_store(settings.store, settings.ladder)) as store,
    ):
        fill(store, int(clock.now()), settings.breakdown_dimensions, settings.events_names)


def _with_shop(settings: Settings) -> Settings:
    """Returns settings that count what comes of the demo's clicks."""
    from server.demo.shop import UNITS

    return replace(settings, events_names=tuple(UNITS), event_units=UNITS)


def _send_from_thread(url: str, events: Collection[str]) -> None:
    from server.demo.visitors import send_visitors

    send_visitors(url, clock.now, clock.pause, Random(), events)
