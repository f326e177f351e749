"""Runs one worker process: signals, the event loop, and uvicorn on the shared socket."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
import uvloop

from server.app.shutdown import Signals
from server.app.startup import running
from server.app.worker import Worker
from server.http.address_connections import AddressConnections
from server.http.connection import DRAIN_S
from server.http.fast_path import FastPath, fast_connection_class
from server.http.host_and_origin_guard import answering_pages
from server.logs import log
from server.process import systemd
from server.process.open_files import fitting_connections
from server.process.supervisor import ParentProcess
from server.settings.table import Settings

BACKLOG = 2_048  # connections that wait to be accepted


class Uvicorn(uvicorn.Server):
    """uvicorn, which here ends with exit code 0 after a stop, and calls `listening` when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to `run`."""
        yield


def run(
    settings: Settings, listener: socket.socket, listening: Callable[[], None], parent: ParentProcess | None
) -> int:
    """Serves on the socket until a signal, or until the parent is gone, if there is one. Returns the exit code.

    listening: called when it listens.
    """

    async def main() -> None:
        # Set before the first flush and kept until the end: a stop during the first flush ends in order too, and a
        # second signal does not cut off the last flush.
        signals = Signals()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: signals.stop())
        loop = asyncio.get_running_loop()
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(signals.reload))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # which the command has held back
        async with running(settings, [0] if parent is None else parent.slots) as worker:
            # A worker that replaces another one has the settings of its parent's start; the rules may differ by now.
            signals.take_worker(worker, reload=parent is not None and settings.config is not None)
            server = _uvicorn(worker, listener, listening)
            signals.stop_serving = server.stop
            if parent is not None:
                loop.add_reader(parent.gone, _orphaned, parent.gone, server)
            if not signals.to_stop:
                # Requests leave no cycles behind, so the collector need not look every 700 objects: some 3 % of a hit.
                gc.freeze()
                gc.set_threshold(20_000, 20, 100)
                # What a thread does for one request (it decodes rows, folds, lists keys) takes the interpreter for so
                # long at a time, once for each step of the event loop: with the usual 5 ms a hit waited up to 0.2 s.
                sys.setswitchinterval(0.0005)
                await server.serve(sockets=[listener])
            if parent is None:
                systemd.stopping()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return 0


def _orphaned(gone: int, server: Uvicorn) -> None:
    """Stops this worker because its parent is gone: no other process would replace or stop it."""
    asyncio.get_running_loop().remove_reader(gone)
    log.error("parent gone", extra={"then": "this worker flushes and ends"})
    server.stop()


def url_of(host: str, port: int) -> str:
    """Returns the URL of a server on this address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _uvicorn(worker: Worker, listener: socket.socket, listening: Callable[[], None]) -> Uvicorn:
    settings, url = worker.settings, url_of(*listener.getsockname()[:2])
    config = uvicorn.Config(
        answering_pages(worker.gateway, settings.cors_origins, worker.problems, worker.gateway.answers),
        loop="uvloop",
        http=fast_connection_class(
            FastPath(worker.gateway),
            worker.connections_refused,
            AddressConnections(worker.limiter.addresses, settings.address_connections),
            connections_max=fitting_connections(),
            head_s=settings.head_s,
            slowest_bytes_s=settings.slowest_bytes_s,
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_S,
    )
    listens = {"url": url, "page": f"{url}/", "journal": worker.name, "hits_recovered": worker.recovered}

    def started() -> None:
        worker.listening = True
        log.info("listening", extra=listens)
        listening()

    return Uvicorn(config, started)
