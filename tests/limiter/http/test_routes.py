"""The decision service: what it reads, what it answers, and what it calls wrong."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.routes import DecisionService, limit_routes
from tests.limiter.http.asgi import NOW, Down, Time, ask, limiter

LIMITS: dict[str, Any] = {
    "login": {"by": ["user", "ip"], "rates": "3/m, 5/h", "strategy": "fixed", "status": 403},
    "shorten": {"by": [["ip", "endpoint"]], "rates": "2/s, 100/d"},
    "tried": {"by": "ip", "rates": "1/m", "shadow": True},
    "doors": {"by": "ip", "rates": "2/m", "strategy": "list"},
    "api": {"by": "ip", "rates": "10/s", "burst": 20, "strategy": "token_bucket", "on_failure": "closed"},
    "known": [
        {"by": "user", "rates": "6/m", "optional": True, "name": "user"},
        {"by": "ip", "rates": "2/m", "unless": "user", "name": "address"},
    ],
}
MINUTE_END = NOW - NOW % 60 + 60


def service(asked: AsyncLimiter | None = None, dialect: str = "x") -> FastAPI:
    app = FastAPI()
    app.include_router(limit_routes(DecisionService(asked or limiter(LIMITS), Addresses(), dialect)))

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ClickcurveError)
        body = {"title": error.title, "detail": error.detail, "field": error.field, "rule": error.rule}
        return JSONResponse(body, error.status)

    app.add_exception_handler(ClickcurveError, problem)
    return app


def hit(app: FastAPI, event: str = "login", **body: Any) -> httpx.Response:
    return ask(app, path=f"/v1/limit/{event}", json=body)[0]


def end(app: FastAPI, reservation: str, how: str, **more: Any) -> httpx.Response:
    return ask(app, path=f"/v1/limit/login/{reservation}/{how}", **more)[0]


def test_a_hit_is_answered_with_its_decision() -> None:
    answer = hit(service(), ip="203.0.113.7")
    assert answer.status_code == 200
    assert answer.json() == {
        "allowed": True,
        "rule": "login",
        "limit": 3,
        "remaining": 2,
        "retry_after_s": 0,
        "reset_at": MINUTE_END,
        "bound": [1, 1],
    }
    assert answer.headers["x-ratelimit-remaining"] == "2"
    assert "retry-after" not in answer.headers


def test_a_refusal_has_the_status_of_its_rule_and_says_when() -> None:
    app = service()
    assert [hit(app, ip="a").status_code for _ in range(4)] == [200, 200, 200, 403]
    answer = hit(app, ip="a")
    assert answer.json() | {"reset_at": 0} == {
        "allowed": False,
        "rule": "login",
        "limit": 3,
        "remaining": 0,
        "retry_after_s": MINUTE_END - NOW,
        "reset_at": 0,
        "bound": [3, 3],
    }
    assert answer.headers["retry-after"] == str(MINUTE_END - NOW)
    assert answer.headers["cache-control"] == "no-store"


def test_the_first_feature_that_is_given_is_taken_and_null_is_not_given() -> None:
    app = service()
    for _ in range(3):
        hit(app, user="ann", ip="a")
    assert hit(app, user="ann", ip="b").status_code == 403
    assert hit(app, user=None, ip="a").status_code == 200
    assert hit(app, user="", ip="a").status_code == 200


def test_an_address_is_one_however_it_is_written_and_other_text_is_taken_as_it_is() -> None:
    app = service()
    for ip in ("::ffff:203.0.113.7", "203.0.113.7", "::FFFF:CB00:7107"):
        assert hit(app, ip=ip).status_code == 200
    assert hit(app, ip="203.0.113.7").status_code == 403
    for ip in ("2001:db8::1", "2001:db8::2", "2001:DB8:0:0::3"):
        assert hit(app, ip=ip).status_code == 200
    assert hit(app, ip="2001:db8::4").status_code == 403
    assert hit(app, ip="the office").status_code == 200


def test_a_composite_key_needs_all_of_its_features() -> None:
    app = service()
    assert hit(app, "shorten", ip="a", endpoint="/x", more="text").status_code == 200
    answer = hit(app, "shorten", ip="a")
    assert (answer.status_code, answer.json()["field"]) == (422, "ip")
    assert "ip and endpoint" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b"7", "body"),
        (b'"ip"', "body"),
        (b'{"ip": "\\ud800"}', "body"),
        (b"[" * 50_000, "body"),
        (b'{"ip": NaN}', "body"),
        (b"", "user"),
        (b"{}", "user"),
        (b'{"ip": 7}', "ip"),
        (b'{"ip": "a", "colour": ["red"]}', "colour"),
        (b'{"ip": "a", "cost": 0}', "cost"),
        (b'{"ip": "a", "cost": -1}', "cost"),
        (b'{"ip": "a", "cost": 1.0}', "cost"),
        (b'{"ip": "a", "cost": true}', "cost"),
        (b'{"ip": "a", "cost": "1"}', "cost"),
        (b'{"ip": "a", "cost": 1000000001}', "cost"),
        (b'{"ip": "a", "peek": 1}', "peek"),
        (b'{"ip": "a", "explain": "yes"}', "explain"),
        (b'{"ip": "a", "reserve": 0}', "reserve"),
        (b'{"ip": "a", "reserve": true, "peek": true}', "reserve"),
    ],
)
def test_a_wrong_question_is_refused_and_names_its_field(body: bytes, field: str) -> None:
    app = service()
    (answer,) = ask(app, path="/v1/limit/login", content=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert answer.json()["rule"]
    assert hit(app, ip="a", peek=True).json()["remaining"] == 3, "nothing was counted"


def test_a_body_that_is_too_large_is_refused() -> None:
    (answer,) = ask(service(), path="/v1/limit/login", content=b" " * 70_000)
    assert answer.status_code == 413


def test_an_unknown_event_names_those_that_there_are() -> None:
    answer = hit(service(), "signup", ip="a")
    assert answer.status_code == 404
    assert "api, doors, known, login, shorten, tried" in answer.json()["detail"]
    assert end(service(limiter({})), "1-" + "0" * 32, "cancel").status_code == 404


def test_a_peek_counts_nothing_and_has_the_same_status() -> None:
    app = service()
    assert [hit(app, ip="a", peek=True).json()["remaining"] for _ in range(3)] == [3, 3, 3]
    assert hit(app, ip="a", cost=3).status_code == 200
    answer = hit(app, ip="a", peek=True)
    assert (answer.status_code, answer.json()["allowed"]) == (403, False)


def test_what_can_never_pass_says_so_by_null() -> None:
    answer = hit(service(), ip="a", cost=4)
    assert (answer.status_code, answer.json()["retry_after_s"]) == (403, None)
    assert "retry-after" not in answer.headers


def test_explain_shows_the_buckets_that_the_bound_was_summed_from() -> None:
    app = service()
    for _ in range(2):
        hit(app, "shorten", ip="a", endpoint="x")
    answer = hit(app, "shorten", ip="a", endpoint="x", peek=True, explain=True).json()
    assert answer["allowed"] is False
    assert sum(piece["hits"] for piece in answer["pieces"]) == answer["bound"][1] == 2
    assert answer["pieces"][0].keys() == {"width_s", "start", "buckets", "hits"}
    assert "pieces" not in hit(app, "shorten", ip="b", endpoint="x").json()


def test_a_list_shows_its_callers() -> None:
    app = service()
    hit(app, "doors", ip="203.0.113.7")
    hit(app, "doors", ip="203.0.113.7", caller="ann")
    assert hit(app, "doors", ip="203.0.113.7", peek=True).json()["callers"] == ["203.0.113.7", "ann"]


def test_shadow_is_allowed_and_says_so() -> None:
    app = service()
    assert "shadow" not in hit(app, "tried", ip="a").json()
    answer = hit(app, "tried", ip="a")
    assert (answer.status_code, answer.json()["allowed"], answer.json()["shadow"]) == (200, True, True)
    assert answer.json()["retry_after_s"] > 0, "what it would have been"
    assert "x-ratelimit-remaining" not in answer.headers


# --- reservations -----------------------------------------------------------------------------------------------------
def test_a_reservation_that_is_cancelled_never_was() -> None:
    app = service()
    held = hit(app, ip="a", cost=3, reserve=True).json()["reservation"]
    assert hit(app, ip="a").status_code == 403
    answer = end(app, held, "cancel")
    assert (answer.status_code, answer.json()) == (200, {"reservation": held, "state": "cancelled"})
    assert hit(app, ip="a", peek=True).json()["remaining"] == 3
    again = end(app, held, "cancel")
    assert (again.status_code, again.json()["title"]) == (409, "reservation ended")


def test_a_commit_may_keep_less() -> None:
    app = service()
    answer = hit(app, ip="a", cost=3, reserve=True).json()["reservation"]
    assert end(app, answer, "commit", json={"cost": 4}).status_code == 422
    assert end(app, answer, "commit", json={"costs": 1}).status_code == 422
    assert end(app, answer, "commit", json={"cost": 1}).json()["state"] == "committed"
    assert hit(app, ip="a", peek=True).json()["remaining"] == 2
    assert end(app, answer, "commit").status_code == 409


def test_a_commit_without_a_body_keeps_all() -> None:
    app = service()
    answer = hit(app, ip="a", cost=2, reserve=True).json()["reservation"]
    assert end(app, answer, "commit").status_code == 200
    assert hit(app, ip="a", peek=True).json()["remaining"] == 1


@pytest.mark.parametrize("reservation", ["1-" + "0" * 32, "nonsense", "%2e%2e"])
def test_a_reservation_that_nobody_knows(reservation: str) -> None:
    answer = end(service(), reservation, "cancel")
    assert (answer.status_code, answer.json()["title"]) == (404, "unknown reservation")


def test_a_reservation_lapses_with_its_windows_and_a_refused_hit_has_none() -> None:
    clock = Time()
    app = service(limiter(LIMITS, clock=clock))
    answer = hit(app, ip="a", cost=3, reserve=True).json()["reservation"]
    assert "reservation" not in hit(app, ip="a", reserve=True).json()
    clock.now += 3_600
    assert end(app, answer, "cancel").status_code == 404


# --- the backend, the dialects, the list ------------------------------------------------------------------------------
def test_a_backend_that_is_down_never_makes_a_5xx() -> None:
    backend = Down()
    app = service(limiter(LIMITS, backend))
    for _ in range(9):
        answer = hit(app, ip="a")
        assert (answer.status_code, answer.json()["fallback"]) == (200, True)
        refused = hit(app, "api", ip="a")
        assert (refused.status_code, refused.json()["fallback"]) == (429, True)
        assert refused.headers["retry-after"] == "1"
    assert hit(app, ip="a", peek=True).status_code == 200
    assert "reservation" not in hit(app, ip="a", reserve=True).json()
    assert hit(app, ip="a", cost=0).status_code == 422, "what is wrong is wrong"
    assert hit(app, "signup").status_code == 404
    backend.up = MemoryBackend()
    held = hit(app, ip="a", reserve=True).json()["reservation"]
    backend.up = None
    ended = end(app, held, "cancel")
    assert (ended.status_code, ended.json()["state"], ended.json()["fallback"]) == (200, "unknown", True)
    assert refused.json()["blind"] and ended.json()["blind"]  # the old name, for one version


def test_headers_come_in_the_dialect_that_is_set() -> None:
    assert hit(service(dialect="ietf"), ip="a").headers["ratelimit"] == '"login 3/m";r=2;t=40'
    assert "ratelimit" not in str(hit(service(dialect="none"), ip="a").headers).lower()
    app = service(dialect="github")
    assert "message" not in hit(app, ip="a", cost=3).json()
    refused = hit(app, ip="a").json()
    assert "rate limit exceeded" in refused["message"]
    assert refused["documentation_url"] == "/docs"
    assert refused["allowed"] is False, "the decision is there as well"


def test_the_rules_are_listed_in_the_words_of_the_settings_file() -> None:
    (answer,) = ask(service(), "GET", "/v1/limits")
    found = {rule["name"]: rule for rule in answer.json()["limits"]}
    assert found["login"] == {
        "event": "login",
        "name": "login",
        "by": ["user", "ip"],
        "rates": "3/m, 5/h",
        "strategy": "fixed",
        "backend": "memory",
        "on_failure": "open",
        "shadow": False,
        "status": 403,
        "optional": False,
        "unless": [],
        "history": "event",
    }
    assert found["shorten"]["by"] == [["ip", "endpoint"]]
    assert (found["shorten"]["edge"], found["shorten"]["side"]) == ("second", "strict")
    assert found["api"]["burst"] == 20


def test_a_caller_that_is_known_has_another_rate() -> None:
    app = service()
    assert (hit(app, "known", ip="a", user="ann").json()["rule"], hit(app, "known", ip="a").json()["rule"]) == (
        "user",
        "address",
    )
    missing = hit(app, "known", email="a@example.org")
    assert (missing.status_code, missing.json()["detail"]) == (422, "the event known needs ip")
    shown = ask(app, path="/v1/limits", method="GET")[0].json()["limits"]
    assert [(each["optional"], each["unless"]) for each in shown if each["event"] == "known"] == [
        (True, []),
        (False, ["user"]),
    ]


@pytest.mark.parametrize("how", ["commit", "cancel"])
def test_a_reservation_of_another_event_is_unknown(how: str) -> None:
    app = service()
    reservation = hit(app, "shorten", ip="a", endpoint="/", reserve=True).json()["reservation"]
    assert end(app, reservation, how).status_code == 404
    assert ask(app, path=f"/v1/limit/shorten/{reservation}/{how}")[0].status_code == 200
