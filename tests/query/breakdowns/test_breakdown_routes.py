"""The routes of breakdowns over HTTP, behind the door that checks tokens, on rows that the engine made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from clickcurve.asgi import Receive, Scope, Send
from ingest.reading.hit_endpoint import HitRoutes
from query.http.openapi import schemas
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes
from server.app.parts import ROUTES
from server.http.gateway import Gateway, made_safe
from server.http.problems import Problems
from server.tokens.token import Scope as Allowed
from testing.asgi import ask_app
from testing.tokens import add_token, gate_of
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import Limits, unmarked, unnoted

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
HOUR = NOW // 3600 * 3600
DAY = NOW // 86_400 * 86_400


class NoHits:
    """Stands for the routes that count hits."""

    def serves(self, raw_path: bytes) -> bool:
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("no hit is sent here")


class Served:
    """A node with its door."""

    def __init__(self, nodes: AttributeNodes, tokens: Path, visitors: bool = True) -> None:
        problems = Problems()
        self.app = FastAPI()
        problems.install(self.app)
        self.app.include_router(routes(nodes.queries, self._erase, unnoted, unmarked))
        self.questions = Questions(nodes.queries, nodes.breakdowns, Limits(), visitors)
        reads_first = QueryEndpoint(self.questions, problems.answer, made_safe(self.app), lambda: 0.0)
        self.door = Gateway(gate_of(tokens), problems, cast(HitRoutes, NoHits()), reads_first, ROUTES)

    async def _erase(self, keys: Sequence[str]) -> None:
        raise AssertionError(f"{keys} is not to be erased")

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return ask_app(self.door, method, path, url="http://localhost", **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)


@pytest.fixture
def nodes() -> AttributeNodes:
    """Seven hits of a link with a slash in its key: four from two referrers, one without, two that said nothing."""
    nodes = AttributeNodes(NOW, {"ref": 0, "bot": 0, "tag.a/b": 0})
    for ref, count in (("news.example", 3), ('a,"b"', 1), ("", 1)):
        said = (("ref", ref), ("tag.a/b", "x"))
        nodes.accept(AttributeHit("a/b", NOW, count, said=said, visitor=count, groups=("g/h",) if count == 3 else ()))
    nodes.accept(AttributeHit("a/b", NOW, 2))
    nodes.accept(AttributeHit("a/b", NOW, 4, bot=True, said=(("bot", "Crawler"),)))
    nodes.owners[0].flush(NOW)
    return nodes


@pytest.fixture
def served(nodes: AttributeNodes, tmp_path: Path) -> Served:
    return Served(nodes, tmp_path / "tokens.json")


BY_REF: dict[str, Any] = {
    "key": "a/b",
    "dimension": "ref",
    "from": HOUR,
    "to": HOUR + 3600,
    "total": 7,
    "values": [
        {"value": "", "at_least": 3, "at_most": 3},
        {"value": "news.example", "at_least": 3, "at_most": 3},
        {"value": 'a,"b"', "at_least": 1, "at_most": 1},
    ],
    "shown": 3,
    "not_shown": {"values": 0, "count": 0},
    "other": 0,
    "unrecorded": 0,
    "exact": True,
}


def test_values_of_a_link_have_the_documented_members(served: Served) -> None:
    answer = served.get("/v1/links/a%2Fb/by/ref?last=1h")
    assert answer.json() == BY_REF
    assert (answer.headers["content-type"], answer.headers["vary"]) == ("application/json", "accept")
    assert answer.headers["cache-control"] == "no-store"
    whole = served.get("/v1/links/a%2Fb/by/ref").json()
    assert whole == {**BY_REF, "from": None, "to": None}
    assert served.get("/v1/by/ref").json() == {**whole, "key": None}
    assert served.get("/v1/links/a%2Fb/by/bot").json()["values"] == [{"value": "Crawler", "at_least": 4, "at_most": 4}]


def test_a_group_is_divided_as_a_link_is(served: Served) -> None:
    mine = {"value": "news.example", "at_least": 3, "at_most": 3}
    expected = {**BY_REF, "key": "g/h", "total": 3, "values": [mine], "shown": 1}
    assert served.get("/v1/groups/g%2Fh/by/ref?last=1h").json() == expected
    curve = served.get("/v1/groups/g%2Fh/by/ref/curve?value=news.example&last=1h").json()
    assert (curve["key"], curve["at_least"], curve["exact"]) == ("g/h", 3, True)
    assert served.get("/v1/groups/g%2Fh/visitors").json()["visitor_days"] == 1
    assert served.get("/v1/groups/nosuch/by/ref").json()["total"] == 0
    assert served.get("/v1/groups/g%2Fh/by/weather").status_code == 404
    assert served.get(f"/v1/groups/{'g' * 65}/by/ref").json()["field"] == "group"


def test_a_limit_hides_values_but_never_those_without(served: Served) -> None:
    answer = served.get("/v1/links/a%2Fb/by/ref?limit=1").json()
    assert ([each["value"] for each in answer["values"]], answer["not_shown"]) == ([""], {"values": 2, "count": 4})
    one = served.get("/v1/links/a%2Fb/by/ref", params={"value": "news.example"}).json()
    assert one["values"] == [{"value": "news.example", "at_least": 3, "at_most": 3}]
    assert one["not_shown"] == {"values": 2, "count": 4}


def test_values_are_a_table_for_those_who_prefer_one(served: Served) -> None:
    text = 'value,at_least,at_most\n,3,3\nnews.example,3,3\n"a,""b""",1,1\n(other),0,0\n(unrecorded),0,0\n'
    for answer in (
        served.get("/v1/links/a%2Fb/by/ref?format=csv"),
        served.get("/v1/links/a%2Fb/by/ref", headers={"accept": "text/csv"}),
    ):
        assert (answer.text, answer.headers["content-type"]) == (text, "text/csv; charset=utf-8")
    curve = served.get("/v1/by/ref/curve?value=news.example&last=1h&step=1h&format=csv")
    assert curve.text == f"start,end,at_least,at_most,state\n{HOUR},{HOUR + 3600},3,3,open\n"


