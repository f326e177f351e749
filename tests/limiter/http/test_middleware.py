"""The middleware in front of an application: who is limited, what is told, and what becomes of a broken backend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from clickcurve.asgi import Application, Message, Receive, Scope, Send
from clickcurve.buckets.errors import EventUnknown, ParameterInvalid
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.http.address import addresses
from clickcurve.limiter.http.middleware import RateLimit, is_failure
from clickcurve.limiter.rule import parse_rules
from tests.limiter.http.asgi import ANN, BEN, NOW, Down, Time, ask, limiter, statuses

THREE = {"shorten": {"by": ["user", "ip"], "rates": "3/m", "strategy": "fixed"}}


class App:
    """Answers the status that the path names; counts what reaches it, and how much of each body it has read."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.headers = headers
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        status = int(scope["path"].strip("/") or 200)
        if status == 599:
            raise ZeroDivisionError
        await send({"type": "http.response.start", "status": status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": b"done"})


def limited(app: Application | None = None, limits: Mapping[str, Any] = THREE, **more: Any) -> RateLimit:
    return RateLimit(app or App(), limiter(limits), more.pop("event", "shorten"), **more)


def test_requests_that_write_are_limited_and_others_are_not() -> None:
    app = limited()
    for method in ("POST", "PUT", "PATCH"):
        assert statuses(ask(app, method)) == [200]
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert statuses(ask(app, method)) == [429]
    for method in ("GET", "HEAD", "OPTIONS"):
        (answer,) = ask(app, method)
        assert answer.status_code == 200
        assert "x-ratelimit-limit" not in answer.headers
    assert statuses(ask(limited(methods=["GET"]), "GET", times=4)) == [200, 200, 200, 429]


def test_a_refusal_never_reaches_the_application_nor_reads_a_body() -> None:
    inner = App()
    app = limited(inner)
    ask(app, times=3)
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("its body was read")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": (ANN, 1)}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 429
    assert inner.asked == 3


def test_each_answer_says_what_is_left_after_it() -> None:
    answers = ask(limited(), times=4)
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert {answer.headers["x-ratelimit-reset"] for answer in answers} == {str(NOW - NOW % 60 + 60)}
    assert "retry-after" not in answers[2].headers
    refused = answers[3]
    assert refused.headers["retry-after"] == str(60 - NOW % 60)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["rule"] == "shorten"


def test_a_redirect_carries_no_headers_but_counts() -> None:
    answers = ask(limited(), path="/302", times=4)
    assert statuses(answers) == [302, 302, 302, 429]
    assert not [name for answer in answers[:3] for name in answer.headers if "ratelimit" in name]


def test_fields_of_the_application_itself_stay() -> None:
    (answer,) = ask(limited(App((b"X-RateLimit-Limit", b"77"))))
    assert answer.headers.get_list("x-ratelimit-limit") == ["77"]
    assert answer.headers["x-ratelimit-remaining"] == "2"


def test_another_dialect_and_status() -> None:
    limits = {"shorten": {"by": "ip", "rates": "1/h", "status": 403}}
    ok, refused = ask(limited(limits=limits, dialect="github", documentation_url="/docs/limits"), times=2)
    assert ok.headers["x-ratelimit-used"] == "1"
    assert refused.status_code == 403
    assert refused.json()["documentation_url"] == "/docs/limits"
    (answer,) = ask(limited(dialect="ietf"))
    assert answer.headers["ratelimit"] == '"shorten";r=2;t=40'
    with pytest.raises(ParameterInvalid):
        limited(dialect="kong")


def test_features_come_from_the_request_and_the_address_is_always_there() -> None:
    def user(scope: Scope) -> dict[str, str]:
        return {"user": dict(scope["headers"]).get(b"x-user", b"").decode()}

    async def later(scope: Scope) -> dict[str, str]:
        await asyncio.sleep(0)
        return user(scope)

    for features in (user, later):
        app = limited(features=features)
        assert statuses(ask(app, times=4, headers={"X-User": "ann"})) == [200, 200, 200, 429]
        assert statuses(ask(app, headers={"X-User": "ann"}, peer=BEN)) == [429], "a user is one wherever she is"
        assert statuses(ask(app, times=4)) == [200, 200, 200, 429]
        assert statuses(ask(app, peer=BEN)) == [200]


def test_the_event_may_depend_on_the_request_and_may_be_none() -> None:
    def event(scope: Scope) -> str | None:
        return {"/200": "shorten", "/201": "nobody knows"}.get(scope["path"])

    app = limited(event=event)
    assert statuses(ask(app, path="/200", times=4))[-1] == 429
    assert statuses(ask(app, path="/201", times=9)) == [201] * 9
    assert statuses(ask(app, path="/204", times=9)) == [204] * 9
    with pytest.raises(EventUnknown):
        limited(event="shortne")


def test_rules_that_are_replaced_hold_at_once_also_when_they_are_gone() -> None:
    asked = limiter(THREE)
    app = RateLimit(App(), asked, "shorten")
    assert statuses(ask(app, times=4))[-1] == 429
    asked.replace(parse_rules({"shorten": {"by": ["user", "ip"], "rates": "5/m", "strategy": "fixed"}}))
    assert statuses(ask(app, times=3)) == [200, 200, 429]
    asked.replace(())
    assert statuses(ask(app, times=3)) == [200] * 3


def test_a_request_without_the_features_of_a_rule_hears_what_is_missing() -> None:
    app = limited(limits={"shorten": {"by": "user", "rates": "3/m"}})
    (answer,) = ask(app)
    assert (answer.status_code, answer.json()["field"]) == (422, "user")
    assert answer.headers["content-type"] == "application/problem+json"


def test_other_scopes_pass_through() -> None:
    seen = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    for kind in ("lifespan", "websocket"):
        asyncio.run(limited(inner)({"type": kind}, nothing, nothing))
    assert seen == ["lifespan", "websocket"]


# --- only some answers count ------------------------------------------------------------------------------------------
def test_only_failures_count_and_success_gives_its_place_back() -> None:
    app = limited(only=is_failure)
    assert statuses(ask(app, path="/200", times=20)) == [200] * 20
    failed = ask(app, path="/401", times=4)
    assert statuses(failed) == [401, 401, 401, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in failed] == ["2", "1", "0", "0"]
    assert statuses(ask(app, path="/200")) == [429], "who failed three times may not try again, even with the right one"


def test_an_application_that_raises_has_failed() -> None:
    app = limited(only=is_failure)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            ask(app, path="/599")
    assert statuses(ask(app)) == [429]


def test_a_burst_of_concurrent_attempts_cannot_pass_together() -> None:
    """All of them are at the password at once; without a held place each would find the counter at zero."""
    inner = App()
    arrived = 0
    tried = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 3:
            tried.set()
        await tried.wait()
        await inner(scope, receive, send)

    app = limited(slow, only=is_failure)

    async def burst() -> list[int]:
        nonlocal tried
        tried = asyncio.Event()
        transport = httpx.ASGITransport(app, client=(ANN, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as client:
            answers = await asyncio.gather(*(client.post("/401") for _ in range(10)))
        return [answer.status_code for answer in answers]

    assert sorted(asyncio.run(burst())) == [401] * 3 + [429] * 7


# --- a backend that is down -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("policy", "status"), [("open", 200), ("closed", 429), ("local", 200)])
@pytest.mark.parametrize("only", [None, is_failure])
def test_a_backend_that_is_down_never_makes_a_5xx(policy: str, status: int, only: Any) -> None:
    limits = {"shorten": {"by": "ip", "rates": "3/m", "on_failure": policy}}
    inner = App()
    app = RateLimit(inner, limiter(limits, Down()), "shorten", only=only)
    answers = ask(app, times=9)
    assert statuses(answers) == [status] * 9
    assert inner.asked == (9 if status == 200 else 0)
    assert "x-ratelimit-remaining" not in answers[0].headers
    assert answers[0].headers.get("retry-after") == ("1" if status == 429 else None)


def test_a_place_that_cannot_be_given_back_does_not_spoil_the_answer() -> None:
    backend = Down()
    backend.up = MemoryBackend()

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        backend.up = None
        await App()(scope, receive, send)

    app = RateLimit(breaks, limiter(THREE, backend), "shorten", only=is_failure)
    assert statuses(ask(app, path="/200")) == [200]


# --- traps into which others fell -------------------------------------------------------------------------------------
def test_trap_9_a_key_that_is_accepted_and_ignored() -> None:
    app = limited()
    assert statuses(ask(app, times=4, peer=ANN)) == statuses(ask(app, times=4, peer=BEN)) == [200, 200, 200, 429]


def test_trap_13_headers_that_describe_another_window_than_the_decision() -> None:
    """While the application works the window turns; the headers are those of the decision."""
    clock = Time(NOW - NOW % 60 + 59)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        clock.now += 30
        await App()(scope, receive, send)

    app = RateLimit(slow, limiter(THREE, clock=clock), "shorten")
    (answer,) = ask(app)
    assert answer.headers["x-ratelimit-remaining"] == "2"
    assert answer.headers["x-ratelimit-reset"] == str(NOW - NOW % 60 + 60)


def test_trap_14_a_fallback_that_counts_twice() -> None:
    """What was decided without the backend is not told to it afterwards."""
    backend, memory = Down(), MemoryBackend()
    app = RateLimit(App(), limiter(THREE, backend), "shorten")
    assert statuses(ask(app, times=5)) == [200] * 5
    backend.up = memory
    assert ask(app)[0].headers["x-ratelimit-remaining"] == "2"


def test_a_forged_header_makes_no_new_caller() -> None:
    app = limited()
    forged = [ask(app, headers={"X-Forwarded-For": f"198.51.100.{n}"})[0].status_code for n in range(4)]
    assert forged == [200, 200, 200, 429]
    behind = limited(addresses=addresses(ANN))
    for n in range(3):
        assert statuses(ask(behind, headers={"X-Forwarded-For": f"1.1.1.{n}, 198.51.100.1"})) == [200]
    assert statuses(ask(behind, headers={"X-Forwarded-For": "2.2.2.2, 198.51.100.1"})) == [429]
    assert statuses(ask(behind, headers={"X-Forwarded-For": "198.51.100.2"})) == [200]


def test_a_household_with_many_ipv6_addresses_is_one_caller() -> None:
    app = limited()
    assert [ask(app, peer=f"2001:db8:1:2::{n:x}")[0].status_code for n in range(4)] == [200, 200, 200, 429]
    assert statuses(ask(app, peer="2001:db8:1:3::1")) == [200]
