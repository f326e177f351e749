"""The limiter's question and a total below ASGI: the same bytes back, the same counts, as through the framework."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from fastapi import FastAPI

from clickcurve.asgi import Application
from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.keys import Subject
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.routes import DecisionService, limit_routes
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.queries import Limits, Queries
from server.app.application import ask_total
from server.http.gateway import FastRoute, made_safe
from server.http.problems import Problems
from server.tokens.token import Scope
from server.workers.unreachable import asking_all, naming_unreachable, note_unreachable
from testing.tokens import add_token
from tests.limiter.http.asgi import limiter
from tests.server.http.connection_kit import Server
from tests.server.http.test_fast_path import HIT, hit


class Totals:
    """Stands for the queries: one total for each key, or what is wrong with its row."""

    errors: ClassVar = {
        "down": StoreUnavailable("down"),
        "bad": RowCorrupt("bad", field="key", value="bad"),
        "bug": KeyError(1),
        "nobody": StoreUnavailable("nobody"),
    }
    unreachable = ("alone", "nobody")

    async def total(self, subject: Subject, query: bytes) -> dict[str, str]:
        key = subject.name or ""
        await asyncio.sleep(0)
        if key in self.unreachable:
            note_unreachable("journal-2")
            note_unreachable("journal-1")
        if key in self.errors:
            raise self.errors[key]
        return {"key": key, "query": query.decode()}

    def what_came(self, breakdowns: None) -> None:
        """None: no event is asked for here."""


def framework(problems: Problems, workers: int = 1) -> tuple[Any, list[FastRoute]]:
    app = FastAPI()
    problems.install(app)
    rules = {"login": {"by": "user", "rates": "3/m", "status": 403}, "api": {"by": "ip", "rates": "1/m"}}
    service = DecisionService(limiter(rules), Addresses(), "x")
    app.include_router(limit_routes(service))
    queries = cast(Queries, Totals())
    rest: Application = QueryEndpoint(
        Questions(queries, None, cast(Limits, None)), problems.answer, made_safe(app), lambda: 0.0
    )
    total_of = ask_total(queries)
    if workers > 1:
        rest, total_of = naming_unreachable(rest), asking_all(total_of)
    return rest, [
        FastRoute("POST", "/v1/limit/", "", service.answer),
        FastRoute("GET", "/v1/links/", "/total", total_of),
    ]


def question(body: bytes, event: bytes = b"login") -> bytes:
    return hit(b"/v1/limit/" + event, body=body)


def total(key: bytes, *fields: bytes, method: bytes = b"GET") -> bytes:
    return hit(b"/v1/links/" + key + b"/total", *fields, method=method)


SHORT = {
    "a question": question(b'{"user":"ann"}'),
    "a peek": question(b'{"user":"ann","peek":true,"explain":true}'),
    "an address": question(b'{"ip":"::ffff:127.0.0.1"}', b"api"),
    "another event": question(b'{"user":"ann"}', b"none"),
    "no caller": question(b'{"ip":"127.0.0.1"}'),
    "no JSON": question(b'{"user":'),
    "no cost": question(b'{"user":"ann","cost":0}'),
    "no body": hit(b"/v1/limit/login"),
    "a total": total(b"launch"),
    "a total that is unknown": total(b"down"),
    "a total of a damaged row": total(b"bad"),
    "a bug": total(b"bug"),
}
LONG = {
    "a total of a range": hit(b"/v1/links/launch/total?from=0", method=b"GET"),
    "HEAD of a total": total(b"launch", method=b"HEAD"),
    "a key with an escape": total(b"a%2Fb"),
    "a body of GET": hit(b"/v1/links/launch/total", body=b"x", method=b"GET"),
    "a curve": hit(b"/v1/links/launch/curves", method=b"GET"),
    "a reservation": hit(b"/v1/limit/login/1-2/cancel"),
    "an event with a query": hit(b"/v1/limit/login?x", body=b'{"user":"ann"}'),
    "a page": total(b"launch", b"Origin: http://localhost:8080"),
    "a cookie": total(b"launch", b"Cookie: a=b"),
}


@pytest.mark.parametrize("name", [*SHORT, *LONG])
def test_questions_are_answered_as_through_the_framework(name: str) -> None:
    raw = (SHORT | LONG)[name]

    async def main(fast: bool) -> Any:
        server = Server(fast, framework=framework)
        wired = server.connect()
        found = []
        for _ in range(5):
            found.append(await wired.ask(raw))
            was_refused = b"application/problem+json" in found[-1]  # then the answer goes through ASGI
            assert wired.is_fast is (fast and name in SHORT and not was_refused)
        return found, server.counted(), wired.transport.closing

    fast, through_asgi = asyncio.run(main(True)), asyncio.run(main(False))
    assert fast == through_asgi
    assert all(fast[0])


def test_a_total_of_several_workers_names_those_that_were_not_heard() -> None:
    async def main(fast: bool) -> Any:
        server = Server(fast, framework=partial(framework, workers=2))
        wired = server.connect()
        found = []
        for key in (b"alone", b"launch", b"nobody", b"launch", b"alone"):
            found.append(await wired.ask(total(key)))
            assert wired.is_fast is (fast and key != b"nobody")
        return found, server.counted()

    fast = asyncio.run(main(True))
    assert fast == asyncio.run(main(False))
    named = [b"clickcurve-unreachable-workers: journal-1, journal-2\r\n" in answer for answer in fast[0]]
    assert named == [True, False, True, False, True]


async def test_what_comes_while_a_question_is_under_way_is_answered_after_it() -> None:
    server = Server(True, framework=framework)
    wired = server.connect()
    for raw in (SHORT["a total"], HIT, SHORT["a question"]):
        wired.feed(raw)
    wired.end()
    for _ in range(5):
        raw = await wired.settle()
    assert re.findall(rb'"(key|counted|allowed)"', raw) == [b"key", b"counted", b"allowed"]
    assert raw.count(b"connection: close") == 1 and wired.transport.closing
    lost = server.connect()
    lost.feed(SHORT["a total"])
    lost.lose()
    assert await lost.settle() == b""


def test_each_token_opens_what_its_scope_allows(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = {scope: add_token(file, scope.value, (scope,), 0).encode() for scope in (Scope.read, Scope.write)}

    async def main() -> dict[Scope, list[bytes]]:
        server = Server(True, tokens=file, framework=framework)
        found: dict[Scope, list[bytes]] = {}
        for scope, token in tokens.items():
            shown = b"Authorization: Bearer " + token
            for raw in (hit(b"/v1/limit/login", shown, body=b'{"user":"ann"}'), total(b"a", shown)):
                wired = server.connect()
                found.setdefault(scope, []).append((await wired.ask(raw))[9:12])
        return found

    assert asyncio.run(main()) == {Scope.read: [b"403", b"200"], Scope.write: [b"200", b"403"]}


async def test_a_limit_of_writes_is_none_of_questions() -> None:
    class Limiter:
        limits_writes = True

    wired = Server(True, framework=framework, limiter=Limiter()).connect()
    for name in ("a question", "a total"):
        assert (await wired.ask(SHORT[name])).startswith(b"HTTP/1.1 200")
        assert wired.is_fast
