"""A hit on the fast path while something else happens: to tokens and limits, to its client, to the server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import JournalBehind, JournalBroken, JournalUnknown
from ingest.reading.receipt import ONE_COUNTED
from server.tokens.token import Scope, load_tokens
from testing.tokens import add_token, remove_token
from tests.server.http.connection_kit import Server, Wired
from tests.server.http.test_fast_path import HIT, JSON, hit


# --- what a head is let in for may end --------------------------------------------------------------------------------
async def test_a_token_that_is_revoked_lets_nothing_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = add_token(file, "shortener", (Scope.write,), 0)
    reading = add_token(file, "page", (Scope.read,), 0)
    server = Server(True, tokens=file)
    wired = server.connect()
    with_token = hit(b"/v1/hits/a", b"Authorization: Bearer " + token.encode())
    for _ in range(2):
        assert (await wired.ask(with_token)).startswith(b"HTTP/1.1 200") and wired.is_fast
    for refused, status in ((HIT, 401), (hit(b"/v1/hits/a", b"Authorization: Bearer " + reading.encode()), 403)):
        other = server.connect()
        assert (await other.ask(refused)).startswith(b"HTTP/1.1 %d" % status) and not other.is_fast
    remove_token(file, token)
    server.gate.use(load_tokens(file))
    assert (await wired.ask(with_token)).startswith(b"HTTP/1.1 401") and not wired.is_fast
    assert server.intake.singles == {"a": 2}
    assert server.gate.refused == {"missing": 1, "unknown": 1, "scope": 1}


async def test_the_first_token_of_a_server_that_runs_is_asked_for(tmp_path: Path) -> None:
    server = Server(True, tokens=tmp_path / "tokens.json")
    wired = server.connect()
    assert (await wired.ask(HIT)).startswith(b"HTTP/1.1 200") and wired.is_fast
    add_token(tmp_path / "tokens.json", "a", (Scope.admin,), 0)
    server.gate.use(load_tokens(tmp_path / "tokens.json"))
    assert (await wired.ask(HIT)).startswith(b"HTTP/1.1 401")


async def test_a_limit_of_writes_that_is_switched_on_is_asked() -> None:
    class Limiter:
        limits_writes = False

    limiter = Limiter()
    server = Server(True, limiter=limiter)
    wired = server.connect()
    for limits, fast in ((False, True), (True, False), (False, True)):
        limiter.limits_writes = limits
        wired.feed(HIT)
        assert wired.is_fast is fast
        await wired.settle()
        wired = server.connect()


# --- a hit under way --------------------------------------------------------------------------------------------------
def held(*pieces: bytes) -> tuple[Server, Wired]:
    """A connection with a hit on the fast path that is not in the journal yet, after which the pieces came."""
    server = Server(True)
    server.intake.holds = True
    wired = server.connect()
    for piece in (HIT, *pieces):
        wired.feed(piece)
    return server, wired


async def test_what_comes_while_a_hit_is_under_way_is_answered_after_it() -> None:
    server, wired = held(HIT, hit(b"/v1/hits/a/b"), JSON)
    assert await wired.settle() == b""
    server.intake.holds = False
    server.intake.let_go()
    received = re.findall(rb"HTTP/1.1 (\d+)", await wired.settle())
    assert received == [b"200", b"200", b"404", b"200"]
    assert server.intake.singles == {"launch": 3}
    assert server.state.total_requests == 4
    await wired.ask(HIT)
    assert wired.is_fast


@pytest.mark.parametrize("end", ["eof", "shutdown"])
async def test_a_hit_under_way_is_answered_when_the_client_or_the_server_ends(end: str) -> None:
    server, wired = held()
    await wired.settle()
    if end == "eof":
        wired.end()
    else:
        wired.connection.shutdown()
    assert not wired.transport.closing
    server.intake.let_go()
    received = await wired.settle()
    assert received.startswith(b"HTTP/1.1 200 OK\r\n") and b"connection: close\r\n" in received
    assert wired.transport.closing
    assert server.state.total_requests == 1


async def test_a_client_that_leaves_is_counted_and_not_answered() -> None:
    server, wired = held()
    other = server.connect()
    other.feed(HIT)
    wired.lose()
    server.intake.let_go()
    assert (await other.settle()).endswith(ONE_COUNTED)
    assert await wired.settle() == b""
    assert server.hits.counters.singles == 2


@pytest.mark.parametrize("error", [JournalBehind("behind"), JournalBroken("broken"), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("before", [False, True], ids=["at the sync", "at once"])
def test_a_hit_that_is_refused_is_answered_as_through_asgi(
    error: Exception, before: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(fast: bool) -> Any:
        server = Server(fast)
        wired = server.connect()
        server.intake.failure = error
        if before:

            def raising(hit: object) -> asyncio.Future[None]:
                raise error

            monkeypatch.setattr(server.intake, "accept_one", raising)
        found = [await wired.ask(HIT), await wired.ask(JSON)]
        wired.connection.shutdown()
        return found, server.counted()

    if before and isinstance(error, ZeroDivisionError):
        return
    fast, through_asgi = asyncio.run(main(True)), asyncio.run(main(False))
    assert fast == through_asgi
    assert fast[0][0].startswith(b"HTTP/1.1 %d" % getattr(error, "status", 500))


async def test_an_unknown_outcome_closes_the_connection_without_a_byte() -> None:
    server, wired = held()
    server.intake.failure = JournalUnknown("nobody knows")
    server.intake.let_go()
    assert await wired.settle() == b""
    assert wired.transport.closing
    assert server.hits.counters.unanswered == 1


async def test_a_group_that_is_given_up_closes_the_connection_without_a_byte() -> None:
    server, wired = held()
    assert server.intake.group is not None
    server.intake.group.cancel()
    assert await wired.settle() == b""
    assert wired.transport.closing


async def test_a_client_that_takes_no_answers_is_not_answered_on_and_on() -> None:
    server = Server(True)
    wired = server.connect()
    wired.connection.pause_writing()
    for _ in range(3):
        wired.feed(HIT)
    assert await wired.settle() == b""
    wired.connection.resume_writing()
    assert (await wired.settle()).count(b"HTTP/1.1 200") == 3


async def test_a_connection_with_hits_now_and_then_is_not_taken_for_idle() -> None:
    wired = Server(True).connect()
    await wired.ask(HIT)
    first = wired.connection._waits_for()
    await wired.ask(HIT)
    second = wired.connection._waits_for()
    assert (first.what, second.what) == ("idle", "idle")
    assert first.of is not second.of


# --- a head and its body apart ----------------------------------------------------------------------------------------
HEAD, BODY = JSON[: -len(b'{"key":"launch"}')], b'{"key":"launch"}'


async def test_a_hit_whose_body_comes_with_the_next_read_is_answered_without_asgi() -> None:
    server = Server(True)
    wired = server.connect()
    for head, rest in ((HEAD, BODY), (HEAD + BODY[:3], BODY[3:])):
        assert await wired.ask(head) == b""
        assert (await wired.ask(rest)).endswith(ONE_COUNTED)
        assert wired.is_fast
    assert server.intake.singles == {"launch": 2}


async def test_a_body_in_more_reads_or_with_more_behind_it_is_read_by_the_parser() -> None:
    server = Server(True)
    wired = server.connect()
    for pieces in ((HEAD, BODY[:3], BODY[3:]), (HEAD[:9], HEAD[9:] + BODY), (HEAD, BODY + HIT)):
        answers = 0
        for piece in pieces:
            answers += (await wired.ask(piece)).count(b"HTTP/1.1 200")
        assert answers == 1 + (pieces[-1].endswith(HIT)) and not wired.is_fast
    assert server.intake.total == 4


@pytest.mark.parametrize("end", ["eof", "loss", "shutdown"])
def test_a_head_whose_body_never_comes_ends_as_through_asgi(end: str) -> None:
    async def main(fast: bool) -> Any:
        server = Server(fast)
        wired = server.connect()
        await wired.ask(JSON)
        await wired.ask(HEAD)
        assert wired.connection._waits_for().what == "body"
        assert wired.connection._waits_for().within_s == wired.connection.pace_s
        {"eof": wired.end, "loss": wired.lose, "shutdown": wired.connection.shutdown}[end]()
        received = await wired.settle()
        before = wired.transport.closing
        if end == "shutdown":
            received += await wired.ask(BODY)
        return received, before, wired.transport.closing, server.counted()

    assert asyncio.run(main(True)) == asyncio.run(main(False))
