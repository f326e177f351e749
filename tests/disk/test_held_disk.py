"""A disk that does not answer, under a real server: who is refused, who waits, and what counts in the end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.disk.held_disk import HeldDisk, held_disk
from tests.power import one_in

pytestmark = pytest.mark.needs("compiler")

JOURNALS, STORE = "/journal-", "clickcurve.db"
NOT_ANSWERED = "the disk has not answered for "
NDJSON = {"Content-Type": "application/x-ndjson"}
Asking = Callable[[httpx.Client], httpx.Response]

# A request that leads to each way of a hit: below ASGI by path and by body, through ASGI, with an id, batches.
HITS: dict[str, Asking] = {
    "by path": lambda http: http.post("/v1/hits/refused"),
    "one JSON hit": lambda http: http.post("/v1/hits", json={"key": "refused"}),
    "through ASGI": lambda http: http.post("/v1/hits/refused", headers={"Idempotency-Key": "of-a-batch"}),
    "with an id": lambda http: http.post("/v1/hits", json={"key": "refused", "id": "its-own"}),
    "a batch": lambda http: http.post("/v1/hits", json=[{"key": "refused", "count": 3}, {"key": "refused"}]),
    "lines": lambda http: http.post("/v1/hits", content=b'{"key":"refused"}\n' * 9, headers=NDJSON),
    "an import": lambda http: http.post("/v1/import/log?from=0&to=9", json=[{"key": "refused", "ts": 1_700_000_000}]),
}


def server_on(data: Path, disk: HeldDisk, *flags: str) -> RunningServer:
    settings = {**disk.environment, "CLICKCURVE_JOURNAL_STALL_S": "1"}
    return RunningServer(data, "--flush-s", "3600", *flags, settings=settings)


def send(url: str, key: str) -> httpx.Response:
    with Clickcurve(url, timeout_s=60.0) as client:
        return client.http.post(f"/v1/hits/{key}")


def is_ready(client: Clickcurve, purpose: str = "write") -> bool:
    return client.http.get(f"/readyz?for={purpose}").status_code == 200


def test_while_the_disk_does_not_answer_hits_are_refused_and_questions_go_on(data: Path) -> None:
    with (
        ThreadPoolExecutor(4) as threads,
        held_disk(JOURNALS) as disk,
        server_on(data, disk) as server,
        Clickcurve(server.url, fresh=True) as client,
    ):
        client.hit("kept")
        disk.hold()
        under_way = threads.submit(send, server.url, "kept")
        server.wait_until(lambda: disk.waiting > 0)
        behind = threads.submit(send, server.url, "refused")  # waits for a group that is never sent
        server.wait_until(lambda: not is_ready(client))
        told = client.http.get("/readyz").json()
        assert (told["status"], told["detail"][: len(NOT_ANSWERED)]) == (503, NOT_ANSWERED)
        assert client.metric("clickcurve_journal_stalled_seconds") > 1
        for name, ask in HITS.items():
            refused = ask(client.http)
            assert refused.status_code == 503, name
            assert refused.headers["Retry-After"] == "5", name
            assert refused.json()["detail"].startswith(NOT_ANSWERED), name
        assert behind.result(60).status_code == 503
        assert client.erase("refused") == 503
        assert is_ready(client, "read")
        assert client.total("kept")["total"] == 1
        assert client.curve("kept")["total"] == 1
        assert client.top()["links"] == [{"key": "kept", "count": 1}]
        assert not under_way.done()
        disk.let_go()
        assert under_way.result(60).status_code == 200
        server.wait_until(lambda: is_ready(client))
        assert client.metric("clickcurve_journal_stalled_seconds") == 0
        accepted = [ask(client.http) for ask in HITS.values()]
        assert {answer.status_code for answer in accepted} == {200}
        assert [answer.json()["counted"] for answer in accepted] == [1, 1, 1, 1, 4, 9, 1]
        assert client.total("refused")["total"] == 18
        assert client.total("kept")["total"] == 2
        assert client.erase("refused") == 204
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        assert client.lifetimes(["kept", "refused"]) == {"kept": 2, "refused": 0}


def test_with_two_workers_all_that_was_answered_counts(data: Path) -> None:
    with (
        ThreadPoolExecutor(30) as threads,
        held_disk(JOURNALS) as disk,
        server_on(data, disk, "--workers", "2") as server,
        Clickcurve(server.url, fresh=True) as client,
    ):
        disk.hold()
        sent: list[Future[httpx.Response]] = [threads.submit(send, server.url, "a")]
        server.wait_until(lambda: disk.waiting > 0)
        # Until both workers refuse hits; questions to either go on.
        while any(is_ready(client) for _ in range(8)):
            sent.append(threads.submit(send, server.url, "a"))
            assert client.http.get("/v1/total").status_code == 200
        disk.let_go()
        good = [each.result(60).status_code for each in sent].count(200)
        server.wait_until(lambda: all(is_ready(client) for _ in range(8)))
        server.wait_until(lambda: client.total("a")["total"] == good)


def test_a_disk_that_answers_each_write_after_300_ms_refuses_nothing(data: Path) -> None:
    """All hits that came meanwhile share the next write."""
    with (
        ThreadPoolExecutor(32) as threads,
        held_disk(JOURNALS) as disk,
        server_on(data, disk) as server,
        Clickcurve(server.url) as client,
    ):
        client.hit("a")
        disk.slow(300)
        before = disk.calls
        answers = [threads.submit(send, server.url, "a") for _ in range(200)]
        assert {each.result(60).status_code for each in answers} == {200}
        assert disk.calls - before < 100
        assert is_ready(client)
        disk.slow(0)
        assert client.total("a")["total"] == 201


def test_a_flush_waits_while_the_file_of_the_store_hangs_and_nothing_is_refused(data: Path) -> None:
    with held_disk(STORE) as disk:
        settings = {**disk.environment, "CLICKCURVE_JOURNAL_STALL_S": "1"}
        with RunningServer(data, "--flush-s", "1", settings=settings) as server, Clickcurve(server.url) as client:
            client.hit("a")
            server.wait_until(lambda: client.metric("clickcurve_buffered_hits") == 0)
            disk.hold()
            client.hit("a")
            server.wait_until(lambda: disk.waiting > 0)
            server.wait_until(lambda: client.http.get("/readyz").json().get("flush") == "stuck")  # after 4 s
            for _ in range(20):
                client.hit("a")
            assert is_ready(client)
            assert client.metric("clickcurve_journal_stalled_seconds") == 0
            assert client.total("a")["total"] == 22
            disk.let_go()
            server.wait_until(lambda: client.metric("clickcurve_buffered_hits") == 0)
            assert client.total("a")["total"] == 22


@pytest.mark.parametrize("drain_s", one_in(2, [0, 1]))
def test_a_stop_does_not_wait_for_the_disk_for_ever(data: Path, drain_s: int) -> None:
    with (
        ThreadPoolExecutor(4) as threads,
        held_disk(JOURNALS) as disk,
        server_on(data, disk, "--drain-s", str(drain_s)) as server,
        Clickcurve(server.url, fresh=True) as client,
    ):
        client.hit("a")
        disk.hold()
        under_way = threads.submit(send, server.url, "a")
        server.wait_until(lambda: disk.waiting > 0)
        server.wait_until(lambda: not is_ready(client))
        assert server.stop(60) == 0
        with pytest.raises(httpx.TransportError):
            under_way.result(60)
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        assert client.total("a")["total"] in (1, 2)


def test_a_start_waits_for_the_disk_and_says_so(data: Path) -> None:
    with held_disk(JOURNALS) as disk:
        with server_on(data, disk) as server, Clickcurve(server.url) as client:
            client.hit("a")
        disk.hold()
        again = server_on(data, disk)
        again.launch()
        again.wait_until(lambda: disk.waiting > 0)
        again.wait_until(lambda: "journal not open yet" in again.output())
        disk.let_go()
        again.wait_ready()
        with Clickcurve(again.url) as client:
            client.hit("a")
            assert client.total("a")["total"] == 2
        again.stop()


def test_a_server_that_was_paused_refuses_nothing_when_it_goes_on(data: Path) -> None:
    """For longer than a write may take, while one was under way, which the disk had answered long since."""
    with (
        ThreadPoolExecutor(4) as threads,
        held_disk(JOURNALS) as disk,
        server_on(data, disk) as server,
        Clickcurve(server.url, fresh=True) as client,
    ):
        for _ in range(5):
            disk.hold()
            under_way = threads.submit(send, server.url, "a")
            server.wait_until(lambda: disk.waiting > 0)
            server.signal(signal.SIGSTOP)
            disk.let_go()
            Event().wait(2.5)
            server.signal(signal.SIGCONT)
            answers = [threads.submit(send, server.url, "a"), threads.submit(send, server.url, "a"), under_way]
            assert [each.result(60).status_code for each in answers] == [200] * 3
        assert is_ready(client)
        assert client.total("a")["total"] == 15
