"""`/v1/notes`: notes written, listed and deleted, of links, groups and all links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.access import access
from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import BodyUnreadable, ClickcurveError, ParameterInvalid
from clickcurve.keys import ALL_LINKS, KeyForm, group_of, link_of, row_named
from clickcurve.routes import json_answer, raw_query
from query.http.openapi import TEXT, describe_parameters, describe_route
from query.parameters import moment, parse_parameters, parse_query, resolve_range
from query.zones import UTC_ZONE
from server.timeline.known_notes import KnownNotes
from server.timeline.note import TEXT_CHARS, checked_text
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

_BODY_BYTES = 16 * 1024
_RANGE = ("from", "to", "last", "tz")
_EXAMPLE = {"at": "2026-03-01T10:30:00+01:00", "text": "The newsletter went out", "key": "spring-sale"}
_SHOWN = {
    "id": "1f2e3d4c5b6a7988",
    "at": 1772357400,
    "kind": "note",
    "text": "The newsletter went out",
    "key": "spring-sale",
    "group": None,
}

# Writes to the audit log what is about to be done, and to what.
Audit: TypeAlias = Callable[[str, str], Awaitable[None]]


ACCESS = RouteAccess(
    (
        RouteEffect("GET POST", "/v1/notes", Effect.notes),
        RouteEffect("DELETE", "/v1/notes/{id}", Effect.notes),
    ),
    (ScopeRule("DELETE", "/v1/notes/.*", Scope.write),),  # as it was to write it
)


class NoteUnknown(ClickcurveError, status=404, title="unknown note"):
    """There is no note with this id that the token may see."""


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/notes`."""

    text: str
    at: int | float | str | None = None
    key: str | None = None
    group: str | None = None


def note_routes(notes: KnownNotes, audit: Audit, clock: Callable[[], float], key_form: KeyForm) -> APIRouter:
    """Makes the router. clock: epoch seconds. key_form: in which keys count."""
    router = APIRouter(tags=["notes"])

    def row_of(key: str | None, group: str | None) -> str | None:
        return row_named(None if key is None else key_form.of(key), group, ParameterInvalid)

    @router.post("/v1/notes", **_WRITE)
    async def write(request: Request) -> Response:
        """Without `key` and `group` it is of all links, which needs a token without a prefix. `at`: now without it."""
        asked = _asked_in(await read_bounded(request.stream(), _BODY_BYTES))
        text = checked_text(asked.text)
        at = None if asked.at is None else moment("at", str(asked.at), UTC_ZONE)
        stored = row_of(asked.key, asked.group) or ALL_LINKS
        if stored != ALL_LINKS:
            access().row(stored)
        await audit("note written", _name_of(stored))
        return json_answer(await notes.write(stored, text, at), 201)

    @router.get("/v1/notes", **_LIST)
    async def list_all(request: Request) -> Response:
        """All that the token may see, or those of one link or group, oldest first."""
        given = parse_query(raw_query(request), (*_RANGE, "key", "group"))
        stored = row_of(given.pop("key", None), given.pop("group", None))
        if stored is not None:
            stored = access().row(stored)
        span = resolve_range(parse_parameters(given), int(clock()), 0)
        return json_answer({"notes": notes.listed(stored, span)})

    @router.delete("/v1/notes/{id}", **_DELETE)
    async def delete(request: Request) -> Response:
        note_id = str(request.path_params["id"])
        note = await notes.find(note_id)
        if note is None:
            detail = "there is no note with this id"
            raise NoteUnknown(detail, field="id", value=note_id, rule="an id of GET /v1/notes")
        await audit("note deleted", f"{note.id}: {_name_of(note.stored)}")
        await notes.drop([note.id])
        return Response(status_code=204)

    return router


def _asked_in(body: bytes) -> _Asked:
    try:
        return msgspec.json.decode(body, type=_Asked)
    except msgspec.ValidationError as error:
        raise ParameterInvalid(f"the note cannot be read: {error}", field="body", rule=str(_EXAMPLE)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BodyUnreadable("the body is not JSON", rule=str(_EXAMPLE)) from None


def _name_of(stored: str) -> str:
    return next((name for name in (link_of(stored), group_of(stored)) if name is not None), "all links")


_SHAPE = {"type": "object", "properties": {"notes": {"type": "array", "items": {"type": "object"}}}}
_WRITE = describe_route(
    "Note something beside hits",
    "The note",
    {
        400: "The body cannot be read",
        403: "The token may not write beside this",
        409: "There are as many notes as may be",
        413: f"More than {_BODY_BYTES:,} bytes",
    },
    status=201,
    body={
        "schema": {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {
                "at": {"type": ["integer", "number", "string", "null"]},
                "text": {**TEXT, "minLength": 1, "maxLength": TEXT_CHARS},
                "key": {"type": ["string", "null"]},
                "group": {"type": ["string", "null"]},
            },
        },
        "example": _EXAMPLE,
    },
    content={"application/json": {"schema": {"type": "object"}, "example": _SHOWN}},
)
_LIST = describe_route(
    "List what is noted",
    "The notes, oldest first",
    {403: "The token may not see this link or group"},
    parameters=[
        *describe_parameters(*_RANGE),
        {"name": "key", "in": "query", "description": "Of this link alone.", "schema": TEXT},
        {"name": "group", "in": "query", "description": "Of this group alone.", "schema": TEXT},
    ],
    content={"application/json": {"schema": _SHAPE, "example": {"notes": [_SHOWN]}}},
)
_ID = {"name": "id", "in": "path", "required": True, "description": "The id of a note", "schema": TEXT}
_DELETE = describe_route(
    "Delete a note", "Deleted", {404: "There is no note with this id"}, status=204, parameters=[_ID]
)
