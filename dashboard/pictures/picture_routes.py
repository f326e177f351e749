"""The routes of pictures: curves as SVG and PNG, totals as badges. Each asks what its JSON route would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote_plus

from fastapi import APIRouter, Request, Response

from clickcurve.answers.counts import CurveAnswer
from clickcurve.answers.written import JSON
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.extras import extra_for
from clickcurve.keys import Subject
from clickcurve.routes import RawPathRoute, raw_query, subject_in_path
from clickcurve.waiting import computed
from dashboard.pictures.axes import short
from dashboard.pictures.badge import LABEL, badge_json, badge_svg, message_of
from dashboard.pictures.curve_picture import HIT, draw_curve
from dashboard.pictures.shapes import THEMES
from dashboard.pictures.svg import AUTO, CONTENT_POLICY, svg_file
from dashboard.questions import Questions, in_zone

SVG, PNG = "image/svg+xml", "image/png"
WIDTHS, HEIGHTS = (100, 4_000), (50, 2_000)
USUAL = (800, 300)
LABEL_CHARS = 64
_AT_ONCE = 1_000  # points that are drawn without leaving the event loop: some 2 ms
_THEMES = (AUTO, *THEMES)


Amounts: TypeAlias = Callable[[str, int], str]  # writes a sum of the values of an event as people read it


def _plain_amount(event: str, amount: int) -> str:
    return short(amount)


def picture_routes(questions: Questions, home_tz: str = "", amounts: Amounts = _plain_amount) -> APIRouter:
    """Makes the router. home_tz: the zone of a picture whose address names none; empty for UTC."""
    router = APIRouter(route_class=RawPathRoute, tags=["pictures"])
    _add_routes(router, questions, home_tz, amounts, "link", "/v1/links/{key}", _KEY)
    _add_routes(router, questions, home_tz, amounts, "group", "/v1/groups/{name}", _GROUP)
    return router


def _add_routes(
    router: APIRouter,
    questions: Questions,
    home_tz: str,
    amounts: Amounts,
    kind: str,
    path: str,
    name: dict[str, Any],
) -> None:
    """Adds the pictures of links or of groups. name: the parameter in the path, for the OpenAPI page."""
    of_curves, of_badges = [name, *_OF_CURVES], [name, *_OF_BADGES]
    curve, badge = f"A {kind}'s curve as a picture", f"A {kind}'s total as a badge"

    def query_of(request: Request) -> bytes:
        return in_zone(raw_query(request), home_tz)

    @router.get(f"{path}/curve.svg", **_picture(curve, SVG, of_curves))
    async def curve_svg(request: Request) -> Response:
        """Bars of hits per time: what is kept in wide buckets is drawn at its count per step, so it is no peak."""
        return await svg_of_curve(questions, subject_in_path(request), query_of(request))

    @router.get(f"{path}/curve.png", **_picture("The same as a PNG", PNG, of_curves))
    async def curve_png(request: Request) -> Response:
        """Text and lines grow with the picture: twice the usual size is the usual picture for print."""
        query = query_of(request)
        look, answer = await _curve(questions, subject_in_path(request), query)
        png = await computed("drawing a picture", _curve_png, answer, look, Counted.of(query).noun)
        return Response(png, media_type=PNG)

    @router.get(f"{path}/badge.svg", **_picture(badge, SVG, of_badges))
    async def badge_picture(request: Request) -> Response:
        """The total of the range, of all time without one, in short: 12,345 hits are `12k`."""
        return await svg_of_badge(questions, subject_in_path(request), query_of(request), amounts)

    @router.get(f"{path}/badge.json", **_picture("The same for badge services", JSON, of_badges))
    async def badge_of_service(request: Request) -> Response:
        """The shape of the endpoint badge of shields.io."""
        label, message = await _badge(questions, subject_in_path(request), query_of(request), amounts)
        return Response(badge_json(message, label), media_type=JSON)


# --- pictures as answers ----------------------------------------------------------------------------------------------
async def svg_of_curve(questions: Questions, subject: Subject, query: bytes) -> Response:
    """Returns the picture of a curve; what the query says of its look is not asked for."""
    look, curve = await _curve(questions, subject, query)

    def draw() -> bytes:
        return svg_file(draw_curve(curve, look.width, look.height, noun=Counted.of(query).noun), look.theme)

    body = draw() if len(curve.points) <= _AT_ONCE else await computed("drawing a picture", draw)
    return _svg(body)


async def svg_of_badge(
    questions: Questions, subject: Subject, query: bytes, amounts: Amounts = _plain_amount
) -> Response:
    """Returns the badge of a total."""
    label, message = await _badge(questions, subject, query, amounts)
    return _svg(badge_svg(message, label))


def _svg(body: bytes) -> Response:
    return Response(body, media_type=SVG, headers={"Content-Security-Policy": CONTENT_POLICY})


async def _badge(questions: Questions, subject: Subject, query: bytes, amounts: Amounts) -> tuple[str, str]:
    """Returns what stands on the left and on the right."""
    own, rest = split_query(query, ("label",), _OF_BADGES)
    counted, label = Counted.of(query), _label(own)
    total = await questions.total(subject, rest)
    shown = partial(amounts, counted.event) if counted.of_values else short
    return counted.label if label is None else label, message_of(total, shown)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a picture counts: clicks, an event, or the sum of its values."""

    event: str
    of_values: bool

    @classmethod
    def of(cls, query: bytes) -> Counted:
        """Reads it from a raw query string, which the question judges."""
        given = dict(parse_qsl(query.decode("latin-1")))
        return cls(given.get("event", ""), given.get("measure") == "value")

    @property
    def noun(self) -> str:
        """What one is called in the sentence of a curve."""
        if not self.event:
            return HIT
        return f"in {self.event} value" if self.of_values else f"{self.event} event"

    @property
    def label(self) -> str:
        """What a badge without a label says."""
        return (f"{self.event} value" if self.of_values else self.event) or LABEL