def test_a_curve_of_a_value_has_the_documented_members(served: Served) -> None:
    curve = {
        "key": "a/b",
        "dimension": "ref",
        "value": "news.example",
        "from": HOUR - 3600,
        "to": HOUR + 3600,
        "step": "1h",
        "tz": "UTC",
        "first_hit": NOW,
        "at_least": 3,
        "at_most": 3,
        "exact": True,
        "points": [
            {"start": HOUR - 3600, "end": HOUR, "at_least": 0, "at_most": 0, "state": "complete"},
            {"start": HOUR, "end": HOUR + 3600, "at_least": 3, "at_most": 3, "state": "open"},
        ],
    }
    asked = "by/ref/curve?value=news.example&last=2h&step=1h"
    assert served.get(f"/v1/links/a%2Fb/{asked}").json() == curve
    assert served.get(f"/v1/{asked}").json() == {**curve, "key": None}
    minutes = served.get("/v1/links/a%2Fb/by/ref/curve?value=&last=60m&step=1m").json()
    assert [(each["at_least"], each.get("wide")) for each in minutes["points"]] == [(0, True), (3, True)]
    missing = served.get("/v1/links/a%2Fb/by/ref/curve")
    assert (missing.status_code, missing.json()["field"]) == (422, "value")


def test_several_values_are_one_curve_and_one_sum(served: Served) -> None:
    both = served.get('/v1/links/a%2Fb/by/ref?value=news.example&value=a,"b"&value=news.example&last=1h').json()
    assert both["sum"] == {"at_least": 4, "at_most": 4} and "not" not in both
    assert [each["value"] for each in both["values"]] == ["news.example", 'a,"b"']
    assert both["not_shown"] == {"values": 1, "count": 3}
    rest = served.get("/v1/links/a%2Fb/by/ref?not=news.example&last=1h").json()
    assert (rest["sum"], rest["not"]) == ({"at_least": 4, "at_most": 4}, ["news.example"])
    assert [each["value"] for each in rest["values"]] == ["", 'a,"b"']
    assert rest["not_shown"] == {"values": 1, "count": 3}
    few = served.get("/v1/links/a%2Fb/by/ref?not=&limit=1").json()
    assert [each["value"] for each in few["values"]] == ["news.example"]
    curve = served.get("/v1/links/a%2Fb/by/ref/curve?not=news.example&not=&last=1h&step=1h").json()
    assert (curve["value"], curve["not"], curve["at_least"], curve["at_most"]) == (None, ["news.example", ""], 1, 1)
    curve = served.get("/v1/links/a%2Fb/by/ref/curve?value=news.example&value=&last=1h&step=1h")
    assert (curve.json()["values"], curve.json()["at_least"]) == (["news.example", ""], 6)
    csv = served.get("/v1/by/ref/curve?value=news.example&value=&last=1h&step=1h&format=csv")
    assert csv.text == f"start,end,at_least,at_most,state\n{HOUR},{HOUR + 3600},6,6,open\n"
    assert "a-b_ref_selected" in served.get(f"{curve.request.url}&format=csv").headers["content-disposition"]


