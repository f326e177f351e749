"""Graphite's requests as Grafana sends them, and what its answers promise: sums stay, and nothing is made up."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from server.compat.graphite.names import NodePattern, node_name, node_text, nodes_of
from server.compat.graphite.targets import CallTarget, PathTarget, TargetUnreadable, parse_target
from tests.server.compat.compat_node import DAY, HOUR, MINUTE, NOW, CompatNode

ODD_KEYS = ["a.b", "a/b", "ü ß", "*", "a{b,c}", "50%", "%2E", "(x)", 'q"t', "a,b", "日本", "\0x", "a'b", "x=y", "[z]"]


@pytest.fixture
def node() -> CompatNode:
    node = CompatNode()
    for ago_s, count in ((30 * DAY, 7), (3 * DAY, 5), (2 * HOUR, 3), (5 * MINUTE, 2), (0, 1)):
        node.hit("launch", ago_s, count)
    node.hit("spring", HOUR, 10)
    return node


def rendered(node: CompatNode, target: str | list[str], **form: Any) -> list[dict[str, Any]]:
    answer = node.post("/render", target=target, format="json", **{"from": "-6h", "until": "now", **form})
    assert answer.status_code == 200, answer.text
    series: list[dict[str, Any]] = answer.json()
    return series


def summed(series: dict[str, Any]) -> float:
    return float(sum(value for value, _ in series["datapoints"] if value is not None))


def test_a_link_is_a_series_of_its_counts(node: CompatNode) -> None:
    (series,) = rendered(node, "clicks.launch")
    assert (series["target"], series["tags"], summed(series)) == ("clicks.launch", {"name": "clicks.launch"}, 6)
    assert [2, NOW - 5 * MINUTE - NOW % 60] in series["datapoints"]


def test_the_minute_of_now_is_in_a_range_from_its_first_second_on(node: CompatNode) -> None:
    node.nodes.now = NOW - NOW % MINUTE
    (series,) = rendered(node, "clicks.launch", until=str(node.nodes.now))
    assert series["datapoints"][-1] == [1, node.nodes.now]


@pytest.mark.parametrize("most", [1, 7, 60, 400, 10_000])
@pytest.mark.parametrize(("from_", "expected"), [("-6h", 6), ("-7d", 11), ("-40d", 18), ("-10y", 18)])
def test_any_number_of_points_has_the_same_sum(node: CompatNode, most: int, from_: str, expected: int) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": from_, "maxDataPoints": most})
    assert summed(series) == expected
    assert len(series["datapoints"]) <= most


def test_max_data_points_is_a_maximum_also_where_an_estimate_of_the_points_is_too_low(node: CompatNode) -> None:
    end = NOW // HOUR * HOUR
    for most in range(1, 101):
        (series,) = rendered(
            node, "clicks.launch", **{"from": str(end - 36 * HOUR), "until": str(end), "maxDataPoints": most}
        )
        assert (summed(series), len(series["datapoints"]) <= most) == (3, True), most


def test_all_points_of_a_range_are_as_long_as_its_coarsest_bucket(node: CompatNode) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": "-40d", "maxDataPoints": 10_000})
    starts = [start for _, start in series["datapoints"]]
    assert {later - earlier for earlier, later in pairwise(starts)} == {DAY}


def test_nothing_is_a_null_before_the_first_hit_and_after_now_and_a_zero_between(node: CompatNode) -> None:
    node.hit("late", 10 * MINUTE)
    (series,) = rendered(node, "clicks.late", **{"from": "-20min", "until": str(NOW + 5 * MINUTE)})
    values = [value for value, _ in series["datapoints"]]
    assert values == [None] * 10 + [1] + [0] * 10 + [None] * 5


def test_grafanas_health_check_is_a_line_of_three_points(node: CompatNode) -> None:
    answer = node.post(
        "/render", target="constantLine(100)", format="json", maxDataPoints=300, **{"from": "-1h", "until": "now"}
    )
    assert [value for value, _ in answer.json()[0]["datapoints"]] == [100, 100, 100]
    assert answer.json()[0]["datapoints"][2][1] == NOW + 1  # the range goes to the end of this second


def test_grafana_in_the_browser_wraps_each_target_and_reads_its_letter_from_the_name(node: CompatNode) -> None:
    wrapped = [r'aliasSub(clicks.launch, "(^.*$)", "\1 A")', r'aliasSub(sumSeries(clicks.*), "(^.*$)", "\1 B")']
    found = rendered(node, wrapped, maxDataPoints=100)
    assert [series["target"].rsplit(" ", 1)[-1] for series in found] == ["A", "B"]
    assert [summed(series) for series in found] == [6, 16]


def test_get_and_post_answer_alike(node: CompatNode) -> None:
    query = {"target": "clicks.launch", "from": "-6h", "until": "now", "format": "json", "maxDataPoints": 60}
    assert node.get("/render", **query).json() == node.post("/render", **query).json()


@pytest.mark.parametrize(
    ("target", "names", "sums"),
    [
        ("clicks.*", ["clicks.launch", "clicks.spring"], [6, 10]),
        ("clicks.spr*", ["clicks.spring"], [10]),
        ("clicks.{launch,spring}", ["clicks.launch", "clicks.spring"], [6, 10]),
        ("clicks.[k-m]aunch", ["clicks.launch"], [6]),
        ("clicks.?????h", ["clicks.launch"], [6]),
        ("clicks.none*", [], []),
        ("total", ["total"], [16]),
        ("sumSeries(clicks.*)", ["sumSeries(clicks.*)"], [16]),
        ("sum(clicks.launch, clicks.spring)", ["sum(clicks.launch, clicks.spring)"], [16]),
        ("alias(clicks.launch, 'Start')", ["Start"], [6]),
        ("aliasByNode(clicks.*, 1)", ["launch", "spring"], [6, 10]),
        ("aliasByNode(clicks.*, 0, -1)", ["clicks.launch", "clicks.spring"], [6, 10]),
        ("aliasByMetric(clicks.launch)", ["launch"], [6]),
        (r"aliasSub(clicks.*, '^clicks\.(.)', 'to \1')", ["to launch", "to spring"], [6, 10]),
        (r"aliasSub(clicks.*, 'clicks.(?P<a>l|s)', 'ü\g<a>\\ ')", ["ül\\ aunch", "üs\\ pring"], [6, 10]),
        ("scale(clicks.launch, 0.5)", ["scale(clicks.launch,0.5)"], [3]),
        ("consolidateBy(clicks.launch, 'sum')", ['consolidateBy(clicks.launch,"sum")'], [6]),
        ("summarize(clicks.launch, '1h', 'sum')", ['summarize(clicks.launch, "1h", "sum")'], [6]),
        ("summarize(clicks.launch, '90s')", ['summarize(clicks.launch, "90s", "sum")'], [6]),
        ("limit(clicks.*, 1)", ["clicks.launch"], [6]),
        ("highestMax(clicks.*, 1)", ["clicks.spring"], [10]),
        ("highestAverage(clicks.*, 1)", ["clicks.spring"], [10]),
        ("highest(clicks.*, 2, 'sum')", ["clicks.spring", "clicks.launch"], [10, 6]),
        ("highest(clicks.[ls]*, n=1, func='total')", ["clicks.spring"], [10]),
        ("timeShift(clicks.launch, '3d')", ['timeShift(clicks.launch, "3d")'], [5]),
    ],
)
def test_functions(node: CompatNode, target: str, names: list[str], sums: list[float]) -> None:
    found = rendered(node, target)
    assert [series["target"] for series in found] == names
    assert [summed(series) for series in found] == sums


def test_a_shift_moves_the_points_to_the_asked_range(node: CompatNode) -> None:
    (now,), (shifted,) = rendered(node, "clicks.launch"), rendered(node, "timeShift(clicks.launch, '1h')")
    by_start = {start: value for value, start in now["datapoints"]}
    assert all(by_start.get(start - HOUR, value) == value for value, start in shifted["datapoints"])
    assert summed(shifted) == 3
    assert all(NOW - 7 * HOUR < start <= NOW for _, start in shifted["datapoints"])


def test_summarize_makes_whole_hours(node: CompatNode) -> None:
    (series,) = rendered(node, "summarize(clicks.launch, '1h', 'sum')")
    assert {start % HOUR for _, start in series["datapoints"][1:]} == {0}


def test_the_greatest_of_all_links_are_found_among_more_than_a_pattern_may_mean(node: CompatNode) -> None:
    for n in range(300):
        node.hit(f"k{n:03}", HOUR, 1)
    answer = node.get("/render", target="clicks.*", **{"from": "-6h"})
    assert answer.status_code == 422
    assert "more than 200 links" in answer.json()["detail"]
    assert "highest(clicks.*, 10, 'sum')" in answer.json()["detail"]
    found = rendered(node, "aliasByNode(highest(clicks.*, 2, 'sum'), 1)")
    assert [series["target"] for series in found] == ["spring", "launch"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("consolidateBy(clicks.launch, 'average')", "every consolidation here is a sum"),
        ("summarize(clicks.launch, '1h', 'avg')", "every consolidation here is a sum"),
        ("derivative(clicks.launch)", "the function derivative is not known here; known: alias, "),
        ("clicks", "there is no clicks"),
        ("clicks.a.b.c.d", "there is no clicks.a.b.c.d"),
        ("sumSeries(clicks.launch", "a comma or a closing bracket"),
        ("sumSeries(clicks.launch))", "there is text after the end"),
        ("", "a name, a function, a text or a number"),
        ("scale(clicks.launch)", "argument factor must be a number"),
        ("limit(clicks.*, 0)", "n must be 1 or more"),
        ("alias(3, 'x')", "3.0 is not a series"),
        (r"aliasSub(clicks.launch, '(', 'x')", "is not a regular expression"),
        (r"aliasSub(clicks.launch, '(?=a)', 'x')", "is not a regular expression"),
        ("aliasSub(alias(clicks.a, '" + "x" * 300 + "'), '(.|..){50}', 'x')", "could take long on a name of 300"),
        ("aliasSub(clicks.a, '(.|..){500}', 'x')", "is too large a pattern"),
        (r"aliasSub(clicks.launch, '', '" + "x" * 200 + "')", "the name becomes too long"),
        (r"aliasSub(clicks.launch, 'a', '\7')", "cannot be the replacement"),
        (r"aliasSub(clicks.launch, 'a', '\x')", "cannot be the replacement"),
        (r"aliasSub(clicks.launch, '(?P<a>a)', '\g<b>')", "cannot be the replacement"),
        ("clicks.[z-a]", "is not a pattern"),
        ("alias(" * 30 + "clicks.a" + ",'x')" * 30, "more than 20 deep"),
        ("alias(clicks.a, '" + "x" * 3_000 + "')", "a name of 3,000 characters is too long"),
        ("aliasByNode(clicks.a" + ",1" * 30 + ")", "30 nodes are too many"),
        ("clicks." + "a" * 9_000, "a name has at most 8,192 characters"),
    ],
)
def test_what_is_not_understood_is_refused_in_a_sentence(node: CompatNode, target: str, said: str) -> None:
    answer = node.post("/render", target=target, **{"from": "-6h"})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_a_sum_has_a_bound_of_times_at_which_its_series_may_begin(node: CompatNode) -> None:
    shifted = [f"timeShift(clicks.spring,'{n}s')" for n in range(45)]  # of 1,200 minutes each
    answer = node.post("/render", target=f"sumSeries({','.join(shifted)})", maxDataPoints="10000", **{"from": "-20h"})
    assert (answer.status_code, answer.json()["rule"]) == (422, "at most 50,000 times")
    (series,) = rendered(node, f"sumSeries({','.join(shifted[:40])})", maxDataPoints="10000", **{"from": "-20h"})
    assert len(series["datapoints"]) == 40 * 1_201
    assert summed(series) == 40 * 10


@pytest.mark.parametrize(
    "target",
    [
        "constantLine(1e999)",
        "constantLine(-1e999)",
        "scale(total,1e999)",
        "scale(scale(total,1e308),1e308)",
        "sumSeries(scale(total,1e307),scale(total,1e307),scale(total,1e307))",
        "limit(total,1e999)",
        "highest(clicks.*,1e999,'sum')",
        "aliasByNode(total,1e999)",
    ],
)
def test_numbers_without_an_end_are_refused(node: CompatNode, target: str) -> None:
    for answer_format in ("json", "csv"):
        answer = node.get("/render", target=target, format=answer_format, **{"from": "-6h"})
        assert (answer.status_code, answer.json()["field"]) == (422, "target")


def test_a_large_number_that_has_an_end_is_answered(node: CompatNode) -> None:
    assert summed(rendered(node, "scale(clicks.spring,1e300)")[0]) == 1e301
    assert summed(rendered(node, "limit(clicks.spring,1e300)")[0]) == 10


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"until": "+9000y"}, "until"),
        ({"until": "+999999999y"}, "until"),
        ({"from": "+8990y", "until": "+9000y"}, "from"),
        ({"target": "timeShift(total,'+9999y')"}, "target"),
        ({"from": "0", "target": "timeShift(total,'+999999999y')"}, "target"),
    ],
)
def test_what_lies_beyond_the_calendar_is_refused(node: CompatNode, form: dict[str, str], field: str) -> None:
    answer = node.get("/render", **{"target": "total", "from": "-6h", **form})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert "after the year 9998" in answer.json()["detail"]


def test_all_of_time_is_answered(node: CompatNode) -> None:
    for most in (1, 1_000, 100_000):
        (series,) = rendered(node, "clicks.launch", **{"from": "0", "until": "+7900y", "maxDataPoints": str(most)})
        assert (summed(series), len(series["datapoints"]) <= most) == (18, True)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"from": "never"}, "from"),
        ({"until": "-6parsec"}, "until"),
        ({"from": "now", "until": "-1h"}, "from"),
        ({"maxDataPoints": "0"}, "maxDataPoints"),
        ({"format": "png"}, "format"),
        ({"tz": "Atlantis"}, "tz"),
    ],
)
def test_a_bad_field_is_named(node: CompatNode, form: dict[str, str], field: str) -> None:
    answer = node.get("/render", **{"target": "clicks.launch", "from": "-6h", **form})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    ("until", "expected"),
    [("now", 6), (str(NOW), 6), ("23:28_20260301", 5), ("2026-03-01T23:28:00Z", 5), ("now-1min", 5), ("20260302", 6)],
)
def test_times_as_clients_of_graphite_write_them(node: CompatNode, until: str, expected: int) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": "-6h", "until": until})
    assert summed(series) == expected  # the minute of `until` is in the range only if that cuts it


def test_csv(node: CompatNode) -> None:
    answer = node.get("/render", target="clicks.spring", format="csv", **{"from": "-70min", "until": "-55min"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "clicks.spring,2026-03-01 22:28:00,10\r\n" in answer.text


def test_meta_says_what_is_kept(node: CompatNode) -> None:
    answer = node.get("/render", target="clicks.launch", meta="true", maxDataPoints=10, **{"from": "-5d"}).json()
    (meta,) = answer["series"][0]["meta"]
    assert answer["meta"] == {"stats": {}}
    assert (meta["archive-interval"], meta["aggnum-rc"], meta["consolidator-rc"]) == (HOUR, 24, "SumConsolidator")
    assert meta["schema-retentions"].startswith("60:1,300:2")


# --- names ------------------------------------------------------------------------------------------------------------
def test_find_lists_the_nodes(node: CompatNode) -> None:
    def found(query: str) -> list[tuple[str, str, int, int]]:
        answer = node.post("/metrics/find", query=query)
        assert answer.status_code == 200
        return [(each["text"], each["id"], each["leaf"], each["expandable"]) for each in answer.json()]

    assert found("*") == [("clicks", "clicks", 0, 1), ("groups", "groups", 0, 1), ("total", "total", 1, 0)]
    assert found("clicks.*") == [("launch", "clicks.launch", 1, 0), ("spring", "clicks.spring", 1, 0)]
    assert found("clicks.s*g") == [("spring", "clicks.spring", 1, 0)]
    assert found("nothing.*") == []
    assert node.get("/metrics/expand", query="clicks.*").json() == {"results": ["clicks.launch", "clicks.spring"]}


def test_groups_have_names_too() -> None:
    node = CompatNode()
    node.nodes.hit("a", NOW - HOUR, 3, groups=("spring.sale",))
    node.nodes.hit("b", NOW - HOUR, 4, groups=("spring.sale", "other"))
    answer = node.get("/metrics/find", query="groups.*").json()
    assert [each["id"] for each in answer] == ["groups.other", "groups.spring%2Esale"]
    assert [summed(series) for series in rendered(node, "groups.*")] == [4, 7]
    assert node.get("/metrics/find", query="nothing.*").json() == []


def test_find_says_that_there_are_more(node: CompatNode) -> None:
    for n in range(1_001):
        node.hit(f"many{n:04}")
    answer = node.get("/metrics/find", query="clicks.many*").json()
    assert len(answer) == 1_001
    assert answer[-1]["text"].startswith("(more than 1000: write how the key begins")
    assert "" not in node.get("/metrics/expand", query="clicks.many*").json()["results"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_every_key_has_a_name_that_means_it_alone(key: str) -> None:
    node = CompatNode()
    node.hit(key, MINUTE, 4)
    node.hit("other", MINUTE, 9)
    name = node.get("/metrics/find", query="clicks.*").json()[0 if key < "other" else 1]["id"]
    assert name == f"clicks.{node_name(key)}"
    assert len(nodes_of(name)) == 2
    (series,) = rendered(node, f"sumSeries({name})")
    assert summed(series) == 4
    (series,) = rendered(node, f"aliasByNode({name}, 1)")
    assert (series["target"], node_text(node_name(key))) == (key, key)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*a" * 30 + "b", "a" * 1_000, False),
        ("*a" * 30, "a" * 1_000, True),
        ("a*b*c", "abbc", True),
        ("a*b*c", "acb", False),
        ("{a,b}" * 10, "abababbbaa", True),
        ("x{a*,[b-d]}y", "xcy", True),
        ("x{a*,[b-d]}y", "xaay", True),
        ("x{a*,[b-d]}y", "xey", False),
        ("[!a]", "b", True),
        ("[!a]", "a", False),
        ("[", "[", True),
        ("{a", "{a", True),
        ("a?", "a\n", True),
        ("%2A*", "*x", True),
        ("[a&&b]", "&", True),
    ],
)
def test_patterns(pattern: str, text: str, expected: bool) -> None:
    assert asyncio.run(NodePattern(pattern).matches(text)) is expected


def test_the_rest_that_clients_ask_for(node: CompatNode) -> None:
    functions = node.get("/functions").json()
    assert functions["summarize"]["params"][1] == {"name": "intervalString", "type": "interval", "required": True}
    assert node.get("/version").text == "1.1.10"
    assert node.get("/tags/autoComplete/tags", expr="", limit=100).json() == []


def test_targets_are_read_as_written() -> None:
    assert parse_target(" a.b ") == PathTarget("a.b")
    parsed = parse_target("f(clicks.{a,b}, 'x\\'y', -1.5e3, true, g(x), n=2)")
    assert isinstance(parsed, CallTarget)
    assert parsed.arguments[:4] == (PathTarget("clicks.{a,b}"), "x'y", -1500.0, True)
    assert parsed.keywords == {"n": 2.0}
    with pytest.raises(TargetUnreadable):
        parse_target("f(" * 25)
