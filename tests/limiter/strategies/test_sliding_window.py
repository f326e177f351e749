from __future__ import annotations

import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.limiter import sliding_window
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.meter import MemoryBudget
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import EDGES_S, Rule, parse_rules
from clickcurve.limiter.sliding_window import Counted, inside, leaving, weigh_rates, whole_s
from tests.limiter.strategies.oracle import SECOND_US, Log

MIDNIGHT = 1_709_164_800  # 2024-02-29


def rule(rates: str, edge: str = "second", side: str = "strict") -> Rule:
    return parse_rules({"a": {"by": "ip", "rates": rates, "edge": edge, "side": side}})[0]


DAY = rule("100/d")


def test_over_a_day_the_cover_of_a_days_window_is_24_or_83_or_142_buckets() -> None:
    sizes = Counter(
        sum(run.count for run in inside(DAY, DAY.reaches[0], second)) for second in range(MIDNIGHT, MIDNIGHT + 86_400)
    )
    assert sizes == {24: 24, 83: 24 * 59, 142: 24 * 60 * 59}


def test_a_days_window_at_23_30_33() -> None:
    runs = inside(DAY, DAY.reaches[0], MIDNIGHT + 84_633)
    assert [(run.count, run.width_s) for run in runs] == [(26, 1), (29, 60), (23, 3_600), (30, 60), (34, 1)]


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


def test_a_limit_that_was_lowered_below_what_counts_leaves_nothing_and_not_less() -> None:
    quota = weigh_rates(DAY, [Counted(130, 120, MIDNIGHT)], MIDNIGHT, MIDNIGHT * SECOND_US, 1, True)
    assert (quota.limit, quota.remaining, quota.at_least, quota.at_most) == (100, 0, 120, 130)


def test_times_of_a_rule_with_fine_buckets_are_rounded_up_to_whole_seconds() -> None:
    fine = rule("5/2s")
    assert fine.ticks_s > 1
    ticks = (0, 1, fine.ticks_s, fine.ticks_s + 1)
    assert [whole_s(fine, MIDNIGHT * fine.ticks_s + tick) - MIDNIGHT for tick in ticks] == [0, 1, 1, 2]


def drive(rule_: Rule, log: list[tuple[int, int]], at_us: int, cost: int, taking: bool) -> Quota:
    """The quota after the hits of a log."""
    series = Series(rule_, 0, MemoryBudget(sys.maxsize))
    for then_us, each in log:
        series.charge(rule_, then_us, each, "", False)
    return series.weigh(rule_, at_us, cost, taking)


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
    refused = drive(rule_, log, at_us, cost, True)
    if not refused.fits:
        assert refused.retry_after_s is not None
        passes_us = at_us + round(refused.retry_after_s * SECOND_US)
        assert drive(rule_, log, passes_us, cost, True).fits
        assert not drive(rule_, log, passes_us // rule_.tick_us * rule_.tick_us - 1, cost, True).fits


@given(logs(), st.sampled_from(["second", "minute", "hour"]), st.integers(0, 200_000 * SECOND_US))
def test_the_bound_holds_the_truth(log: list[tuple[int, int]], edge: str, later_us: int) -> None:
    rule_ = rule("90/d", edge, "lenient")
    truth = Log(SECOND_US, EDGES_S[edge] * SECOND_US)
    for each in log:
        truth.admit(*each)
    at_us = max([MIDNIGHT * SECOND_US + later_us, *(each for each, _ in log)])
    quota = drive(rule_, log, at_us, 1, False)
    assert quota.at_least <= truth.inside(at_us, 86_400) <= quota.at_most


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
