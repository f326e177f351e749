"""A client whose server is busy, broken, slow or away: what it keeps, what it says, and that `hit` never waits."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from clickcurve.client import Client
from clickcurve.client.outbox import CLOSED, FULL, REFUSED
from clickcurve.client.post import HitsPost
from clickcurve.client.sender import REPEATABLE_S, UNDECIDED
from testing.server import free_port
from tests.clients.scripted import NEVER, NO_ANSWER, Reply, scripted

WITHIN_S = 600.0
BUSY = Reply(503, b"{}", (("Retry-After", "0"),))


@pytest.mark.parametrize(
    "fault",
    [
        BUSY,
        Reply(429, b"{}", (("Retry-After", "0"),)),
        Reply(429, b"{}", (("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"),)),
        Reply(500, b"no"),
        Reply(502),
        Reply(401, b"{}"),
        Reply(404, b"<html>"),
        Reply(301, b"", (("Location", "/elsewhere"),)),
        Reply(200, b"<html>Welcome"),
        Reply(200, b"[]"),
        Reply(200, b'{"counted": "1"}'),
        NO_ANSWER,
    ],
    ids=lambda fault: f"{fault.status} {fault.body[:5]!r}",
)
def test_a_batch_is_tried_under_the_same_id_until_it_is_answered(fault: Reply) -> None:
    with scripted(fault, fault) as server, Client(server.url, gather_s=0.01) as clicks:
        clicks.hit("launch", count=7, ref="https://news.example/")
        assert clicks.flush(WITHIN_S)
        posts = server.wait_for(3)
        assert (clicks.delivered, clicks.dropped) == (7, 0)
    assert len({post.id for post in posts}) == 1
    assert [post.hits for post in posts] == [posts[0].hits] * len(posts)


def test_hits_that_come_meanwhile_travel_under_another_id() -> None:
    with scripted(BUSY) as server, Client(server.url, gather_s=0.01) as clicks:
        clicks.hit("a")
        server.wait_for(1)
        clicks.hit("b")
        assert clicks.flush(WITHIN_S)
    ids = {post.hits[0]["key"]: post.id for post in server.posts}
    assert len(server.posts) == 3
    assert ids["a"] != ids["b"]
    assert all(len(id_) == 32 for id_ in ids.values())


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_body_that_is_never_taken_is_dropped_and_said(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with scripted(Reply(status, b'{"title": "no"}')) as server, Client(server.url, gather_s=0.01) as clicks:
        clicks.hit("launch", count=3)
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped_by_reason) == (0, {REFUSED: 3})
        clicks.hit("next")
        assert clicks.flush(WITHIN_S)
        assert clicks.delivered == 1
    assert f"status {status}" in caplog.text


def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    asked = Reply(503, b"{}", (("Retry-After", "3600"),))
    with scripted(asked) as server, Client(server.url, gather_s=0.0) as clicks:
        clicks.hit("launch")
        server.wait_for(1)
        assert not clicks.flush(0.5)
        assert (len(server.posts), clicks.waiting) == (1, 1)
        assert clicks.close(WITHIN_S), "the end of the client is the last occasion"
        assert clicks.delivered == 1


def test_a_dead_server_blocks_no_hit_and_all_is_counted_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    clicks = Client(f"http://127.0.0.1:{free_port()}", gather_s=0.0)
    began = time.perf_counter()
    for number in range(10_000):
        clicks.hit(f"key-{number % 10}")
    assert time.perf_counter() - began < WITHIN_S, "10,000 hits take 0.05 s on an idle machine"
    assert not clicks.flush(0.3)
    assert clicks.waiting == 10_000
    began = time.perf_counter()
    assert not clicks.close(0.5)
    assert time.perf_counter() - began < WITHIN_S
    assert (clicks.delivered, clicks.dropped_by_reason) == (0, {CLOSED: 10_000})
    assert "10000 hits could not be reported" in caplog.text
    assert "no connection" in caplog.text


def test_a_server_that_never_answers_blocks_no_hit_and_no_end() -> None:
    with scripted(NEVER) as server:
        clicks = Client(server.url, gather_s=0.0, timeout_s=100 * WITHIN_S)
        clicks.hit("first")
        server.wait_for(1)
        began = time.perf_counter()
        for _ in range(10_000):
            clicks.hit("launch")
        assert not clicks.close(0.2)
        assert time.perf_counter() - began < WITHIN_S, "a try takes a hundred times as long"
        assert clicks.delivered + clicks.dropped == 10_001


def test_a_try_that_takes_too_long_is_made_again() -> None:
    with scripted(NEVER) as server, Client(server.url, gather_s=0.0, timeout_s=0.2) as clicks:
        clicks.hit("launch")
        assert clicks.flush(WITHIN_S)
        assert len({post.id for post in server.wait_for(2)}) == 1
        assert clicks.delivered == 1


def test_memory_is_bounded_and_hits_of_known_lines_are_still_taken() -> None:
    bound = 2 * 1024 * 1024
    clicks = Client(f"http://127.0.0.1:{free_port()}", max_bytes=bound)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20_000):
        clicks.hit(f"key-{number}", ref=f"https://site.example/{number}")
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 1.25 * bound, f"{grown} bytes"
    waiting, dropped = clicks.waiting, clicks.dropped_by_reason[FULL]
    assert waiting + dropped == 20_000
    assert waiting > 3_000
    clicks.hit("another")
    assert clicks.dropped_by_reason[FULL] == dropped + 1
    clicks.close(0.0)


def test_lines_that_wait_take_more_hits_when_there_is_no_room() -> None:
    clicks = Client(f"http://127.0.0.1:{free_port()}", max_bytes=600, gather_s=60, clock=lambda: 1_800_000_000)
    for _ in range(5):
        clicks.hit("launch")
        clicks.hit("another")
    assert (clicks.waiting, clicks.dropped_by_reason) == (5, {FULL: 5})
    clicks.close(0.0)


def test_a_batch_in_doubt_is_given_up_before_a_repeat_could_count_twice() -> None:
    """The server forgets an id 48 hours after it has counted it; so does a batch that it may have counted."""
    now = [1_800_000_000.0]
    with scripted(NO_ANSWER, BUSY) as server:
        clicks = Client(server.url, gather_s=0.0, clock=lambda: now[0])
        server.script[1] = Reply(503, b"{}", (("Retry-After", "1"),))
        clicks.hit("launch", count=2)
        server.wait_for(2)
        now[0] += REPEATABLE_S + 1
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped_by_reason) == (0, {UNDECIDED: 2})
        clicks.close()


def test_a_batch_that_was_certainly_not_counted_is_never_given_up() -> None:
    now = [1_800_000_000.0]
    with scripted(Reply(503, b"{}", (("Retry-After", "1"),))) as server:
        clicks = Client(server.url, gather_s=0.0, clock=lambda: now[0])
        clicks.hit("launch", count=2)
        server.wait_for(1)
        now[0] += 10 * REPEATABLE_S
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (2, 0)
        clicks.close()


@pytest.mark.parametrize("items", ["1", "null", "[1, null]", '{"a": 1}', '[{"status": "refused"}]'])
def test_a_receipt_that_is_odd_ends_no_thread(items: str) -> None:
    receipt = b'{"counted": 9, "duplicate": 0, "refused": 1, "items": %s}' % items.encode()
    with scripted(Reply(200, receipt)) as server, Client(server.url, gather_s=0.0) as clicks:
        clicks.hit("launch", count=3)
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (3, 0)
        clicks.hit("launch")
        assert clicks.flush(WITHIN_S)
        assert clicks.delivered == 4


def test_a_host_that_is_none_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    clicks = Client("http://no..host/", gather_s=0.0)
    clicks.hit("launch")
    assert not clicks.flush(0.3)
    assert not clicks.close(0.0)
    assert "no connection" in caplog.text


def test_a_kept_connection_that_was_closed_is_replaced_at_once() -> None:
    with scripted() as server:
        post = HitsPost(server.url, None, 5.0, time.time)
        assert post.send("one", b"[]").done
        server.script.append(NO_ANSWER)
        assert post.send("two", b"[]").done
        assert [each.id for each in server.posts] == ["one", "two", "two"]
        post.close()


def test_a_try_that_may_have_been_counted_stays_in_doubt_when_the_next_one_is_refused() -> None:
    with scripted() as server:
        post = HitsPost(server.url, None, 5.0, time.time)
        assert post.send("one", b"[]").done
        server.script += [NO_ANSWER, BUSY]
        tried = post.send("two", b"[]")
        assert (tried.done, tried.certain) == (False, False)
        post.close()


def test_room_is_given_back_by_what_is_answered() -> None:
    with scripted() as server, Client(server.url, gather_s=0.0, max_bytes=600) as clicks:
        for number in range(5):
            clicks.hit(f"key-{number}")
            assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (5, 0)
