"""The limit of open files: raised at a start; where it cannot be, connections beyond it are told so."""

from __future__ import annotations

import resource
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from server.http.connection import CONNECTIONS
from server.process.open_files import OTHER_FILES, WANTED, fitting_connections, raise_limit
from testing.client import Clickcurve
from testing.server import Process, RunningServer
from tests.server.conftest import events


class Limited(RunningServer):
    """A server with a limit of open files of its own: `-S -n 300`, say, for the soft one."""

    ulimit = ""

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> Process:
        return super()._spawn(["sh", "-c", f'ulimit {self.ulimit}; exec "$@"', "sh", *command], environment)


def test_a_low_soft_limit_is_raised(data: Path) -> None:
    server = Limited(data)
    server.ulimit = "-S -n 300"
    with server:
        limits = Path(f"/proc/{server.pid}/limits").read_text().splitlines()
        soft, hard = next(line for line in limits if line.startswith("Max open files")).split()[3:5]
        assert int(soft) == min(WANTED, int(hard))
        if int(hard) >= WANTED:
            assert not events(server, "few open files")


def test_a_sandbox_that_forbids_it_is_told_and_does_not_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def forbidden(what: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")  # what Python makes of EPERM

    monkeypatch.setattr(resource, "getrlimit", lambda what: (1_000, 20_000))
    monkeypatch.setattr(resource, "setrlimit", forbidden)
    raise_limit()
    assert [record.message for record in caplog.records] == ["open files not raised", "few open files"]
    assert fitting_connections() == 1_000 - OTHER_FILES


@pytest.mark.parametrize("limit", [600, 200])
def test_under_a_low_hard_limit_connections_too_many_get_a_503_and_the_others_go_on(data: Path, limit: int) -> None:
    server = Limited(data, "--flush-s", "1")
    server.ulimit = f"-n {limit}"
    fitting = max(limit - OTHER_FILES, limit // 2)
    with server, ExitStack() as stack:
        (warning,) = events(server, "few open files")
        assert (warning["limit"], warning["wanted"]) == (limit, CONNECTIONS + OTHER_FILES)
        assert f"{fitting} connections" in warning["then"]
        first = stack.enter_context(Clickcurve(server.url))
        first.hit("launch")
        for _ in range(fitting - 1):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=600))
        crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=600) for _ in range(700)]
        answers = Counter(map(told, crowd))
        assert answers == {b"HTTP/1.1 503 Service Unavailable": 700}
        assert [first.hit("launch")["counted"] for _ in range(20)] == [1] * 20
        assert first.metric("clickcurve_refused_connections_total") == 700
        stack.close()
        with Clickcurve(server.url) as client:
            assert client.total("launch")["total"] == 21


def told(connection: socket.socket) -> bytes:
    with connection:
        answer = connection.recv(4096)
    assert not answer or b"retry-after: 1" in answer
    return answer.partition(b"\r\n")[0]
