"""Plain hits below ASGI: the same bytes back, the same counts, the same ends as through it, whatever comes before."""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ingest.hit import minute_start
from ingest.reading.receipt import ONE_COUNTED
from server.http import fast_path
from server.http.connection import Connection
from server.http.fast_path import ADMITTED
from tests.hostile.test_framing import CASES
from tests.ingest.http_kit import NOW
from tests.power import examples
from tests.server.http.connection_kit import Server

HOST = b"Host: localhost:8080\r\n"
HIT = b"POST /v1/hits/launch HTTP/1.1\r\n" + HOST + b"\r\n"


def hit(path: bytes = b"/v1/hits/launch", *fields: bytes, body: bytes = b"", method: bytes = b"POST") -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: localhost:8080", *fields, *length]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BODY = b'{"key":"launch"}'
JSON = hit(b"/v1/hits", b"Content-Type: application/json", body=BODY)


# --- what it leans on -------------------------------------------------------------------------------------------------
def test_the_internals_of_uvicorn_are_those_that_it_was_written_for() -> None:
    assert version("uvicorn") == "0.54.0", "read httptools_impl.py again, then change this line"
    made = set(inspect.signature(RequestResponseCycle).parameters)
    assert made == {
        *("scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers", "message_event"),
        *("expect_100_continue", "keep_alive", "on_response"),
    }
    used = set(re.findall(r"\bcycle\.(\w+)", inspect.getsource(HttpToolsProtocol)))
    used |= set(re.findall(r"(?:\bcycle|_answering)\.(\w+)", inspect.getsource(Connection)))
    fast_cycle = fast_path._FastCycle()
    # These belong to requests with an application, or with a body that is still to come.
    of_others = {"body", "run_asgi", "transport", "waiting_for_100_continue"}
    assert {name for name in used if not hasattr(fast_cycle, name)} == of_others
    for name in ("total_requests", "default_headers", "connections", "tasks"):
        assert hasattr(ServerState(), name)
    made_of = inspect.getsource(HttpToolsProtocol.__init__)
    for name in ("cycle", "flow", "pipeline", "server_state", "transport", "logger", "access_logger"):
        assert f"self.{name}" in made_of
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"


# --- which requests ---------------------------------------------------------------------------------------------------
def test_a_head_that_differs_each_time_is_no_reason_to_go_through_asgi() -> None:
    async def main() -> None:
        server = Server(True)
        wired = server.connect()
        for number in range(20):
            for raw in (hit(b"/v1/hits/launch", *of_a_proxy(number)), hit(b"/v1/hits", *of_a_proxy(number), body=BODY)):
                assert (await wired.ask(raw)).startswith(b"HTTP/1.1 200 OK\r\n")
                assert wired.is_fast
        assert server.intake.singles == {"launch": 40}
        assert server.state.total_requests == 40

    asyncio.run(main())


def of_a_proxy(number: int) -> tuple[bytes, ...]:
    """Header lines that a proxy adds, with values of one request."""
    return (
        b"traceparent: 00-%032x-%016x-01" % (number, number),
        b"X-Request-ID: %x" % number,
        b"X-Forwarded-For: 203.0.113.%d, 10.0.0.1" % number,
        b"X-Forwarded-For: 10.0.0.2",
    )


def test_callers_that_were_let_in_are_remembered_and_few_are_kept() -> None:
    async def main() -> None:
        server = Server(True)
        fast_path, wired = server.fast_path, server.connect()
        assert fast_path is not None
        for number in range(2 * ADMITTED + 5):
            await wired.ask(hit(b"/v1/hits/launch", b"Authorization: %d" % number))
            assert wired.is_fast
            assert 0 < len(fast_path.hit_callers) <= ADMITTED
        assert len(fast_path.hit_callers) == 5

    asyncio.run(main())


