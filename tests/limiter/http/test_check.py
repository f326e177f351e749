"""What a proxy asks: features in header fields, an empty answer, and the fields that say how much is left."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.http.address import addresses
from clickcurve.limiter.http.json_shapes import show_rule
from clickcurve.limiter.http.routes import DecisionService, limit_routes
from clickcurve.limiter.rule import parse_rules
from tests.limiter.http.asgi import ANN, BEN, Down, ask, limiter
from tests.limiter.http.test_routes import service

PROXY = "192.0.2.1"
LIMITS: dict[str, Any] = {
    "api": {"by": "ip", "rates": "2/m", "strategy": "fixed", "headers": {"ip": "X-Forwarded-For"}},
    "real": {"by": "ip", "rates": "2/m", "strategy": "fixed", "headers": {"ip": "x-real-ip"}},
    "users": {"by": ["user"], "rates": "2/m", "strategy": "fixed", "status": 403, "headers": {"user": "x-user"}},
    "tried": {"by": "ip", "rates": "1/m", "shadow": True},
}


def checks(asked: AsyncLimiter | None = None) -> FastAPI:
    app = FastAPI()
    app.include_router(limit_routes(DecisionService(asked or limiter(LIMITS), addresses(PROXY), "x")))
    return app


def check(app: Any, event: str, peer: str = PROXY, method: str = "GET", **more: Any) -> httpx.Response:
    return ask(app, method, f"/v1/limit/{event}/check", peer=peer, **more)[0]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_answer_is_empty_and_says_in_its_fields_how_much_is_left(method: str) -> None:
    app, headers = checks(), {"X-Forwarded-For": ANN}
    answers = [check(app, "api", method=method, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.content for answer in answers] == [b""] * 3
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    assert int(answers[2].headers["retry-after"]) > 0
    assert answers[2].headers["cache-control"] == "no-store"
    assert check(app, "api", method=method, headers={"X-Forwarded-For": BEN}).status_code == 200


def test_a_body_is_ignored() -> None:
    assert check(checks(), "api", method="POST", content=b"{not json", headers={"X-Forwarded-For": ANN}).is_success


@pytest.mark.parametrize(("event", "field"), [("api", "X-Forwarded-For"), ("real", "X-Real-IP")])
def test_who_is_no_proxy_of_ours_is_itself_whatever_it_claims(event: str, field: str) -> None:
    app = checks()
    claims = [check(app, event, peer=ANN, headers={field: f"198.51.100.{n}"}).status_code for n in range(3)]
    assert claims == [200, 200, 429]
    through = [check(app, event, headers={field: f"1.1.1.{n}, {BEN}"}).status_code for n in range(3)]
    assert through == [200, 200, 429]


def test_without_a_header_the_caller_is_the_connection_s_address() -> None:
    assert check(checks(), "tried", peer=BEN).status_code == 200
    assert "x-ratelimit-limit" not in check(checks(), "tried", peer=BEN).headers


def test_other_features_come_from_their_own_fields_and_the_status_from_the_rule() -> None:
    app = checks()
    assert [check(app, "users", headers={"X-User": "ann"}).status_code for _ in range(3)] == [200, 200, 403]
    assert check(app, "users", headers={"X-User": "ben"}).status_code == 200


def test_a_missing_feature_and_an_unknown_event_are_named() -> None:
    app = service(limiter(LIMITS))
    assert check(app, "users").json()["field"] == "user"
    assert check(app, "users", headers={"X-User": ""}).status_code == 422
    unknown = check(app, "nothing")
    assert (unknown.status_code, unknown.json()["rule"]) == (404, "api, real, tried, users")


def test_a_backend_that_is_down_is_answered_by_each_rule_s_policy() -> None:
    rules = {"a": {"by": "ip", "rates": "1/m"}, "b": {"by": "ip", "rates": "1/m", "on_failure": "closed"}}
    app = checks(limiter(rules, Down()))
    assert [check(app, event).status_code for event in ("a", "b")] == [200, 429]


def test_the_rule_says_of_which_fields_it_takes_features() -> None:
    (rule,) = parse_rules({"api": LIMITS["api"]})
    assert show_rule(rule)["headers"] == {"ip": "x-forwarded-for"}


@pytest.mark.parametrize("headers", ["x-user", {"user": 7}, {"user": "x user"}, {"user": ""}, {"cost": "x"}, {"": "x"}])
def test_headers_that_are_none_are_refused_at_the_start(headers: object) -> None:
    with pytest.raises(RuleInvalid) as refused:
        parse_rules({"e": {"by": "user", "rates": "1/m", "headers": headers}})
    assert refused.value.field == "headers"


def test_rules_of_one_event_take_a_feature_from_one_field() -> None:
    tables = [
        {"by": "user", "rates": "1/m", "headers": {"user": "x-user"}},
        {"by": "user", "rates": "5/h", "headers": {"user": "x-name"}},
    ]
    with pytest.raises(RuleInvalid, match="the same field for user"):
        parse_rules({"e": tables})
