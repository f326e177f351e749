"""The routes of pictures, and rows: what they answer, what they refuse, and that they count as their JSON does."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from PIL import Image
from starlette.responses import JSONResponse

from clickcurve.buckets.errors import ClickcurveError
from dashboard.pictures.axes import count_words
from dashboard.pictures.picture_routes import picture_routes
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from testing.asgi import ask_app
from tests.query.queried_nodes import Limits, QueriedNodes

NOW = 1772407680  # 2026-03-01T23:28:00Z
KEY = "a/b <c>"
PATH = "/v1/links/a%2Fb%20%3Cc%3E"
GROUP = "spring/2"
GROUP_PATH = "/v1/groups/spring%2F2"


def refused(error: Exception) -> Response:
    assert isinstance(error, ClickcurveError)
    return JSONResponse({"field": error.field, "rule": error.rule}, error.status)


@pytest.fixture(scope="module")
def node() -> QueryEndpoint:
    nodes = QueriedNodes(now=NOW)
    for minutes in range(0, 60 * 24 * 40, 7):
        nodes.hit(KEY, NOW - minutes * 60, 3, groups=(GROUP,))
    nodes.hit(KEY, NOW, 5, bot=True)
    nodes.fold()
    app = FastAPI()
    app.include_router(picture_routes(nodes.queries))

    async def on_error(request: Request, error: Exception) -> Response:
        return refused(error)

    app.add_exception_handler(ClickcurveError, on_error)
    return QueryEndpoint(Questions(nodes.queries, None, Limits()), refused, app, lambda: 0.0)


def get(node: QueryEndpoint, path: str) -> httpx.Response:
    return ask_app(node, "GET", path)


@pytest.mark.parametrize("query", ["", "?last=30d&step=1h&tz=Asia/Kathmandu", "?from=0&step=1mo", "?step=1m&last=1h"])
def test_a_curve_is_an_svg_that_says_what_the_json_says(node: QueryEndpoint, query: str) -> None:
    answer = get(node, f"{PATH}/curve.svg{query}")
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    tree = ElementTree.fromstring(answer.content)
    found = get(node, f"{PATH}/curve{query}").json()
    hits = f"{found['total']:,}" if found["exact"] else count_words(found["at_least"], found["at_most"])
    assert found["exact"] or hits.startswith("about "), "its bounds lie within one percent"
    assert tree.attrib["aria-label"].startswith(f"{KEY}: {hits} hits, ")
    assert (tree.attrib["width"], tree.attrib["height"]) == ("800", "300")


def test_a_group_has_pictures_and_badges_as_a_link_has(node: QueryEndpoint) -> None:
    answer = get(node, f"{GROUP_PATH}/curve?last=7d").json()
    tree = ElementTree.fromstring(get(node, f"{GROUP_PATH}/curve.svg?last=7d&w=500").content)
    assert (
        tree.attrib["aria-label"].startswith(f"{GROUP}: {answer['total']:,} hits, ") and tree.attrib["width"] == "500"
    )
    assert Image.open(BytesIO(get(node, f"{GROUP_PATH}/curve.png?w=400&h=200").content)).size == (400, 200)
    total = get(node, f"{GROUP_PATH}/total").json()["total"]
    assert get(node, f"{GROUP_PATH}/badge.json").json()["message"] == f"{total // 1000}k"
    badge = ElementTree.fromstring(get(node, f"{GROUP_PATH}/badge.svg?label=spring").content)
    assert badge.attrib["aria-label"] == f"spring: {total // 1000}k"
    assert get(node, f"{PATH}/badge.json?bots=only").json()["message"] == "5", "the link's own, not the group's"


@pytest.mark.parametrize("kind", ["curve.svg", "curve.png", "badge.svg", "badge.json"])
def test_a_wrong_picture_of_a_group_is_refused(node: QueryEndpoint, kind: str) -> None:
    for path, field in (("/v1/groups/" + "g" * 65, "group"), (f"{GROUP_PATH}", "tz")):
        answer = get(node, f"{path}/{kind}?tz=Mars")
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_size_and_theme_are_as_asked(node: QueryEndpoint) -> None:
    tree = ElementTree.fromstring(get(node, f"{PATH}/curve.svg?w=500&h=200&theme=dark").content)
    assert tree.attrib["viewBox"] == "0 0 500 200"
    image = Image.open(BytesIO(get(node, f"{PATH}/curve.png?w=1600&h=600&theme=dark").content))
    assert image.format == "PNG" and image.size == (1600, 600)
    assert image.convert("RGB").getpixel((1599, 599)) == (0x15, 0x18, 0x1C)


def test_the_largest_curve_can_be_drawn(node: QueryEndpoint) -> None:
    answer = get(node, f"{PATH}/curve.svg?from={NOW - 9_000 * 60 - 86_400 * 6}&step=5m&w=4000&h=2000")
    assert answer.status_code == 200
    assert len(answer.content) < 500_000
    assert get(node, f"{PATH}/curve.png?w=4000&h=2000").status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("w=0", "w"),
        ("w=4001", "w"),
        ("w=10.5", "w"),
        ("h=-1", "h"),
        ("w=1e3", "w"),
        ("h=", "h"),
        ("theme=pink", "theme"),
        ("w=200&w=300", "w"),
        ("format=csv", "format"),
        ("step=1x", "step"),
        ("colour=red", "colour"),
        ("last=1d&from=0", "last"),
    ],
)
def test_what_is_wrong_is_refused_by_name(node: QueryEndpoint, query: str, field: str) -> None:
    for kind in ("svg", "png"):
        answer = get(node, f"{PATH}/curve.{kind}?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_refused_parameter_is_told_what_a_picture_takes(node: QueryEndpoint) -> None:
    curve, badge = (get(node, f"{PATH}/{file}?colour=red").json()["rule"] for file in ("curve.svg", "badge.json"))
    assert curve == "one of from, to, last, tz, bots, event, measure, step, compare, notes, w, h, theme"
    assert badge == "one of from, to, last, tz, bots, event, measure, label"


def test_a_badge_has_the_total_in_short(node: QueryEndpoint) -> None:
    total = get(node, f"{PATH}/total").json()["total"]
    message = f"{total // 1000}k"
    assert get(node, f"{PATH}/badge.json").json() == {
        "schemaVersion": 1,
        "label": "clicks",
        "message": message,
        "color": "blue",
        "cacheSeconds": 300,
    }
    answer = get(node, f"{PATH}/badge.svg?label=visits+of+%3Cb%3E%00")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert ElementTree.fromstring(answer.content).attrib["aria-label"] == f"visits of <b>\\x00: {message}"


def test_a_badge_of_a_cut_range_has_both_bounds(node: QueryEndpoint) -> None:
    span = f"from={NOW - 86_400 * 30 + 1_800}&to={NOW}"
    answer = get(node, f"{PATH}/total?{span}").json()
    assert not answer["exact"]
    bounds = [f"{answer[name] / 1000:.1f}k" for name in ("at_least", "at_most")]
    message = get(node, f"{PATH}/badge.json?{span}").json()["message"]
    assert message in ("-".join(bounds), f"{answer['at_least'] // 1000}k")
    assert get(node, f"{PATH}/badge.json?bots=only").json()["message"] == "5"
    assert get(node, "/v1/links/unknown/badge.json").json()["message"] == "0"


@pytest.mark.parametrize(("query", "field"), [("label=" + "x" * 65, "label"), ("step=1d", "step"), ("tz=Mars", "tz")])
def test_a_wrong_badge_is_refused(node: QueryEndpoint, query: str, field: str) -> None:
    for kind in ("svg", "json"):
        answer = get(node, f"{PATH}/badge.{kind}?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_rows_are_the_points_as_a_flat_list(node: QueryEndpoint) -> None:
    points: list[dict[str, Any]] = get(node, f"{PATH}/curve?last=3d&step=1d").json()["points"]
    answer = get(node, f"{PATH}/curve?last=3d&step=1d&format=rows")
    assert answer.headers["content-type"] == "application/json"
    rows = json.loads(answer.content)
    assert [set(row) for row in rows] == [{"time", "end", "count", "state"}] * 3
    assert [(row["count"], row["state"]) for row in rows] == [(point["count"], point["state"]) for point in points]
    assert rows[0]["time"] == "2026-02-27T00:00:00Z" and rows[-1]["end"] == "2026-03-02T00:00:00Z"


def test_a_list_of_links_has_no_rows(node: QueryEndpoint) -> None:
    assert get(node, "/v1/curve?format=rows").status_code == 200
    assert get(node, "/v1/total?format=rows").status_code == 422
