"""When an alert would have fired: never against the raw hits, and known wherever minutes are kept."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.ranges import Span
from clickcurve.keys import link_subject
from server.alerts.condition import Counted, Hindsight, is_met
from server.settings.alerts import parse_condition
from tests.query.queried_nodes import QueriedNodes

NOW = 1_772_407_710
MINUTE, HOUR, DAY = 60, 3_600, 86_400
END = NOW - NOW % MINUTE + MINUTE

conditions = st.sampled_from(
    ["over 3 in 1h", "over 0 in 5m", "under 2 in 2d", "silent for 6h", "silent for 3w", "2x of before in 1d"]
)
ages = st.one_of(st.integers(0, 2 * DAY), st.integers(0, 60 * DAY), st.integers(0, 500 * DAY))
histories = st.lists(st.tuples(ages, st.integers(1, 5)), max_size=25)


def hindsight_of(nodes: QueriedNodes, when: str, since: int) -> Hindsight:
    """Judges a condition on the curve that a server answers, as the command does."""
    condition = parse_condition(when)
    start = max(0, since - 2 * condition.length_s)
    asked = f"from={start}&to={END}&step=native".encode()
    curve = asyncio.run(nodes.queries.curve(link_subject("k"), asked))
    assert isinstance(curve, CurveAnswer)
    return Hindsight(condition, curve.points, curve.first_hit)


def in_truth(nodes: QueriedNodes, when: str, end: int) -> bool | None:
    """Judges a condition on the raw hits, at the end of a minute."""
    condition = parse_condition(when)
    edges = [(end - n * condition.length_s, end - (n - 1) * condition.length_s) for n in (1, 2)]
    last, before = (Span(count, count, count) for count in (nodes.counted("k", *edge) for edge in edges))
    first_hit = min((hit.t - hit.t % MINUTE for hit in nodes.hits), default=None)
    return is_met(condition, Counted(last, before, first_hit), end - 1)


@settings(max_examples=60, deadline=None)
@given(histories, conditions, st.integers(1, 400), st.lists(st.integers(1, 400 * DAY // MINUTE), max_size=20))
def test_what_is_said_is_true_of_the_raw_hits(
    history: list[tuple[int, int]], when: str, days: int, moments: list[int]
) -> None:
    nodes = QueriedNodes(now=NOW)
    for age, count in sorted(history, reverse=True):
        nodes.hit("k", NOW - age, count)
    nodes.flush()
    since = END - days * DAY
    hindsight = hindsight_of(nodes, when, since)
    periods = list(hindsight.periods(since, END))
    assert [periods[0].start, *(period.end for period in periods)] == [*(period.start for period in periods), END]
    assert all(one.met is not other.met for one, other in pairwise(periods))
    length_s = parse_condition(when).length_s
    tried = {END - minutes * MINUTE for minutes in moments}
    tried |= {NOW - age + spans * length_s for age, _ in history for spans in range(3)}
    tried |= {edge + more for period in periods for edge in (period.start, period.end) for more in (0, MINUTE)}
    tried |= {at + more for at in tried for more in (-MINUTE, MINUTE)}
    for end in (each - each % MINUTE for each in tried):
        if since < end <= END:
            (met,) = [period.met for period in periods if period.start < end <= period.end]
            assert met is hindsight.met_at(end)
            assert met in (None, in_truth(nodes, when, end)), (end, periods)


@settings(max_examples=40, deadline=None)
@given(histories, st.sampled_from(["over 3 in 1h", "under 2 in 3h", "silent for 2h", "2x of before in 1h"]))
def test_all_is_known_while_minutes_are_kept(history: list[tuple[int, int]], when: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for age, count in history:
        nodes.hit("k", NOW - age, count)
    since = END - 12 * HOUR  # of 23 hours that are kept by the minute
    for period in hindsight_of(nodes, when, since).periods(since, END):
        assert period.met is not None
        assert period.met is in_truth(nodes, when, period.end)


def test_a_bucket_that_is_too_wide_is_said_and_a_week_without_hits_is_known() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 60 * DAY, 100)  # kept by the day
    nodes.hit("k", NOW - HOUR, 100)
    since = END - 90 * DAY
    found = list(hindsight_of(nodes, "over 50 in 1h", since).periods(since, END))
    assert [period.met for period in found] == [False, None, False, True, False]
    unknown, firing = found[1], found[3]
    assert unknown.start % DAY == 0 and unknown.end - unknown.start == DAY + HOUR - MINUTE
    assert (firing.start, firing.end) == (END - MINUTE - HOUR, END - MINUTE)
    assert not [
        period for period in hindsight_of(nodes, "over 50 in 3d", since).periods(since, END) if not period.start
    ]


@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 2, 5]), min_size=30, max_size=30),
    st.sampled_from(["over 3 in 4m", "under 2 in 5m", "silent for 3m", "2x of before in 5m", "0.5x of before in 4m"]),
)
def test_no_minute_is_left_out(counts: list[int], when: str) -> None:
    points = [PointAnswer(n * MINUTE, (n + 1) * MINUTE, count, "complete") for n, count in enumerate(counts)]
    first_hit = next((point.start for point in points if point.count), None)
    hindsight = Hindsight(parse_condition(when), points, first_hit)
    periods = list(hindsight.periods(10 * MINUTE, 30 * MINUTE))
    found = [period.met for period in periods for _ in range(period.start, period.end, MINUTE)]
    assert found == [hindsight.met_at(n * MINUTE) for n in range(11, 31)]


def test_a_link_is_judged_from_the_moment_on_at_which_it_is_as_old_as_the_span() -> None:
    points = [PointAnswer(n * MINUTE, (n + 1) * MINUTE, int(n == 10), "complete") for n in range(30)]
    (young, under) = Hindsight(parse_condition("under 2 in 5m"), points, 10 * MINUTE).periods(0, 30 * MINUTE)
    assert (young.met, under.met, under.start) == (False, True, 15 * MINUTE)
