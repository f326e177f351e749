"""Real servers whose wall clock jumps: what stays as it was, what follows, what is said of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import DAY_S
from testing.server import run
from tests.clock.clocked_server import clocked, send_two_links
from tests.clock.wrong_clock import WrongClock
from tests.power import one_in

JUMPS = one_in(4, [(400, 2), (3, 1), (-1, 1), (-400, 2)])
pytestmark = pytest.mark.needs("compiler")
YEAR_1970 = 100_000.0
ALERT = """
[[alerts]]
name = "quiet"
link = "minutes"
when = "silent for 48h"
url = "http://127.0.0.1:9/"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.parametrize(("days", "workers"), JUMPS)
def test_a_jump_that_is_put_right_leaves_no_trace(days: int, workers: int, data: Path, wall: WrongClock) -> None:
    config = data.parent / "clickcurve.toml"
    config.write_text(ALERT)
    with clocked(data, wall, "--workers", str(workers), "--config", str(config)) as server:
        before = send_two_links(server)
        wall.set(days * DAY_S)
        server.process.wait_until(lambda: server.ready().get("clock") == "stepped")
        for _ in range(2 * workers):  # each worker answers for itself
            ready = server.ready("read")
            assert (ready["ready"], ready["clock"]) == (True, "stepped")
            assert ready["clock_off_s"] == pytest.approx(days * DAY_S, abs=5)
        server.process.wait_until(lambda: server.metric("clock_steps_total") == workers)  # others' are published
        assert server.metric("clock_offset_seconds") == pytest.approx(workers * days * DAY_S, abs=10)
        assert server.metric("folding_held") == 0, "nothing is held by what is not followed"
        for job in ("flush", "tokens", "dimensions"):
            server.runs(job)
        with server.answers as asking:
            again = {"key": "once", "id": "one-and-the-same", "ip": "192.0.2.1", "ua": "Mozilla/5.0"}
            assert asking.send(again)["duplicate"] == 1
            asking.send([{"key": "seen", "ip": f"192.0.2.{n}", "ua": "Mozilla/5.0"} for n in range(3)])
            asking.hit("minutes")
            assert asking.http.get("/v1/links/seen/visitors").json()["unknown"] == 0
        server.flush(4)
        assert server.both_widths() == before, "while it was wrong"
        wall.set(0)
        server.process.wait_until(lambda: server.ready().get("clock") == "ok")
        assert "clock_off_s" not in server.ready()
        server.flush(4)
        assert server.both_widths() == before
        with server.answers as asking:
            assert asking.link("seen")["today"] + asking.link("seen")["yesterday"] == 3
        server.process.wait_until(lambda: len(server.events("clock settled")) == workers)
        stepped, settled = server.events("clock stepped"), server.events("clock settled")
        assert (len(stepped), len(settled)) == (workers, workers)
        assert not any(each["followed"] for each in settled)
        assert server.events("folding held", "alert", "job failed") == []
        assert server.process.stop() == 0
    assert run("verify", "--data", str(data)).returncode == 0


@pytest.mark.parametrize("workers", one_in(2, [2, 1]))
def test_a_start_and_a_kill_in_the_middle_of_a_jump_leave_no_trace(workers: int, data: Path, wall: WrongClock) -> None:
    with clocked(data, wall, "--workers", str(workers)) as server:
        before = send_two_links(server)
        assert server.process.stop() == 0
        wall.set(400 * DAY_S)
        server.start()  # each start folds what is due
        server.runs("flush")
        assert server.ready()["clock"] == "stepped"
        with server.answers as asking:
            assert asking.send({"key": "once", "id": "one-and-the-same"})["duplicate"] == 1
            asking.hit("minutes")
        server.process.kill()
        wall.set(-30 * DAY_S)
        server.start()
        assert server.ready()["detail"].startswith("the clock is 2,59"), "for the first minute after such a start"
        with server.answers as asking:
            asking.hit("minutes")
        server.process.kill()
        wall.set(0)
        server.start()
        assert server.ready()["clock"] == "ok"
        server.flush(4)
        assert server.both_widths() == before
        with server.answers as asking:
            assert asking.link("minutes")["lifetime"] == sum(range(1, 9)) + 2
            assert asking.send({"key": "once", "id": "one-and-the-same"})["duplicate"] == 1


