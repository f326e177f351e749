"""Groups: at a glance, totals, curves and lists, against the hits that named them."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ranges import Bots
from clickcurve.keys import group_key, group_of, link_key, link_of
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes
from tests.query.test_routes import Node

NOW = 1_772_361_480
DAY_S = 86_400
LIFE = (0, 2**40)
NAMES = ("spring", "a/b", "%2F", "ü", "\0x", "g" * 64)


@pytest.fixture
def nodes() -> QueriedNodes:
    """Two links in a group, one of them in another too, and hits that name none."""
    nodes = QueriedNodes(owners=2, now=NOW)
    nodes.hit("a", NOW - 3 * DAY_S, 5, groups=("spring",))
    nodes.hit("b", NOW, 2, groups=("spring", "a/b"), owner=2)
    nodes.hit("b", NOW, 7, bot=True, groups=("spring",))
    nodes.hit("a", NOW, 100)
    return nodes


@pytest.mark.parametrize("flushed", [False, True])
def test_a_group_counts_the_hits_that_name_it(nodes: QueriedNodes, flushed: bool) -> None:
    if flushed:
        nodes.flush()
    else:
        nodes.owners[1].flush(NOW)  # hits of another node are seen once they are stored
    glance = nodes.group("spring")
    assert (glance["key"], glance["lifetime"], glance["today"], glance["last_7d"]) == ("spring", 7, 2, 7)
    assert (glance["bots"], glance["first_hit"]) == (7, NOW - 3 * DAY_S)
    assert nodes.group("a/b")["lifetime"] == nodes.group("a/b", "total")["total"] == 2
    assert nodes.group("spring", "total", "last=1d&bots=include")["total"] == 9
    curve = nodes.group("spring", "curve", "last=7d&step=1d")
    assert [point["count"] for point in curve["points"]] == [0, 0, 0, 5, 0, 0, 2]
    assert nodes.total(None)["total"] == 107, "all links together count a hit once, whatever groups it names"


def test_an_unknown_group_has_zeros(nodes: QueriedNodes) -> None:
    glance = nodes.group("nosuch")
    assert (glance["lifetime"], glance["first_hit"]) == (0, None)


def test_erasing_a_link_reduces_no_group(nodes: QueriedNodes) -> None:
    nodes.flush()
    nodes.erase("a")
    nodes.hit("a", NOW, groups=("spring",))
    assert nodes.total("a")["total"] == 1
    assert nodes.group("spring")["lifetime"] == 8


def test_a_group_is_no_link_and_a_link_no_group() -> None:
    """Not even a link whose key is the stored key of a group."""
    nodes = QueriedNodes(now=NOW)
    odd = group_key("spring")
    nodes.hit(odd, NOW)
    nodes.hit("spring", NOW, 2)
    nodes.flush()
    assert nodes.group("spring")["lifetime"] == 0
    assert nodes.top_groups()["groups"] == nodes.top_groups("sort=key")["groups"] == []
    nodes.hit("spring", NOW, 4, groups=("spring",))
    assert nodes.total(odd)["total"] == 1
    assert [link["key"] for link in nodes.top()["links"]] == ["spring", odd]
    assert link_of(group_key("x")) is None and group_of(link_key(odd)) is None


def test_groups_are_listed_by_hits_and_by_name(nodes: QueriedNodes) -> None:
    assert nodes.top_groups() == {"from": None, "to": None, "groups": [{"key": "spring", "count": 5}], "exact": True}
    nodes.flush()
    spring, other = {"key": "spring", "count": 7}, {"key": "a/b", "count": 2}
    assert nodes.top_groups()["groups"] == [spring, other]
    assert nodes.top_groups("last=1d&limit=1")["groups"] == [{"key": "a/b", "count": 2}]
    listed = {"from": None, "to": None, "groups": [other, spring], "exact": True, "after": None}
    assert nodes.top_groups("sort=key") == listed
    page = nodes.top_groups("sort=key&limit=1")
    assert (page["groups"], page["after"]) == ([other], "a/b")
    assert nodes.top_groups("sort=key&limit=1&after=a/b")["groups"] == [spring]
    assert nodes.top_groups("sort=key&prefix=sp")["groups"] == [spring]


def test_the_routes_of_a_group_decode_its_name_once_and_answer_as_those_of_a_link() -> None:
    nodes = QueriedNodes(now=NOW)
    for count, name in enumerate(NAMES, start=1):
        nodes.hit("k", NOW, count, groups=(name,))
    node = Node(nodes)
    for count, name in enumerate(NAMES, start=1):
        path = f"/v1/groups/{quote(name, safe='')}"
        for suffix, field in (("", "lifetime"), ("/total", "total"), ("/curve", "total")):
            answer = node.get(path + suffix).json()
            assert (answer["key"], answer[field]) == (name, count)
    assert node.get("/v1/groups/spring/curve?format=csv").text.startswith("start,end,count,state\n")
    assert node.get("/v1/groups?format=csv&limit=1").text == f"key,count\n{'g' * 64},{len(NAMES)}\n"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"/v1/groups/{'g' * 65}", "group"),
        ("/v1/groups/%FF/total", "key"),
        ("/v1/groups/spring?last=7d", "last"),
        ("/v1/groups?form=x", "form"),
        ("/v1/groups/spring/curve?step=1x", "step"),
    ],
)
def test_a_wrong_question_is_422(path: str, field: str) -> None:
    answer = Node(QueriedNodes(now=NOW)).get(path)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from(["", "last=2d&"]))
def test_every_list_of_groups_agrees_with_the_raw_hits(seed: int, limit: int, span: str) -> None:
    drawn = random.Random(seed)
    nodes = QueriedNodes(now=NOW)
    names = [f"g{n}" for n in range(6)]
    since = NOW // DAY_S * DAY_S - DAY_S if span else 0

    def listed(start: int) -> list[dict[str, Any]]:
        counts = {name: nodes.grouped(name, start, LIFE[1]) for name in names}
        best = sorted((name for name in names if counts[name]), key=lambda name: (-counts[name], name))
        return [{"key": name, "count": counts[name]} for name in best]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes.groups, "walked_at_once", 2)
        for _ in range(20):
            match drawn.choice(["hit", "hit", "ask", "begin", "erase"]):
                case "hit":
                    age = drawn.choice([0, 60, DAY_S, 5 * DAY_S])
                    groups = tuple(drawn.sample(names, drawn.randrange(3)))
                    nodes.hit(f"k{drawn.randrange(3)}", NOW - age, drawn.randrange(1, 5), groups=groups)
                case "begin":
                    nodes.owners[0].begin(NOW)
                    assert nodes.top_groups(f"{span}limit={limit}")["groups"] == listed(since)[:limit]
                    nodes.owners[0].complete()
                case "erase":
                    nodes.erase(f"k{drawn.randrange(3)}")
                case "ask":
                    assert nodes.top_groups(f"{span}limit={limit}")["groups"] == listed(since)[:limit]
        by_name = sorted(listed(0), key=lambda group: str(group["key"]))
        assert nodes.top_groups("sort=key")["groups"] == by_name
        for name in names:
            assert nodes.group(name, "total")["total"] == nodes.grouped(name, *LIFE)
            assert nodes.group(name, "total", "bots=only")["total"] == nodes.grouped(name, *LIFE, Bots.only)
