"""What operators do to journals by mistake, on a real node: nothing counts twice, and what is quarantined is told."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from testing.cassandra.node import Node
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.cassandra.proxy import Proxy
from tests.conftest import Serve
from tests.server.conftest import Line, events, wait_until

LATER = "3600"  # seconds between flushes: only starts and stops flush


@pytest.fixture
def start(serve: Serve, cassandra_uri: str, tmp_path: Path) -> Callable[..., RunningServer]:
    """Starts a server of that store on the data folder of this name."""

    def started(name: str, flush_s: str = LATER, at: str = cassandra_uri) -> RunningServer:
        return serve("--flush-s", flush_s, "--store", at, data=tmp_path / name / "data")

    return started


def send(server: RunningServer, count: int, id_: str | None = None) -> None:
    """One hit of `launch` with a count that no other has: totals say which ones they hold."""
    with Clickcurve(server.url) as client:
        receipt = client.send({"key": "launch", "count": count, **({"id": id_} if id_ else {})})
        assert receipt["counted"] == count


def total(server: RunningServer) -> int:
    with Clickcurve(server.url) as client:
        found: int = client.total("launch")["total"]
        return found


def copy(tmp_path: Path, name: str, to: str) -> None:
    """The journal of a server, running or not, in another one's data folder."""
    shutil.copytree(tmp_path / name / "data" / "journal-1", tmp_path / to / "data" / "journal-1")


def quarantined(server: RunningServer) -> list[Line]:
    """What the server says of journals that it quarantined: in the log, in the folder and on /metrics alike."""
    told = events(server, "journal quarantined")
    assert all(Path(line["moved_to"]).is_dir() for line in told)
    assert len(list(server.data.glob("set-aside-*"))) == len(told)
    with Clickcurve(server.url) as client:
        assert client.metric("clickcurve_quarantined_journals") == len(told)
    return told


def test_of_a_copied_journal_started_twice_at_once_one_is_counted(
    start: Callable[..., RunningServer], cassandra_uri: str, tmp_path: Path
) -> None:
    first = start("first")
    send(first, 1)
    send(first, 4, id_="visit")
    first.kill()
    copy(tmp_path, "first", to="second")
    second = RunningServer(tmp_path / "second" / "data", "--flush-s", LATER, "--store", cassandra_uri)
    try:
        first.launch()
        second.launch()
        first.wait_ready()
        second.wait_ready()
        told = [*quarantined(first), *quarantined(second)]
        assert len(told) == 1 and "counted already" in told[0]["reason"]
        assert total(first) == total(second) == 1 + 4
        send(first, 16)
        send(second, 64)
        assert (first.stop(), second.stop()) == (0, 0)
    finally:
        second.kill()
    assert total(start("third")) == 1 + 4 + 16 + 64


def test_a_copy_that_starts_takes_over_and_what_the_original_counts_from_then_on_is_quarantined(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    original = start("original")
    send(original, 1)
    send(original, 4, id_="visit")
    copy(tmp_path, "original", to="copy")
    send(original, 16)
    taker = start("copy")  # its first flush stores what the copy holds
    assert total(taker) == 1 + 4
    assert original.stop() == 0
    (failed,) = events(original, "last flush failed")
    assert "taken owner" in failed["reason"]
    original.start()
    (told,) = quarantined(original)
    flushed = any(line["hits"] for line in events(original, "flush"))  # the first fold of a slow start may come later
    assert told["hits"] == (16 if flushed else 1 + 16), "hits with an id show once it is claimed"
    assert total(original) == total(taker) == 1 + 4
    send(original, 64)
    send(taker, 256)
    assert original.stop() == taker.stop() == 0
    assert total(start("third")) == 1 + 4 + 64 + 256


def test_a_journal_restored_from_before_newer_flushes_is_quarantined_if_it_holds_hits(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    server = start("server")
    send(server, 1)
    server.kill()
    copy(tmp_path, "server", to="an-hour-ago")
    server.start()  # stores it
    send(server, 4)
    assert server.stop() == 0
    shutil.rmtree(server.data / "journal-1")
    (tmp_path / "an-hour-ago" / "data" / "journal-1").rename(server.data / "journal-1")
    server.start()
    (told,) = quarantined(server)
    assert told["hits"] == 1 and "counted already" in told["reason"]
    assert total(server) == 1 + 4
    send(server, 16)
    assert server.stop() == 0
    assert total(start("third")) == 1 + 4 + 16


def test_an_empty_journal_restored_from_before_newer_flushes_goes_on_as_a_new_owner(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    server = start("server")
    send(server, 1)
    server.kill()
    server.start()  # stores it
    server.kill()
    copy(tmp_path, "server", to="an-hour-ago")
    server.start()
    send(server, 4)
    server.kill()
    server.start()  # stores it, too: a flush that the copy does not know
    server.kill()
    shutil.rmtree(server.data / "journal-1")
    (tmp_path / "an-hour-ago" / "data" / "journal-1").rename(server.data / "journal-1")
    server.start()
    assert quarantined(server) == []
    send(server, 16)
    assert server.stop() == 0
    assert total(start("third")) == 1 + 4 + 16


@pytest.fixture
def proxy(one_node: Node) -> Iterator[Proxy]:
    with Proxy((one_node.address, one_node.port)) as proxy:
        yield proxy


def test_a_process_paused_in_a_flush_that_wakes_after_a_takeover_writes_and_accepts_nothing(
    start: Callable[..., RunningServer], cassandra_uri: str, tmp_path: Path, one_node: Node, proxy: Proxy
) -> None:
    through = cassandra_uri.replace(f":{one_node.port}/", f":{proxy.port}/") + "?timeout_s=1"
    sleeper = start("sleeper", flush_s="1", at=through)
    proxy.drop(lambda text: text.startswith("UPDATE ") and ".rows " in text)
    send(sleeper, 1)
    send(sleeper, 4, id_="visit")
    proxy.until(lambda counts: counts.dropped > 0)  # its rows are written, and it does not know
    sleeper.signal(signal.SIGSTOP)
    copy(tmp_path, "sleeper", to="taker")
    taker = start("taker", flush_s="1")
    assert total(taker) == 1 + 4
    send(taker, 16)
    stored(taker)
    proxy.heal()
    sleeper.signal(signal.SIGCONT)

    wait_until(lambda: refuses(sleeper))
    with Clickcurve(sleeper.url) as client:
        owned = [name for name in client.metrics() if name.startswith("clickcurve_owner_info{")]
        assert len(owned) == 1 and 'state="fenced"' in owned[0]
        assert client.http.get("/readyz").status_code == 503
        assert client.total("launch")["total"] == 1 + 4 + 16
    assert sleeper.stop() == 0
    sleeper.start()
    (told,) = quarantined(sleeper)
    assert "counted already" in told["reason"]
    send(sleeper, 64)
    stored(sleeper)
    assert total(sleeper) == total(taker) == 1 + 4 + 16 + 64


def stored(server: RunningServer) -> None:
    """Wait until all that the server has accepted is in the store."""
    with Clickcurve(server.url) as client:
        server.wait_until(lambda: client.metric("clickcurve_buffered_entries") == 0)


def refuses(server: RunningServer) -> bool:
    """Whether it answers a hit with 503 and the reason; a hit of another key, which may count."""
    answer = httpx.post(f"{server.url}/v1/hits/other", trust_env=False, timeout=600)
    assert answer.status_code in (200, 503)
    return answer.status_code == 503 and "taken owner" in answer.json()["detail"]
