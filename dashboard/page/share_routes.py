"""One link or group for anybody who has the address, read only, until the day in it: a page, its tables, pictures.

A form makes such addresses, lists them, and revokes them. Where tokens are in use it asks for one with the scope admin,
also of readers who are signed in: their cookie goes along with whatever a page of another site sends, a token that is
typed does not. The addresses open the view that the reader came from: its range, comparison and filter are in the query
of the form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Protocol
from urllib.parse import parse_qsl, quote, unquote
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.csv_file import csv_form_of
from clickcurve.keys import Subject
from clickcurve.routes import raw_query, subject_in_path
from clickcurve.visible import visible
from dashboard.page.chart import in_path
from dashboard.page.event_cards import event_name, question_of, shows_of
from dashboard.page.login_routes import read_form
from dashboard.page.page_routes import Clock, csv_file, html, page_route, updated_at
from dashboard.page.pages import Pages
from dashboard.page.templates import Templates
from dashboard.page.view import PageView, view_of
from dashboard.pictures.picture_routes import svg_of_badge, svg_of_curve
from dashboard.questions import CountedEvents, in_zone, kind_of, link_or_group

USUAL_DAYS = 30


@dataclass(frozen=True, slots=True)
class Shared:
    """What an address shows. kind: link or group. events: also what came of its clicks."""

    kind: str
    name: str
    events: bool = False

    @property
    def subject(self) -> Subject:
        return link_or_group(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class SharedAddress:
    """An address that shows something. until: its last day, as 20261222; signed: the last part of the address."""

    id: str
    until: str
    signed: str
    events: bool = False


class Sharing(Protocol):
    """What can be shared, and by whom."""

    max_days: int

    def needs_token(self) -> bool:
        """Tells whether only a token allows to share."""

    def check(self, token: str) -> str:
        """Returns the id of a token that may share, for the audit log; raises ClickcurveError for any other text."""

    async def shared(self, signed: str) -> Shared | None:
        """Returns what the end of an address shares; None for one that is not good now."""

    async def addresses(self, kind: str, name: str) -> Sequence[SharedAddress]:
        """Returns the addresses that show it now, oldest first. Raises StoreUnavailable."""

    async def share(self, what: Shared, days: int, by: str) -> SharedAddress:
        """Makes an address for the token with this id. Raises SettingInvalid for too many, and StoreUnavailable."""

    async def revoke(self, share_id: str, by: str) -> None:
        """Ends an address for the token with this id. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """An address on the page: what follows the server's own address, its last day, and what embeds it elsewhere.

    curve and badge are what follows the server's address in the HTML of a picture. events: it shows these too.
    """

    id: str
    path: str
    until: str
    curve: str
    badge: str
    events: bool


class NotShared(ClickcurveError, status=404, title="not shared"):
    """An address of a share that is not, or no longer, good."""


# What strangers are not shown: notes never, sales where the address was not made for them.
_NOTES, _EVENTS = {"notes": "notes"}, {"event": "events", "measure": "events"}


def _require_shared(query: bytes, shared: Shared) -> None:
    """Raises ParameterInvalid if a share is asked for more than it shows."""
    hidden = _NOTES if shared.events else _NOTES | _EVENTS
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in hidden:
            what = hidden[name]
            detail = f"parameter {name!r} is not known here: an address that is shared shows no {what}"
            raise ParameterInvalid(detail, field=name, rule=f"without {name}")


def share_routes(
    pages: Pages,
    templates: Templates,
    clock: Clock,
    sharing: Sharing,
    signed_in: Callable[[Scope], bool],
    missing_s: Callable[[], float],
) -> APIRouter:
    """Makes the router; signed_in and missing_s as of `page_routes`."""
    router = APIRouter(route_class=page_route(templates))

    async def shared_by(request: Request) -> Shared:
        shared = await sharing.shared(str(request.path_params["signed"]))
        if shared is None:
            raise NotShared("This link has expired, was revoked, or is incomplete.")
        return shared

    async def question(request: Request) -> tuple[Subject, bytes]:
        shared, query = await shared_by(request), raw_query(request)
        _require_shared(query, shared)
        return shared.subject, in_zone(query, pages.home_tz)

    @router.get("/share/{signed}/curve.svg", include_in_schema=False)
    async def shared_curve(request: Request) -> Response:
        return await svg_of_curve(pages.questions, *await question(request))

    @router.get("/share/{signed}/badge.svg", include_in_schema=False)
    async def shared_badge(request: Request) -> Response:
        return await svg_of_badge(pages.questions, *await question(request))

    async def table(request: Request) -> Response:
        subject, query = await question(request)
        dimension, name = unquote(request.path_params.get("dimension", "")), request.scope["path"].rpartition("/")[2]
        answer = await pages.table_of(subject, name, dimension, query)
        zone = ZoneInfo(dict(parse_qsl(query.decode("latin-1"))).get("tz", "UTC"))  # the question has judged it
        return await csv_file(request, answer, zone, csv_form_of(query)[0]._replace(times_in=zone))

    for path in ("curve", "hours", "visitors", "why", "by/{dimension}", "by/{dimension}/curve"):
        router.add_api_route(f"/share/{{signed}}/{path}", table, include_in_schema=False)

    @router.get("/share/{signed}", include_in_schema=False)
    async def share(request: Request) -> Response:
        view, shared = view_of(raw_query(request), pages.home_tz), await shared_by(request)
        values = await pages.one(shared.subject, view, int(clock()), noted=False, with_events=shared.events)
        shown = {
            "view": view,
            "shared": True,
            "tables": f"../share/{quote(str(request.path_params['signed']))}",
            "missing_s": missing_s(),
            "updated": updated_at(clock(), view),
        }
        return await html(request, templates, "one.html", **shown, **values)

    _add_form(router, templates, sharing, signed_in, pages.events)
    return router