# --- what a picture shall look like -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PictureLook:
    """Size in pixels, and theme."""

    width: int
    height: int
    theme: str


def split_query(
    query: bytes, own: tuple[str, ...], parameters: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, str], bytes]:
    """Splits a raw query string into the parameters that are read here, decoded, and the rest as it was.

    parameters: all that the route takes. Raises ParameterInvalid for any other, and for an own one given twice.
    """
    names = [parameter["name"] for parameter in parameters]
    given: dict[str, str] = {}
    rest = []
    for part in query.split(b"&"):
        name, _, value = (unquote_plus(each.decode("latin-1")) for each in part.partition(b"="))
        if part and name not in (*own, *names):
            rule = f"one of {', '.join(names)}"
            raise ParameterInvalid(f"parameter {name!r} is not known here", field=name, value=value, rule=rule)
        if name not in own:
            rest.append(part)
        elif name in given:
            raise ParameterInvalid(
                f"parameter {name!r} is given twice", field=name, value=value, rule="each parameter at most once"
            )
        else:
            given[name] = value
    return given, b"&".join(rest)


async def _curve(questions: Questions, subject: Subject, query: bytes) -> tuple[PictureLook, CurveAnswer]:
    own, rest = split_query(query, ("w", "h", "theme", "format"), _OF_CURVES)
    if "format" in own:
        raise ParameterInvalid(
            "the path says the format", field="format", value=own["format"], rule="a picture has none"
        )
    theme = own.get("theme", AUTO)
    if theme not in _THEMES:
        names = ", ".join(_THEMES)
        raise ParameterInvalid(f"theme {theme!r} is not known", field="theme", value=theme, rule=f"one of {names}")
    look = PictureLook(_pixels_of("w", own, WIDTHS, USUAL[0]), _pixels_of("h", own, HEIGHTS, USUAL[1]), theme)
    return look, await questions.curve(subject, rest)


def _pixels_of(name: str, given: Mapping[str, str], bounds: tuple[int, int], usual: int) -> int:
    text = given.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and bounds[0] <= int(text) <= bounds[1]):
        rule = f"pixels, a whole number from {bounds[0]} to {bounds[1]:,}"
        raise ParameterInvalid(f"{name} {text!r} is not an allowed size", field=name, value=text, rule=rule)
    return int(text)


def _label(given: Mapping[str, str]) -> str | None:
    label = given.get("label")
    if label is not None and len(label) > LABEL_CHARS:
        rule = f"{LABEL_CHARS} characters at most"
        raise ParameterInvalid("the label is too long", field="label", value=label, rule=rule)
    return label


# --- drawing ----------------------------------------------------------------------------------------------------------
def _curve_png(curve: CurveAnswer, look: PictureLook, noun: str) -> bytes:
    with extra_for("a picture as PNG"):  # its library takes 35 ms and 6 MB, and many a server draws no PNG
        from dashboard.pictures.png import png_file

    scale = max(1.0, min(look.width / USUAL[0], look.height / USUAL[1]))
    picture = draw_curve(curve, round(look.width / scale), round(look.height / scale), noun=noun)
    return png_file(picture, look.theme, scale)


# --- what the OpenAPI page says ---------------------------------------------------------------------------------------
def _parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}


def _size(bounds: tuple[int, int], usual: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": bounds[0], "maximum": bounds[1], "default": usual}


_TEXT = {"type": "string"}
_KEY = {
    **_parameter("key", "path", "The link's key, percent-encoded, slash included.", _TEXT),
    "example": "spring-sale",
}
_GROUP = {**_parameter("name", "path", "The group's name, percent-encoded.", _TEXT), "example": "campaigns"}
_RANGE = [
    _parameter("from", "query", "As for the curve, like `to`, `last`, `tz` and `bots`.", _TEXT),
    *(_parameter(name, "query", "See `from`.", _TEXT) for name in ("to", "last", "tz", "bots")),
    _parameter("event", "query", "Count this event in place of clicks.", _TEXT),
    _parameter("measure", "query", "`value` for the sum of the event's values.", _TEXT),
]
_OF_CURVES = [
    *_RANGE,
    _parameter("step", "query", "As for the curve.", _TEXT),
    _parameter("compare", "query", "As for the curve: the range before is a dashed line.", _TEXT),
    _parameter("notes", "query", "`true`: an upright line for each note, and below what they say.", _TEXT),
    _parameter("w", "query", "Width in pixels.", _size(WIDTHS, USUAL[0])),
    _parameter("h", "query", "Height in pixels.", _size(HEIGHTS, USUAL[1])),
    _parameter("theme", "query", "`auto` follows the reader's screen.", {**_TEXT, "enum": _THEMES, "default": AUTO}),
]
_OF_BADGES = [*_RANGE, _parameter("label", "query", "The text on the left.", {**_TEXT, "maxLength": LABEL_CHARS})]


def _picture(summary: str, media: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "summary": summary,
        "response_class": Response,
        "responses": {200: {"description": "The picture", "content": {media: {}}}},
        "openapi_extra": {"parameters": parameters},
    }
