"""Graphite's requests as Grafana sends them, and what its answers promise: sums stay, and nothing is made up."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from server.compat.graphite.names import NodePattern, node_name, node_text, nodes_of
from server.compat.graphite.targets import CallTarget, PathTarget, TargetUnreadable, parse_target
from tests.server.compat.compat_node import DAY, HOUR, MINUTE, NOW, DoorNode

ODD_KEYS = ["a.b", "a/b", "ü ß", "*", "a{b,c}", "50%", "%2E", "(x)", 'q"t', "a,b", "日本", "\0x", "a'b", "x=y", "[z]"]


@pytest.fixture
def node() -> DoorNode:
    found = DoorNode()
    for ago_s, count in ((30 * DAY, 7), (3 * DAY, 5), (2 * HOUR, 3), (5 * MINUTE, 2), (0, 1)):
        found.hit("launch", ago_s, count)
    found.hit("spring", HOUR, 10)
    return found


def rendered(node: DoorNode, target: str | list[str], **form: Any) -> list[dict[str, Any]]:
    answer = node.post("/render", target=target, format="json", **{"from": "-6h", "until": "now", **form})
    assert answer.status_code == 200, answer.text
    series: list[dict[str, Any]] = answer.json()
    return series


def summed(series: dict[str, Any]) -> float:
    return float(sum(value for value, _ in series["datapoints"] if value is not None))


def test_a_link_is_a_series_of_its_counts(node: DoorNode) -> None:
    (series,) = rendered(node, "clicks.launch")
    assert (series["target"], series["tags"], summed(series)) == ("clicks.launch", {"name": "clicks.launch"}, 6)
    assert [2, NOW - 5 * MINUTE - NOW % 60] in series["datapoints"]


def test_the_minute_of_now_is_in_a_range_from_its_first_second_on(node: DoorNode) -> None:
    node.nodes.now = NOW - NOW % MINUTE
    (series,) = rendered(node, "clicks.launch", until=str(node.nodes.now))
    assert series["datapoints"][-1] == [1, node.nodes.now]


@pytest.mark.parametrize("most", [1, 7, 60, 400, 10_000])
@pytest.mark.parametrize(("from_", "expected"), [("-6h", 6), ("-7d", 11), ("-40d", 18), ("-10y", 18)])
def test_any_number_of_points_has_the_same_sum(node: DoorNode, most: int, from_: str, expected: int) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": from_, "maxDataPoints": most})
    assert summed(series) == expected
    assert len(series["datapoints"]) <= max(most * 1.05, 12)  # ten years are at least eleven points of a year


def test_all_points_of_a_range_are_as_long_as_its_coarsest_bucket(node: DoorNode) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": "-40d", "maxDataPoints": 10_000})
    starts = [start for _, start in series["datapoints"]]
    assert {later - earlier for earlier, later in pairwise(starts)} == {DAY}


def test_nothing_is_a_null_before_the_first_hit_and_after_now_and_a_zero_between(node: DoorNode) -> None:
    node.hit("late", 10 * MINUTE)
    (series,) = rendered(node, "clicks.late", **{"from": "-20min", "until": str(NOW + 5 * MINUTE)})
    values = [value for value, _ in series["datapoints"]]
    assert values == [None] * 10 + [1] + [0] * 10 + [None] * 5


def test_grafanas_health_check_is_a_line_of_three_points(node: DoorNode) -> None:
    answer = node.post(
        "/render", target="constantLine(100)", format="json", maxDataPoints=300, **{"from": "-1h", "until": "now"}
    )
    assert [value for value, _ in answer.json()[0]["datapoints"]] == [100, 100, 100]
    assert answer.json()[0]["datapoints"][2][1] == NOW + 1  # the range goes to the end of this second


def test_grafana_in_the_browser_wraps_each_target_and_reads_its_letter_from_the_name(node: DoorNode) -> None:
    wrapped = [r'aliasSub(clicks.launch, "(^.*$)", "\1 A")', r'aliasSub(sumSeries(clicks.*), "(^.*$)", "\1 B")']
    found = rendered(node, wrapped, maxDataPoints=100)
    assert [series["target"].rsplit(" ", 1)[-1] for series in found] == ["A", "B"]
    assert [summed(series) for series in found] == [6, 16]


def test_get_and_post_answer_alike(node: DoorNode) -> None:
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
def test_functions(node: DoorNode, target: str, names: list[str], sums: list[float]) -> None:
    found = rendered(node, target)
    assert [series["target"] for series in found] == names
    assert [summed(series) for series in found] == sums


def test_a_shift_moves_the_points_to_the_asked_range(node: DoorNode) -> None:
    (now,), (shifted,) = rendered(node, "clicks.launch"), rendered(node, "timeShift(clicks.launch, '1h')")
    by_start = {start: value for value, start in now["datapoints"]}
    assert all(by_start.get(start - HOUR, value) == value for value, start in shifted["datapoints"])
    assert summed(shifted) == 3
    assert all(NOW - 7 * HOUR < start <= NOW for _, start in shifted["datapoints"])


def test_summarize_makes_whole_hours(node: DoorNode) -> None:
    (series,) = rendered(node, "summarize(clicks.launch, '1h', 'sum')")
    assert {start % HOUR for _, start in series["datapoints"][1:]} == {0}


def test_the_greatest_of_all_links_are_found_among_more_than_a_pattern_may_mean(node: DoorNode) -> None:
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
        ("sumSeries(clicks.launch))", "something follows the end"),
        ("", "a name, a function, a text or a number"),
        ("scale(clicks.launch)", "argument factor must be a number"),
        ("limit(clicks.*, 0)", "n must be 1 or more"),
        ("alias(3, 'x')", "3.0 is no series"),
        (r"aliasSub(clicks.launch, '(a+)+$', 'x')", "could take long"),
        (r"aliasSub(clicks.launch, '.*.*.*.*.*.*.*x', 'x')", "could take long"),
        (r"aliasSub(clicks.launch, '(', 'x')", "is no regular expression"),
        (r"aliasSub(clicks.launch, 'a', '\7')", "cannot be put in its place"),
        ("clicks.[z-a]", "is no pattern"),
        ("alias(" * 30 + "clicks.a" + ",'x')" * 30, "more than 20 deep"),
        ("clicks." + "{a,b}" * 10, "stands for too many names"),
    ],
)
def test_what_is_not_understood_is_refused_in_a_sentence(node: DoorNode, target: str, said: str) -> None:
    answer = node.post("/render", target=target, **{"from": "-6h"})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


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
def test_a_bad_field_is_named(node: DoorNode, form: dict[str, str], field: str) -> None:
    answer = node.get("/render", **{"target": "clicks.launch", "from": "-6h", **form})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    ("until", "expected"),
    [("now", 6), (str(NOW), 6), ("23:28_20260301", 5), ("2026-03-01T23:28:00Z", 5), ("now-1min", 5), ("20260302", 6)],
)
def test_times_as_clients_of_graphite_write_them(node: DoorNode, until: str, expected: int) -> None:
    (series,) = rendered(node, "clicks.launch", **{"from": "-6h", "until": until})
    assert summed(series) == expected  # the minute of `until` is in the range only if that cuts it


def test_csv(node: DoorNode) -> None:
    answer = node.get("/render", target="clicks.spring", format="csv", **{"from": "-70min", "until": "-55min"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "clicks.spring,2026-03-01 22:28:00,10\r\n" in answer.text


def test_meta_says_what_is_kept(node: DoorNode) -> None:
    answer = node.get("/render", target="clicks.launch", meta="true", maxDataPoints=10, **{"from": "-5d"}).json()
    (meta,) = answer["series"][0]["meta"]
    assert answer["meta"] == {"stats": {}}
    assert (meta["archive-interval"], meta["aggnum-rc"], meta["consolidator-rc"]) == (HOUR, 12, "SumConsolidator")
    assert meta["schema-retentions"].startswith("60:1,300:2")


# --- names ------------------------------------------------------------------------------------------------------------
def test_find_lists_the_nodes(node: DoorNode) -> None:
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
    node = DoorNode()
    node.nodes.hit("a", NOW - HOUR, 3, groups=("spring.sale",))
    node.nodes.hit("b", NOW - HOUR, 4, groups=("spring.sale", "other"))
    found = node.get("/metrics/find", query="groups.*").json()
    assert [each["id"] for each in found] == ["groups.other", "groups.spring%2Esale"]
    assert [summed(series) for series in rendered(node, "groups.*")] == [4, 7]
    assert node.get("/metrics/find", query="nothing.*").json() == []


def test_find_says_that_there_are_more(node: DoorNode) -> None:
    for n in range(1_001):
        node.hit(f"many{n:04}")
    found = node.get("/metrics/find", query="clicks.many*").json()
    assert len(found) == 1_001
    assert found[-1]["text"].startswith("(more than 1000: write how the key begins")
    assert "" not in node.get("/metrics/expand", query="clicks.many*").json()["results"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_every_key_has_a_name_that_means_it_alone(key: str) -> None:
    node = DoorNode()
    node.hit(key, MINUTE, 4)
    node.hit("other", MINUTE, 9)
    name = node.get("/metrics/find", query="clicks.*").json()[0 if key < "other" else 1]["id"]
    assert name == f"clicks.{node_name(key)}"
    assert len(nodes_of(name)) == 2
    (series,) = rendered(node, f"sumSeries({name})")
    assert summed(series) == 4
    (series,) = rendered(node, f"aliasByNode({name}, 1)")
    assert (series["target"], node_text(node_name(key))) == (key, key)


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    assert not NodePattern("*a" * 30 + "b").matches("a" * 1_000)
    assert NodePattern("*a" * 30).matches("a" * 1_000)
    assert NodePattern("a*b*c").matches("abbc")
    assert not NodePattern("a*b*c").matches("acb")


def test_the_rest_that_clients_ask_for(node: DoorNode) -> None:
    functions = node.get("/functions").json()
    assert functions["summarize"]["params"][1] == {"name": "intervalString", "type": "interval", "required": True}
    assert node.get("/version").text == "1.1.10"
    assert node.get("/tags/autoComplete/tags", expr="", limit=100).json() == []


def test_targets_are_read_as_written() -> None:
    assert parse_target(" a.b ") == PathTarget("a.b")
    found = parse_target("f(clicks.{a,b}, 'x\\'y', -1.5e3, true, g(x), n=2)")
    assert isinstance(found, CallTarget)
    assert found.arguments[:4] == (PathTarget("clicks.{a,b}"), "x'y", -1500.0, True)
    assert found.keywords == {"n": 2.0}
    with pytest.raises(TargetUnreadable):
        parse_target("f(" * 25)
