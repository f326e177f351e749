"""What systemd reads from a socket as it makes it: ready when all listen, stopping when the end has begun."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.process import systemd
from tests.conftest import Serve
from tests.server.conftest import events

READY, STOPPING = "READY=1\nSTATUS=listening", "STOPPING=1\nSTATUS=flushing before the end"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind(str(tmp_path / "notify"))
        opened.settimeout(20)
        yield opened


def nothing_more(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.recv(1000)
    except BlockingIOError:
        return True
    return False


def test_it_is_ready_when_it_listens_and_says_when_it_stops(listener: socket.socket, serve: Serve) -> None:
    server = serve(settings={"NOTIFY_SOCKET": listener.getsockname()})
    assert listener.recv(1000).decode() == READY
    assert server.stop() == 0
    assert listener.recv(1000).decode() == STOPPING
    assert nothing_more(listener)


@pytest.mark.slow
def test_with_workers_it_is_ready_when_all_listen_and_again_when_a_dead_one_is_replaced(
    listener: socket.socket, serve: Serve
) -> None:
    server = serve("--workers", "3", settings={"NOTIFY_SOCKET": listener.getsockname()})
    assert listener.recv(1000).decode() == READY
    assert {line["journal"] for line in events(server, "listening")} == {"journal-1", "journal-2", "journal-3"}
    os.kill(server.workers()[0], signal.SIGKILL)
    assert listener.recv(1000).decode() == READY
    assert len(events(server, "listening")) == 4
    assert server.stop() == 0
    assert listener.recv(1000).decode() == STOPPING
    assert nothing_more(listener)


def test_a_name_in_the_kernel_is_understood_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"clickcurve-{os.getpid()}-{tmp_path.name}"
    monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(20)
        systemd.ready()
        assert listener.recv(1000).decode() == READY


def test_a_socket_that_nobody_listens_on_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    systemd.ready()
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["not_sent"]) == ("systemd not reached", "READY=1")
