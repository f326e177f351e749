"""Turns the errors of the web framework and of what it calls into problem documents, and counts them."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from clickcurve.asgi import SAFE
from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalUnknown,
    ParameterInvalid,
)
from clickcurve.problem import MEDIA_TYPE, error_body, error_headers, problem_body
from server.limiter.limiter import WriteRefused
from server.logs import log

REFUSED = "rate limit exceeded"  # the title of what a rule of writes refuses


class Problems:
    """Turns errors into answers and counts them. Titles come from classes and status phrases, so there are few."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[int, str]] = Counter()  # (status, title) -> requests

    def answer(self, error: Exception) -> Response:
        """Returns the answer to an error. One that is not ours becomes a bare 500 and is logged."""
        if isinstance(error, ClickcurveError):
            response, title = _ours(error), error.title
        elif isinstance(error, WriteRefused):
            refusal, title = error.refusal, REFUSED
            response = Response(refusal.body, refusal.status, dict(refusal.fields))
        else:
            self.log(error)
            detail, title = "something went wrong here; the log has the details", "internal error"
            response = _problem_response(500, title, detail)
        self.refused[response.status_code, title] += 1
        return response

    @staticmethod
    def log(error: Exception) -> None:
        """Logs an error that is not ours with its traceback, once."""
        if not getattr(error, "is_logged", False):
            error.is_logged = True  # type: ignore[attr-defined]
            log.error("unexpected error", exc_info=error)

    def install(self, app: FastAPI) -> None:
        """Makes every error of the app a problem document."""

        async def on_error(request: Request, error: Exception) -> Response:
            if isinstance(error, JournalUnknown | ClientDisconnect):
                raise error  # nothing may be answered, or nobody is there: the front door ends it
            if isinstance(error, RequestValidationError):
                return self.answer(_validation(error))
            if isinstance(error, HTTPException):
                self.refused[error.status_code, _phrase(error)] += 1
                return _http(error, request)
            return self.answer(error)

        for kind in (ClickcurveError, WriteRefused, RequestValidationError, HTTPException, Exception):
            app.add_exception_handler(kind, on_error)


def _ours(error: ClickcurveError) -> Response:
    if error.status >= 500:
        log.warning("request failed", extra={"title": error.title, "reason": error.detail})
    headers = {name.decode(): value.decode() for name, value in (*SAFE, *error_headers(error))}
    return Response(error_body(error), status_code=error.status, media_type=MEDIA_TYPE, headers=headers)


def _phrase(error: HTTPException) -> str:
    return HTTPStatus(error.status_code).phrase.lower()


def _http(error: HTTPException, request: Request) -> Response:
    detail, headers = str(error.detail), dict(error.headers or {})
    if error.status_code == 404:
        detail = f"there is no {request.url.path} here; /docs lists what there is"
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {request.url.path}"
        headers["Allow"] = ", ".join(_allowed_methods(request))
    return _problem_response(error.status_code, _phrase(error), detail, headers)


def _allowed_methods(request: Request) -> list[str]:
    """Returns what any route of the path takes; the framework itself names the methods of its first route."""
    return [
        method
        for method, asked in (("GET", "GET"), ("HEAD", "GET"), ("POST", "POST"), ("DELETE", "DELETE"))
        if any(route.matches({**request.scope, "method": asked})[0] is Match.FULL for route in request.app.routes)
    ]


def _problem_response(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    headers = {**{name.decode(): value.decode() for name, value in SAFE}, **(headers or {})}
    return Response(problem_body(status, title, detail), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _validation(error: RequestValidationError) -> ParameterInvalid:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where[1:]) or where[0]
    detail = f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    rule = first["msg"].removeprefix("Input should be ")
    return ParameterInvalid(detail, field=field, value=first.get("input"), rule=rule)
