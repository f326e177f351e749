"""A client and a real server: what is reported is counted, once, with all that it says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.client import AsyncClient, Client
from clickcurve.client.outbox import REFUSED
from testing.client import Clickcurve
from testing.server import RunningServer, free_port
from tests.clients.scripted import Reply, ScriptedServer, scripted

MINUTE = 1_800_000_000
WITHIN_S = 600.0


def test_hits_are_counted_and_said_to_be_delivered(server: RunningServer, client: Clickcurve) -> None:
    with Client(server.url) as clicks:
        for _ in range(1000):
            clicks.hit("launch")
        clicks.hit("a/b", count=5, ts=1_700_000_000)
        clicks.hit("launch", ua="Mozilla/5.0 (compatible; Googlebot/2.1)")
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped, clicks.waiting) == (1006, 0, 0)
    assert client.lifetimes(["launch", "a/b"]) == {"launch": 1000, "a/b": 5}
    assert client.total("launch", bots="only")["total"] == 1
    assert client.total("a/b", from_=1_699_999_980, to=1_700_000_040)["at_least"] == 5


def test_an_id_counts_once_also_from_two_clients(server: RunningServer, client: Clickcurve) -> None:
    for _ in range(2):
        with Client(server.url) as clicks:
            clicks.hit("launch", id="visit-1")
            clicks.hit("launch", id="visit-1")
            clicks.hit("launch", id="visit-2")
            assert clicks.flush(WITHIN_S)
            assert (clicks.delivered, clicks.dropped) == (3, 0), "a duplicate was delivered before"
    assert client.total("launch")["total"] == 2


def test_what_the_server_refuses_is_dropped_with_its_reason(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(server.url) as clicks:
        clicks.hit("good")
        clicks.hit("")
        clicks.hit("\ud800", count=2)
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped, clicks.dropped_by_reason) == (1, 3, {REFUSED: 3})
        clicks.hit("", count=4)
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (1, 7), "a batch without a good hit is 422"
    assert "key is empty" in caplog.text


def test_words_that_the_server_cut_are_counted_and_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    item = {
        "index": 0,
        "status": "adjusted",
        "field": "ref",
        "value": "https://secret.example/",
        "reason": "ref is cut",
    }
    receipt = {"counted": 2, "duplicate": 0, "late": 0, "refused": 0, "items": [item, item], "adjusted": 2}
    replies = [Reply(200, json.dumps(receipt).encode())] * 2
    with scripted(*replies) as server, Client(server.url, gather_s=0) as clicks:
        for _ in range(2):
            clicks.hit("a", count=2, ref="https://secret.example/")
            assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.adjusted, clicks.dropped) == (4, 4, 0)
    assert [record.getMessage() for record in caplog.records] == ["2 hits counted without a word of theirs: ref is cut"]


def test_a_real_server_tells_its_client_of_a_word(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with Client(server.url) as clicks:
        clicks.hit("word", country="EU")
        clicks.hit("word", country="DE")
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.adjusted, clicks.dropped) == (2, 1, 0)
    assert "1 hits counted without a word of theirs: country is not the code of one" in caplog.text


@pytest.mark.parametrize("adjusted", ["1", None, -1, [], {}])
def test_an_odd_sum_of_words_ends_nothing(adjusted: object) -> None:
    receipt = {"counted": 1, "duplicate": 0, "refused": 0, "items": 7, "adjusted": adjusted}
    with scripted(Reply(200, json.dumps(receipt).encode())) as server, Client(server.url) as clicks:
        clicks.hit("a")
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.adjusted) == (1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": 1.0},
        {"count": True},
        {"count": 1_000_000_001},
        {"ts": "today"},
        {"ts": float("inf")},
        {"ts": float("nan")},
        {"ref": b"bytes"},
        {"tags": {"a": object()}},
        {"ref": "x" * 20_000},
    ],
)
def test_a_hit_that_is_none_is_dropped_and_raises_nothing(wrong: dict[str, Any]) -> None:
    with scripted() as server, Client(server.url) as clicks:
        clicks.hit("launch", **wrong)
        assert clicks.dropped >= 1
        clicks.hit("launch")
        assert clicks.flush(WITHIN_S)
        assert clicks.delivered == 1


def fixed(minute: int = MINUTE) -> Callable[[], float]:
    return lambda: minute + 30.5


def sent(report: Callable[[Client], None]) -> list[dict[str, Any]]:
    """The hits of the one post that a client makes of what is reported."""
    with scripted() as server, Client(server.url, clock=fixed()) as clicks:
        report(clicks)
        assert clicks.flush(WITHIN_S)
        (post,) = server.posts
        return post.hits


def test_every_field_goes_out_under_its_name() -> None:
    said: dict[str, Any] = {
        "ua": "Mozilla/5.0",
        "ref": "https://news.example/a?b",
        "ip": "203.0.113.7",
        "country": "AT",
        "lang": "de-AT,en;q=0.8",
        "source": "qr",
        "utm": {"source": "news", "medium": "mail", "campaign": "spring"},
        "tags": {"channel": "print"},
        "visitor": "v-1",
        "groups": ["spring", "print"],
        "bot": False,
        "id": "visit-1",
        "event": "sale",
        "value": 4990,
    }
    (hit,) = sent(lambda clicks: clicks.hit("launch/ä", **said))
    assert hit == {"key": "launch/ä", "ts": MINUTE, "count": 1, **said}


def test_hits_that_say_the_same_in_a_minute_are_one_line() -> None:
    def report(clicks: Client) -> None:
        for _ in range(50):
            clicks.hit("a")
            clicks.hit("a", ts=MINUTE - 1)
            clicks.hit("b", ref="https://news.example/", ip="203.0.113.7")
        clicks.hit("b", ref="https://news.example/", ip="203.0.113.8")
        clicks.hit("a", id="one", count=2)
        clicks.hit("a", id="one", count=2)

    hits = sent(report)
    assert [(hit["key"], hit["ts"], hit["count"], hit.get("ip"), hit.get("id")) for hit in hits] == [
        ("a", MINUTE, 50, None, None),
        ("a", MINUTE - 60, 50, None, None),
        ("b", MINUTE, 50, "203.0.113.7", None),
        ("b", MINUTE, 1, "203.0.113.8", None),
        ("a", MINUTE, 2, None, "one"),
        ("a", MINUTE, 2, None, "one"),
    ]


def test_counts_never_add_up_to_more_than_a_hit_may_have() -> None:
    with scripted() as server, Client(server.url, clock=fixed()) as clicks:
        clicks.hit("a", count=1_000_000_000)
        clicks.hit("a", count=2)
        assert clicks.flush(WITHIN_S)
        assert [post.sum for post in server.posts] == [1_000_000_000, 2]


def test_threads_lose_nothing(server: RunningServer, client: Clickcurve) -> None:
    with Client(server.url, gather_s=0.01) as clicks:

        def report(number: int) -> None:
            for n in range(2_000):
                clicks.hit(f"key-{(n + number) % 50}", ref=f"https://site-{n % 7}.example/")

        threads = [threading.Thread(target=report, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (16_000, 0)
    assert sum(client.lifetimes([f"key-{n}" for n in range(50)]).values()) == 16_000


def test_an_event_loop_has_a_client_too(server: RunningServer, client: Clickcurve) -> None:
    async def report() -> tuple[int, int]:
        async with AsyncClient(server.url) as clicks:
            for _ in range(10):
                clicks.hit("launch", country="AT")
            assert await clicks.flush(WITHIN_S)
            clicks.hit("launch")
        return clicks.delivered, clicks.dropped

    assert asyncio.run(report()) == (11, 0)
    assert client.total("launch")["total"] == 11


def test_closing_sends_what_is_left_and_takes_no_more(server: RunningServer, client: Clickcurve) -> None:
    clicks = Client(server.url, gather_s=60)
    clicks.hit("launch", count=3)
    assert clicks.close()
    assert clicks.close()
    clicks.hit("launch")
    assert (clicks.delivered, clicks.dropped) == (3, 1)
    assert client.total("launch")["total"] == 3


def test_a_token_and_a_path_in_front_are_sent() -> None:
    with scripted() as server, Client(server.url + "/stats/", token="secret") as clicks:
        clicks.hit("launch")
        assert clicks.flush(WITHIN_S)
        (post,) = server.posts
        assert (post.path, post.headers["authorization"]) == ("/stats/v1/hits", "Bearer secret")
        assert post.headers["content-type"] == "application/json"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host/", "http://", "http://host:port", "http://host/a b", ""])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        Client(url)
    assert refused.value.field == "url"


def test_a_token_that_no_header_can_hold_is_refused_at_once() -> None:
    with pytest.raises(ParameterInvalid) as refused:
        Client(f"http://127.0.0.1:{free_port()}", "secret\n")
    assert refused.value.field == "token"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["timeout_s", "max_bytes"])
def test_a_bound_that_is_none_is_refused_at_once(name: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        Client(f"http://127.0.0.1:{free_port()}", **{name: 0})  # type: ignore[arg-type]
    assert refused.value.field == name


def test_a_batch_is_small_enough_for_a_proxy() -> None:
    def fill(server: ScriptedServer, clicks: Client) -> list[int]:
        for number in range(3_000):
            clicks.hit(f"{number}-" + "x" * 900)
        assert clicks.flush(WITHIN_S)
        return [len(str(post.hits)) for post in server.posts]

    with scripted() as server, Client(server.url) as clicks:
        sizes = fill(server, clicks)
    assert max(sizes) < 512 * 1024
    assert sum(post.sum for post in server.posts) == 3_000
