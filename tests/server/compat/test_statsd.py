"""StatsD's lines: counts and nothing else, and at most once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from clickcurve.buckets.errors import JournalFull
from server.compat import statsd
from server.compat.hit_sender import HitSender
from server.compat.statsd import PIECE_HITS, LineRefused, StatsdReceiver, hit_of_line
from testing.client import Clickcurve
from testing.server import RunningServer, free_port, run
from tests.conftest import Serve
from tests.ingest.http_kit import MINUTE, NOW, Client
from tests.server.conftest import events, wait_until


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        ("clicks:1|c|#key:launch", {"key": "launch", "count": 1}),
        ("clicks.launch:3|c", {"key": "launch", "count": 3}),
        ("clicks.a.b:3|c", {"key": "a.b", "count": 3}),
        ("clicks:1:2:3|c|#key:x", {"key": "x", "count": 6}),
        ("clicks:2|c|@1|#key:x,country:DE,bot:true|T1783000000|c:abc",
         {"key": "x", "count": 2, "country": "DE", "bot": True, "ts": 1783000000}),
        ("clicks:1|c|#key:ext|e:it-false,cn-nginx,pu-75a2b6d5|card:low|x", {"key": "ext", "count": 1}),
        ("clicks:4.0|c|#key:x", {"key": "x", "count": 4}),
        ("clicks:+4:1.50e1:2E0|c|@1.000|#key:x", {"key": "x", "count": 21}),
        ("clicks:2|c|@1e0|#key:x", {"key": "x", "count": 2}),
        ("clicks:1|c|#key:x,event:sale,value:4990", {"key": "x", "count": 1, "event": "sale", "value": 4990}),
        ("clicks:1|c|#key:x,value:4990", {"key": "x", "count": 1}),
        ("clicks:2|c|#key:a:b,other:1,ref:news.example", {"key": "a:b", "count": 2, "ref": "news.example"}),
    ],
)  # fmt: skip
def test_a_line_is_hits(line: str, hit: dict[str, Any]) -> None:
    assert hit_of_line(line) == hit


@pytest.mark.parametrize(
    "line",
    ["", "clicks", "clicks:1", "clicks:1|g|#key:x", "clicks:1|ms|#key:x", "clicks:1|c", "clicks:1|c|@0.5|#key:x",
     "clicks:-1|c|#key:x", "clicks:1.5|c|#key:x", "clicks:0|c|#key:x", "requests:1|c|#key:x", "clicks.a:1|c|#key:b",
     "clicks:1|c|#key:", "clicks:1|c|Tx|#key:x", "clicks:1|c|#key:x,event:sale,value:1.5",
     "clicks:99999999999|c|#key:x", "_sc|x|0",
     "clicks:4.5|c|#key:x", "clicks:1e99|c|#key:x", "clicks:nan|c|#key:x", "clicks:4 0|c|#key:x", "clicks:٤|c|#key:x",
     "clicks:1|c|@0.9999|#key:x", "clicks:1|c|@|#key:x", "clicks:1|c|@2|#key:x", "clicks:0x4|c|#key:x"],
)  # fmt: skip
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(LineRefused):
        hit_of_line(line)


def test_packets_are_handed_over_together() -> None:
    client = Client()
    receiver = StatsdReceiver(HitSender(client.routes), lambda: 0.0)
    receiver.datagram_received(b"clicks:1|c|#key:a\nclicks:2|c|#key:b\nnonsense\n\n", None)
    receiver.datagram_received(b"clicks:1|c|#key:a,country:nowhere", None)
    receiver.datagram_received(f"clicks:4|c|#key:a|T{NOW - 60}".encode(), None)
    assert client.intake.total == 0
    asyncio.run(receiver.hand_over())
    asyncio.run(receiver.hand_over())
    assert client.intake.people == {(MINUTE, "a"): 2, (MINUTE, "b"): 2, (MINUTE - 60, "a"): 4}
    assert receiver.lines == {"taken": 4, "refused": 1}


def test_many_lines_are_handed_over_in_pieces() -> None:
    client = Client()
    receiver = StatsdReceiver(HitSender(client.routes), lambda: 0.0)
    receiver.datagram_received(b"clicks:1|c|#key:a\r\n" * (2 * PIECE_HITS + 1), None)
    asyncio.run(receiver.hand_over())
    assert (client.intake.total, len(client.intake.batches)) == (2 * PIECE_HITS + 1, 3)


def test_too_many_are_dropped_and_what_the_journal_refuses_is_lost_and_both_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statsd, "MOST_WAITING", 2)
    client = Client()
    client.intake.failure = JournalFull("full")
    receiver = StatsdReceiver(HitSender(client.routes), lambda: 0.0)
    receiver.datagram_received(b"clicks:1|c|#key:a\n" * 2, None)
    receiver.datagram_received(b"clicks:1|c|#key:a", None)
    asyncio.run(receiver.hand_over())
    assert receiver.lines == {"taken": 2, "dropped": 1, "lost": 2}
    client.intake.failure = None
    asyncio.run(receiver.hand_over())
    assert client.intake.total == 0, "at most once"


def test_a_server_takes_packets_where_it_is_told_to(serve: Serve) -> None:
    port = free_port()
    server = serve("--statsd", f"127.0.0.1:{port}")
    assert events(server, "statsd")[0]["port"] == port
    with Clickcurve(server.url) as client, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for packet in (b"clicks:2|c|#key:launch", b"clicks.launch:1|c\nclicks:5|g"):
            sending.sendto(packet, ("127.0.0.1", port))
        wait_until(lambda: bool(client.total("launch")["total"] == 3))
        assert client.metrics()['clickcurve_statsd_lines_total{journal="journal-1",outcome="refused"}'] == 1


def test_packets_of_strangers_need_a_word(tmp_path: Any) -> None:
    done = run("serve", "--data", str(tmp_path / "d"), "--port", str(free_port()), "--statsd", "0.0.0.0:8125")
    assert done.returncode == 2
    assert "its packets have no tokens" in done.stderr


def test_it_is_off_by_default(shared: RunningServer) -> None:
    assert events(shared, "statsd") == []
