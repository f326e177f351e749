"""One address that leads to another one, and after `lead_to` to a third: as a virtual address, a DNS name or a service
in front of a primary and its replicas does. Connections that are open stay where they lead.

    with forwarder(first.port) as front:
        RedisBackend(f"redis://127.0.0.1:{front.port}"); front.lead_to(second.port)
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread


class Forwarder:
    """Passes bytes on between whatever connects to its port and a port of this machine."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[Thread] = []
        self.port: int = self._listening.getsockname()[1]

    def lead_to(self, port: int) -> None:
        """From now on new connections lead there."""
        self._to = port

    def start(self) -> None:
        self._run(self._accept)

    def close(self) -> None:
        """End it and every connection through it."""
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listening, *self._open):
            each.close()

    def _run(self, act: object, *arguments: object) -> None:
        thread = Thread(target=act, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += near, far
                self._run(_pass_on, near, far)
                self._run(_pass_on, far, near)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while received := source.recv(65_536):
            target.sendall(received)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def forwarder(port: int) -> Iterator[Forwarder]:
    front = Forwarder(port)
    front.start()
    try:
        yield front
    finally:
        front.close()
