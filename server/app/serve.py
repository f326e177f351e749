"""`clickcurve serve`: checks everything before anything listens, then starts the processes."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid
from clickcurve.visible import visible
from server import data_folder, logs, metrics
from server.app import run, shutdown
from server.http import connection
from server.limiter import limiter
from server.logs import log
from server.process import open_files, supervisor, systemd
from server.settings.alerts import require_smtp
from server.settings.table import Settings
from server.settings.values import ON_DISK, is_loopback
from server.tokens.gate import check_reach
from server.tokens.known_tokens import admin_token, mounted_tokens, read_tokens_copy
from server.tokens.token_book import TokenBook
from storage.from_uri import open_store

_FROM_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # of a server on every address, the one that a browser can open


def serve(settings: Settings) -> int:
    """Serves until a signal to stop. Returns the exit code; raises ClickcurveError when it must not start."""
    limiter.check_rules(settings.rules, settings)
    require_smtp(settings.alerts, settings.weekly_report, len(settings.reports), settings.smtp)
    in_memory = settings.store.startswith("memory:")
    if in_memory and settings.workers > 1:
        raise SettingInvalid("memory:// works in one process only: set workers to 1", field="workers")
    with (
        with_folder(settings) as settings,
        data_folder.held(settings.data, settings.store, "clickcurve serve"),
    ):
        tokens = knows_tokens(settings)
        check_reach(settings.host, tokens, settings.insecure)
        listener = bind(settings.host, settings.port)
        logs.start()
        open_files.raise_limit()
        if in_memory:
            log.warning("memory store", extra={"then": "all counts are lost when this process ends"})
        if not settings.sync:
            log.warning("sync is off", extra={"then": "a crash of the machine loses what was accepted just before it"})
        if not tokens and not is_loopback(settings.host):
            log.warning("insecure", extra={"host": settings.host, "then": "anybody who can connect may write and read"})
        metrics.clear_samples(data_folder.samples_folder(settings.data))
        if settings.workers == 1 and settings.journal == ON_DISK:  # else a parent replaces one that lost its owner
            with listener:
                return run.run(settings, listener, lambda: _ready(listener), None)
        patience_s = settings.drain_s + connection.LAST_ANSWERS_S + shutdown.LAST_FLUSH_S + 3.0
        return supervisor.Parent(
            settings.workers,
            listener,
            patience_s,
            lambda parent: _work(settings, listener, parent),
            lambda: _ready(listener),
        ).run()


@contextmanager
def with_folder(settings: Settings) -> Iterator[Settings]:
    """Gives the settings, with a temporary data folder where none is named and no journal is in it."""
    if settings.journal == ON_DISK or settings.origins["data"] != "default":
        yield settings
        return
    with TemporaryDirectory(prefix="clickcurve-", ignore_cleanup_errors=True) as folder:
        yield replace(settings, data=Path(folder))


def knows_tokens(settings: Settings) -> bool:
    """Returns whether there are tokens, or may be: a cluster is asked by the workers, which refuse requests until then.

    Raises SettingInvalid for a file of tokens that cannot be read, and what opening a database raises.
    """
    if admin_token(settings) or mounted_tokens(settings) or read_tokens_copy(settings.data):
        return True
    if not settings.closed or settings.store.startswith("memory:"):
        return False
    if settings.store.startswith("cassandra:"):
        return True
    with closing(open_store(settings.store, settings.ladder)) as store:
        return bool(TokenBook(store).all())


def _ready(listener: socket.socket) -> None:
    """Tells systemd that all workers listen, and a person at a terminal which address to open."""
    systemd.ready()
    if sys.stderr.isatty():
        host, port = listener.getsockname()[:2]
        print(f"open {run.url_of(_FROM_HERE.get(host, host), port)}/", file=sys.stderr, flush=True)


def _work(settings: Settings, listener: socket.socket, parent: supervisor.ParentProcess) -> int:
    """Runs a worker in a process of its own. A worker that must not start says why, and is not replaced."""
    try:
        return run.run(settings, listener, parent.tell_listening, parent)
    except ClickcurveError as error:
        if parent.served:  # the log has begun, and others go on
            log.error("worker refused", extra={"reason": error.detail, "then": "the others go on"})
        else:
            print(f"Error: {visible(error.detail)}", file=sys.stderr)
        return supervisor.REFUSED


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket bound to the address, not listening yet. Raises SettingInvalid."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as undo:
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            undo.pop_all()
    except OSError as error:
        reason = f"cannot listen on {host}:{port}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            reason += "; --port names another port, 0 a free one"
        raise SettingInvalid(reason, field="port", value=port) from error
    listener.setblocking(False)
    return listener
