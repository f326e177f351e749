"""Several curves in one picture: lines that people tell apart, also those who see fewer colours."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.answers.counts import CurveAnswer, PointAnswer
from dashboard.pictures.lines_picture import MOST_LINES, TONES, draw_lines, line_styles
from dashboard.pictures.shapes import Label, Trace

Tone = tuple[float, float, float]
PAPERS = {"light": "#ffffff", "dark": "#171b20"}
# How linear RGB looks to people who lack a kind of cone: Machado, Oliveira and Fernandes 2009, at full severity.
SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def linear(tone: str) -> Tone:
    parts = (int(tone[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return red, green, blue


def luminance(tone: str) -> float:
    red, green, blue = linear(tone)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lab(tone: str, sight: str) -> Tone:
    """A tone in CIELAB, as somebody sees it."""
    seen = [sum(a * b for a, b in zip(row, linear(tone), strict=True)) for row in SIGHTS[sight]]
    red, green, blue = (min(1.0, max(0.0, each)) for each in seen)
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    x, y, z = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", TONES)
@pytest.mark.parametrize("sight", SIGHTS)
def test_lines_are_told_apart_by_everybody(theme: str, sight: str) -> None:
    tones = [lab(tone, sight) for tone in TONES[theme]]
    assert len(tones) == MOST_LINES
    assert min(math.dist(one, other) for one, other in combinations(tones, 2)) >= 25


@pytest.mark.parametrize("theme", TONES)
def test_lines_and_their_numbers_stand_out_from_the_page(theme: str) -> None:
    paper = luminance(PAPERS[theme])
    for tone in TONES[theme]:
        dark, bright = sorted((luminance(tone), paper))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5
    styles = line_styles(theme)
    dashes = [part.partition("}")[0].partition("stroke-dasharray:")[2] for part in styles.split(".line-")[1:]]
    assert len(set(dashes)) == MOST_LINES, "no two lines are dashed alike"


def curve(counts: list[int], first_hit: int | None = 0) -> CurveAnswer:
    points = [PointAnswer(n * 86_400, (n + 1) * 86_400, count, "complete") for n, count in enumerate(counts)]
    end = len(counts) * 86_400
    return CurveAnswer(
        "k", 0, end, "1d", "UTC", first_hit, sum(counts), sum(counts), sum(counts), exact=True, points=points
    )


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 10**6), min_size=n, max_size=n), min_size=1, max_size=6)
    )
)
def test_each_line_ends_with_its_number_and_no_two_numbers_stand_in_each_other(counts: list[list[int]]) -> None:
    picture = draw_lines(list(map(curve, counts)), 1_200, 230, "lines")
    traces = [shape for shape in picture.shapes if isinstance(shape, Trace)]
    numbers = {
        shape.text: shape.y
        for shape in picture.shapes
        if isinstance(shape, Label) and shape.x == 1 and shape.part.startswith("end-")
    }
    assert [trace.part for trace in traces] == [f"line-{n}" for n in range(1, len(counts) + 1)]
    assert set(numbers) == {str(n) for n in range(1, len(counts) + 1)}
    heights = sorted(numbers.values())
    assert all(low - high >= 13 for high, low in pairwise(heights))
    assert heights[-1] <= 230 - 22 + 4 and heights[0] >= 18 - 13, "inside the picture"
    for trace in traces:
        assert [trace.places[0][0], trace.places[-1][0]] == [0, 1], "from one end of the plot to the other"
        assert all(18 - 1e-6 <= y <= 208 + 1e-6 for _, y in trace.places)


def test_one_scale_is_for_all() -> None:
    few, many = (
        trace for trace in draw_lines([curve([10]), curve([1_000])], 1_200, 230, "").shapes if isinstance(trace, Trace)
    )
    assert few.places[0][1] > 200 and many.places[0][1] == 18
