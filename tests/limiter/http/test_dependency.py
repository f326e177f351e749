"""The FastAPI dependency has the meanings of the middleware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse

from clickcurve.buckets.errors import EventUnknown
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.events import Attempt
from clickcurve.limiter.http.dependency import Limited, install
from tests.limiter.http.asgi import BEN, Down, ask, limiter, statuses

LIMITS: dict[str, dict[str, object]] = {
    "shorten": {"by": ["user", "ip"], "rates": "3/m", "strategy": "fixed"},
    "login": {"by": "ip", "rates": "3/m", "strategy": "fixed"},
}


def user_of(request: Request) -> dict[str, str]:
    return {"user": request.headers.get("x-user", "")}


def app_of(asked: AsyncLimiter, installed: bool = True, **more: Any) -> FastAPI:
    app = FastAPI()
    if installed:
        install(app)
    limited = Depends(Limited(asked, "shorten", features=user_of, **more))
    failures = Depends(Limited(asked, "login", only_failures=True, **more), scope="function")

    @app.api_route("/links", methods=["GET", "POST"], dependencies=[limited])
    async def links() -> dict[str, bool]:
        return {"made": True}

    @app.post("/moved", dependencies=[limited], response_class=RedirectResponse)
    async def moved() -> str:
        return "/links"

    @app.post("/login")
    async def login(password: str, attempt: Attempt | None = failures) -> dict[str, bool]:
        if password == "crash":
            raise ZeroDivisionError
        if password == "wrong":
            raise HTTPException(401, "no")
        if password == "odd" and attempt is not None:
            attempt.fail()
        return {"welcome": True}

    return app


def made(limits: Mapping[str, Any] = LIMITS, **more: Any) -> FastAPI:
    return app_of(limiter(limits), **more)


def test_a_route_that_writes_is_limited_and_says_what_is_left() -> None:
    app = made()
    answers = ask(app, path="/links", times=4)
    assert statuses(answers) == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert answers[3].headers["content-type"] == "application/problem+json"
    assert int(answers[3].headers["retry-after"]) >= 1
    assert statuses(ask(app, path="/links", peer=BEN)) == [200]
    (read,) = ask(app, "GET", "/links")
    assert read.status_code == 200
    assert "x-ratelimit-limit" not in read.headers


def test_users_are_distinguished_before_addresses() -> None:
    app = made()
    assert statuses(ask(app, path="/links", times=4, headers={"X-User": "ann"}))[-1] == 429
    assert statuses(ask(app, path="/links", peer=BEN, headers={"X-User": "ann"})) == [429]
    assert statuses(ask(app, path="/links")) == [200]


def test_a_redirect_carries_no_headers_but_counts() -> None:
    answers = ask(made(), path="/moved", times=4)
    assert statuses(answers) == [307, 307, 307, 429]
    assert not [name for answer in answers[:3] for name in answer.headers if "ratelimit" in name]


def test_only_failures_count() -> None:
    app = made()
    assert statuses(ask(app, path="/login?password=right", times=9)) == [200] * 9
    assert statuses(ask(app, path="/login?password=wrong")) == [401]
    assert statuses(ask(app, path="/login?password=odd")) == [200]
    with pytest.raises(ZeroDivisionError):
        ask(app, path="/login?password=crash")
    assert statuses(ask(app, path="/login?password=right")) == [429]


def test_github_has_its_body() -> None:
    app = made(dialect="github", documentation_url="/docs/limits")
    refused = ask(app, path="/links", times=4)[3]
    assert refused.json().keys() == {"message", "documentation_url"}


def test_without_install_the_status_and_the_headers_are_the_same() -> None:
    refused = ask(made(installed=False), path="/links", times=4)[3]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "rate limit exceeded" in refused.json()["detail"]


@pytest.mark.parametrize(("policy", "status"), [("open", 200), ("closed", 429)])
def test_a_backend_that_is_down_never_makes_a_5xx(policy: str, status: int) -> None:
    limits = {name: {**rule, "on_failure": policy} for name, rule in LIMITS.items()}
    app = app_of(limiter(limits, Down()))
    assert statuses(ask(app, path="/links", times=5)) == [status] * 5
    assert statuses(ask(app, path="/login?password=right", times=5)) == [status] * 5


def test_a_missing_feature_is_the_callers_fault_and_an_unknown_event_the_programs() -> None:
    limits = {**LIMITS, "shorten": {"by": "user", "rates": "3/m"}}
    assert statuses(ask(made(limits), path="/links")) == [422]
    with pytest.raises(EventUnknown):
        Limited(limiter(LIMITS), "shortne")


def test_an_event_whose_rules_are_gone_is_not_limited() -> None:
    asked = limiter(LIMITS)
    app = app_of(asked)
    asked.replace(())
    assert statuses(ask(app, path="/links", times=9)) == [200] * 9
