"""Plain hits below ASGI: the same bytes back, the same counts, the same ends as through it, whatever comes before."""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ingest.reading.receipt import ONE_COUNTED
from server.http import fast_lane
from server.http.connection import Connection
from server.http.fast_lane import HEADS, FastLane
from server.http.request_head import read_fields
from tests.hostile.test_framing import CASES
from tests.server.http.connection_kit import EagerLane, Server

HOST = b"Host: localhost:8080\r\n"
HIT = b"POST /v1/hits/launch HTTP/1.1\r\n" + HOST + b"\r\n"


def hit(path: bytes = b"/v1/hits/launch", *fields: bytes, body: bytes = b"", method: bytes = b"POST") -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: localhost:8080", *fields, *length]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


JSON = hit(b"/v1/hits", b"Content-Type: application/json", body=b'{"key":"launch"}')


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
    lane_cycle = fast_lane._LaneCycle()
    # body, run_asgi and send belong to requests with an application, or with a body that is still to come.
    assert {name for name in used if not hasattr(lane_cycle, name)} == {"body"}
    for name in ("total_requests", "default_headers", "connections", "tasks"):
        assert hasattr(ServerState(), name)
    made_of = inspect.getsource(HttpToolsProtocol.__init__)
    for name in ("cycle", "flow", "pipeline", "server_state", "transport", "logger", "access_logger"):
        assert f"self.{name}" in made_of
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"


# --- heads ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "lines",
    [
        b"\r\nHost: a\r\n\r\n",
        b"\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"\r\nhost:a\r\nCONTENT-LENGTH:  12\r\nConnection: keep-alive\r\n\r\n",
    ],
)
def test_fields_are_those_of_the_parser(lines: bytes) -> None:
    fields = read_fields(lines)
    assert fields is not None
    assert fields[b"host"] == b"a"
    assert fields.get(b"content-length", b"0") in (b"0", b"12")


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"\r\n\r\n",
        b"\r\nHost: a\r\n",
        b"\r\nX: y\r\n\r\n",
        b"\r\nHost: a\r\nHost: a\r\n\r\n",
        b"\r\nHost: a\r\nX: y\r\nx: z\r\n\r\n",
        b"\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"\r\nHost: a\r\nContent-Length: 12345\r\n\r\n",
        b"\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\r\nHost: a\n\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\nHost: a\nContent-Length: 3\r\n\r\n",
        b"\r\nHost: a\0\r\n\r\n",
        b"\r\nHost: a\r\n X: y\r\n\r\n",
    ],
)
def test_what_is_not_one_head_as_it_says_is_not_known(lines: bytes) -> None:
    assert read_fields(lines) is None


def test_a_head_is_known_from_its_third_coming_on_and_few_are_kept() -> None:
    async def main() -> None:
        server = Server(FastLane)
        wired = server.connect()
        seen = []
        for _ in range(4):
            assert (await wired.ask(HIT)).startswith(b"HTTP/1.1 200 OK\r\n")
            seen.append(wired.in_lane)
        assert seen == [False, False, True, True]
        assert server.intake.singles == {"launch": 4}
        lane = server.lane
        assert lane is not None
        for number in range(3 * HEADS):
            for _ in range(2):
                await wired.ask(hit(b"/v1/hits/launch", b"X: %d" % number))
            await wired.ask(hit(b"/v1/hits/launch", b"Once: %d" % number))
        assert 0 < len(lane.heads_of_hits) <= HEADS
        assert len(lane.heads_of_hits._once) <= HEADS
        assert server.state.total_requests == 4 + 9 * HEADS

    asyncio.run(main())


