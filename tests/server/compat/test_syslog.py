"""Access logs by syslog: headers are taken off, a line counts at most once, and all lines are accounted for."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalFull
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.imports.access_log import AccessLog
from server.compat import syslog
from server.compat.hit_sender import HitSender
from server.compat.syslog import SyslogReceiver
from server.compat.syslog_frames import LONGEST_MESSAGE, Frames, FramesBroken, line_of
from testing.client import Clickcurve
from testing.server import free_port, run
from tests.conftest import Serve
from tests.ingest.http_kit import MINUTE, Client, is_bot, law
from tests.server.compat.test_log_lines import BOT, FIELDS, W3C_LINE, line
from tests.server.conftest import events, wait_until

LINE = line().encode()
HEADERS = [
    b"<190>Jan  1 12:00:03 web1 nginx: ",  # nginx, its default
    b"<190>Jan  1 12:00:03 nginx: ",  # nginx with nohostname
    b"<13>Jan 11 12:00:03 web1 nginx[12]: ",  # logger --id
    b"<30>Jan  1 12:00:03 web1 docker/a1b2c3[4567]: ",  # Docker's driver
    b"<134>2026-01-01T12:00:03.123456+00:00 web1 haproxy[7]: ",  # rsyslog's format to forward
    b"<190>Jan  1 12:00:03 2001:db8::7 nginx: ",
    b"<190>1 2026-01-01T12:00:03.003Z web1 nginx 12 access - ",
    b"<13>1 2026-01-01T12:00:03+00:00 web1 nginx - - [timeQuality tzKnown=\"1\" isSynced=\"0\"] ",  # logger
    b'<13>1 - - - - - [a@1 b="c \\] \\" ]"][d e="f"] \xef\xbb\xbf',
    b"<190>",
    b"",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize(
    "text",
    [
        LINE,
        b'{"status": 302, "time": "x"}',
        b"2001:db8::7 - - [x]",
        b"[28/Nov/2026:10:00:00 +0000] - 302 302 - GET",
        b"",
    ],
)
def test_what_stands_before_a_line_is_taken_off(header: bytes, text: bytes) -> None:
    assert line_of(header + text + b"\n") == text


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (b"<13>Jan  1 12:00:03 2001:db8::7 - - [x]", b"2001:db8::7 - - [x]"),  # no program is named
        (
            b"<13>Jan  1 12:00:03 web1 203.0.113.7 - - [x]",
            b"web1 203.0.113.7 - - [x]",
        ),  # what is left is read by the log
        (b"<13>1 2026 short", b"1 2026 short"),
        (b"<1234>x", b"<1234>x"),
    ],
)
def test_what_is_not_recognised_stays(message: bytes, left: bytes) -> None:
    assert line_of(message) == left


MESSAGES = st.lists(st.sampled_from([b"<13>" + LINE, b"<1>a", b"203.0.113.7 x", b"5 apples", b"{}"]), max_size=8)


@law
@given(MESSAGES, st.data())
def test_messages_are_cut_in_the_same_way_however_they_come(messages: list[bytes], data: Any) -> None:
    counted = [message.startswith(b"<") and data.draw(st.booleans()) for message in messages]
    stream = b"".join(
        b"%d %s" % (len(message), message) + b"\n" * data.draw(st.integers(0, 1)) if by_octets else message + b"\n"
        for message, by_octets in zip(messages, counted, strict=True)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames, found = Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += frames.feed(stream[start:end])
    assert (found, frames.is_open) == (messages, False)


@pytest.mark.parametrize("stream", [b"x" * (LONGEST_MESSAGE + 1), b"%d <13>x" % (LONGEST_MESSAGE + 1)])
def test_a_message_that_is_far_too_long_breaks_its_stream(stream: bytes) -> None:
    with pytest.raises(FramesBroken):
        Frames().feed(stream)


# --- handing over -----------------------------------------------------------------------------------------------------
class Received:
    """A receiver over an intake in memory."""

    def __init__(self) -> None:
        self.client = Client()
        self.receiver = SyslogReceiver(HitSender(self.client.routes), AccessLog(is_bot), NO_DIMENSIONS)

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self.receiver.datagram_received(message, None)

    def hand_over(self) -> dict[str, int]:
        """Hands over what was sent; returns what became of all lines so far."""
        asyncio.run(self.receiver.hand_over())
        return {outcome: many for outcome, many in self.receiver.lines.items() if many}


@pytest.fixture
def received() -> Received:
    return Received()


def test_lines_are_hits_or_skipped_or_refused(received: Received) -> None:
    received.send(*(header + LINE for header in HEADERS), b"<13>" + line(status=404).encode(), b"<13>nonsense")
    received.send(line(agent=BOT).encode(), line("/ahead", when="01/Jan/2027:12:00:03 +0000").encode())
    assert received.client.intake.total == 0
    assert received.hand_over() == {"taken": len(HEADERS) + 1, "skipped": 1, "refused": 2}
    assert received.client.intake.people == {(MINUTE, "launch"): len(HEADERS)}
    assert received.client.intake.bots == {(MINUTE, "launch"): 1}
    received.hand_over()
    assert received.client.intake.total == len(HEADERS) + 1


def test_columns_of_one_second_hold_for_no_other(received: Received) -> None:
    received.send(FIELDS.encode(), W3C_LINE.encode())
    assert received.hand_over() == {"taken": 1, "skipped": 1}
    received.send(W3C_LINE.encode())
    assert received.hand_over() == {"taken": 1, "skipped": 1, "refused": 1}


def test_what_comes_too_fast_is_dropped_and_what_the_journal_refuses_is_lost(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syslog, "MOST_WAITING", 2)
    received.client.intake.failure = JournalFull("full")
    received.send(LINE, LINE, LINE)
    assert received.hand_over() == {"dropped": 1, "lost": 2}
    received.client.intake.failure = None
    assert received.hand_over() == {"dropped": 1, "lost": 2}
    assert received.client.intake.total == 0, "at most once"


def test_large_messages_are_bounded_by_their_bytes(received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "MOST_BYTES", 3 * len(LINE))
    received.send(*[LINE] * 5)
    assert received.hand_over() == {"taken": 3, "dropped": 2}


# --- a real server ----------------------------------------------------------------------------------------------------
def is_over(connection: socket.socket) -> bool:
    """Waits for the end of a connection, which the server may reset: there is nothing to answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def metric(client: Clickcurve, outcome: str) -> float:
    return client.metrics().get(f'clickcurve_syslog_lines_total{{journal="journal-1",outcome="{outcome}"}}', 0)


