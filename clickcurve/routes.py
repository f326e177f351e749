"""What routes of the web framework share: paths that are matched raw, and answers in JSON.

A key may hold an encoded slash, so a path must not be decoded before it is cut.
"""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match

from clickcurve.answers.written import JSON, as_json
from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import Subject, group_in_path, group_subject, key_in_path, link_subject


class RawPathRoute(APIRoute):
    """A route whose path parameters are what stands between the slashes of the raw path, still percent-encoded."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes | None = scope.get("raw_path")
        return super().matches(scope if raw is None else {**scope, "path": raw.decode("latin-1")})


def key_of_path(request: Request) -> str:
    """Returns the key that the path names; raises ParameterInvalid."""
    return key_in_path(str(request.path_params["key"]).encode("latin-1"), ParameterInvalid)


def group_of_path(request: Request) -> str:
    """Returns the group that the path names; raises ParameterInvalid."""
    return group_in_path(str(request.path_params["name"]).encode("latin-1"), ParameterInvalid)


def subject_in_path(request: Request) -> Subject:
    """Returns the link or the group that the path names; raises ParameterInvalid."""
    if "key" in request.path_params:
        return link_subject(key_of_path(request))
    return group_subject(group_of_path(request))


def raw_query(request: Request) -> bytes:
    """Returns the query string as it was sent."""
    query: bytes = request.scope["query_string"]
    return query


def json_answer(content: object, status: int = 200) -> Response:
    """Returns an answer in JSON; `content` is what msgspec can encode."""
    return Response(as_json(content), status, media_type=JSON)