NOT_PLAIN = {
    "a query": hit(b"/v1/hits/a?b"),
    "an escape": hit(b"/v1/hits/a%20b"),
    "a slash": hit(b"/v1/hits/a/b"),
    "no key": hit(b"/v1/hits/"),
    "a long key": hit(b"/v1/hits/" + b"x" * 257),
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
    "an early hit": hit(b"/v1/hits", body=b'{"key":"a","ts":1}'),
}
PLAIN = {
    "by path": HIT,
    "all characters": hit(b"/v1/hits/aZ09-._~"),
    "a length of 0": hit(b"/v1/hits/launch", b"Content-Length: 0"),
    "other fields": hit(b"/v1/hits/launch", b"User-Agent: x", b"Accept: */*", b"Connection: keep-alive", b"X-A: \xe4"),
    "JSON": JSON,
    "JSON without a type": hit(b"/v1/hits", body=b'{"key":"a b"}'),
    "a time": hit(b"/v1/hits", body=b'{"key":"a","ts":1767268830}'),
    "an agent": hit(b"/v1/hits", body=b'{"key":"a","ua":"Googlebot/2.1"}'),
    "words": hit(b"/v1/hits", body=b'{"key":"a","ref":"https://x.example/","country":"DE"}'),
}


def after_it(lane: type[FastLane] | None, *pieces: bytes, ends: bool = False) -> tuple[bytes, bool, dict[str, object]]:
    """What is written for these pieces, each when the one before is answered; whether it closes; what was counted."""

    async def main() -> tuple[bytes, bool, dict[str, object]]:
        server = Server(lane)
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
        server = Server(EagerLane)
        for _ in range(2):
            wired = server.connect()
            assert await wired.ask(NOT_PLAIN[name])
            assert not wired.in_lane

    asyncio.run(main())
    assert after_it(EagerLane, NOT_PLAIN[name], HIT) == after_it(None, NOT_PLAIN[name], HIT)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_hits_are_answered_as_through_asgi(name: str) -> None:
    async def main() -> None:
        wired = Server(EagerLane).connect()
        for _ in range(2):
            assert (await wired.ask(PLAIN[name])).endswith(ONE_COUNTED)
            assert wired.in_lane

    asyncio.run(main())
    assert after_it(EagerLane, PLAIN[name] * 2, PLAIN[name]) == after_it(None, PLAIN[name] * 2, PLAIN[name])


# --- any bytes --------------------------------------------------------------------------------------------------------
FRAMED = [
    raw.replace(b"POST /x ", b"POST /v1/hits/x ").replace(b"localhost", b"localhost:8080") for raw, _ in CASES.values()
]


def outcome(lane: type[FastLane] | None, raw: bytes, cuts: list[tuple[int, bool]], ends: bool) -> Any:
    """What comes of the bytes in pieces: after some all is answered before the next comes, after others nothing."""

    async def main() -> Any:
        server = Server(lane)
        wired = server.connect()
        begin = 0
        for at, waits in [*sorted(cuts), (len(raw), True)]:
            wired.feed(raw[begin:at])
            begin = at
            if waits:
                await wired.settle()
        if ends:
            wired.end()
        return await wired.settle(), wired.transport.closing, server.counted()

    return asyncio.run(main())


@given(data=st.data())
@settings(max_examples=150)
def test_random_cuts_of_mixed_requests_are_answered_and_counted_alike(data: st.DataObject) -> None:
    whole = st.sampled_from([*PLAIN.values()] * 3 + [*NOT_PLAIN.values(), *FRAMED])
    parts = data.draw(st.lists(whole, min_size=1, max_size=6))
    raw = b"".join(parts)
    edges = [sum(map(len, parts[:n])) for n in range(1, len(parts))]
    places = st.sampled_from(edges) | st.integers(0, len(raw)) if edges else st.integers(0, len(raw))
    cuts = data.draw(st.lists(st.tuples(places, st.booleans()), max_size=8))
    ends = data.draw(st.booleans())
    assert outcome(EagerLane, raw, cuts, ends) == outcome(None, raw, cuts, ends)


def test_heads_that_differ_by_a_few_bytes_from_known_ones_are_read_as_by_the_parser() -> None:
    chance = random.Random(5)
    odd = [b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b"0", b"Content-Length: 1\r\n", b"Expect: 100-continue\r\n"]
    for _ in range(400):
        raw = bytearray(chance.choice([HIT, JSON, PLAIN["other fields"], PLAIN["a length of 0"]]))
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
        assert after_it(EagerLane, *pieces, ends=True) == after_it(None, *pieces, ends=True), bytes(raw)
