from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.limiter import sliding_window
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import EDGES_S, Rule, parse_rules
from clickcurve.limiter.sliding_window import (
    Bucket,
    buckets_of,
    buckets_read,
    buckets_written,
    inside,
    leaving,
    life_s,
    weigh_buckets,
)
from tests.limiter.strategies.oracle import SECOND_US, Log

MIDNIGHT = 1_709_164_800  # 2024-02-29


def rule(rates: str, edge: str = "second", side: str = "strict") -> Rule:
    return parse_rules({"a": {"by": "ip", "rates": rates, "edge": edge, "side": side}})[0]


DAY = rule("100/d")


def test_over_a_day_the_cover_of_a_days_window_is_24_or_83_or_142_buckets() -> None:
    sizes = Counter(
        len(buckets_of(inside(DAY, DAY.reaches[0], second))) for second in range(MIDNIGHT, MIDNIGHT + 86_400)
    )
    assert sizes == {24: 24, 83: 24 * 59, 142: 24 * 60 * 59}


def test_a_days_window_at_23_30_33() -> None:
    runs = inside(DAY, DAY.reaches[0], MIDNIGHT + 84_633)
    assert [(run.count, run.width_s) for run in runs] == [(26, 1), (29, 60), (23, 3_600), (30, 60), (34, 1)]


def test_a_decision_reads_the_cover_and_the_bucket_that_is_being_left() -> None:
    for second in range(MIDNIGHT, MIDNIGHT + 7_200, 7):
        wanted = buckets_read(DAY, second)
        assert len(wanted) == len(set(wanted)) in (25, 84, 143)
        assert (1, second - 86_400) in wanted


def test_rates_share_their_buckets() -> None:
    four = rule("2/s, 5/m, 10/h, 100/d")
    texts = ("2/s", "5/m", "10/h", "100/d")
    alone = [len(buckets_read(each, (MIDNIGHT + 84_633) * each.ticks_s)) for each in map(rule, texts)]
    assert len(buckets_read(four, (MIDNIGHT + 84_633) * four.ticks_s)) < sum(alone)
    assert len(buckets_written(four, MIDNIGHT)) == len(buckets_written(DAY, MIDNIGHT)) + 1 == 4


def test_a_short_window_reads_few_buckets_more() -> None:
    four = rule("2/s, 5/m, 10/h, 100/d")
    ticks = range(MIDNIGHT * 20, (MIDNIGHT + 7_200) * 20, 61)
    assert max(len(buckets_read(four, tick)) for tick in ticks) <= 322 + 21
    assert max(len(buckets_read(rule("9/s"), tick)) for tick in ticks) == 21


