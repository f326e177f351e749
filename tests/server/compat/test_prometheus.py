"""PromQL's few questions: exact where moments lie on edges of buckets, and refused where they would not be right."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from server.compat.expressions import Expression, literals_of
from server.compat.prometheus.promql import UNDERSTOOD, parse_promql
from tests.server.compat.compat_node import DAY, HOUR, MINUTE, NOW, Asked, CompatNode

EDGE = NOW - NOW % HOUR  # the last whole hour


@pytest.fixture
def node() -> CompatNode:
    node = CompatNode()
    for t, count in ((EDGE - 2 * HOUR, 5), (EDGE - MINUTE, 3), (EDGE, 2), (NOW, 1)):
        node.nodes.hit("launch", t, count)
    node.nodes.hit('sp"r\\ing\n', EDGE - HOUR, 10)
    return node


def at(node: CompatNode, query: str, t: float = NOW) -> dict[str, str]:
    answer = node.post("/api/v1/query", query=query, time=str(t))
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["resultType"] == "vector"
    return {one["metric"].get("key", ""): one["value"][1] for one in answer.json()["data"]["result"]}


def along(node: CompatNode, query: str, start: int, end: int, step: int | str) -> dict[str, list[list[Any]]]:
    answer = node.post("/api/v1/query_range", query=query, start=start, end=end, step=step)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["resultType"] == "matrix"
    return {one["metric"].get("key", ""): one["values"] for one in answer.json()["data"]["result"]}


def test_grafanas_health_check(node: CompatNode) -> None:
    answer = node.post("/api/v1/query", query="1+1", time="4")
    assert answer.json() == {"status": "success", "data": {"resultType": "scalar", "result": [4, "2"]}}


def test_an_increase_at_moments_is_the_hits_between_them(node: CompatNode) -> None:
    found = along(node, 'increase(clicks{key="launch"}[1h])', EDGE - 2 * HOUR, EDGE + HOUR, HOUR)
    assert found == {"launch": [[EDGE - HOUR, "5"], [EDGE, "3"], [EDGE + HOUR, "3"]]}  # the last hour is open
    assert along(node, 'increase(clicks{key="launch"}[1m])', NOW - NOW % MINUTE, NOW, "60s")["launch"] == [
        [NOW - NOW % MINUTE, "0"]
    ]


def test_a_moment_of_now_has_the_open_minute(node: CompatNode) -> None:
    node.nodes.now = NOW - NOW % MINUTE
    assert at(node, 'increase(clicks{key="launch"}[1m])', node.nodes.now) == {"launch": "1"}
    node.nodes.now = NOW
    assert at(node, 'increase(clicks{key="launch"}[1h])') == {"launch": "6"}
    assert at(node, 'increase(clicks{key="launch"}[1d])') == {"launch": "11"}
    assert at(node, "sum(increase(clicks[1d]))") == {"": "21"}


def test_a_second_that_begins_during_a_request_takes_no_hit_away(node: CompatNode) -> None:
    seconds = itertools.count(NOW)
    queries = node.nodes.queries
    queries._clock = lambda: next(seconds)
    answer = Asked(queries).post("/api/v1/query", query='increase(clicks{key="launch"}[1h])').json()
    assert [one["value"] for one in answer["data"]["result"]] == [[NOW, "6"]]


@pytest.mark.parametrize("step", [60, 120, 300, 420, HOUR, 5 * HOUR])
def test_the_samples_of_any_step_add_up_to_the_hits(node: CompatNode, step: int) -> None:
    end = EDGE + HOUR
    start = end - (8 * HOUR // step) * step
    found = along(node, f"sum(increase(clicks[{step}s]))", start, end, step)[""]
    assert sum(int(value) for _, value in found) == 21


def test_wide_buckets_are_one_sample_each_at_their_end_and_said(node: CompatNode) -> None:
    for day in range(40, 44):
        node.nodes.hit("old", NOW - day * DAY, 100)
    first = NOW - NOW % DAY - 43 * DAY
    query = {"query": 'increase(clicks{key="old"}[1h])', "start": first, "end": first + 4 * DAY, "step": HOUR}
    answer = node.post("/api/v1/query_range", **query).json()
    (series,) = answer["data"]["result"]
    assert series["values"] == [[first + n * DAY, "100"] for n in range(1, 5)]
    assert any("buckets of 1440 minutes are kept" in said for said in answer["warnings"])


def test_a_range_that_begins_inside_a_bucket_says_so(node: CompatNode) -> None:
    answer = node.post("/api/v1/query", query="sum(increase(clicks[1h]))", time=NOW).json()
    assert "begins inside a kept bucket" in answer["warnings"][0]
    answer = node.post("/api/v1/query", query="sum(increase(clicks[1h]))", time=EDGE).json()
    assert "warnings" not in answer
    assert answer["data"]["result"][0]["value"] == [EDGE, "13"]


def test_the_bare_metric_is_the_counter_of_all_time(node: CompatNode) -> None:
    assert at(node, "clicks") == {"launch": "11", ODD: "10"}
    assert at(node, 'clicks{key="launch"}') == at(node, '({key="launch",__name__="clicks"})') == {"launch": "11"}
    assert at(node, "sum(clicks)") == {"": "21"}
    assert at(node, "sum by (key) (clicks)") == at(node, "topk(9, clicks)") == at(node, "clicks")
    assert at(node, "topk(1, clicks)") == {"launch": "11"}
    assert at(node, 'clicks{key="none"}') == {}
    answer = node.post("/api/v1/query", query='clicks{key="launch"}', time=NOW).json()
    assert answer["data"]["result"][0]["metric"] == {"__name__": "clicks", "key": "launch"}
    assert "warnings" not in answer


def test_the_counter_grows_by_the_increases(node: CompatNode) -> None:
    start, end = EDGE - 4 * HOUR, EDGE + HOUR
    counter = along(node, 'clicks{key="launch"}', start, end, HOUR)["launch"]
    assert counter == [[EDGE - HOUR, "5"], [EDGE, "8"], [EDGE + HOUR, "11"]]
    assert at(node, 'clicks{key="launch"}', EDGE - HOUR) == {"launch": "5"}
    assert at(node, 'clicks{key="launch"}', EDGE - 3 * HOUR) == {}
    assert along(node, "sum(clicks)", EDGE, end, HOUR)[""] == [[EDGE, "18"], [EDGE + HOUR, "21"]]


@pytest.mark.parametrize("step", [60, 420, 5 * HOUR, 3 * DAY])
def test_between_two_moments_the_counter_grows_by_the_increase(node: CompatNode, step: int) -> None:
    for day in (3, 20, 45, 200):
        node.nodes.hit("launch", NOW - day * DAY, day)
    end = EDGE + HOUR
    start = end - 50 * step
    counter = dict(along(node, 'clicks{key="launch"}', start, end, step)["launch"])
    grown = dict(along(node, f'increase(clicks{{key="launch"}}[{step}s])', start + step, end, step)["launch"])
    for t in range(start + step, end + 1, step):
        assert int(counter.get(t, 0)) - int(counter.get(t - step, 0)) == int(grown.get(t, 0))
    assert counter[end] == "279"


def test_a_hit_that_is_ahead_is_in_the_counter_of_now_as_in_the_lifetime(node: CompatNode) -> None:
    node.nodes.hit("launch", NOW + 240, 7)
    assert at(node, 'clicks{key="launch"}') == {"launch": "18"}
    assert at(node, 'clicks{key="launch"}', EDGE) == {"launch": "8"}


ODD = 'sp"r\\ing\n'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("increase(clicks[6h])", {"launch": "11", ODD: "10"}),
        ('increase(clicks{key!="launch"}[6h])', {ODD: "10"}),
        ('increase(clicks{key=~"la.*"}[6h])', {"launch": "11"}),
        ('increase(clicks{key!~"la.*"}[6h])', {ODD: "10"}),
        ('increase(clicks{key=~"launch|none"}[6h])', {"launch": "11"}),
        ('increase({__name__="clicks",key=~"(launch|none)",}[6h])', {"launch": "11"}),
        (r'increase(clicks{key="sp\"r\\ing\n"}[6h])', {ODD: "10"}),
        ("increase(clicks{key='none'}[6h])", {}),
        ('increase(clicks{key="launch",key!="launch"}[6h])', {}),
        ("sum(increase(clicks[6h]))", {"": "21"}),
        ('sum(increase(clicks{key=~".*a.*"}[6h]))', {"": "11"}),
        ("sum by (key) (increase(clicks[6h]))", {"launch": "11", ODD: "10"}),
        ("sum(increase(clicks[6h])) by (key)", {"launch": "11", ODD: "10"}),
        ("sum by () (increase(clicks[6h]))", {"": "21"}),
        ("topk(1, increase(clicks[6h]))", {"launch": "11"}),
        ("topk(1, sum by (key) (increase(clicks[6h])))", {"launch": "11"}),
        ('topk(5, increase(clicks{key=~"l.*"}[6h]))', {"launch": "11"}),
        ("sum(topk(1, (increase(clicks[6h]))))", {"": "11"}),
    ],
)
def test_what_is_selected(node: CompatNode, query: str, expected: dict[str, str]) -> None:
    assert at(node, query) == expected


def test_topk_along_moments_is_of_each_moment(node: CompatNode) -> None:
    found = along(node, "topk(1, increase(clicks[1h]))", EDGE - HOUR, EDGE, HOUR)
    assert found == {"launch": [[EDGE - HOUR, "5"]], ODD: [[EDGE, "10"]]}


def test_topk_ranks_more_links_than_may_be_read(node: CompatNode) -> None:
    for n in range(1_100):
        node.nodes.hit(f"k{n}", NOW - HOUR, 1)
    assert list(at(node, "topk(2, increase(clicks[6h]))")) == ["launch", ODD]
    refused = node.get("/api/v1/query", query="increase(clicks[6h])", time=NOW)
    assert refused.status_code == 422
    assert "topk(...) at one moment" in refused.json()["error"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("rate(clicks[5m])", "at 'rate'"),
        ("clicks[1h]", "at '['"),
        ("clicks - 1", "at '-'"),
        ("hits", "at 'hits'"),
        ('{key="launch"}', "the metrics are clicks, events, event_values"),
        ('clicks{color="red"}', "there is no label color"),
        ("increase(hits[1h])", "the metrics are clicks, events, event_values"),
        ('increase({key="x"}[1h])', "the metrics are clicks, events, event_values"),
        ("increase(clicks[1h]) * 2", "at '*'"),
        ("increase(clicks[1h] offset 1d)", "at 'offset'"),
        ("increase(clicks)", "at ')'"),
        ("topk(0, increase(clicks[1h]))", "from 1 to 1000"),
        ('increase(clicks{key="a"}[1h]', "ends too early"),
        ('increase(clicks{key>"a"}[1h])', "at '>"),
        ("sum(" * 12 + "increase(clicks[1h])" + ")" * 12, "too deep"),
        ("1 / 0", "division by 0"),
        ('increase(clicks{color="red"}[1h])', "there is no label color"),
        ("sum by (color) (increase(clicks[1h]))", "there is no label color"),
        ('increase(clicks{key=~"(a+"}[1h])', "is not a regular expression"),
        ('increase(clicks{key=~"(?=a)"}[1h])', "is not a regular expression"),
        ('increase(clicks{key=~"(?x)(.+) +NO"}[1h])', "is not a regular expression"),
        ('increase(clicks{key=~".{1000}{1000}"}[1h])', "is not a regular expression"),
        ('increase(clicks{key=~"\\\\pL{300}"}[1h])', "pattern too large"),
        ("1e999", "the number is too large"),
        ("1e308*10", "the number is too large"),
        ("1e308*10-1e308*10", "the number is too large"),
        ("topk(1e999, increase(clicks[1h]))", "a whole number from 1 to 1000"),
        ("1" * 60_000 + "x", "not understood"),
        ("1+" * 2_000 + "1", "more than 2,000 words and signs"),
        ("1" * 70_000, "it has 70,000 characters"),
        ("increase(clicks[" + "1s" * 40 + "])", "a length is whole seconds"),
        ("increase(clicks[500ms])", "a length is whole seconds"),
        ("increase(clicks[30s])", "counted by the minute"),
    ],
)
def test_anything_else_is_422_and_says_what_is_understood(node: CompatNode, query: str, said: str) -> None:
    answer = node.post("/api/v1/query", query=query)
    assert answer.status_code == 422
    refused = answer.json()
    assert (refused["status"], refused["errorType"]) == ("error", "bad_data")
    assert said in refused["error"]
    if "understood" in refused["error"]:
        assert UNDERSTOOD in refused["error"]
    assert sum(node.problems.refused.values()) == 1, "it is on /metrics"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"step": "15"}, "set the interval of the data source to 60s"),
        ({"step": "120"}, "in Grafana write [$__interval]"),
        ({"step": "soon"}, "step 'soon' is not a number"),
        ({"end": "0"}, "end is before start"),
        ({"start": ""}, "start is missing"),
        ({"start": "NaN"}, "not a time"),
        ({"start": "1e400"}, "out of range"),
        ({"start": "0", "step": "60"}, "too small for the range"),
    ],
)
def test_a_bad_range_is_refused(node: CompatNode, form: dict[str, str], said: str) -> None:
    good = {"query": "increase(clicks[1m])", "start": str(EDGE), "end": str(NOW), "step": "60"}
    answer = node.post("/api/v1/query_range", **{**good, **form})
    assert answer.status_code == 422
    assert said in answer.json()["error"]


def test_fractions_and_words_of_time_are_read(node: CompatNode) -> None:
    found = along(node, 'increase(clicks{key="launch"}[1h])', EDGE - HOUR, EDGE, "1h")
    answer = node.get(
        "/api/v1/query_range",
        query='increase(clicks{key="launch"}[1h])',
        start=f"{EDGE - HOUR}.781",
        end="2026-03-01T23:00:00Z",
        step="3600.000",
    )
    assert answer.json()["data"]["result"][0]["values"] == found["launch"]


def test_pickers(node: CompatNode) -> None:
    def data(path: str, **query: Any) -> Any:
        answer = node.get(path, **query)
        assert answer.json()["status"] == "success"
        return answer.json()["data"]

    assert data("/api/v1/labels") == ["__name__", "key"]
    assert data("/api/v1/label/__name__/values") == ["clicks"]
    assert data("/api/v1/label/key/values") == ["launch", ODD]
    assert data("/api/v1/label/key/values", **{"match[]": 'clicks{key=~"l.*"}'}) == ["launch"]
    assert data("/api/v1/label/nothing/values") == []
    assert data("/api/v1/series", **{"match[]": "clicks", "start": 0, "end": NOW}) == [
        {"__name__": "clicks", "key": key} for key in ("launch", ODD)
    ]
    assert data("/api/v1/metadata")["clicks"][0]["type"] == "counter"
    assert node.get("/api/v1/series").status_code == 422
    limited = node.get("/api/v1/label/key/values", limit=1).json()
    assert (limited["data"], len(limited["warnings"])) == (["launch"], 1)


def test_the_page_to_scrape_has_the_greatest_links_as_counters(node: CompatNode) -> None:
    answer = node.get("/metrics/links", top=1)
    (family,) = text_string_to_metric_families(answer.text)
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"key": "launch"}, 11.0)]
    (family,) = text_string_to_metric_families(node.get("/metrics/links").text)
    assert {sample.labels["key"] for sample in family.samples} == {"launch", ODD}
    assert node.get("/metrics/links", top=1_001).status_code == 422


def test_numbers() -> None:
    assert [parse_promql(text) for text in ("1+1", "-2 * 3 - 4", "7/2", ".5e1", "+ 3")] == [2, -10, 3.5, 5, 3]


def test_expressions_of_plain_texts_are_known() -> None:
    assert literals_of(r"(a|b\.c|)") == ["a", "b.c", ""]
    assert [literals_of(text) for text in ("a.c", r"\d", "a+", "(a", "[a]")] == [None] * 5
    assert literals_of("|".join("abc" * 10_000)) == list("abc" * 10_000)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("(|.)" * 40 + "NO", "k" * 16, False),
        ("(a+)+b", "a" * 1_000, False),
        (".*.*.*.*x", "a" * 1_024, False),
        ("(?:a|b|ab)+c", "ab" * 500 + "c", True),
        ("a.c", "a\nc", True),
        ("(?i)A", "a", True),
        (".", "ü", True),
    ],
)
def test_any_expression_takes_time_in_proportion_to_the_key(text: str, key: str, expected: bool) -> None:
    async def story() -> bool:
        return await (await Expression.compiled("query", text)).matches(key)

    begun = time.process_time()
    assert asyncio.run(story()) is expected
    assert time.process_time() - begun < 60, "trying all ways takes years"


def test_a_list_of_many_keys_is_refused_before_their_rows_are_read(node: CompatNode) -> None:
    keys = "|".join(f"k{n}" for n in range(9_000))
    for sign, status in (("=~", 422), ("!~", 200)):
        answer = node.post("/api/v1/query", query=f'increase(clicks{{key{sign}"{keys}"}}[1h])')
        assert answer.status_code == status
    assert len(at(node, 'increase(clicks{key=~"launch|launch|launch"}[1h])')) == 1
