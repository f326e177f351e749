"""What every request meets first: who answers what, and what becomes of errors that nobody expected."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI

from clickcurve.asgi import Message
from clickcurve.buckets.errors import JournalFull, JournalUnknown, NotAllowed, NotAuthenticated, StoreUnavailable
from ingest.reading.hit_endpoint import HitRoutes
from server.app.parts import ROUTES
from server.http.gateway import Gateway
from server.http.problems import Problems
from server.tokens.gate import Gate


class Hits:
    """Stands for the hit routes: raises the given error, or answers."""

    def __init__(self, error: Exception | None = None, begun: bool = False) -> None:
        self.error = error
        self.begun = begun

    def serves(self, raw_path: bytes) -> bool:
        return raw_path.startswith(b"/v1/hits")

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if self.error is None or self.begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.body", "body": b"hit"})


class Wire:
    """What a server sends, which refuses a second start and an unknown status as uvicorn does."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.sent:
                raise RuntimeError("already begun")
            self.sent.append(message)
            if message["status"] == 0:
                raise KeyError(0)
            return
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def problem(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent))


def front(hits: Hits, behind: Any, tmp_path: Path) -> tuple[Gateway, Problems]:
    problems = Problems()
    if isinstance(behind, FastAPI):
        problems.install(behind)
    return Gateway(Gate(lambda: 0.0), problems, cast(HitRoutes, hits), behind, ROUTES), problems


async def asked(app: Gateway, path: str, method: str = "POST") -> Wire:
    wire = Wire()
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "headers": [],
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, wire)
    return wire


def raising(error: Exception) -> FastAPI:
    app = FastAPI()

    @app.get("/boom")
    async def boom() -> None:
        raise error

    return app


def test_hits_do_not_reach_the_framework_and_the_rest_does(tmp_path: Path) -> None:
    app, _ = front(Hits(), raising(StoreUnavailable("down")), tmp_path)
    assert asyncio.run(asked(app, "/v1/hits/launch")).sent[1]["body"] == b"hit"
    wire = asyncio.run(asked(app, "/boom", "GET"))
    assert (wire.status, wire.problem["title"]) == (503, "store unavailable")
    assert (b"retry-after", b"5") in wire.sent[0]["headers"]
    assert app.answers == {503: 1}


@pytest.mark.parametrize("path", ["/v1/hits/launch", "/boom"])
def test_an_unexpected_error_is_a_problem_that_tells_nothing_of_the_inside(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = ZeroDivisionError("secret detail")
    app, problems = front(Hits(error), raising(error), tmp_path)
    wire = asyncio.run(asked(app, path, "POST" if "hits" in path else "GET"))
    assert (wire.status, wire.problem["title"]) == (500, "internal error")
    assert "secret" not in json.dumps(wire.problem)
    assert problems.refused == {(500, "internal error"): 1}
    assert "secret detail" in caplog.text


def test_an_error_after_the_answer_began_does_not_answer_twice(tmp_path: Path) -> None:
    app, _ = front(Hits(ZeroDivisionError(), begun=True), FastAPI(), tmp_path)
    assert len(asyncio.run(asked(app, "/v1/hits/launch")).sent) == 1


@pytest.mark.parametrize("path", ["/v1/hits/launch", "/boom"])
def test_an_unknown_outcome_is_not_answered(tmp_path: Path, path: str) -> None:
    error = JournalUnknown("nobody knows")
    app, _ = front(Hits(error), raising(error), tmp_path)
    with pytest.raises(JournalUnknown):
        asyncio.run(asked(app, path, "POST" if "hits" in path else "GET"))


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (JournalFull("full"), 503, ("retry-after", "5")),
        (StoreUnavailable("down"), 503, ("retry-after", "5")),
        (NotAuthenticated("who?"), 401, ("www-authenticate", "Bearer")),
        (NotAllowed("no", rule="read"), 403, ("www-authenticate", 'Bearer error="insufficient_scope", scope="read"')),
    ],
)
def test_errors_carry_what_a_client_needs_next(error: Exception, status: int, header: tuple[str, str]) -> None:
    answer = Problems().answer(error)
    assert answer.status_code == status
    assert answer.headers[header[0]] == header[1]
    assert answer.media_type == "application/problem+json"


def test_what_fails_in_front_of_the_framework_is_answered_and_leaves_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def behind(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("planted")

    app, problems = front(Hits(), behind, tmp_path)
    wire = asyncio.run(asked(app, "/v1/total", "GET"))
    assert wire.status == 500 and wire.problem["title"] == "internal error"
    assert problems.refused[500, "internal error"] == 1 and app.answers[500] == 1
    (record,) = caplog.records
    assert record.exc_info is not None and isinstance(record.exc_info[1], ZeroDivisionError)


def test_what_fails_in_a_route_leaves_one_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app, _ = front(Hits(), raising(ZeroDivisionError("planted")), tmp_path)
    assert asyncio.run(asked(app, "/boom", "GET")).status == 500
    (record,) = caplog.records
    assert record.exc_info is not None and "planted" in str(record.exc_info[1])


def test_what_fails_in_the_middle_of_an_answer_leaves_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def behind(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError("planted")

    app, _ = front(Hits(), behind, tmp_path)
    assert asyncio.run(asked(app, "/v1/export", "GET")).status == 200
    (record,) = caplog.records
    assert record.exc_info is not None and "planted" in str(record.exc_info[1])
