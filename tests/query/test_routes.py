"""The read routes over HTTP: totals and curves from the hot callable, the others from the framework after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from starlette.responses import JSONResponse

from clickcurve.asgi import Receive, Scope, Send
from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from clickcurve.budget import ROWS, RequestTooCostly, spend
from clickcurve.keys import limit_key, link_subject
from query.http.content import accepts_csv
from query.http.openapi import schemas
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes
from storage.contract import StoredLink
from testing.asgi import ask_app
from tests.query.queried_nodes import Limits, QueriedNodes, unmarked, unnoted

NOW = 1772407680  # 2026-03-01T23:28:00Z
KEYS = ["k", "a/b", "%2F", "total", "curve", "x/total", "total/curve", "ü ?#", "a+b", "..", "\0x", "a%", "k" * 1024]


def refuse(error: Exception) -> Response:
    assert isinstance(error, ClickcurveError)
    problem = {
        "title": error.title,
        "detail": error.detail,
        "field": error.field,
        "value": error.value,
        "rule": error.rule,
    }
    return JSONResponse(problem, error.status, media_type="application/problem+json")


class Node:
    """A node over HTTP."""

    def __init__(self, nodes: QueriedNodes) -> None:
        self.nodes = nodes
        self.app = FastAPI()
        self.app.include_router(routes(nodes.queries, nodes.erase_rows, unnoted, unmarked))

        async def on_error(request: Request, error: Exception) -> Response:
            return refuse(error)

        self.app.add_exception_handler(ClickcurveError, on_error)
        self.questions = Questions(nodes.queries, None, Limits())
        self.endpoint = QueryEndpoint(self.questions, refuse, self.app, lambda: 0.0)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return ask_app(self.endpoint, method, path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)


@pytest.fixture
def node() -> Node:
    nodes = QueriedNodes(now=NOW)
    for n, key in enumerate(KEYS, start=1):
        nodes.hit(key, NOW, n)
    return Node(nodes)


def encoded(key: str) -> str:
    return "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"%{b:02X}" for b in key.encode())


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_decoded_exactly_once_whatever_it_holds(node: Node, key: str) -> None:
    count = KEYS.index(key) + 1
    path = f"/v1/links/{encoded(key)}"
    for suffix, field in (("", "lifetime"), ("/total", "total"), ("/curve", "total")):
        answer = node.get(path + suffix).json()
        assert (answer["key"], answer[field]) == (key, count)


@pytest.mark.parametrize("path", ["/v1/links/%FF/total", "/v1/links/" + "k" * 1025, "/v1/links/%ED%A0%80"])
def test_a_path_that_names_no_key_is_refused(node: Node, path: str) -> None:
    answer = node.get(path)
    assert (answer.status_code, answer.json()["field"]) == (422, "key")


@pytest.mark.parametrize(
    "path", ["/v1/links/a/b/curve", "/v1/links/a/counts", "/v1/links/a/curve/", "/v1/links//total", "/v1/totals"]
)
def test_other_paths_are_not_found(node: Node, path: str) -> None:
    assert node.ask("GET", path).status_code in (307, 404)


def test_the_answers_have_the_documented_members(node: Node) -> None:
    start = NOW // 3600 * 3600
    assert node.get(f"/v1/links/k/total?from={start}&to={NOW + 60}").json() == {
        "key": "k",
        "from": start,
        "to": NOW + 60,
        "total": 1,
        "at_least": 1,
        "at_most": 1,
        "exact": True,
    }
    assert node.get("/v1/links/k/curve?last=1h&step=1h").json() == {
        "key": "k",
        "from": start,
        "to": start + 3600,
        "step": "1h",
        "tz": "UTC",
        "first_hit": NOW,
        "total": 1,
        "at_least": 1,
        "at_most": 1,
        "exact": True,
        "points": [{"start": start, "end": start + 3600, "count": 1, "state": "open"}],
    }
    assert node.get("/v1/links/k").json() == {
        "key": "k",
        "lifetime": 1,
        "today": 1,
        "yesterday": 0,
        "last_7d": 1,
        "last_30d": 1,
        "bots": 0,
        "first_hit": NOW,
        "last_hit": NOW,
        "opening": 0,
        "exact": True,
    }
    assert node.get("/v1/links?limit=1").json() == {
        "from": None,
        "to": None,
        "links": [{"key": "k" * 1024, "count": len(KEYS)}],
        "exact": True,
    }


def test_all_links_together_are_not_reduced_by_an_erasure(node: Node) -> None:
    everything = len(KEYS) * (len(KEYS) + 1) // 2
    for _ in range(2):
        assert node.get("/v1/total").json()["total"] == everything
        curve = node.get("/v1/curve?last=60m").json()
        assert (curve["key"], curve["total"]) == (None, everything)
        assert node.ask("DELETE", "/v1/links/a%2Fb").status_code == 204


def test_erasing_answers_nothing_and_works_for_unknown_keys_too(node: Node) -> None:
    node.nodes.flush()
    assert len(node.get("/v1/links").json()["links"]) == len(KEYS)
    for _ in range(2):
        answer = node.ask("DELETE", "/v1/links/a%2Fb")
        assert (answer.status_code, answer.content) == (204, b"")
    assert node.get("/v1/links/a%2Fb").json()["lifetime"] == 0
    assert len(node.get("/v1/links").json()["links"]) == len(KEYS) - 1
    assert node.ask("DELETE", "/v1/links/k?really=yes").status_code == 422


@pytest.mark.parametrize(
    "path", ["/v1/links/k/total", "/v1/links/k/curve", "/v1/links/k", "/v1/links", "/v1/total", "/v1/curve"]
)
@pytest.mark.parametrize("query", ["form=1", "tz=Nowhere", "bots=maybe"])
def test_a_wrong_parameter_is_422_everywhere(node: Node, path: str, query: str) -> None:
    answer = node.get(f"{path}?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert [problem["field"], problem["value"]] == query.split("=")
    assert problem["rule"] and problem["detail"] and problem["title"]


@pytest.mark.parametrize(
    ("accept", "csv"),
    [
        ("text/csv", True),
        ("TEXT/CSV", True),
        ("text/csv, */*;q=0.1", True),
        ("text/csv, */*", True),
        ("text/csv;charset=utf-8;q=0.9, application/json;q=0.8", True),
        ("application/json, text/csv", False),
        ("text/csv, application/json", True),
        ("text/csv;q=0.1, */*", False),
        ("text/csv;q=0", False),
        ("text/csv;q=x", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml", False),
        ("", False),
    ],
)
def test_csv_is_answered_to_a_client_that_prefers_it(node: Node, accept: str, csv: bool) -> None:
    answer = node.get("/v1/links/k/curve?last=1h&step=1h", headers={"accept": accept})
    assert answer.headers["content-type"].startswith("text/csv" if csv else "application/json")
    assert accepts_csv([(b"accept", accept.encode())]) is csv


def test_csv_has_the_same_points(node: Node) -> None:
    points = node.get("/v1/links/k/curve").json()["points"]
    lines = node.get("/v1/links/k/curve?format=csv").text.splitlines()
    assert lines[0] == "start,end,count,state"
    assert lines[1:] == [",".join(map(str, point.values())) for point in points]
    assert node.get("/v1/links/k/curve?format=json", headers={"accept": "text/csv"}).json()["points"] == points
    assert node.get("/v1/links?limit=1&format=csv").text == f"key,count\n{'k' * 1024},{len(KEYS)}\n"


def test_csv_has_iso_times_in_the_zone_that_was_asked_for(node: Node) -> None:
    lines = node.get("/v1/links/k/curve?last=2h&step=1h&tz=Asia/Kolkata&format=csv&times=iso").text.splitlines()
    assert lines[::2] == ["start,end,count,state", "2026-03-02T04:00:00+05:30,2026-03-02T05:00:00+05:30,1,open"]
    assert "2026-03-01T23:00:00+00:00," in node.get("/v1/curve?last=2h&step=1h&format=csv&times=iso").text
    plain = "/v1/links/k/curve?last=2h&step=1h&format=csv"
    assert node.get(f"{plain}&times=epoch").text == node.get(plain).text
    refused = node.get(f"{plain}&times=local")
    assert (refused.status_code, refused.json()["rule"]) == (422, "one of epoch, iso")


@pytest.mark.parametrize(
    ("path", "disposition"),
    [
        ("links/k/curve?from=2026-02-01&to=2026-03-01", 'filename="k_hits_2026-02-01_2026-02-28.csv"'),
        ("links/a%2Fb/curve?from=2026-02-28&to=2026-03-01", 'filename="a-b_hits_2026-02-28.csv"'),
        ("curve?from=2026-02-28T23:00&to=2026-03-01&tz=Asia/Kolkata", 'filename="all-links_hits_2026-02-28.csv"'),
        ("links?last=1d", 'filename="links_2026-03-01.csv"'),
        ("links?sort=key", 'filename="links.csv"'),
        ("groups?last=1d", 'filename="groups_2026-03-01.csv"'),
        (
            "links/%C3%BC%20%3F%23%22%0D%0A/curve?from=2026-02-28&to=2026-03-01",
            """filename="-_hits_2026-02-28.csv"; filename*=UTF-8''%C3%BC_hits_2026-02-28.csv""",
        ),
        ("links/../curve?from=2026-02-28&to=2026-03-01", 'filename="hits_2026-02-28.csv"'),
    ],
)
def test_csv_is_a_file_that_is_named_by_what_it_holds(node: Node, path: str, disposition: str) -> None:
    path = path.replace("/../", "/%2E%2E/")
    answer = node.get(f"/v1/{path}&format=csv")
    assert answer.headers["content-disposition"] == f"attachment; {disposition}"
    assert "content-disposition" not in node.get(f"/v1/{path}").headers


def test_a_key_is_escaped_in_json(node: Node) -> None:
    key = 'quote " backslash \\ newline \n percent %d %s emoji 😀'
    assert node.get(f"/v1/links/{encoded(key)}/curve").json()["key"] == key
    assert node.get(f"/v1/links/{encoded(key)}/total").json()["key"] == key


@pytest.mark.parametrize(
    "path", ["/v1/links/k/curve", "/v1/links/a%2Fb/total", "/v1/total", "/v1/curve", "/v1/links/k"]
)
def test_other_methods_are_405(node: Node, path: str) -> None:
    answer = node.ask("POST", path)
    assert answer.status_code == 405


def test_a_store_that_cannot_answer_is_503(node: Node) -> None:
    async def down(key: str) -> StoredLink:
        raise StoreUnavailable("the store is away")

    reader: Any = node.nodes.reader
    reader._rows = down
    for path in ("/v1/links/k/total", "/v1/links/k/curve", "/v1/links/k"):
        assert node.get(path).status_code == 503


def test_a_server_that_breaks_no_hits_down_says_which_setting_would(node: Node) -> None:
    for path in ("/v1/links/k/by/ref", "/v1/by/ref", "/v1/groups/g/by/ref/curve", "/v1/links/k/visitors"):
        answer = node.get(path)
        assert (answer.status_code, answer.json()["field"]) == (404, "breakdown_dimensions")
        assert path not in node.questions.paths()


def test_what_is_not_http_goes_to_the_next_application() -> None:
    seen = []

    async def following(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    questions = Questions(QueriedNodes().queries, None, Limits())
    call: Callable[..., Awaitable[None]] = QueryEndpoint(questions, refuse, following, lambda: 0.0)
    asyncio.run(asyncio.wait_for(_wait(call({"type": "lifespan"}, None, None)), 600))
    assert seen == ["lifespan"]


async def _wait(awaitable: Awaitable[None]) -> None:
    await awaitable


def test_the_openapi_page_describes_every_route_and_its_examples_are_of_the_described_shape(node: Node) -> None:
    paths = node.questions.paths()
    both = (*paths.items(), *node.app.openapi()["paths"].items())
    described = {(method, path) for path, methods in both for method in methods}
    assert described == {
        ("get", "/v1/links/{key}/total"),
        ("get", "/v1/links/{key}/curve"),
        ("delete", "/v1/links"),
        ("delete", "/v1/groups/{name}"),
        ("get", "/v1/total"),
        ("get", "/v1/curve"),
        ("get", "/v1/links/{key}"),
        ("get", "/v1/links"),
        ("get", "/v1/limits/{event}/total"),
        ("get", "/v1/limits/{event}/curve"),
        ("get", "/v1/groups"),
        ("get", "/v1/groups/{name}"),
        ("get", "/v1/groups/{name}/total"),
        ("get", "/v1/groups/{name}/curve"),
        *(("get", f"/v1{of}/{what}") for of in ("", "/links/{key}", "/groups/{name}") for what in ("now", "hours")),
        ("post", "/v1/sum"),
        ("delete", "/v1/links/{key}"),
        ("get", "/v1/links/{key}/events"),
        ("get", "/v1/groups/{name}/events"),
        ("get", "/v1/events"),
    }
    answers = {
        "/v1/links/{key}/total": node.get("/v1/links/k/total"),
        "/v1/links/{key}/curve": node.get("/v1/links/k/curve"),
        "/v1/links/{key}": node.get("/v1/links/k"),
        "/v1/links": node.get("/v1/links"),
        "/v1/total": node.get("/v1/total"),
        "/v1/curve": node.get("/v1/curve"),
        "/v1/links/{key}/now": node.get("/v1/links/k/now"),
        "/v1/links/{key}/hours": node.get("/v1/links/k/hours"),
        "/v1/groups": node.get("/v1/groups"),
        "/v1/groups/{name}": node.get("/v1/groups/g"),
        "/v1/groups/{name}/total": node.get("/v1/groups/g/total"),
        "/v1/groups/{name}/curve": node.get("/v1/groups/g/curve"),
        "/v1/links/{key}/events": node.get("/v1/links/k/events"),
        "/v1/groups/{name}/events": node.get("/v1/groups/g/events"),
        "/v1/events": node.get("/v1/events"),
    }
    node.nodes.owners[0].other(limit_key("k", "asked"), NOW, 1)
    answers |= {f"/v1/limits/{{event}}/{what}": node.get(f"/v1/limits/k/{what}") for what in ("total", "curve")}
    for path, answer in answers.items():
        described_answer = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
        shape = described_answer["schema"]
        name = shape.get("oneOf", [shape])[0]["$ref"].rpartition("/")[2]  # a curve's other shape: rows
        assert list(answer.json()) == schemas()[name]["required"]
        assert list(described_answer["example"]) == list(answer.json())
        described_parameters = paths[path]["get"]["parameters"]
        names = [each["name"] for each in described_parameters if each["in"] == "query"]
        refused = node.get(answer.request.url.path + "?nonsense=1").json()["rule"]
        known = refused.removeprefix("one of ").split(", ")
        assert names == known
    json.dumps(paths)
    (wrong,) = paths["/v1/links/{key}/curve"]["get"]["responses"]["422"]["content"].values()
    assert wrong["example"] == {"status": 422, **node.get("/v1/links/k/curve?step=1x").json()}


def test_each_request_has_a_budget_of_its_own_and_its_rows_and_points_count(node: Node) -> None:
    left: list[int] = []

    async def following(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            await node.nodes.queries.curve(link_subject("k"), b"last=60m&step=1m")
        used = 0
        with suppress(RequestTooCostly):
            while True:
                used += 1
                await spend(ROWS)
        left.append(used)
        await JSONResponse({})(scope, receive, send)

    node.endpoint = QueryEndpoint(node.questions, refuse, following, lambda: 0.0)
    for _ in range(2):
        node.get("/elsewhere")
    assert left == [ROWS.most - 1] * 2
