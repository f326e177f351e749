"""The one place that turns errors into answers: `application/problem+json`, always with `title` and `detail`."""

from __future__ import annotations

import json
from collections import Counter
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from buckets.errors import ClickcurveError, JournalError, NotAllowed, NotAuthenticated, StoreUnavailable
from server.logs import log

PROBLEM = "application/problem+json"
STORE_RETRY_S = 5

# Refused requests by (status, title), for /metrics. Titles come from classes and routes, so there are few.
refused: Counter[tuple[int, str]] = Counter()


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    field: str | None = None,
    value: object = None,
    rule: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """One answer that says what is wrong; `field`, `value` and `rule` only where there is one."""
    refused[status, title] += 1
    body: dict[str, Any] = {"title": title, "status": status, "detail": detail}
    if field is not None:
        body["field"] = field
        if value is not None:
            body["value"] = value if isinstance(value, str | int | float | bool) else str(value)
    if rule is not None:
        body["rule"] = rule
    content = json.dumps(body, ensure_ascii=True).encode()
    return Response(content, status_code=status, media_type=PROBLEM, headers=headers)


def answer(error: Exception) -> Response:
    """The answer to an error of our own family, or to one that nobody expected (500, told only to the log)."""
    if not isinstance(error, ClickcurveError):
        log.error("unexpected error", exc_info=error)
        return problem(500, "internal error", "something went wrong here; the log has the details")
    headers: dict[str, str] = {}
    if isinstance(error, JournalError) and error.status in (429, 503):
        headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, StoreUnavailable):
        headers["Retry-After"] = str(STORE_RETRY_S)
    elif isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, NotAllowed):
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{error.rule}"'
    if error.status >= 500:
        log.warning("request failed", extra={"title": error.title, "reason": error.detail})
    shown = {"field": error.field, "value": error.value, "rule": error.rule}
    return problem(error.status, error.title, error.detail, headers=headers, **shown)  # type: ignore[arg-type]


def _http(error: HTTPException, request: Request) -> Response:
    phrase = HTTPStatus(error.status_code).phrase.lower()
    detail = str(error.detail)
    if error.status_code == 404:
        detail = f"there is no {request.url.path} here; /docs lists what there is"
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {request.url.path}"
    return problem(error.status_code, phrase, detail, headers=dict(error.headers or {}))


def _validation(error: RequestValidationError) -> Response:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where[1:]) or where[0]
    detail = f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return problem(422, "invalid parameter", detail, field=field, value=first.get("input"), rule=first["type"])


def install(app: FastAPI) -> None:
    """Makes every error of the app a problem document."""

    async def on_error(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            return _validation(error)
        if isinstance(error, HTTPException):
            return _http(error, request)
        return answer(error)

    for kind in (ClickcurveError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, on_error)
