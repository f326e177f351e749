"""`/v1/words/erase`: values that must be forgotten, with a token of scope admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import BodyUnreadable, ClickcurveError, ParameterInvalid, SettingInvalid
from clickcurve.keys import ALL_LINKS, KeyForm, group_of, link_of, row_named
from clickcurve.routes import json_answer
from clickcurve.waiting import in_thread
from ingest.attributes.dimensions import DIMENSION_RULE, dimensions_of
from ingest.attributes.text import cut
from query.http.openapi import TEXT, describe_route
from server.corrections.disavow_routes import note_of
from server.corrections.rules import DisavowBook, RuleUnderWay
from server.timeline.known_notes import KnownNotes
from server.timeline.note import NoteKind
from server.tokens.audit import AuditLog
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope
from storage.contract import Store
from storage.erased_words import Erasure, ErasureBook, NotedWord

_BODY_BYTES = 16 * 1024
_BODY_RULE = '{"dimension": "utm_campaign", "value": "ann@example.org"}, with "key" or "group" for one link or group'
_PATH = "/v1/words/erase"


class ErasureUnknown(ClickcurveError, status=404, title="unknown erasure"):
    """There is no erasure with this id."""


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    dimension: str
    value: str
    key: str | None = None
    group: str | None = None

    def row(self, key_form: KeyForm) -> str | None:
        """Returns the stored key of the one row that is meant; None: all."""
        row = row_named(self.key, self.group, ParameterInvalid)
        return None if row is None else key_form.of_row(row)


def _asked_in(body: bytes) -> _Asked:
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BodyUnreadable("the body is not an object of these texts", rule=_BODY_RULE) from None
    try:
        dimensions_of((asked.dimension,))
    except SettingInvalid:
        detail = "this is not a dimension"
        raise ParameterInvalid(detail, field="dimension", value=asked.dimension, rule=DIMENSION_RULE) from None
    if asked.dimension in OF_BOTS:
        rule = "a dimension whose values come from visitors"
        raise ParameterInvalid(
            "names of bots are those of programs", field="dimension", value=asked.dimension, rule=rule
        )
    if asked.value == NOT_GIVEN:
        detail = "hits that gave no value have none to forget"
        raise ParameterInvalid(detail, field="value", value="", rule="a value that is not empty")
    return asked


ACCESS = RouteAccess(
    (
        RouteEffect("POST", _PATH, Effect.admin),
        RouteEffect("GET", _PATH + "/{id}", Effect.admin),
    ),
    (ScopeRule("", "/v1/words.*", Scope.admin),),
)


def erase_routes(
    store: Store,
    audit: AuditLog,
    kept_value: Callable[[str, str], str],
    clock: Callable[[], float],
    notes: KnownNotes,
    key_form: KeyForm,
) -> APIRouter:
    """Makes the router. kept_value: what is kept of a value, given its dimension. clock: epoch seconds.

    key_form: in which keys count.
    """
    router = APIRouter(tags=["administering"])
    book, rules = ErasureBook(store), DisavowBook(store)

    def require_settled(dimension: str, value: str, row: str | None) -> None:
        """Raises RuleUnderWay if a rule that is not settled names the value, or any rule of the one link."""
        for each in rules.all():
            rule = each.rule
            if (rule.dimension, rule.value) != (dimension, value) or not (row is None or rule.is_of(row)):
                continue
            of_link = row is not None and link_of(row) is not None  # all links have its hits under this value, too
            if of_link or each.undo or not each.settled:
                detail = f"the rule {rule.id} names this value"
                then = (
                    "undo it first, or erase the value everywhere" if of_link else "wait until it is settled or undone"
                )
                raise RuleUnderWay(detail, field="value", rule=then)

    def meant(asked: _Asked) -> NotedWord:
        value, row = cut(kept_value(asked.dimension, asked.value)), asked.row(key_form)
        require_settled(asked.dimension, value, row)
        return book.meant(asked.dimension, value, row, int(clock()))

    def found(erasure_id: str) -> Erasure:
        for erasure in book.all():
            if erasure.id == erasure_id:
                return erasure
        detail = "there is no erasure with this id, or it was done more than 8 days ago"
        raise ErasureUnknown(detail, field="id", value=erasure_id, rule="an id that POST /v1/words/erase gave")

    def answer(erasure_id: str) -> dict[str, Any]:
        return _answer(found(erasure_id), book)

    @router.post(_PATH, **_ERASE)
    async def erase(request: Request) -> Response:
        """Hits of the value become `other`: everywhere, or in one link or group. Totals stay.

        Each owner does so at its next flush; `waiting` lists those that have not confirmed it. Hits that come with the
        value later are `other`, too, until 8 days after it is done. Sent again it is carried out again.
        """
        asked = _asked_in(await read_bounded(request.stream(), _BODY_BYTES))
        noted = await in_thread("reading rules", meant, asked)
        where = asked.key if asked.key is not None else asked.group if asked.group is not None else "everywhere"
        await audit.note_request("value erased", f"{noted.id}: {asked.dimension}, {where}")
        await in_thread("writing an erasure", book.add, noted)
        await _forget_in_notes(notes, rules, asked, cut(kept_value(asked.dimension, asked.value)), noted)
        return json_answer(await in_thread("reading erasures", answer, noted.id), 202)

    @router.get(_PATH + "/{id}", **_SHOW)
    async def show(request: Request) -> Response:
        return json_answer(await in_thread("reading erasures", answer, str(request.path_params["id"])))

    return router


def _answer(erasure: Erasure, book: ErasureBook) -> dict[str, Any]:
    """Returns an erasure as it is answered."""
    row, waiting = erasure.noted.row, book.waiting(erasure)
    return {
        "id": erasure.id,
        "dimension": erasure.noted.dimension,
        "key": None if row is None else link_of(row),
        "group": None if row is None else group_of(row),
        "rows": sum(each.rows for each in erasure.confirmed.values()),
        "hits": sum(each.hits for each in erasure.confirmed.values()),
        "state": "running" if erasure.done_at is None else "done",
        "waiting": waiting,
        "reasons": {str(owner): erasure.refused[owner] for owner in waiting if owner in erasure.refused},
    }


async def _forget_in_notes(notes: KnownNotes, rules: DisavowBook, asked: _Asked, value: str, noted: NotedWord) -> None:
    """Takes a value out of the notes beside hits, with those of its rules, and notes that it is forgotten.

    value: what is kept of the one that is asked for.
    """

    def notes_of_rules() -> list[str]:
        named = (
            each.rule for each in rules.all() if (each.rule.dimension, each.rule.value) == (asked.dimension, value)
        )
        return [note_of(rule) for rule in named if noted.row is None or rule.is_of(noted.row)]

    for each in {asked.value, value}:
        await notes.forget_text(each, noted.row)
    await notes.drop(await in_thread("reading rules", notes_of_rules))
    text = f"A value of {asked.dimension} is forgotten (erasure {noted.id})"
    await notes.write_own(NoteKind.erase, noted.row or ALL_LINKS, text, note_id=f"erase-{noted.id}")


_BODY = {
    "schema": {
        "type": "object",
        "properties": dict.fromkeys(("dimension", "value", "key", "group"), TEXT),
        "required": ["dimension", "value"],
        "additionalProperties": False,
    },
    "example": {"dimension": "utm_campaign", "value": "ann@example.org"},
}
_ERASE = describe_route(
    "Forget a value of a dimension",
    "The erasure",
    {
        400: "The body cannot be read",
        409: "A rule that names the value is not settled",
        422: "The dimension, the value, the link or the group is not valid",
    },
    status=202,
    body=_BODY,
)
_SHOW = describe_route("How far a value is forgotten", "The erasure", {404: "There is no erasure with this id"})
