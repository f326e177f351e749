"""Runs one worker process: signals, the event loop, and uvicorn on the shared socket."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import uvicorn
import uvloop

from clickcurve.buckets.errors import OwnerFenced
from server.app.application import create_app
from server.app.shutdown import Signals, StoppedEarly, drain
from server.app.startup import running
from server.app.worker import Worker
from server.http.connection import LAST_ANSWERS_S, AddressConnections
from server.http.fast_path import FastPath, fast_connection_class
from server.http.host_and_origin_guard import answering_pages
from server.logs import log
from server.process import systemd
from server.process.open_files import fitting_connections
from server.process.supervisor import LOST_OWNER, ParentProcess
from server.settings.table import Settings

BACKLOG = 2_048  # connections that wait to be accepted
_CLOSE = (b"connection", b"close")

# Requests leave no cycles behind, so the collector need not look every 700 objects: some 3 % of a hit. It holds the
# interpreter for 0.1 us for each object that is looked at, as a long answer is made of: those since its last 20 looks
# took 57 ms in one piece, those since the last two 15.
COLLECTED = (10_000, 1, 1_500)


class Uvicorn(uvicorn.Server):
    """uvicorn, which here ends with exit code 0 after a stop, and calls `listening` when it listens."""

    def __init__(self, config: uvicorn.Config, fast_path: FastPath, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._fast_path = fast_path
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    def stop(self) -> None:
        self.should_exit = True

    def end_connections(self) -> None:
        """Ends each connection with its next answer, which says so: no client sends into one that is being closed."""
        self._fast_path.is_open = False  # its answers are constants
        self.config.encoded_headers.append(_CLOSE)  # which uvicorn sends with every answer, and obeys
        self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to `run`."""
        yield


def run(
    settings: Settings, listener: socket.socket, listening: Callable[[], None], parent: ParentProcess | None
) -> int:
    """Serves on the socket until a signal, or until the parent is gone, if there is one. Returns the exit code.

    listening: called when it listens. Ends with LOST_OWNER, for the parent to start another worker, when another
    process has taken this one's owner.
    """
    lost: list[OwnerFenced] = []

    async def main() -> None:
        # Set before the first flush and kept until the end: a stop during the first flush ends in order too, and a
        # second signal does not cut off the last flush.
        signals = Signals()
        signal.signal(signal.SIGTERM, lambda *_: signals.drain())
        signal.signal(signal.SIGINT, lambda *_: signals.stop())
        loop = asyncio.get_running_loop()
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(signals.reload))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # which the command has held back
        async with running(settings, [0] if parent is None else parent.slots, signals.check) as worker:
            # A worker that replaces another one has the settings of its parent's start; the rules may differ by now.
            signals.take_worker(worker, reload=parent is not None and settings.config is not None)
            server = _uvicorn(worker, listener, listening)
            signals.stop_serving = server.stop
            if settings.drain_s:
                begin = partial(drain, worker, listener, server.end_connections, server.stop)
                signals.begin_drain = partial(loop.call_soon_threadsafe, begin)
            if parent is not None:
                loop.add_reader(parent.gone, _orphaned, parent.gone, server)
            if worker.own.cluster is not None:
                worker.own.cluster.when_lost(partial(_lost_owner, worker, server, lost))
            if not signals.to_stop and not lost:
                gc.freeze()
                gc.set_threshold(*COLLECTED)
                # What a thread does for one request (it decodes rows, folds, lists keys) takes the interpreter for so
                # long at a time, once for each step of the event loop: with the usual 5 ms a hit waited up to 0.2 s.
                sys.setswitchinterval(0.0005)
                await server.serve(sockets=[listener])
            if parent is None:
                systemd.stopping()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, suppress(StoppedEarly):
        runner.run(main())
    return LOST_OWNER if lost else 0


def _lost_owner(worker: Worker, server: Uvicorn, lost: list[OwnerFenced], error: OwnerFenced) -> None:
    """Stops this worker because another process has taken its owner, with all that it has accepted."""
    lost.append(error)
    worker.owner.lose(error)
    log.warning("owner lost", extra={"owner": worker.owner.number, "then": "another worker takes one"})
    server.stop()


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
    gateway = create_app(worker)
    fast_path = FastPath(gateway)
    config = uvicorn.Config(
        answering_pages(gateway, settings.cors_origins, worker.problems, worker.answers),
        loop="uvloop",
        http=fast_connection_class(
            fast_path,
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
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )
    listens = {"url": url, "page": f"{url}/", "journal": worker.name, "hits_recovered": worker.own.recovered}

    def started() -> None:
        worker.own.listening = True
        log.info("listening", extra={**listens, **worker.own.in_cluster()})
        listening()

    return Uvicorn(config, fast_path, started)
