"""The running program: it starts, is ready, stops cleanly, and refuses to start when it must."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError
from server.app.serve import serve as serve_until_told_to_stop
from server.settings.reading import read_settings
from testing.client import Clickcurve, http_client
from testing.server import RunningServer, ServerDied, run
from tests.conftest import Serve
from tests.server.conftest import events, wait_until


def test_a_stop_flushes_within_seconds_and_ends_with_zero(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", data=data)
    with Clickcurve(server.url) as client:
        for _ in range(7):
            client.hit("launch")
    assert server.stop() == 0
    (flush,) = events(server, "flush")
    assert (flush["hits"], flush["journal"]) == (7, "journal-1")
    (stopped,) = events(server, "stopped")
    assert stopped["hits_left"] == 0
    again = serve(data=data)
    assert events(again, "listening")[-1]["hits_recovered"] == 0
    with Clickcurve(again.url) as client:
        assert client.total("launch")["total"] == 7


def test_ctrl_c_stops_it_too_and_every_line_of_the_log_is_one_object_with_time_level_and_event(serve: Serve) -> None:
    server = serve()
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    assert events(server, "stopped")
    assert all({"time", "level", "event"} <= line.keys() for line in events(server))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hangup_before_it_listens_is_heard_once_it_does(data: Path, tmp_path: Path, workers: str) -> None:
    data.mkdir()
    tokens = data / "tokens.json"
    os.mkfifo(tokens)  # a start reads its tokens before it listens, and stops here until they come
    server = RunningServer(data, "--workers", workers)
    server.launch()
    try:
        with tokens.open("w") as sender:
            server.signal(signal.SIGHUP)
            tokens.unlink()
            sender.write('{"tokens": []}')
        server.wait_ready()
        if workers == "1":  # several read a settings file once more when they start, and here is none
            wait_until(lambda: bool(events(server, "limits reloaded")))
        assert server.stop() == 0
    finally:
        server.kill()


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_store_that_is_stuck(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", data=data)
    with closing(sqlite3.connect(data / "clickcurve.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Clickcurve(server.url) as client:
            client.hit("launch")
        assert server.stop() == 0
        assert events(server, "last flush failed") or events(server, "last flush unfinished")
        other.execute("ROLLBACK")
    with Clickcurve(serve(data=data).url) as client:
        assert client.total("launch")["total"] == 1


def test_hits_are_flushed_while_it_runs(serve: Serve) -> None:
    server = serve("--flush-s", "1")
    with Clickcurve(server.url) as client:
        client.hit("launch")
        wait_until(lambda: client.metrics()['clickcurve_flush_hits{journal="journal-1"}'] == 1)
        metrics = client.metrics()
        assert metrics['clickcurve_flushes_total{journal="journal-1"}'] == 1
        assert metrics['clickcurve_buffered_hits{journal="journal-1"}'] == 0
        assert client.total("launch")["total"] == 1
    assert len(events(server, "flush")) == 1


def test_port_zero_takes_a_free_port_and_says_which(data: Path) -> None:
    server = RunningServer(data, "--port", "0")
    server.launch()
    try:
        wait_until(lambda: not server.running or bool(events(server, "listening")))
        url = events(server, "listening")[0]["url"]
        assert not url.endswith((":0", f":{server.port}"))
        with http_client(url) as http:
            assert http.get("/healthz").json() == {"alive": True}
    finally:
        assert server.stop() == 0


# --- refused starts -------------------------------------------------------------------------------------------------
def refused(data: Path, *flags: str, code: int, **settings: str) -> str:
    """The one sentence with which a start is refused."""
    ended = run("serve", "--data", str(data), *flags, timeout_s=600, **settings)
    assert ended.returncode == code, ended.stderr
    (sentence,) = ended.stderr.splitlines()
    return sentence.removeprefix("Error: ")


def test_two_servers_on_one_data_folder_are_refused_with_one_sentence(server: RunningServer) -> None:
    sentence = refused(server.data, "--port", "0", code=4)
    assert sentence == f"the data folder {server.data} is held by clickcurve serve (process {server.pid})"


def test_two_data_folders_on_one_database_are_refused_with_one_sentence(serve: Serve, tmp_path: Path) -> None:
    """Neither would see what the other holds, and each would take itself for the only one."""
    store = f"sqlite:///{tmp_path}/shared.db"
    first = serve("--store", store, "--workers", "2", data=tmp_path / "one")
    assert refused(tmp_path / "two", "--store", store, "--port", "0", code=4) == (
        f"one server at a time may write the database {tmp_path}/shared.db; stop the one that does:"
        f" clickcurve serve --data {tmp_path}/one (process {first.pid})"
    )
    first.kill()  # its owner stays open in the store, and nobody holds it
    second = serve("--store", store, data=tmp_path / "two")
    with Clickcurve(second.url) as client:
        assert client.hit("launch")["counted"] == 1


def test_a_port_that_is_taken_is_refused_with_one_sentence(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert refused(data, "--port", str(port), code=2) == (
            f"cannot listen on 127.0.0.1:{port}: Address already in use; --port names another port, 0 a free one"
        )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"host": "0.0.0.0"}, "host 0.0.0.0 can be reached by others and there are no tokens"),
        ({"store": "memory://", "workers": "2"}, "memory:// works in one process only: set workers to 1"),
        ({"ladder": "60:1,90:2,month"}, "ladder (flag --ladder) is '60:1,90:2,month': it must be a ladder: "),
        ({"weekly_report": "ann@example.org"}, "weekly_report goes by mail, and the setting smtp names no server"),
        ({"host": "192.0.2.1", "insecure": "on"}, "cannot listen on 192.0.2.1:8080: Cannot assign requested"),
    ],
)
def test_what_cannot_be_served_is_refused_with_one_sentence(data: Path, flags: dict[str, str], sentence: str) -> None:
    with pytest.raises(ClickcurveError) as refusal:
        serve_until_told_to_stop(read_settings({"data": str(data), **flags}, {}))
    assert sentence in refusal.value.detail
    assert "\n" not in refusal.value.detail


def test_a_wrong_setting_is_refused_before_anything_is_made(data: Path) -> None:
    assert "did you mean port?" in refused(data, "--store", "sqlite://x", code=2, CLICKCURVE_PROT="1")
    assert not data.exists()


def test_a_data_folder_that_cannot_be_made_is_refused_with_one_sentence(data: Path) -> None:
    data.write_text("a file")
    with pytest.raises(ClickcurveError, match=f"the data folder {data} cannot be made"):
        serve_until_told_to_stop(read_settings({"data": str(data)}, {}))


def test_insecure_and_memory_are_allowed_but_said_aloud(serve: Serve, data: Path) -> None:
    server = serve("--host", "0.0.0.0", "--insecure", "--store", "memory://", "--sync", "off", data=data)
    assert {"insecure", "memory store", "sync is off"} <= {line["event"] for line in events(server)}


def test_a_damaged_journal_stops_the_start_naming_file_and_offset(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", data=data)
    with Clickcurve(server.url) as client:
        for _ in range(3):
            client.hit("launch")
    server.kill()
    segment = max((data / "journal-1").glob("segment-*"))
    content = bytearray(segment.read_bytes())
    at = content.index(b"launch")
    content[at] ^= 0xFF
    segment.write_bytes(content)
    sentence = refused(data, "--port", "0", code=1)
    assert str(segment) in sentence
    with pytest.raises(ServerDied):
        serve("--workers", "2", data=data)


def test_a_store_that_is_down_does_not_keep_hits_out(serve: Serve, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "away"
    server = serve("--store", f"sqlite:///{folder}/c.db", "--flush-s", "1", data=data)
    with Clickcurve(server.url) as client:
        assert client.hit("launch")["counted"] == 1
        assert client.http.get("/readyz?for=read").status_code == 503
        wait_until(lambda: client.http.get("/readyz").json()["store"] == "down")
        folder.mkdir()
        wait_until(lambda: client.http.get("/readyz").json()["store"] == "up")
        assert client.http.get("/readyz?for=read").status_code == 200
        assert client.total("launch")["total"] == 1
