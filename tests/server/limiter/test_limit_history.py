"""What a server's limiter decided is a curve: served, flushed, kept over stops and kills, the same for all workers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from clickcurve.buckets.errors import JournalBehind, JournalUnknown, StoreUnavailable
from clickcurve.keys import limit_key
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from ingest.batch import Batch
from server.limiter.history import SECRET_BYTES, LimitHistory, secret_in
from testing.backend_servers import shared_redis
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until

IP = {"ip": "203.0.113.7"}
RULES = """
[limits.login]
by = "ip"
rates = "5/h"
[limits.free]
by = "ip"
rates = "1/h"
shadow = true
history = "callers"
"""


class Client:
    def __init__(self, server: RunningServer) -> None:
        self._server = server

    def decide(self, event: str, times: int, cost: int = 1, ip: str = "203.0.113.7") -> list[int]:
        with http_client(self._server.url, fresh=True) as client:
            body = {"ip": ip, "cost": cost}
            return [client.post(f"/v1/limit/{event}", json=body).status_code for _ in range(times)]

    def total(self, event: str, what: str = "total", **asked: str) -> int:
        total: int = self.get(f"/v1/limits/{event}/{what}", **asked).raise_for_status().json()["total"]
        return total

    def get(self, path: str, **asked: str) -> httpx.Response:
        with http_client(self._server.url) as client:
            return client.get(path, params=asked)

    def totals(self, event: str) -> tuple[int, int]:
        return self.total(event, outcome="asked"), self.total(event, outcome="admitted")

    def wait_for(self, event: str, asked: int, admitted: int) -> None:
        wait_until(lambda: self.totals(event) == (asked, admitted))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clickcurve.toml"
    path.write_text(RULES)
    return path


def test_what_was_decided_is_a_curve_through_stops_and_kills(data: Path, config: Path, serve: Serve) -> None:
    server = serve("--flush-s", "1", "--config", str(config), data=data)
    client = Client(server)
    assert client.decide("login", 7) == [200] * 5 + [429] * 2
    assert client.decide("free", 1, cost=3) == [200]
    client.wait_for("login", 7, 5)
    client.wait_for("free", 3, 3)
    assert client.total("login", "curve") == 7
    server.kill()  # -9: what was handed over is in the journal, or in the store
    server.start()
    assert client.totals("login") == (7, 5)
    assert client.decide("login", 1, ip="203.0.113.8") == [200]
    assert server.stop() == 0  # what was decided a moment ago is handed over
    config.write_text("")
    server.start()
    assert client.totals("login") == (8, 6)  # its rule is gone, its history is not
    assert client.get("/v1/total").json()["total"] == 0
    assert client.get("/v1/limits/logn/curve").status_code == 404
    assert "0 rows break a law" in said("verify", "--data", str(data))


def test_a_caller_is_found_under_the_name_that_it_is_counted_under(data: Path, config: Path, serve: Serve) -> None:
    client = Client(serve("--config", str(config), data=data))
    client.decide("free", 1, cost=3, ip="2001:db8::1")
    client.decide("login", 1, ip="2001:db8::1")
    client.wait_for("login", 1, 1)
    assert client.total("free", caller="ip=2001:db8::1") == 3
    assert client.total("free", caller="ip=2001:db8::2") == 3  # the same network
    assert client.total("free", "curve", caller="ip=2001:db8:0:1::1") == 0
    assert client.total("login", caller="ip=2001:db8::1") == 0  # its rule keeps none
    assert (data / "callers.secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.needs("redis")
def test_all_workers_have_one_history(data: Path, config: Path, serve: Serve) -> None:
    config.write_text(RULES.replace("rates", 'backend = "redis"\nrates'))
    redis = shared_redis()
    # Beyond the usual 0.1 s a rule is decided without Redis: a busy machine must not have that here.
    patient = ("--limits-redis", redis.url, "--limits-timeout-ms", "20000")
    flags = ("--flush-s", "1", "--workers", "2", "--config", str(config), *patient)
    server = serve(*flags, data=data)
    client = Client(server)
    answers = client.decide("login", 20)
    assert (answers.count(200), answers.count(429)) == (5, 15)
    client.wait_for("login", 20, 5)
    assert server.stop() == 0


# --- handing over -----------------------------------------------------------------------------------------------------
class Journal:
    """Takes batches, or raises the given error."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.taken: list[Batch] = []

    async def accept(self, batch: Batch) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(batch)


def history(journal: Journal) -> tuple[LimitHistory, Limiter]:
    found = LimitHistory(journal.accept, lambda: 60.0, Path())
    rules = parse_rules({"login": {"by": "ip", "rates": "1/m"}})
    return found, Limiter(rules, clock=lambda: 60.0, listener=found.count)


def test_what_was_certainly_not_kept_is_handed_over_again() -> None:
    journal = Journal()
    found, limiter = history(journal)
    limiter.hit("login", IP)
    journal.error = JournalBehind("later")
    with pytest.raises(JournalBehind):
        asyncio.run(found.hand_over())
    journal.error = None
    limiter.hit("login", IP)
    asyncio.run(found.hand_over())
    counts = {60: {limit_key("login", "asked"): 2, limit_key("login", "admitted"): 1}}
    assert [batch.others for batch in journal.taken] == [counts]
    assert found.lost == 0


def test_what_may_have_been_kept_is_not_handed_over_twice_and_is_counted() -> None:
    journal = Journal()
    found, limiter = history(journal)
    limiter.hit("login", IP)
    limiter.hit("login", IP)
    journal.error = JournalUnknown("who knows")
    with pytest.raises(JournalUnknown):
        asyncio.run(found.hand_over())
    journal.error = None
    asyncio.run(found.hand_over())
    assert (journal.taken, found.lost) == ([], 2)


# --- callers ----------------------------------------------------------------------------------------------------------
def test_the_secret_is_made_once_by_the_thread_that_asks_first(tmp_path: Path) -> None:
    file = tmp_path / "callers.secret"
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: secret_in(file), range(40)))
    assert len(found) == 1
    assert len(found.pop()) == SECRET_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["callers.secret"]


def test_without_a_secret_there_is_an_answer_and_no_history_of_callers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "callers.secret"
    file.write_bytes(b"short")
    journal = Journal()
    found = LimitHistory(journal.accept, lambda: 60.0, file)
    limiter = Limiter(
        parse_rules({"login": {"by": "ip", "rates": "9/m", "history": "callers"}}),
        clock=lambda: 60.0,
        listener=found.count,
        caller_listener=found.count_for_caller,
    )
    assert [limiter.hit("login", IP).allowed for _ in range(2)] == [True, True]
    asyncio.run(found.hand_over())
    assert [list(batch.others[60]) for batch in journal.taken] == [
        [limit_key("login", "asked"), limit_key("login", "admitted")]
    ]
    assert [record.getMessage() for record in caplog.records] == ["no history of callers"]
    with pytest.raises(StoreUnavailable, match="fewer than 32 bytes"):
        found.caller("ip=203.0.113.7")
