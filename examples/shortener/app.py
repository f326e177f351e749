"""A URL shortener whose writes are limited by user and address, and which reports its hits to Clickcurve.

    CLICKCURVE_URL=http://127.0.0.1:8080 uvicorn examples.shortener.app:app --port 9004

POST /links with {"url": ...} makes a link and answers 201; GET /KEY answers 302. USERS names a JSON object of secret ->
name: a request with `Authorization: Bearer SECRET` is that user's, any other counts by its address. LIMITS names a file
of rules, TRUSTED_PROXIES the networks of one's own proxies. Links are kept in memory: this is an example.

What is worth copying:

- The limiter stands in front of the application: a refused request costs nothing but the decision.
- A user counts as one only with the right secret. A request with an invented one counts by its address, so inventing
  names brings no fresh limit.
- Redirects are not limited, and carry no headers of the limiter. Middleware counts them: the routes know nothing of it.
"""

from __future__ import annotations

import json
import os
import secrets
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import AnyHttpUrl, BaseModel

from clickcurve.asgi import Scope
from clickcurve.client import AsyncClient, RedirectCounter
from clickcurve.client.asgi import ClickMiddleware
from clickcurve.limiter import AsyncLimiter, parse_rules
from clickcurve.limiter.http.address import addresses
from clickcurve.limiter.http.middleware import RateLimit
from examples.redirector.app import client_from_environment

HERE = Path(__file__).parent
MAX_LINKS = 100_000


class Wanted(BaseModel):
    """The body of POST /links."""

    url: AnyHttpUrl


class Users:
    """Knows users by their secrets."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def features(self, scope: Scope) -> dict[str, str]:
        shown = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        return {"user": self._names.get(shown.removeprefix("Bearer "), "")}


def make(clicks: AsyncClient, limiter: AsyncLimiter, users: Users, trusted_proxies: str) -> FastAPI:
    """Makes the application. clicks: the client that reports hits."""
    links: dict[str, str] = {}

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        await clicks.close()

    app = FastAPI(lifespan=life)
    app.add_middleware(ClickMiddleware, counter=RedirectCounter(clicks, trusted_proxies=trusted_proxies))
    app.add_middleware(
        RateLimit,
        limiter=limiter,
        event="url_shorten",
        features=users.features,
        addresses=addresses(trusted_proxies),
    )

    @app.post("/links", status_code=201)
    async def shorten(wanted: Wanted, request: Request) -> dict[str, str]:
        if len(links) >= MAX_LINKS:
            raise HTTPException(507, "there is no room for more links")
        key = secrets.token_urlsafe(5)
        links[key] = str(wanted.url)
        return {"key": key, "short": str(request.url_for("follow", key=key))}

    @app.get("/{key}")
    async def follow(key: str) -> Response:
        if key not in links:
            raise HTTPException(404, "no such link")
        return RedirectResponse(links[key], 302, {"Cache-Control": "no-store"})

    return app


def from_environment() -> FastAPI:
    """Makes the application that the environment describes."""
    rules = tomllib.loads(Path(os.environ.get("LIMITS", HERE / "limits.toml")).read_text())["limits"]
    users = json.loads(Path(os.environ["USERS"]).read_text()) if "USERS" in os.environ else {}
    limiter = AsyncLimiter(parse_rules(rules))
    return make(client_from_environment(), limiter, Users(users), os.environ.get("TRUSTED_PROXIES", ""))


app = from_environment()
