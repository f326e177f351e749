"""What happens at a stop: requests under way end, one last flush, then everything is closed, within seconds.

uvicorn stops to listen and gives requests LAST_ANSWERS_S seconds; then `shut_down` flushes. What is not in the store by
then is in the journal, and the next start flushes it.

At SIGTERM `drain` comes first, where `drain_s` is set: the server says at once that it is not ready, and serves on.
Balancers need some seconds until they have noticed; until then every request is answered. Three things would cut or
refuse some of them nevertheless:

- A request on a connection that is being closed is lost. So each answer of these seconds ends its connection and says
  so; what comes then comes over a new one.
- Closing a listening socket resets the connections that wait in its queue. So before that the kernel is told to ignore
  new ones (their clients ask again a second later, and are refused or sent elsewhere), and the queue empties.
- A connection that has come may have sent nothing yet. `EMPTYING_S` is the time for that.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from server import clock
from server.app.worker import Worker
from server.logs import log

LAST_FLUSH_S = 10
LATER = "the next start flushes the journal"
EMPTYING_S = 0.5  # for connections in the kernel's queue to be accepted, and to send their request
_SO_ATTACH_FILTER = 26  # of Linux; Python does not name it
# A classic BPF program over the TCP header: load the byte of flags; SYN: drop (0), else keep.
_IGNORE_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF_FFFF))


class StoppedEarly(Exception):
    """The server is to stop before it has begun to serve."""


class Signals:
    """The signals that came: to stop, or to read the settings file again. Its parts may come later than a signal."""

    def __init__(self) -> None:
        self.to_stop = False
        self.to_reload = False
        self.stop_serving: Callable[[], None] | None = None
        self.begin_drain: Callable[[], object] | None = None
        self._worker: Worker | None = None

    def drain(self) -> None:
        """Stops the server after it has drained (SIGTERM), or as soon as it serves if it does not yet."""
        if self.begin_drain is None:
            self.stop()
        else:
            self.begin_drain()

    def stop(self) -> None:
        """Stops the server as soon as it serves (SIGINT)."""
        self.to_stop = True
        if self.stop_serving is not None:
            self.stop_serving()

    def check(self) -> None:
        """Raises StoppedEarly if the server is to stop."""
        if self.to_stop:
            raise StoppedEarly

    def reload(self) -> None:
        """Reads the limiter's rules, those for bots and the file of countries again (SIGHUP)."""
        self.to_reload = True
        if self._worker is not None:
            self._worker.limiter.reload()
            self._worker.attributes.reload()

    def take_worker(self, worker: Worker, reload: bool) -> None:
        """Takes the worker that reloads are for; reloads at once if `reload` says so, or a signal has."""
        self._worker = worker
        if self.to_reload or reload:
            self.reload()


def drain(
    worker: Worker, listener: socket.socket, end_connections: Callable[[], None], stop: Callable[[], None]
) -> None:
    """Begins to drain, and stops in `drain_s` seconds. A second call does nothing."""
    if worker.draining:
        return
    worker.draining = True
    drain_s = worker.settings.drain_s
    log.info("draining", extra={"for_s": drain_s})
    end_connections()
    asyncio.get_running_loop().call_later(drain_s, _end, listener, stop)


def _end(listener: socket.socket, stop: Callable[[], None]) -> None:
    ignore_connections(listener)
    asyncio.get_running_loop().call_later(EMPTYING_S, stop)


def ignore_connections(listener: socket.socket) -> None:
    """Makes the kernel ignore further connections; those that are in its queue can still be accepted."""
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _IGNORE_SYN)
    program_bytes = ctypes.create_string_buffer(program)
    attached = struct.pack("HP", len(_IGNORE_SYN), ctypes.addressof(program_bytes))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
    except OSError as error:  # a sandbox without such filters: what comes in the last moment may be reset
        log.warning("connections not ignored", extra={"reason": str(error), "then": "the last ones may be reset"})


async def shut_down(worker: Worker) -> None:
    """Flushes and closes everything, within seconds. What the store does not take stays in the journal."""
    worker.stopping = True
    until = clock.monotonic() + LAST_FLUSH_S
    await worker.schedule.stop(LAST_FLUSH_S / 2)
    await worker.limiter.close()
    closing = asyncio.ensure_future(_close_owners(worker))
    await asyncio.wait({closing}, timeout=max(0.0, until - clock.monotonic()))
    if not closing.done():
        # A thread hangs in the store and would keep the process from ending. All its hits are in the journal.
        log.warning("last flush unfinished", extra={"after_s": LAST_FLUSH_S, "then": LATER})
        logging.shutdown()
        os._exit(0)
    try:
        closing.result()
    except ClickcurveError as error:
        log.warning("last flush failed", extra={"reason": error.detail, "then": LATER})
    await worker.peers.close()
    if worker.own.cluster is not None:
        await worker.own.cluster.presence.end()
    worker.store.close()
    log.info("stopped", extra={"journal": worker.name, "hits_left": worker.owner.status.buffered_hits})


async def _close_owners(worker: Worker) -> None:
    for part in worker.parts:
        await part.close()
    await worker.orphans.release()
    await worker.owner.close()
    with suppress(StoreUnavailable):  # then others take its duties after some looks
        await worker.duties.give_back()