@pytest.mark.parametrize(
    ("query", "field", "rule"),
    [
        ("value=a&not=a", "not", "none that value asks for"),
        ("value=a&value=b&not=c&not=b", "not", "none that value asks for"),
        ("&".join(f"value={n}" for n in range(101)), "value", "at most 100 of value and not together"),
        ("&".join(f"not={n}" for n in range(101)), "not", "at most 100 of value and not together"),
        ("&".join(f"value=v{n}&not={n}" for n in range(51)), "value", "at most 100 of value and not together"),
        ("limit=1&limit=2", "limit", "each parameter at most once"),
        ("not.country=DE", "not.country", None),
    ],
)
def test_values_that_no_question_can_mean_are_refused(served: Served, query: str, field: str, rule: str | None) -> None:
    for path in ("/v1/by/ref", "/v1/links/k/by/ref/curve"):
        if path.endswith("curve") and field == "limit":
            continue
        answer = served.get(f"{path}?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert rule in (None, answer.json()["rule"])
    hundred = "&".join(f"value={n}" for n in range(100))
    assert served.get(f"/v1/by/ref?{hundred}").json()["shown"] == 100


def test_no_other_question_takes_values(served: Served) -> None:
    for path in ("/v1/curve", "/v1/links", "/v1/total", "/v1/why"):
        assert served.get(f"{path}?not=a").status_code == served.get(f"{path}?value=a").status_code == 422


def test_visitors_are_those_of_utc_days(served: Served, nodes: AttributeNodes) -> None:
    nodes.accept(AttributeHit("a/b", NOW - 86_400, 6, said=(("ref", "x"),)))
    nodes.accept(AttributeHit("a/b", NOW - 86_400, 1, said=(("ref", "x"),), visitor=3))
    day = {"start": DAY, "end": DAY + 86_400, "visitors": 2, "at_least": 2, "at_most": 2, "exact": True}
    before = {"start": DAY - 86_400, "end": DAY, "visitors": 1, "at_least": 1, "at_most": 1, "exact": True}
    assert served.get("/v1/links/a%2Fb/visitors").json() == {
        "key": "a/b",
        "visitor_days": 3,
        "at_least": 3,
        "at_most": 3,
        "exact": True,
        "days": [before, day],
        "unknown": 8,
    }
    csv = served.get("/v1/links/a%2Fb/visitors?last=1d&format=csv&times=iso")
    assert (
        csv.text == "start,end,visitors,at_least,at_most\n2026-03-01T00:00:00+00:00,2026-03-02T00:00:00+00:00,2,2,2\n"
    )
    assert csv.headers["content-disposition"] == 'attachment; filename="a-b_visitors_2026-03-01.csv"'
    today = served.get("/v1/links/a%2Fb/visitors?last=1d").json()
    assert (today["days"], today["unknown"]) == ([day], 2)


@pytest.mark.parametrize("days_later", [0, 5, 60])
def test_many_visitors_are_estimated_between_what_is_certain(
    served: Served, nodes: AttributeNodes, days_later: int
) -> None:
    """1,000 visitors on each of two days, some with 2 hits: 2,200 hits."""
    chance = Random(1)
    for day in (NOW - 86_400, NOW):
        for number in range(1_000):
            visitor = chance.getrandbits(40)
            nodes.accept(
                AttributeHit("v", day, 1 + (number % 10 == 0), said=(("ref", "x"),), visitor=visitor, groups=("g",))
            )
    nodes.now += days_later * 86_400
    for subject in ("links/v", "groups/g"):
        answer = served.get(f"/v1/{subject}/visitors").json()
        assert answer["at_least"] <= 2_000 <= answer["at_most"] == 2_200
        assert answer["at_least"] >= (1_000 if days_later == 60 else 1_400)
        assert abs(answer["visitor_days"] - 2_000) < 3 * answer["error"] < 3 * 50
        assert (answer["exact"], answer["unknown"]) == (False, 0)
        for name in ("at_least", "at_most"):
            assert sum(day[name] for day in answer["days"]) == answer[name]
        for day in answer["days"]:
            assert day["at_least"] <= day["visitors"] <= day["at_most"] and 20 < day["error"] < 50


def test_a_link_that_was_never_hit_has_no_values(served: Served) -> None:
    answer = served.get("/v1/links/none/by/ref").json()
    assert (answer["total"], answer["values"], answer["exact"]) == (0, [], True)
    assert served.get("/v1/links/none/by/ref?to=1772400000").json()["total"] == 0
    assert served.get("/v1/links/none/by/ref/curve?value=a&to=1772400000").json()["points"] == []
    assert served.get("/v1/links/none/visitors").json()["days"] == []


def test_the_last_day_of_the_calendar_is_answered(served: Served) -> None:
    for path in ("by/ref?", "by/ref/curve?step=1y&value=&", "visitors?"):
        assert served.get(f"/v1/links/a%2Fb/{path}from=0&to=9999-01-01").status_code == 200


def test_a_dimension_that_is_not_known_is_404_and_names_those_that_are(served: Served) -> None:
    for path in ("links/a%2Fb/by/colour", "by/colour/curve?value=x", "by/%FF", "by/Ref"):
        answer = served.get(f"/v1/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["title"], problem["field"]) == ("unknown dimension", "dimension")
        assert problem["rule"] == "ref, bot, tag.a/b"
    assert served.get("/v1/links/a%2Fb/by/tag.a%2Fb").json()["values"][0] == {
        "value": "x",
        "at_least": 5,
        "at_most": 5,
    }


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/links/k/by/ref?bots=only", "bots"),
        ("/v1/links/k/by/ref?limit=0", "limit"),
        ("/v1/links/k/by/ref?limit=1001", "limit"),
        ("/v1/links/k/by/ref?last=1h&from=1", "last"),
        ("/v1/links/k/by/ref?step=1h", "step"),
        ("/v1/links/k/by/ref/curve?value=a&limit=3", "limit"),
        ("/v1/links/k/by/ref/curve?value=a&step=1h&step=1d", "step"),
        ("/v1/links/k/visitors?limit=3", "limit"),
        ("/v1/links/%FF/visitors", "key"),
        ("/v1/by/ref?tz=Mars", "tz"),
    ],
)
def test_a_wrong_parameter_is_named(served: Served, path: str, field: str) -> None:
    answer = served.get(path)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_head_is_get_and_other_methods_are_refused(served: Served) -> None:
    for path in ("/v1/links/k/by/ref", "/v1/by/ref/curve?value=", "/v1/links/k/visitors"):
        assert served.ask("HEAD", path).status_code == 200
        assert served.ask("POST", path).status_code == 405