def _add_form(
    router: APIRouter,
    templates: Templates,
    sharing: Sharing,
    signed_in: Callable[[Scope], bool],
    events: CountedEvents | None,
) -> None:
    """Adds the form that shares a link or a group. events: those that the server counts."""

    async def form(
        request: Request, subject: Subject, done: str = "", refusal: ClickcurveError | None = None
    ) -> Response:
        view = view_of(raw_query(request))
        kind, name = kind_of(subject), subject.name or ""
        may_see = not sharing.needs_token() or (request.method == "POST" and refusal is None)
        addresses = await sharing.addresses(kind, name) if may_see else []
        return await html(
            request,
            templates,
            "share.html",
            200 if refusal is None else refusal.status,
            kind=kind,
            name=visible(name),
            path=in_path(name),
            shares=[_row(each, subject, view, shows_of(events)) for each in addresses],
            events=[event_name(name, plural=True) for name in ([] if events is None else events.units)],
            may_see=may_see,
            asks_token=sharing.needs_token(),
            days=USUAL_DAYS,
            max_days=sharing.max_days,
            done=done,
            refusal="" if refusal is None else refusal.detail,
            view=view,
            signed_in=signed_in(request.scope),
        )

    @router.post("/links/{key}/share", include_in_schema=False)
    @router.post("/groups/{name}/share", include_in_schema=False)
    async def change(request: Request) -> Response:
        subject, fields = subject_in_path(request), await read_form(request)
        try:
            by = sharing.check(fields.get("token", "").strip())
            done = await _changed(sharing, subject, fields, by)
        except ClickcurveError as error:
            if error.status >= 500:
                raise
            return await form(request, subject, refusal=error)
        return await form(request, subject, done)

    @router.get("/links/{key}/share", include_in_schema=False)
    @router.get("/groups/{name}/share", include_in_schema=False)
    async def ask(request: Request) -> Response:
        return await form(request, subject_in_path(request))


async def _changed(sharing: Sharing, subject: Subject, fields: Mapping[str, str], by: str) -> str:
    """Makes or revokes an address, as a form says, and returns what was done as a sentence, empty for nothing."""
    kind, name = kind_of(subject), subject.name or ""
    if share_id := fields.get("revoke"):
        addresses = await sharing.addresses(kind, name)
        if share_id not in {each.id for each in addresses}:
            return "This address had already ended."
        await sharing.revoke(share_id, by)
        return "Revoked: the address no longer works."
    if "days" in fields and fields.get("do") == "share":
        what = Shared(kind, name, events="events" in fields)
        made = await sharing.share(what, _days(fields["days"], sharing.max_days), by)
        return f"Shared until {_day(made.until)}. The new address is the last one below."
    return ""


def _days(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= most):
        rule = f"a whole number from 1 to {most:,}"
        raise ParameterInvalid(
            f"{visible(text)!r} is not a number of days: {rule}", field="days", value=text, rule=rule
        )
    return int(text)


def _day(until: str) -> str:
    return f"{datetime.strptime(until, '%Y%m%d'):%-d %b %Y}"


def _row(shared: SharedAddress, subject: Subject, view: PageView, shows: Sequence[str]) -> ShareRow:
    """Returns an address with what embeds it. shows: what addresses may show of events."""
    path = f"/share/{shared.signed}"
    drawn = question_of(view.show) if shared.events and view.show in shows else ""
    curve = escape(f"{path}/curve.svg?{view.unfiltered().curve_query.decode()}{drawn}")
    alt = f'alt="Hits of {escape(visible(subject.name or ""))}"'
    return ShareRow(
        shared.id,
        path + view.of_one().removesuffix("?"),
        _day(shared.until),
        f'{curve}" width="800" height="300" {alt}>',
        f'{path}/badge.svg" {alt}>',
        shared.events,
    )
