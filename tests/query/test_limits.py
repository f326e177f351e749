"""The history of a limiter's event over HTTP: a link's curve and total, of a row of another namespace."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.keys import caller_key, limit_key
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes
from testing.asgi import ask_app
from tests.query.queried_nodes import Limits, QueriedNodes, unmarked, unnoted
from tests.query.test_routes import refuse

NOW = 1772407680  # 2026-03-01T23:28:00Z
HOUR = NOW // 3600 * 3600


class Node:
    """A node with limits, over HTTP."""

    def __init__(self) -> None:
        self.nodes = QueriedNodes(now=NOW)
        app = FastAPI()
        app.include_router(routes(self.nodes.queries, self.nodes.erase_rows, unnoted, unmarked))

        async def on_error(request: Request, error: Exception) -> Response:
            return refuse(error)

        app.add_exception_handler(ClickcurveError, on_error)
        self.app = QueryEndpoint(
            Questions(self.nodes.queries, None, Limits("login", "quiet")), refuse, app, lambda: 0.0
        )

    def decided(self, event: str, t: int, asked: int, admitted: int) -> None:
        for outcome, count in (("asked", asked), ("admitted", admitted)):
            if count:
                self.nodes.owners[0].other(limit_key(event, outcome), t, count)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return ask_app(self.app, "GET", path, **options)


@pytest.fixture
def node() -> Node:
    node = Node()
    node.decided("login", NOW - 60, 7, 5)
    node.decided("login", NOW, 2, 0)
    node.decided("gone", NOW - 86_400, 4, 0)
    return node


def test_the_curve_has_the_shape_of_a_links_curve(node: Node) -> None:
    assert node.get("/v1/limits/login/curve?outcome=asked&last=1h&step=1h").json() == {
        "key": "login",
        "from": HOUR,
        "to": HOUR + 3600,
        "step": "1h",
        "tz": "UTC",
        "first_hit": NOW - 60,
        "total": 9,
        "at_least": 9,
        "at_most": 9,
        "exact": True,
        "points": [{"start": HOUR, "end": HOUR + 3600, "count": 9, "state": "open"}],
    }


@pytest.mark.parametrize(("query", "counts"), [("", (7, 2)), ("outcome=asked", (7, 2)), ("outcome=admitted", (5, 0))])
def test_each_outcome_is_a_curve_of_its_own(node: Node, query: str, counts: tuple[int, int]) -> None:
    for _ in range(2):  # pending, then stored
        answer = node.get(f"/v1/limits/login/curve?from={NOW - 60}&to={NOW + 60}&step=1m&{query}")
        assert [point["count"] for point in answer.json()["points"]] == list(counts)
        node.nodes.flush()


def test_it_may_be_csv(node: Node) -> None:
    answer = node.get("/v1/limits/login/curve?last=1h&step=1h", headers={"Accept": "text/csv"})
    assert answer.text == f"start,end,count,state\n{HOUR},{HOUR + 3600},9,open\n"
    assert node.get("/v1/limits/login/curve?last=1h&step=1h&format=csv").text == answer.text


def test_the_total_is_of_a_range_or_of_all_time(node: Node) -> None:
    whole = {"key": "login", "from": None, "to": None, "total": 9, "at_least": 9, "at_most": 9, "exact": True}
    assert node.get("/v1/limits/login/total").json() == whole
    assert node.get(f"/v1/limits/login/total?from={NOW}&to={NOW + 60}&outcome=admitted").json()["total"] == 0


def test_of_a_caller_its_own_history_without_what_may_not_be_kept(node: Node) -> None:
    stored = caller_key("login", "asked", "ip=a"[::-1])
    node.nodes.owners[0].other(stored, NOW - 60, 3)
    node.nodes.owners[0].other(stored, NOW - 40 * 86_400, 5)
    for _ in range(2):
        assert node.get("/v1/limits/login/total?caller=ip%3Da").json()["total"] == 3
        curve = node.get("/v1/limits/login/curve?caller=ip%3Da&last=100d").json()
        assert (curve["key"], curve["total"], curve["first_hit"]) == ("login", 3, NOW - 60)
        assert node.get("/v1/limits/login/total?caller=ip%3Db").json()["total"] == 0
        assert node.get("/v1/limits/login/total").json()["total"] == 9
        node.nodes.flush()
    assert node.get("/v1/limits/login/total?caller=a").json()["field"] == "caller"
    assert node.get("/v1/limits/logn/total?caller=ip%3Da").status_code == 404


def test_an_event_that_has_a_rule_and_no_history_has_zeros(node: Node) -> None:
    answer = node.get("/v1/limits/quiet/curve?last=1h").json()
    assert (answer["total"], answer["first_hit"]) == (0, None)


def test_an_event_that_has_a_history_and_no_rule_has_its_curve(node: Node) -> None:
    assert node.get("/v1/limits/gone/total?outcome=asked").json()["total"] == 4
    assert node.get("/v1/limits/gone/total?outcome=admitted").json()["total"] == 0


@pytest.mark.parametrize("path", ["curve", "total"])
def test_an_event_that_has_neither_is_not_found(node: Node, path: str) -> None:
    answer = node.get(f"/v1/limits/logn/{path}")
    assert answer.status_code == 404
    problem = answer.json()
    assert (problem["field"], problem["value"], problem["rule"]) == ("event", "logn", "login, quiet")


@pytest.mark.parametrize("path", ["curve", "total"])
def test_an_unknown_outcome_is_refused(node: Node, path: str) -> None:
    problem = node.get(f"/v1/limits/login/{path}?outcome=refused")
    assert (problem.status_code, problem.json()["field"]) == (422, "outcome")
    assert problem.json()["rule"] == "one of asked, admitted"


@pytest.mark.parametrize("path", ["/v1/links/login/curve", "/v1/links/login/total", "/v1/total", "/v1/links"])
def test_links_know_no_outcome(node: Node, path: str) -> None:
    assert node.get(f"{path}?outcome=asked").status_code == 422


def test_a_key_that_looks_like_the_row_of_an_event_is_a_link(node: Node) -> None:
    assert node.get("/v1/links/%00limits:login:asked/total").json()["total"] == 0
    assert node.get("/v1/limits/%00limits:login:asked/total").status_code == 404
    assert node.get("/v1/limits/login:asked/total").status_code == 404


def test_no_answer_about_links_has_them(node: Node) -> None:
    node.nodes.hit("login", NOW, 1)
    for _ in range(2):
        assert node.get("/v1/total").json()["total"] == 1
        assert node.get("/v1/links").json()["links"] == [{"key": "login", "count": 1}]
        node.nodes.flush()
