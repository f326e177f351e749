"""SIGTERM with `drain_s`: not ready at once, everything answered meanwhile, and then an end that cuts nobody off."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress

import httpx
import pytest

from server.app.shutdown import ignore_connections
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.conftest import events, wait_until

WORKERS = pytest.mark.parametrize("workers", ["1", "2"])


def draining(server: RunningServer) -> bool:
    with suppress(OSError, httpx.TransportError), http_client(server.url) as http:
        answer = http.get("/readyz")
        return answer.status_code == 503 and answer.json()["detail"] == "draining"
    return False


@WORKERS
def test_while_it_drains_it_is_not_ready_and_answers_everything(serve: Serve, workers: str) -> None:
    server = serve("--workers", workers, "--drain-s", "2", "--flush-s", "3600")
    with http_client(server.url) as kept:
        assert kept.post("/v1/hits/launch").status_code == 200
        server.signal(signal.SIGTERM)
        wait_until(lambda: draining(server))
        # The connection from before is used once more, and says that it ends.
        answer = kept.post("/v1/hits/launch")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        for path in ("/readyz", "/readyz?for=read"):
            assert kept.get(path).status_code == 503
        assert kept.get("/healthz").status_code == 200
        answer = kept.get("/v1/links/launch/total")
        assert (answer.status_code, answer.json()["total"], answer.headers["connection"]) == (200, 2, "close")
    assert server.wait() == 0
    assert events(server, "draining")[0]["for_s"] == 2
    assert all(stopped["hits_left"] == 0 for stopped in events(server, "stopped"))


@WORKERS
def test_an_interrupt_ends_a_drain_at_once(serve: Serve, workers: str) -> None:
    server = serve("--workers", workers, "--drain-s", "300")
    server.signal(signal.SIGTERM)
    wait_until(lambda: draining(server))
    server.signal(signal.SIGINT)
    assert server.wait() == 0


def test_a_connection_that_waits_in_the_queue_at_the_end_is_answered(serve: Serve) -> None:
    """It is made while the process stands still, so that only the queue of the kernel has it when the drain ends."""
    server = serve("--drain-s", "1")
    server.signal(signal.SIGTERM)
    wait_until(lambda: draining(server))
    server.signal(signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as waiting:
        waiting.sendall(b"POST /v1/hits/launch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        with suppress(TimeoutError):  # until the second of the drain is over
            waiting.settimeout(1.5)
            waiting.recv(1)
        waiting.settimeout(20)
        server.signal(signal.SIGCONT)
        answer = waiting.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 200")
    assert server.wait() == 0
    assert events(server, "stopped")[-1]["hits_left"] == 0


def test_without_it_a_stop_is_at_once(serve: Serve) -> None:
    server = serve()
    assert server.stop() == 0
    assert not events(server, "draining")


def test_hits_of_a_drain_are_there_after_the_restart(serve: Serve) -> None:
    server = serve("--drain-s", "1")
    server.signal(signal.SIGTERM)
    wait_until(lambda: draining(server))
    with Clickcurve(server.url) as client:
        client.hit("launch")
    assert server.wait() == 0
    with Clickcurve(server.start().url) as client:
        assert client.total("launch")["total"] == 1


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_keeps_what_waits_and_ignores_what_comes_later(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        address = listener.getsockname()[:2]
        with socket.create_connection(address, timeout=600) as waiting:
            ignore_connections(listener)
            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=0.2)
            accepted, _ = listener.accept()
            with accepted:
                waiting.sendall(b"asked after the filter came")
                assert accepted.recv(100) == b"asked after the filter came"
