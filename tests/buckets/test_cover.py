from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.cover import Run, cover
from clickcurve.buckets.errors import LadderInvalid
from tests.buckets.given import at, law

LIMITER = (1, 60, 3_600)


def size(runs: list[Run]) -> int:
    return sum(run.count for run in runs)


def test_a_days_window_at_23_30_33() -> None:
    end = at("2024-03-15T23:30:33") + 1  # the current second is part of it
    runs = cover(end - 86_400, end, LIMITER)
    assert [(run.count, run.width_s) for run in runs] == [(26, 1), (29, 60), (23, 3_600), (30, 60), (34, 1)]
    assert size(runs) == 142


def test_over_a_day_the_size_is_only_ever_24_or_83_or_142() -> None:
    midnight = at("2024-02-29")
    sizes = Counter(size(cover(now + 1 - 86_400, now + 1, LIMITER)) for now in range(midnight, midnight + 86_400))
    assert sizes == {24: 24, 83: 24 * 59, 142: 24 * 60 * 59}


def test_an_empty_span_needs_no_bucket() -> None:
    assert cover(120, 120, LIMITER) == []
    assert cover(120, 60, LIMITER) == []


def test_a_span_inside_one_bucket_uses_the_finer_width() -> None:
    assert cover(3_601, 3_659, LIMITER) == [Run(1, 3_601, 58)]
    assert cover(3_590, 3_610, LIMITER) == [Run(1, 3_590, 20)]


def test_a_span_off_the_finest_edges_has_no_cover() -> None:
    with pytest.raises(ValueError, match=r"\[30, 120\) does not begin and end on edges of 60 s"):
        cover(30, 120, (60, 3_600))


@pytest.mark.parametrize("widths", [(), (0, 60), (60, 60), (60, 90), (3_600, 60)])
def test_widths_must_nest(widths: tuple[int, ...]) -> None:
    with pytest.raises(LadderInvalid):
        cover(0, 3_600, widths)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """A span, small enough to be tiled by brute force, and widths that nest."""
    widths = [draw(st.integers(1, 4))]
    for factor in draw(st.lists(st.integers(2, 5), max_size=3)):
        widths.append(widths[-1] * factor)
    start, length = draw(st.integers(-200, 200)), draw(st.integers(0, 150))
    return start * widths[0], (start + length) * widths[0], widths


@law
@given(spans())
def test_the_runs_tile_the_span(span: tuple[int, int, list[int]]) -> None:
    start, end, widths = span
    at_ = start
    for run in cover(start, end, widths):
        assert run.start == at_
        assert run.count > 0
        assert run.width_s in widths
        assert run.start % run.width_s == 0
        at_ = run.end
    assert at_ == end


@law
@given(spans())
def test_no_tiling_has_fewer_buckets(span: tuple[int, int, list[int]]) -> None:
    start, end, widths = span
    fewest = {start: 0}  # by dynamic programming: fewest buckets that tile [start, t)
    for t in range(start, end, widths[0]):
        for width in widths:
            if t % width == 0 and t + width <= end:
                fewest[t + width] = min(fewest.get(t + width, 1 << 30), fewest[t] + 1)
    assert size(cover(start, end, widths)) == fewest[end]


@law
@given(spans())
def test_neighbouring_runs_differ_in_width(span: tuple[int, int, list[int]]) -> None:
    runs = cover(*span)
    assert all(left.width_s != right.width_s for left, right in pairwise(runs))