def test_a_server_takes_lines_by_udp_and_by_tcp(serve: Serve) -> None:
    port = free_port()
    server = serve("--syslog", f"127.0.0.1:{port}")
    assert events(server, "syslog")[0]["port"] == port
    framed = [HEADERS[0] + LINE + b"\n", b"%d %s" % (len(HEADERS[6] + LINE), HEADERS[6] + LINE), LINE + b"\n"]
    with Clickcurve(server.url) as client, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(HEADERS[0] + LINE, ("127.0.0.1", port))
        with socket.create_connection(("127.0.0.1", port)) as tcp:
            tcp.sendall(b"".join(framed) + LINE[:40])
        with socket.create_connection(("127.0.0.1", port)) as tcp:
            tcp.sendall(b"x" * (1 << 18))
            assert is_over(tcp)
        wait_until(lambda: bool(client.total("launch")["total"] == 4))
        wait_until(lambda: metric(client, "refused") == 2)
        assert metric(client, "taken") == 4


def test_of_several_workers_one_listens_and_a_stop_counts_what_has_come(serve: Serve, tmp_path: Path) -> None:
    port = free_port()
    flags = ("--workers", "2", "--syslog", f"127.0.0.1:{port}")
    server = serve(*flags, data=tmp_path / "data")
    wait_until(lambda: bool(events(server, "syslog")))  # the worker that listens may be ready after the other
    with closing(socket.create_connection(("127.0.0.1", port))) as tcp:
        tcp.sendall((LINE + b"\n") * 500)
        with Clickcurve(server.url) as client:
            wait_until(lambda: metric(client, "taken") >= 1)
        assert server.stop() == 0
        assert is_over(tcp)
    assert len(events(server, "syslog")) == 1
    again = serve(data=tmp_path / "data")
    with Clickcurve(again.url) as client:
        assert client.total("launch")["total"] == 500


def test_a_full_house_closes_the_connection_that_was_silent_for_longest(
    monkeypatch: pytest.MonkeyPatch, received: Received
) -> None:
    monkeypatch.setattr(syslog, "MOST_CONNECTIONS", 2)

    async def crowd() -> list[bool]:
        port = free_port()
        await received.receiver.listen("127.0.0.1", port)
        made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        made[0][1].write(LINE + b"\n")
        await until(lambda: len(received.receiver._messages) == 1)
        made.append(await asyncio.open_connection("127.0.0.1", port))
        assert await made[1][0].read() == b"", "it said nothing"
        made[2][1].write(LINE + b"\n")
        await until(lambda: len(received.receiver._messages) == 2)
        for _, writer in made:
            writer.close()
        received.receiver.close()
        await received.receiver.hand_over()
        return [reader.at_eof() for reader, _ in made]

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.01)

    assert asyncio.run(crowd())[1]
    assert received.client.intake.total == 2


def test_a_sender_over_tcp_waits_where_one_over_udp_is_dropped(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syslog, "MOST_WAITING", 100)
    many = 40_000

    async def pour() -> None:
        port = free_port()
        await received.receiver.listen("127.0.0.1", port)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        pouring = asyncio.ensure_future(send_all(writer))
        async with asyncio.timeout(120):
            while received.client.intake.total < many:
                assert len(received.receiver._messages) < 100 + (1 << 18) // len(LINE) + 1, "one read more at most"
                await received.receiver.hand_over()
                await asyncio.sleep(0.001)
        await pouring
        received.receiver.close()

    async def send_all(writer: asyncio.StreamWriter) -> None:
        writer.write((LINE + b"\n") * many)
        await writer.drain()
        writer.close()

    asyncio.run(pour())
    assert received.client.intake.total == many


def test_lines_of_strangers_need_a_word(tmp_path: Path) -> None:
    done = run("serve", "--data", str(tmp_path / "d"), "--port", str(free_port()), "--syslog", "0.0.0.0:5140")
    assert done.returncode == 2
    assert "its packets have no tokens" in done.stderr


@pytest.mark.needs("logger")
@pytest.mark.parametrize("framing", [("--udp",), ("--tcp",), ("--tcp", "--octet-count")])
@pytest.mark.parametrize("form", ["--rfc3164", "--rfc5424"])
def test_a_real_sender_of_both_forms_and_framings(serve: Serve, form: str, framing: tuple[str, ...]) -> None:
    port = free_port()
    server = serve("--syslog", f"127.0.0.1:{port}")
    asked = ["logger", "--server", "127.0.0.1", "--port", str(port), "--tag", "nginx", form, *framing]
    subprocess.run([*asked, "--", LINE.decode()], check=True, timeout=60)
    with Clickcurve(server.url) as client:
        wait_until(lambda: bool(client.total("launch")["total"] == 1))
        assert metric(client, "refused") == 0
