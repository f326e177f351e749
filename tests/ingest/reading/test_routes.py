"""The two write routes, spoken to as a server does, with an intake in memory."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from clickcurve.buckets.errors import JournalBehind, JournalBroken, JournalFull, JournalUnknown, OwnerFenced
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import ONE_COUNTED
from tests.ingest.http_kit import DAY, MINUTE, NOW, Client

HIT = b'{"key":"a"}'
EVERY_WAY = [
    ("/v1/hits/a", b"", {}),
    ("/v1/hits/a", b"", {"idempotency_key": "x"}),
    ("/v1/hits", HIT, {}),
    ("/v1/hits", b'{"key":"a","ts":%d}' % NOW, {}),
    ("/v1/hits", b"[" + HIT + b"]", {}),
    ("/v1/hits", HIT, {"content_type": "application/x-ndjson"}),
]
every_way = pytest.mark.parametrize(("path", "body", "headers"), EVERY_WAY)


def test_the_paths_that_are_served() -> None:
    for path in (b"/v1/hits", b"/v1/hits/", b"/v1/hits/a", b"/v1/hits/a/b"):
        assert HitRoutes.serves(path)
    for path in (b"/v1/hit", b"/v1/hitsa", b"/v1/hits2/a", b"/v1/links", b"/", b"", b"/v1/hits%2Fa", b"//v1/hits"):
        assert not HitRoutes.serves(path)


# --- one hit by path -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("a", "a"),
        ("a.b-c_d~", "a.b-c_d~"),
        ("a+b", "a+b"),
        ("a%2Bb", "a+b"),
        ("a%2Fb", "a/b"),
        ("a%2fb", "a/b"),
        ("%2F", "/"),
        ("%252F", "%2F"),
        ("%2525", "%25"),
        ("%25", "%"),
        ("a%20b", "a b"),
        ("%00", "\0"),
        ("%C3%A4", "ä"),
        ("%c3%a4", "ä"),
        ("%F0%9F%98%80", "😀"),
        ("..", ".."),
        ("%2E%2E", ".."),
        ("!$&'()*,;=:@[]", "!$&'()*,;=:@[]"),
        ("x" * 1024, "x" * 1024),
        ("%61" * 1024, "a" * 1024),
    ],
)
def test_a_key_in_a_path_is_decoded_exactly_once(raw: str, key: str) -> None:
    client = Client()
    reply = client.post("/v1/hits/" + raw)
    assert (reply.status, reply.body) == (200, ONE_COUNTED)
    assert dict(client.intake.singles) == {key: 1}
    assert client.routes.counters.singles == 1


@pytest.mark.parametrize(
    "raw", ["", "%", "%2", "%zz", "a%", "%%", "% 20", "%ff", "%C3", "%ED%A0%80", "%C0%AF", "x" * 1025, "%C3%A4" * 513]
)
def test_a_path_without_a_valid_key_is_refused(raw: str) -> None:
    client = Client()
    reply = client.post("/v1/hits/" + raw)
    assert reply.status == 422
    (item,) = reply.json["items"]
    assert (item["index"], item["status"], item["field"]) == (0, "refused", "key")
    assert client.intake.total == 0
    assert client.routes.counters.refused["key"] == 1


@pytest.mark.parametrize("raw", ["a/b", "a/", "/", "/a"])
def test_a_bare_slash_is_no_part_of_a_key(raw: str) -> None:
    client = Client()
    reply = client.post("/v1/hits/" + raw)
    assert (reply.status, client.intake.total) == (404, 0)
    assert "%2F" in reply.json["detail"]


def test_one_hit_by_path_has_no_body() -> None:
    client = Client()
    for body in (b" ", HIT, b"x" * 100_000):
        assert client.post("/v1/hits/a", body).status == 400
        assert client.post("/v1/hits/a", [b"", body, b""]).status == 400
    assert client.intake.total == 0
    for empty in ([b""], [b"", b""]):
        assert client.post("/v1/hits/a", empty).status == 200
    assert client.post("/v1/hits/a", content_length="0").status == 200
    assert client.post("/v1/hits/a", content_length="0", content_type="x", content_encoding="y").status == 200
    assert client.intake.singles == {"a": 4}


@pytest.mark.parametrize("query", ["ts=1", "count=5", "x", "%00"])
def test_one_hit_by_path_refuses_query_parameters_instead_of_counting_something_else(query: str) -> None:
    client = Client()
    for reply in (client.post(f"/v1/hits/a?{query}"), client.post(f"/v1/hits/a?{query}", idempotency_key="x")):
        assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json")
        assert (reply.json["field"], reply.json["value"]) == ("query", query)
    assert client.post("/v1/hits/a?").status == 200
    assert (client.intake.total, client.routes.counters.rejected) == (1, {422: 2})


def test_one_hit_by_path_may_have_a_name() -> None:
    client = Client()
    assert client.post("/v1/hits/a%2Fb", idempotency_key="x").body == ONE_COUNTED
    reply = client.post("/v1/hits/a%2Fb", idempotency_key="x")
    assert reply.status == 200
    assert (reply.json["counted"], reply.json["duplicate"]) == (0, 1)
    assert reply.json["items"][0]["field"] == "Idempotency-Key"
    assert client.intake.people == {(MINUTE, "a/b"): 1}


def test_the_clients_own_agent_is_never_looked_at() -> None:
    client = Client()
    client.post("/v1/hits/a", user_agent="Googlebot/2.1")
    client.post("/v1/hits", HIT, user_agent="Googlebot/2.1")
    client.post("/v1/hits", b"[" + HIT + b"]", user_agent="Googlebot/2.1")
    assert client.intake.bots.total() == 0
    assert client.intake.total == 3


# --- methods and headers -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "post"])
@pytest.mark.parametrize("path", ["/v1/hits", "/v1/hits/a", "/v1/hits/"])
def test_only_post_is_allowed(method: str, path: str) -> None:
    client = Client()
    reply = client.post(path, method=method)
    assert reply.status == 405
    assert reply.headers["allow"] == "POST"
    assert reply.headers["content-type"] == "application/problem+json"
    assert client.intake.total == 0


@pytest.mark.parametrize("path", ["/v1/hits", "/v1/hits/a"])
@pytest.mark.parametrize("name", ["", " ", "a b", "ä", "x" * 129, "a\t"])
def test_an_idempotency_key_is_visible_ascii(path: str, name: str) -> None:
    client = Client()
    reply = client.post(path, HIT if path == "/v1/hits" else b"", idempotency_key=name)
    assert reply.status == 422
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json
    assert problem["field"] == "Idempotency-Key"
    assert {"title", "detail", "field", "value", "rule"} <= set(problem)
    assert client.intake.total == 0


def test_two_idempotency_keys_are_one_too_many() -> None:
    client = Client()
    headers = [(b"idempotency-key", b"x"), (b"idempotency-key", b"y")]
    assert client.call("POST", b"/v1/hits/a", headers, [b""]).status == 422


@pytest.mark.parametrize("name", ["x", "x" * 128, '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "!~"])
def test_idempotency_keys_that_are_taken(name: str) -> None:
    client = Client()
    assert client.post("/v1/hits", HIT, idempotency_key=name).status == 200
    assert client.intake.ids == {name}


def test_types_and_encodings_that_are_not_read_are_415() -> None:
    client = Client()
    for headers in ({"content_type": "text/plain"}, {"content_encoding": "br"}, {"content_encoding": "gzip, gzip"}):
        reply = client.post("/v1/hits", HIT, **headers)
        assert reply.status == 415
        assert reply.json["field"] in ("Content-Type", "Content-Encoding")
        assert reply.json["rule"]
    assert client.intake.total == 0


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_packed_bodies(pack: type[bytes]) -> None:
    client = Client()
    coding = "gzip" if pack is gzip.compress else "zstd"
    lines = b"\n".join([HIT] * 3000)
    reply = client.post("/v1/hits", pack(lines), content_encoding=coding, content_type="application/x-ndjson")
    assert reply.json["counted"] == 3000
    assert client.post("/v1/hits", pack(HIT), content_encoding=coding.upper()).json["counted"] == 1
    assert client.post("/v1/hits", pack(lines)[:-5], content_encoding=coding).status == 400
    assert client.post("/v1/hits", lines, content_encoding=coding).status == 400
    assert client.post("/v1/hits", b"", content_encoding=coding).status == 400
    assert client.post("/v1/hits", HIT, content_encoding="identity").status == 200


def test_the_bound_on_bodies_is_exact() -> None:
    client = Client(body_bytes=1000)
    fits = b"[" + HIT + b"]" + b" " * (998 - len(HIT))
    assert len(fits) == 1000
    assert client.post("/v1/hits", fits).status == 200
    assert client.post("/v1/hits", [fits[:500], fits[500:]]).status == 200
    assert client.post("/v1/hits", fits + b" ").status == 413
    assert client.post("/v1/hits", [fits, b" "]).status == 413
    assert client.post("/v1/hits", gzip.compress(fits), content_encoding="gzip").status == 200
    reply = client.post("/v1/hits", gzip.compress(fits + b" "), content_encoding="gzip")
    assert reply.status == 413
    assert reply.json["rule"] == "at most 1,000 bytes, decoded"
    assert client.post("/v1/hits", b"", content_length="99999999999999999999999").status in (400, 413)
    assert client.intake.total == 3


def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    client = Client(body_bytes=1000)
    headers = [(b"content-length", b"1001"), (b"expect", b"100-continue")]
    reply = client.call("POST", b"/v1/hits", headers, [])
    assert reply.status == 413
    assert reply.headers["connection"] == "close"
    small = [(b"content-length", b"5"), (b"expect", b"100-continue"), (b"content-type", b"text/plain")]
    assert client.call("POST", b"/v1/hits", small, []).headers["connection"] == "close"


def test_large_bodies_share_a_bound() -> None:
    client = Client(waiting_bytes=2 << 20)
    body = b"[" + HIT + b"]" + b" " * (1 << 20)
    assert client.post("/v1/hits", body).status == 200
    reply = client.post("/v1/hits", gzip.compress(body + b" " * (1 << 21)), content_encoding="gzip")
    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
    assert client.post("/v1/hits", body).status == 200


def test_a_client_that_leaves_in_the_middle_gets_nothing_counted() -> None:
    client = Client()
    whole = b"[" + HIT + b"]"
    for pieces in ([None], [whole, None], [whole[:5], None]):
        assert client.call("POST", b"/v1/hits", [(b"content-length", b"999")], pieces).status == 0
    assert client.call("POST", b"/v1/hits/a", [(b"transfer-encoding", b"chunked")], [None]).status == 0
    assert client.intake.total == 0
    assert client.routes.counters.disconnected == 4


@pytest.mark.parametrize("body", [b"null", b"3", b'"a"', b"true", b"", b"{", b"[" * 100_000, b"\x80", b'{"key":"a"} x'])
def test_a_body_that_cannot_be_read_is_a_400(body: bytes) -> None:
    client = Client()
    reply = client.post("/v1/hits", body)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"
    assert {"title", "detail"} <= set(reply.json)
    assert client.intake.total == 0


def test_a_body_in_many_pieces() -> None:
    client = Client()
    body = json.dumps([{"key": "a"}, {"key": "ä"}], ensure_ascii=False).encode()
    assert client.post("/v1/hits", [body[i : i + 1] for i in range(len(body))]).json["counted"] == 2
    assert client.post("/v1/hits", [b"", b"", HIT, b""]).json["counted"] == 1
    announced = [(b"content-length", b"%d" % len(HIT))]
    assert client.call("POST", b"/v1/hits", announced, [b"", HIT[:4], HIT[4:]]).body == ONE_COUNTED
    assert client.intake.total == 4


# --- one hit by body -----------------------------------------------------------------------------------------------
def test_one_hit_by_body_means_the_same_by_any_way() -> None:
    for extra in ("", " ", "\n"):
        for hit in ({"key": "a"}, {"key": "a", "ts": NOW}, {"key": "a", "ts": NOW, "count": 1, "x": 1}, {"key": "ä"}):
            client = Client()
            assert client.post("/v1/hits", (extra + json.dumps(hit)).encode()).body == ONE_COUNTED
            assert client.intake.total == 1
            assert set(client.intake.people) <= {(MINUTE, hit["key"])}
    client = Client()
    assert client.send({"key": "a", "ts": DAY - 1}).json["late"] == 1
    assert client.send({"key": "a", "ts": NOW + 301}).status == 422
    assert client.send({"key": "a", "count": 3}).json["counted"] == 3
    assert client.send({"key": "a", "count": 0}).status == 422
    assert client.intake.total == 4


# --- what the owner answers ----------------------------------------------------------------------------------------
@every_way
@pytest.mark.parametrize(
    ("failure", "status"),
    [(JournalBehind("x"), 429), (JournalFull("x"), 503), (JournalBroken("x"), 503), (OwnerFenced("x"), 503)],
)
def test_what_was_certainly_not_counted_may_be_sent_again(
    path: str, body: bytes, headers: dict[str, str], failure: Exception, status: int
) -> None:
    client = Client()
    client.intake.failure = failure
    reply = client.post(path, body, **headers)
    assert reply.status == status
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.headers["content-type"] == "application/problem+json"
    assert client.routes.counters.rejected == {status: 1}
    assert client.routes.counters.counted == client.routes.counters.singles == 0
    client.intake.failure = None
    assert client.post(path, body, **headers).json["counted"] == 1


@every_way
def test_an_unknown_outcome_gets_no_answer(path: str, body: bytes, headers: dict[str, str]) -> None:
    client = Client()
    client.intake.failure = JournalUnknown("x")
    with pytest.raises(JournalUnknown):
        client.post(path, body, **headers)
    assert client.routes.counters.unanswered == 1


def test_the_counters_add_up() -> None:
    client = Client()
    client.post("/v1/hits/a")
    client.send({"key": "a"})
    client.send(
        [{"key": "a", "count": 5}, {"key": "a", "ts": 0}, {"key": ""}, {"key": "a", "ts": NOW + 999, "count": 3}]
    )
    client.send([{"key": "a", "id": "1"}, {"key": "a", "id": "1"}, {"key": "a", "bot": 1}, 7])
    client.post("/v1/hits", b"x")
    client.post("/v1/hits/a/b")
    client.post("/v1/hits", method="GET")
    counters = client.routes.counters
    assert (counters.singles, counters.batches) == (2, 2)
    assert (counters.counted, counters.late, counters.duplicate) == (7, 1, 1)
    assert {reason: n for reason, n in counters.refused.items() if n} == {"key": 1, "future": 3, "bot": 1, "hit": 1}
    assert counters.rejected == {400: 1, 404: 1, 405: 1}
    assert client.intake.total == counters.singles + counters.counted