@pytest.mark.parametrize(("edge", "most"), [("second", 87_864), ("minute", 1_524), ("hour", 24 + 60 + 60)])
def test_a_wide_edge_needs_few_buckets(edge: str, most: int) -> None:
    rule_ = rule("100/d", edge)
    kept = sum(86_400 // width_s for width_s in rule_.widths)
    assert kept <= most
    assert max(len(buckets_read(rule_, MIDNIGHT + second)) for second in range(0, 86_400, 97)) <= kept + 1


@given(st.sampled_from(sorted(EDGES_S)), st.integers(1, 24), st.integers(MIDNIGHT, MIDNIGHT + 200_000))
def test_the_window_and_the_bucket_being_left_hold_the_true_window(edge: str, many: int, second: int) -> None:
    edge_s = EDGES_S[edge]
    rule_ = rule(f"5/{many * edge_s}s", edge)
    reach, window_s = rule_.reaches[0], many * edge_s
    second, edge_s, window_s = (each * rule_.ticks_s for each in (second, edge_s, window_s))
    edge_s = reach.edge
    runs = inside(rule_, reach, second)
    left = leaving(rule_, reach, second)
    assert left <= second - window_s < left + edge_s == runs[0].start
    assert runs[-1].end - edge_s <= second < runs[-1].end
    assert sum(run.count * run.width_s for run in runs) == window_s


@given(st.integers(0, 90_000), st.integers(1, 86_400))
def test_no_bucket_is_forgotten_while_it_is_read(age_s: int, window_s: int) -> None:
    """Whatever cover reads a bucket, its life from its own first second reaches to there."""
    rule_ = rule(f"5/{window_s}s")
    tick = (MIDNIGHT + age_s) * rule_.ticks_s
    for width, start in buckets_read(rule_, tick):
        assert tick - start < life_s(rule_, width) * rule_.ticks_s


def drive(rule_: Rule, log: list[tuple[int, int]], at_us: int, cost: int, taking: bool) -> tuple[Quota, int]:
    """The quota by buckets that are counted from a log, and the rounds of reading that it took."""
    counts: Counter[Bucket] = Counter()
    for then_us, each in log:
        for bucket in buckets_written(rule_, then_us // rule_.tick_us):
            counts[bucket] += each
    latest = max((then_us for then_us, _ in log), default=0) // rule_.tick_us
    tick = max(at_us // rule_.tick_us, latest)
    weighing = weigh_buckets(rule_, tick, latest, at_us, cost, taking)
    wanted, rounds = next(weighing), 1
    while True:
        try:
            wanted = weighing.send({bucket: counts[bucket] for bucket in wanted})
            rounds += 1
        except StopIteration as ended:
            return ended.value, rounds


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, int]]:
    times = draw(st.lists(st.integers(0, 100_000 * SECOND_US), max_size=30))
    return [(MIDNIGHT * SECOND_US + each, draw(st.integers(1, 3))) for each in sorted(times)]


@given(
    logs(),
    st.sampled_from(["7/s, 9/m, 15/h, 20/d", "10/d", "10/h", "10/90m", "12/7s"]),
    st.sampled_from(["strict", "lenient"]),
    st.integers(1, 4),
    st.integers(0, 100_000 * SECOND_US),
)
def test_a_refused_hit_fits_when_the_wait_is_over_and_no_bucket_earlier(
    log: list[tuple[int, int]], rates: str, side: str, cost: int, later_us: int
) -> None:
    rule_ = rule(rates, side=side)
    at_us = max([MIDNIGHT * SECOND_US + later_us, *(each for each, _ in log)])
    refused, rounds = drive(rule_, log, at_us, cost, True)
    assert rounds <= 1 + 3 * len(rule_.rates)
    if not refused.fits:
        assert refused.retry_after_s is not None
        passes_us = at_us + round(refused.retry_after_s * SECOND_US)
        assert drive(rule_, log, passes_us, cost, True)[0].fits
        assert not drive(rule_, log, passes_us // rule_.tick_us * rule_.tick_us - 1, cost, True)[0].fits


@given(logs(), st.sampled_from(["second", "minute", "hour"]), st.integers(0, 200_000 * SECOND_US))
def test_the_bound_holds_the_truth(log: list[tuple[int, int]], edge: str, later_us: int) -> None:
    rule_ = rule("90/d", edge, "lenient")
    truth = Log()
    for each in log:
        truth.admit(*each)
    at_us = max([MIDNIGHT * SECOND_US + later_us, *(each for each, _ in log)])
    quota, _ = drive(rule_, log, at_us, 1, False)
    assert quota.at_least <= truth.inside(at_us, 86_400) <= quota.at_most


def test_a_cost_above_the_limit_never_fits_and_reads_no_further() -> None:
    quota, rounds = drive(DAY, [], MIDNIGHT * SECOND_US, 101, True)
    assert (quota.fits, quota.retry_after_s, rounds) == (False, None, 1)


def test_pieces_are_the_cover_with_its_sums() -> None:
    second = MIDNIGHT + 84_633
    shown = sliding_window.pieces(DAY, DAY.reaches[0], second, lambda run: run.count)
    assert [(piece.buckets, piece.width_s) for piece in shown] == [
        (1, 1),
        (26, 1),
        (29, 60),
        (23, 3_600),
        (30, 60),
        (34, 1),
    ]
    assert sum(piece.buckets * piece.width_s for piece in shown) == 86_401
    lenient = rule("100/d", side="lenient")
    assert sliding_window.pieces(lenient, lenient.reaches[0], second, lambda run: run.count) == shown[1:]
