"""SIGTERM where `drain_s` is set: the server says at once that it is not ready, serves on, and then ends unnoticed.

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
import socket
import struct
from collections.abc import Callable

from server.app.worker import Worker
from server.logs import log

EMPTYING_S = 0.5  # for connections in the kernel's queue to be accepted, and to send their request
_SO_ATTACH_FILTER = 26  # of Linux; Python does not name it
# A classic BPF program over the TCP header: load the byte of flags; SYN: drop (0), else keep.
_IGNORE_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF_FFFF))


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
