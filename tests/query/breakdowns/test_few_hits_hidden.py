"""With a least no question about a breakdown, and no difference of two, gives a value with fewer hits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from urllib.parse import quote, urlencode

from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from tests.power import examples
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import run

NOW = 1_772_407_680  # 2026-03-01 23:28
LEAST = 4
K = link_subject("k")
TODAY = NOW - NOW % DAY_S
STARTS = [TODAY - 40 * DAY_S, TODAY - 9 * DAY_S, TODAY - 8 * DAY_S, TODAY, TODAY + HOUR_S, TODAY + 2 * HOUR_S]
EDGES = [*STARTS, TODAY + 3 * HOUR_S, TODAY + DAY_S]
HITS = st.lists(
    st.tuples(st.sampled_from(STARTS), st.sampled_from(["", *"abcde"]), st.integers(1, 9)), min_size=1, max_size=30
)


def questions(hits: list[tuple[int, str, int]], owners: int) -> tuple[BreakdownQueries, ChangeQueries]:
    """The questions of a page that names no value with fewer than LEAST hits."""
    nodes = AttributeNodes(NOW, {"ref": 0}, owners)
    for n, (t, value, count) in enumerate(hits):
        nodes.accept(AttributeHit("k", t, count, said=(("ref", value),)), 1 + n % owners)
    for owner in nodes.owners[1:]:
        owner.flush(NOW)
    mine = nodes.owners[0]
    reader = BreakdownReader(
        nodes.store.rows, mine.pending, mine.pending_breakdowns, nodes.store.ladder, nodes.bounded, least=LEAST
    )
    asked = BreakdownQueries(reader, ("ref",), nodes.since.__getitem__, lambda: NOW)
    return asked, ChangeQueries(nodes.queries, asked)


def spans() -> Iterator[tuple[int, int]]:
    return combinations(EDGES, 2)


@given(HITS, st.integers(1, 2))
@settings(max_examples=examples(60))
def test_every_difference_of_two_answers_is_none_or_enough(hits: list[tuple[int, str, int]], owners: int) -> None:
    asked, changes = questions(hits, owners)
    shown: dict[str, dict[tuple[int, int], int]] = {}
    for start, end in spans():
        query = urlencode({"from": start, "to": end})
        answer = run(asked.by(K, "ref", f"{query}&limit=1000".encode()))
        true = nodes_values(hits, answer.start or 0, answer.end or 0)
        assert answer.total == sum(true.values())
        assert sum(each.at_least for each in answer.values) + answer.other == answer.total
        for each in answer.values:
            assert each.at_least <= true.get(each.value, 0) <= each.at_most
            if each.value:
                assert each.at_least >= LEAST
                shown.setdefault(each.value, {})[answer.start or 0, answer.end or 0] = each.at_least
        why = run(changes.why(K, f"{query}&before_from={EDGES[0] - DAY_S}&before_to={start}&limit=100".encode()))
        for cause in why.dimensions[0].causes:
            if cause.value:
                assert all(count == 0 or count >= LEAST for count in (cause.before, cause.after))
    asked_spans = {span for of_value in shown.values() for span in of_value}
    for of_value in shown.values():
        for one, other in combinations(asked_spans, 2):
            if one[0] == other[0] or one[1] == other[1]:  # one is a part of the other
                difference = abs(of_value.get(one, 0) - of_value.get(other, 0))
                assert difference == 0 or difference >= LEAST
    for value in "abcde":
        curve = run(asked.curve(K, "ref", f"from={EDGES[0]}&to={EDGES[-1]}&step=native&value={quote(value)}".encode()))
        for point in curve.points:
            true_count = nodes_values(hits, point.start, point.end).get(value, 0)
            assert point.at_least == 0 or point.at_least >= LEAST
            assert point.at_least <= true_count <= point.at_most


def nodes_values(hits: list[tuple[int, str, int]], start: int, end: int) -> dict[str, int]:
    """What hits of a span truly said."""
    found: dict[str, int] = {}
    for t, value, count in hits:
        if start <= t < end:
            found[value] = found.get(value, 0) + count
    return found