@pytest.mark.parametrize("path", ["/v1/by/", "/v1/links/k/by/", "/v1/links//by/ref", "/v2/by/ref", "/v1/by/ref/colour"])
def test_a_path_that_only_looks_like_values_is_no_question(served: Served, path: str) -> None:
    answer = served.get(path)
    assert (answer.status_code, "field" in answer.json()) == (404, False)


def test_a_token_needs_the_scope_to_read(nodes: AttributeNodes, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    reads = add_token(tokens, "reads", (Allowed.read,), 0)
    writes = add_token(tokens, "writes", (Allowed.write,), 0)
    served = Served(nodes, tokens)
    for path in (
        "/v1/links/k/by/ref",
        "/v1/by/ref",
        "/v1/by/ref/curve?value=",
        "/v1/links/k/visitors",
        "/v1/groups/g/by/ref",
    ):
        assert served.get(path).status_code == 401
        assert served.get(path, headers={"authorization": f"Bearer {writes}"}).status_code == 403
        assert served.get(path, headers={"authorization": f"Bearer {reads}"}).status_code == 200
    for token, status in ((writes, 403), (reads, 200)):
        headers = {"authorization": f"Bearer {token}"}
        assert served.ask("POST", "/v1/sum", json={"keys": ["a/b"]}, headers=headers).status_code == status


def test_the_page_of_routes_has_them_with_their_problems(served: Served) -> None:
    paths = served.questions.paths()
    for path in ("/v1/links/{key}/by/{dimension}", "/v1/by/{dimension}/curve"):
        assert {"200", "404", "422", "503"} <= set(paths[path]["get"]["responses"])
    example = paths["/v1/links/{key}/by/{dimension}"]["get"]["responses"]["200"]["content"]["application/json"]
    assert list(example["example"]) == list(BY_REF) == schemas()["ValuesAnswer"]["required"]
    assert list(served.get("/v1/links/k/visitors").json()) == schemas()["VisitorsAnswer"]["required"]


def test_a_server_that_keeps_no_visitors_has_no_route_for_them(nodes: AttributeNodes, tmp_path: Path) -> None:
    assert Served(nodes, tmp_path / "tokens.json", visitors=False).get("/v1/links/k/visitors").status_code == 404