def test_every_job_goes_on_in_its_period_when_the_clock_is_set_back(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall) as server:
        server.runs("flush", 1)
        wall.set(-3_600)
        begun = time.monotonic()
        for job in ("flush", "tokens", "disavow", "erase", "limit_history"):
            server.runs(job, 3)
        assert time.monotonic() - begun < 60, "each has a period of a second or two"
        assert server.ready()["flush"] == "ok"


def test_a_start_in_1970_stamps_hits_no_earlier_than_the_newest_flush(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall) as server:
        send_two_links(server)
        assert server.process.stop() == 0
        wall.set(YEAR_1970 - time.time())
        with server.start() as asking:
            answer = asking.http.get("/readyz")
            assert (answer.status_code, answer.json()["title"]) == (503, "not ready")
            assert "behind what the store already has" in answer.json()["detail"]
            asking.hit("new")
            first = asking.link("new")["first_hit"]
            assert first is not None and first > time.time() - 600
            wall.set(0)
            server.process.wait_until(lambda: server.ready().get("clock") == "ok")
        assert [each["clock"] for each in server.events("clock stepped")] == ["behind"]


def test_a_jump_that_holds_is_followed_by_hits_and_not_by_what_cannot_be_undone(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall, clock_settle_s="2") as server:
        before = send_two_links(server)
        wall.set(3 * DAY_S)
        server.process.wait_until(lambda: bool(server.events("folding held")))
        assert server.ready()["clock"] == "ok"
        assert server.metric("folding_held") == 1
        with server.answers as asking:
            asking.hit("new")
            assert asking.link("new")["first_hit"] > time.time() + 3 * DAY_S - 120
            assert asking.send({"key": "once", "id": "one-and-the-same"})["duplicate"] == 1
            asking.hit("minutes")
            assert any(each["key"] == "new" for each in asking.http.get("/v1/links?sort=hits&last=1h").json()["links"])
        server.flush(4)
        wall.set(0)
        server.process.wait_until(lambda: server.metric("clock_steps_total") == 2 and server.ready()["clock"] == "ok")
        assert server.metric("folding_held") == 0
        server.flush(4)
        assert server.both_widths() == before


def test_an_operator_accepts_a_jump_and_all_follows(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall, "--workers", "2") as server:
        send_two_links(server)
        wall.set(3 * DAY_S)
        server.process.wait_until(lambda: server.ready().get("clock") == "stepped")
        said = server.command("clock", "accept", "--json", "--url", server.process.url)
        accepted = json.loads(said)
        assert accepted["clock"] == "ok"
        assert accepted["moved_s"] == pytest.approx(3 * DAY_S, abs=5)
        server.process.wait_until(lambda: server.metric("clock_offset_seconds") == 0)
        assert server.metric("folding_held") == 0
        with server.answers as asking:
            for _ in range(8):
                asking.hit("minutes")
        server.flush(4)
        assert 3_600 in server.widths("minutes")
        assert "clock accepted" in server.command("audit", "--data", str(data))
        server.process.kill()
        server.start()
        assert server.ready()["clock"] == "ok", "the next start knows it too"


def test_a_fold_by_hand_goes_by_what_the_last_server_knew(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall) as server:
        before = send_two_links(server)
        assert server.process.stop() == 0
        wall.set(400 * DAY_S)
        assert "not believed" in server.command("fold", "--data", str(data))
        exported = server.command("export", "--data", str(data))
        wall.set(0)
        assert exported == server.command("export", "--data", str(data))
        server.start()
        assert server.both_widths() == before
        assert server.process.stop() == 0
        wall.set(3 * DAY_S)
        assert "+259,200" in server.command("clock", "accept", "--folder", "--data", str(data))
        server.command("fold", "--data", str(data))
        server.start()
        assert server.widths("minutes") == [3_600]


def test_a_command_whose_clock_differs_makes_tokens_and_shares_by_the_servers(data: Path, wall: WrongClock) -> None:
    with clocked(data, wall) as server:
        send_two_links(server)
        wall.set(-400 * DAY_S)
        said = server.command(
            "token", "create", "a", "--scope", "admin", "--expires", "1h", "--json", "--data", str(data)
        )
        token = json.loads(said)
        assert token["expires_at"] == pytest.approx(time.time() + 3_600, abs=60)
        asking = server.answers
        asking.http.headers["Authorization"] = f"Bearer {token['token']}"
        server.process.wait_until(lambda: asking.http.get("/v1/tokens").status_code == 200)
