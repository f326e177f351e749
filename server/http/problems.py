"""The one place that turns errors into answers: `application/problem+json`, always with `title` and `detail`."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalUnknown,
    NotAllowed,
    NotAuthenticated,
    ParameterInvalid,
)
from clickcurve.problem import MEDIA_TYPE, problem_body, retry_after_s
from server.logs import log


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
    content = problem_body(status, title, detail, field=field, value=value, rule=rule)
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=headers)


class Problems:
    """Turns errors into answers and counts them. Titles come from classes and status phrases, so there are few."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[int, str]] = Counter()  # (status, title) -> requests

    def answer(self, error: Exception) -> Response:
        """The answer to an error of our own family, or to one that nobody expected (500, told only to the log)."""
        if isinstance(error, ClickcurveError):
            response, title = _ours(error), error.title
        else:
            log.error("unexpected error", exc_info=error)
            detail, title = "something went wrong here; the log has the details", "internal error"
            response = problem(500, title, detail)
        self.refused[response.status_code, title] += 1
        return response

    def install(self, app: FastAPI) -> None:
        """Makes every error of the app a problem document."""

        async def on_error(request: Request, error: Exception) -> Response:
            if isinstance(error, JournalUnknown):
                raise error  # nothing may be answered: the front closes the connection
            if isinstance(error, RequestValidationError):
                return self.answer(_validation(error))
            if isinstance(error, HTTPException):
                self.refused[error.status_code, _phrase(error)] += 1
                return _http(error, request)
            return self.answer(error)

        for kind in (ClickcurveError, RequestValidationError, HTTPException, Exception):
            app.add_exception_handler(kind, on_error)


def _ours(error: ClickcurveError) -> Response:
    headers: dict[str, str] = {}
    retry_s = retry_after_s(error)
    if retry_s is not None:
        headers["Retry-After"] = str(retry_s)
    elif isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, NotAllowed):
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{error.rule}"'
    if error.status >= 500:
        log.warning("request failed", extra={"title": error.title, "reason": error.detail})
    return problem(
        error.status, error.title, error.detail, field=error.field, value=error.value, rule=error.rule, headers=headers
    )


def _phrase(error: HTTPException) -> str:
    return HTTPStatus(error.status_code).phrase.lower()


def _http(error: HTTPException, request: Request) -> Response:
    detail = str(error.detail)
    if error.status_code == 404:
        detail = f"there is no {request.url.path} here; /docs lists what there is"
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {request.url.path}"
    return problem(error.status_code, _phrase(error), detail, headers=dict(error.headers or {}))


def _validation(error: RequestValidationError) -> ParameterInvalid:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where[1:]) or where[0]
    detail = f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return ParameterInvalid(detail, field=field, value=first.get("input"), rule=first["type"])