NOT_PLAIN = {
    "a query": hit(b"/v1/hits/a?b"),
    "an escape": hit(b"/v1/hits/a%20b"),
    "a slash": hit(b"/v1/hits/a/b"),
    "no key": hit(b"/v1/hits/"),
    "a long key": hit(b"/v1/hits/" + b"x" * 257),
    "an absolute target": hit(b"http://localhost:8080/v1/hits/a"),
    "a connection that ends": hit(b"/v1/hits/a", b"Connection: close"),
    "a connection that stays in HTTP/1.0": hit(b"/v1/hits/a", b"Connection: keep-alive").replace(b"/1.1", b"/1.0"),
    "a proxy's connection that ends": hit(b"/v1/hits/a", b"Proxy-Connection: close"),
    "two types": hit(b"/v1/hits", b"Content-Type: application/json", b"Content-Type: text/plain", body=BODY),
    "two tokens": hit(b"/v1/hits/a", b"Authorization: a", b"authorization: b"),
    "a cookie": hit(b"/v1/hits/a", b"Cookie: a=b"),
    "a length and chunks": hit(b"/v1/hits", b"Transfer-Encoding: chunked", body=BODY),
    "chunks with a trailer": hit(b"/v1/hits/a", b"Transfer-Encoding: chunked") + b"0\r\nX: y\r\n\r\n",
    "a long length": hit(b"/v1/hits", body=BODY + b" " * 9_990),
    "another version": HIT.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another method": hit(b"/v1/hits/a", method=b"PUT"),
    "HEAD": hit(b"/v1/hits/a", method=b"HEAD"),
    "another path": hit(b"/v1/sum"),
    "a name": hit(b"/v1/hits/a", b"Idempotency-Key: x"),
    "an expectation": hit(b"/v1/hits/a", b"Expect: 100-continue"),
    "an encoding": hit(b"/v1/hits", b"Content-Encoding: gzip", body=b"x"),
    "a page": hit(b"/v1/hits/a", b"Origin: http://localhost:8080"),
    "a page of another site": hit(b"/v1/hits/a", b"Origin: http://evil.example"),
    "a site": hit(b"/v1/hits/a", b"Sec-Fetch-Site: same-origin"),
    "another host": HIT.replace(b"localhost", b"evil.example"),
    "two hosts": HIT.replace(HOST, HOST * 2),
    "a body by path": hit(b"/v1/hits/a", body=b"x"),
    "chunks": hit(b"/v1/hits/a", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "lines": hit(b"/v1/hits", b"Content-Type: application/x-ndjson", body=b'{"key":"a"}'),
    "an array": hit(b"/v1/hits", body=b'[{"key":"a"}]'),
    "an id": hit(b"/v1/hits", body=b'{"key":"a","id":"1"}'),
    "a count": hit(b"/v1/hits", body=b'{"key":"a","count":2}'),
    "a bad key": hit(b"/v1/hits", body=b'{"key":""}'),
    "no JSON": hit(b"/v1/hits", body=b"{"),
    "a length before blanks": hit(b"/v1/hits", body=BODY).replace(b"Length: 16", b"Length: 16  "),
    "an upgrade": hit(b"/v1/hits", b"Connection: upgrade", b"Upgrade: h2c", body=BODY),  # a wish that is not granted
    "a field over two lines": hit(b"/v1/hits/a", b"X: a\r\n b"),
    "a long head": hit(b"/v1/hits/a", b"X: " + b"y" * 33_000),
    "an early hit": hit(b"/v1/hits", body=b'{"key":"a","ts":1}'),
}
PLAIN = {
    "by path": HIT,
    "all characters": hit(b"/v1/hits/aZ09-._~"),
    "fields of a proxy": hit(b"/v1/hits/launch", *of_a_proxy(7)),
    "JSON with fields of a proxy": hit(b"/v1/hits", *of_a_proxy(8), body=BODY),
    "names in capitals": hit(b"/v1/hits", b"CONTENT-TYPE: application/json", b"CONNECTION: Keep-Alive", body=BODY),
    "a length with zeros": hit(b"/v1/hits", body=BODY).replace(b"Length: 16", b"Length: 0016"),
    "a length after blanks": hit(b"/v1/hits", body=BODY).replace(b"Length: 16", b"Length: \t16"),
    "fields without blanks": HIT.replace(b": ", b":"),
    "names of all characters": hit(b"/v1/hits/launch", b"!#$%&'*+-.^_`|~09azAZ: x", b"Connections: x", b"Hos: x"),
    "a length of 0": hit(b"/v1/hits/launch", b"Content-Length: 0"),
    "other fields": hit(b"/v1/hits/launch", b"User-Agent: x", b"Accept: */*", b"Connection: keep-alive", b"X-A: \xe4"),
    "JSON": JSON,
    "JSON without a type": hit(b"/v1/hits", body=b'{"key":"a b"}'),
    "a time": hit(b"/v1/hits", body=b'{"key":"a","ts":1767268830}'),
    "an agent": hit(b"/v1/hits", body=b'{"key":"a","ua":"Googlebot/2.1"}'),
    "words": hit(b"/v1/hits", body=b'{"key":"a","ref":"https://x.example/","country":"DE"}'),
}


def after_it(fast: bool, *pieces: bytes, ends: bool = False) -> tuple[bytes, bool, dict[str, object]]:
    """What is written for these pieces, each when the one before is answered; whether it closes; what was counted."""

    async def main() -> tuple[bytes, bool, dict[str, object]]:
        server = Server(fast)
        wired = server.connect()
        for piece in pieces:
            await wired.ask(piece)
        if ends:
            wired.end()
        return await wired.settle(), wired.transport.closing, server.counted()

    return asyncio.run(main())


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_all_but_plain_hits_go_through_asgi(name: str) -> None:
    async def main() -> None:
        server = Server(True)
        for _ in range(2):
            wired = server.connect()
            assert await wired.ask(NOT_PLAIN[name])
            assert not wired.is_fast

    asyncio.run(main())
    assert after_it(True, NOT_PLAIN[name], HIT) == after_it(False, NOT_PLAIN[name], HIT)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_hits_are_answered_as_through_asgi(name: str) -> None:
    async def main() -> None:
        wired = Server(True).connect()
        for _ in range(2):
            assert (await wired.ask(PLAIN[name])).endswith(ONE_COUNTED)
            assert wired.is_fast

    asyncio.run(main())
    assert after_it(True, PLAIN[name] * 2, PLAIN[name]) == after_it(False, PLAIN[name] * 2, PLAIN[name])


# --- any bytes --------------------------------------------------------------------------------------------------------
FRAMED = [
    raw.replace(b"POST /x ", b"POST /v1/hits/x ").replace(b"localhost", b"localhost:8080") for raw, _ in CASES.values()
]


def outcome(fast: bool, raw: bytes, cuts: list[tuple[int, bool]], ends: bool) -> Any:
    """What comes of the bytes in pieces: after some all is answered before the next comes, after others nothing."""

    async def main() -> Any:
        server = Server(fast)
        wired = server.connect()
        begin = 0
        for at, waits in [*sorted(cuts), (len(raw), True)]:
            wired.feed(raw[begin:at])
            begin = at
            if waits:
                await wired.settle()
        if ends:
            wired.end()
        return await wired.settle(), wired.transport.closing, however_taken(server.counted())

    return asyncio.run(main())


def however_taken(counted: dict[str, Any]) -> dict[str, Any]:
    """The same with hits taken alone as if they had come in a batch: so they do through ASGI if their body is cut."""
    alone = {(minute_start(NOW), key): many for key, many in counted["singles"].items()}
    counters = counted["counters"]
    taken = replace(counters, singles=0, batches=0, body_bytes=0, counted=counters.counted + counters.singles)
    return counted | {"singles": {}, "people": Counter(counted["people"]) + Counter(alone), "counters": taken}


@pytest.mark.parametrize("at", range(-12, 1))
def test_a_body_that_comes_in_two_pieces_is_answered_and_counted_alike(at: int) -> None:
    raw = PLAIN["JSON without a type"]
    cuts = [(len(raw) + at, True)]
    assert outcome(True, raw + HIT, cuts, False) == outcome(False, raw + HIT, cuts, False)


@given(data=st.data())
@settings(max_examples=examples(150))
def test_random_cuts_of_mixed_requests_are_answered_and_counted_alike(data: st.DataObject) -> None:
    whole = st.sampled_from([*PLAIN.values()] * 3 + [*NOT_PLAIN.values(), *FRAMED])
    parts = data.draw(st.lists(whole, min_size=1, max_size=6))
    raw = b"".join(parts)
    edges = [sum(map(len, parts[:n])) for n in range(1, len(parts))]
    places = st.sampled_from(edges) | st.integers(0, len(raw)) if edges else st.integers(0, len(raw))
    cuts = data.draw(st.lists(st.tuples(places, st.booleans()), max_size=8))
    ends = data.draw(st.booleans())
    assert outcome(True, raw, cuts, ends) == outcome(False, raw, cuts, ends)


def test_heads_that_differ_by_a_few_bytes_from_known_ones_are_read_as_by_the_parser() -> None:
    chance = random.Random(5)
    odd = [b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b"0", b"+", b",", b";"]
    odd += [b"Content-Length: 1\r\n", b"Content-Length: 16\r\n", b"Expect: 100-continue\r\n", b" folded: x\r\n"]
    odd += [b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Host: evil\r\n", b"Upgrade: h2c\r\n"]
    for number in range(600):
        of = [
            HIT,
            JSON,
            PLAIN["other fields"],
            PLAIN["a length of 0"],
            hit(b"/v1/hits", *of_a_proxy(number), body=BODY),
        ]
        raw = bytearray(chance.choice(of))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(raw))
            kind = chance.randrange(4)
            if kind == 0:
                raw[at] = chance.randrange(256)
            elif kind == 1:
                del raw[at : at + chance.randint(1, 4)]
            else:
                raw[at:at] = chance.choice(odd)
        pieces = [HIT, JSON, bytes(raw), HIT]
        assert after_it(True, *pieces, ends=True) == after_it(False, *pieces, ends=True), bytes(raw)
