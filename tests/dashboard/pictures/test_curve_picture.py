"""What a picture of a curve shows: heights are counts per time, and nothing uncertain looks certain."""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image

from clickcurve.answers.counts import CurveAnswer, NoteAnswer, PointAnswer, PointState
from clickcurve.keys import link_subject
from dashboard.pictures.axes import round_steps, short, time_marks, with_commas
from dashboard.pictures.curve_picture import bars_of, draw_curve, draw_spark, legend_of, step_words
from dashboard.pictures.png import png_file
from dashboard.pictures.shapes import DARK, LIGHT, Box, Label, Picture, Trace
from dashboard.pictures.svg import svg_file, svg_inline
from tests.query.queried_nodes import QueriedNodes, run

NOW = int(datetime(2026, 3, 1, 23, 28, tzinfo=UTC).timestamp())
DAY_S = 86_400
SVG = "{http://www.w3.org/2000/svg}"


def point(start: int, end: int, count: int, state: PointState = "complete") -> PointAnswer:
    return PointAnswer(start, end, count, state)


def curve(points: list[PointAnswer], step: str = "1d", key: str | None = "k", first: int | None = 0) -> CurveAnswer:
    total = sum(point.count for point in points)
    start, end = (points[0].start, points[-1].end) if points else (0, 0)
    return CurveAnswer(key, start, end, step, "UTC", first, total, total, total, True, points)


def asked(nodes: QueriedNodes, query: str) -> CurveAnswer:
    return run(nodes.queries.curve(link_subject("k"), query.encode()))


def boxes(picture: Picture, part: str) -> list[Box]:
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.part == part]


@pytest.fixture(scope="module")
def steady() -> QueriedNodes:
    """A link with ten hits at noon of every day of two years."""
    nodes = QueriedNodes(now=NOW)
    for day in range(730):
        nodes.hit("k", NOW - NOW % DAY_S + DAY_S // 2 - day * DAY_S, 10)
    nodes.fold()
    return nodes


def test_a_wide_bucket_is_no_peak(steady: QueriedNodes) -> None:
    """Ten hits every day are a level line, though older days are kept as weeks, and the oldest as months."""
    found = asked(steady, "last=400d&step=1d")
    assert any(point.wide for point in found.points) and max(point.count for point in found.points) >= 70
    rates = [bar.rate for bar in bars_of(found, 10_000)]
    assert all(9.9 <= rate <= 10.1 for rate in rates[1:-1])  # the outermost may hold days without hits
    heights = {round(box.bottom - box.top) for box in boxes(draw_curve(found, 8_000, 300), "bar")[1:]}
    assert len(heights) == 1
    assert "wide: kept as one sum, shown per day" in legend_of(found, bars_of(found, 400))


@pytest.mark.parametrize("step", ["1d", "1w", "1mo", "native", "1h"])
def test_points_that_share_a_bar_keep_their_sum(steady: QueriedNodes, step: str) -> None:
    found = asked(steady, f"last=24mo&step={step}")
    for most in (10_000, 50, 7):
        bars = bars_of(found, most)
        assert len(bars) <= most + 1
        assert (bars[0].start, bars[-1].end) == (found.points[0].start, found.points[-1].end)
        if step == "native":
            assert sum(bar.rate * (bar.end - bar.start) / 60 for bar in bars) == pytest.approx(found.total)
    assert sum(bar.rate for bar in bars_of(asked(steady, "last=7d&step=1d"), 100)) == 70


def test_a_month_of_any_length_is_one_month_high() -> None:
    starts = [int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) for month in (1, 2, 3, 4)]
    points = [point(start, end, 100) for start, end in pairwise(starts)]
    assert [bar.rate for bar in bars_of(curve(points, "1mo"), 100)] == [100, 100, 100]


def test_what_the_ends_of_a_range_leave_of_a_step_is_no_peak() -> None:
    """All time by week, looked at on a Monday two minutes past midnight: its two hits were 10,080 a week."""
    week = 7 * DAY_S
    points = [
        point(week - 60, week, 3),
        point(week, 2 * week, 70),
        point(2 * week, 2 * week + 120, 2, "open"),
    ]
    assert [bar.rate for bar in bars_of(curve(points, "1w"), 100_000)] == [3, 70, 2]
    assert [bar.rate for bar in bars_of(curve(points, "1w"), 2)] == [73 / 2, 2]


def test_what_is_cut_or_not_over_looks_so_and_is_explained() -> None:
    states: tuple[PointState, ...] = ("partial", "complete", "open", "open")
    points = [point(n * DAY_S, (n + 1) * DAY_S, 5 if n < 3 else 0, state) for n, state in enumerate(states)]
    picture = draw_curve(curve(points), 800, 300)
    assert [len(boxes(picture, part)) for part in ("partial", "bar", "open")] == [1, 1, 1]
    (ahead,) = boxes(picture, "ahead")
    assert (ahead.left, ahead.right) == (0.5, 1)
    texts = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert "dashed: still counting; pale: partly outside the range" in texts


def test_before_the_first_hit_the_ground_differs() -> None:
    points = [point(n * DAY_S, (n + 1) * DAY_S, n // 2) for n in range(4)]
    assert [box.right for box in boxes(draw_curve(curve(points, first=2 * DAY_S), 800, 300), "early")] == [0.5]
    assert [box.right for box in boxes(draw_curve(curve(points, first=None), 800, 300), "early")] == [1]
    assert boxes(draw_curve(curve(points, first=0), 800, 300), "early") == []


def test_two_curves_that_are_compared_have_one_scale() -> None:
    much, little = (curve([point(0, DAY_S, count)]) for count in (900, 90))
    ((alone,), (beside,)) = (boxes(draw_curve(little, 400, 200, beside=each), "bar") for each in (None, much))
    assert beside.bottom - beside.top < (alone.bottom - alone.top) / 8


def test_one_hit_among_a_million_is_seen() -> None:
    points = [point(0, DAY_S, 1_000_000), point(DAY_S, 2 * DAY_S, 1), point(2 * DAY_S, 3 * DAY_S, 0)]
    assert [box.bottom - box.top >= 1 for box in boxes(draw_curve(curve(points), 800, 300), "bar")] == [True, True]


@pytest.mark.parametrize("size", [(100, 50), (100, 2_000), (4_000, 50), (300, 100)])
def test_every_size_and_every_curve_can_be_drawn(size: tuple[int, int]) -> None:
    points = [point(n * 60, (n + 1) * 60, n % 7) for n in range(10_000)]
    for each in (curve(points, "1m"), curve(points[:1], "1m"), curve([], first=None), curve(points[:7], "5m")):
        picture = draw_curve(each, *size)
        ElementTree.fromstring(svg_file(picture, "auto"))
        assert all(0 <= x <= 1 for box in boxes(picture, "bar") for x in (box.left, box.right))
        assert all(0 <= y <= size[1] for box in boxes(picture, "bar") for y in (box.top, box.bottom))
        assert len(boxes(picture, "bar")) <= size[0] // 2 + 1


HOSTILE = [
    "</svg><script>alert(1)</script>",
    '" onload="alert(1)',
    "a\x00b\x1b[2J",
    "\ud7ff\ufffe",
    "\u202ex",
    "&amp;",
    "ü漢",
]


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_stays_text(key: str) -> None:
    """Whatever a stranger calls a link, the file is well-formed and holds one element of each text."""
    picture = draw_curve(curve([point(0, 60, 1)], "1m", key), 800, 300)
    for written in (svg_file(picture, "auto"), svg_file(draw_curve(curve([], key=key), 100, 50), "dark")):
        tree = ElementTree.fromstring(written)
        tags = {element.tag.removeprefix(SVG) for element in tree.iter()}
        assert tags <= {"svg", "title", "style", "g", "rect", "text"}
        assert not any(name.startswith("on") for element in tree.iter() for name in element.attrib)
    assert "<script" not in svg_inline(picture, "curve")
    assert png_file(picture, "light").startswith(b"\x89PNG")


def test_a_page_gets_places_in_parts_of_its_width_and_no_style() -> None:
    picture = draw_curve(curve([point(0, 60, 1), point(60, 120, 2)], "1m"), 800, 300, titled=False)
    written = svg_inline(picture, "curve")
    assert 'x="25%"' in written and "style" not in written
    assert '<path class="bar" d="M0 278H17V' in written and 'viewBox="0 0 3200 278"' in written, "bars are one path"
    alone = draw_curve(curve([point(0, 60, 1), point(60, 120, 2, "open")], "1m"), 800, 300, titled=False)
    assert "viewBox" not in svg_inline(alone, "curve"), "and with an edge, or alone, elements"
    spark = svg_inline(draw_spark(curve([point(0, 60, 1)], "1m"), 100, 24), "spark")
    assert "aria-hidden=true" in spark and "<text" not in spark


def test_pixels_are_those_of_the_shapes() -> None:
    """Two bars, the second half as high: the colours stand where the shapes are, at both scales and in both themes."""
    points = [point(0, DAY_S, 10), point(DAY_S, 2 * DAY_S, 5)]
    picture = draw_curve(curve(points), 400, 200)
    for theme, looks in (("light", LIGHT), ("dark", DARK)):
        for scale in (1, 3):
            image = Image.open(BytesIO(png_file(picture, theme, scale))).convert("RGB")
            assert image.size == (400 * scale, 200 * scale)
            blue = tuple(bytes.fromhex(looks["bar"].fill[1:]))
            for box in boxes(picture, "bar"):
                middle = round((box.left + box.right) / 2 * image.width)
                column = [image.getpixel((middle, y)) == blue for y in range(image.height)]
                assert abs(sum(column) - (box.bottom - box.top) * scale) <= 2 * scale


def test_letters_that_the_font_lacks_stand_as_in_an_address() -> None:
    drawn = [png_file(draw_curve(curve([], key=key), 300, 120), "light") for key in ("ü", "%C3%BC", "ä")]
    assert drawn[0] == drawn[1] != drawn[2]


# --- axes -----------------------------------------------------------------------------------------------------------
@given(st.floats(0.001, 1e15), st.integers(1, 12))
def test_marks_reach_the_highest_bar_and_no_further_than_needed(highest: float, most: int) -> None:
    marks = round_steps(highest, most, False)
    assert marks[-1] >= highest * (1 - 1e-6)
    assert len(marks) <= most
    assert len(marks) == 1 or marks[-2] < highest


def test_marks_of_whole_counts_are_whole() -> None:
    assert round_steps(2, 6, True) == [1, 2]
    assert round_steps(137, 6, True) == [50, 100, 150]
    assert round_steps(0, 6, True) == [1]


@given(st.integers(0, 10**17))
def test_a_short_count_never_says_more_than_it_is(count: int) -> None:
    text = short(count)
    size = {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15}.get(text[-1], 0)
    value = float(text.rstrip("kMGTP").replace(",", "")) * 10**size
    assert value <= count * (1 + 1e-9)
    assert value >= count * 0.9 - 1e-6
    assert len(text) <= 5


def test_counts_are_written_for_people() -> None:
    assert [with_commas(n) for n in (0, 999, 1_234_567, 0.2, 0.05)] == ["0", "999", "1,234,567", "0.2", "0.05"]
    assert [short(n) for n in (999, 1_000, 1_250, 12_345, 999_999, 5_600_000)] == [
        "999",
        "1k",
        "1.2k",
        "12k",
        "999k",
        "5.6M",
    ]


ZONES = ("UTC", "Europe/Vienna", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia")


@given(st.integers(0, 253_402_300_799), st.integers(60, 40 * 366 * DAY_S), st.sampled_from(ZONES), st.integers(1, 40))
def test_times_are_inside_and_ascend_and_are_few(start: int, length_s: int, name: str, most: int) -> None:
    marks = list(time_marks(start, start + length_s, ZoneInfo(name), most))
    times = [t for t, _ in marks]
    assert all(start <= t <= start + length_s for t in times)
    assert times == sorted(set(times))
    assert len(marks) <= most * 2 + 2


def test_days_begin_at_midnight_of_the_zone_also_where_a_clock_changes() -> None:
    zone = ZoneInfo("Europe/Vienna")
    start = int(datetime(2026, 3, 28, tzinfo=zone).timestamp())  # the night of 29 March has 23 hours of day
    marks = list(time_marks(start, start + 3 * DAY_S, zone, 4))
    assert [text for _, text in marks] == ["28 Mar", "29 Mar", "30 Mar", "31 Mar"]
    assert {datetime.fromtimestamp(t, zone).hour for t, _ in marks} == {0}


def test_a_step_is_said_in_words() -> None:
    points = [point(0, 3_600, 1)]
    said = [step_words(curve(points, step)) for step in ("1m", "15m", "1h", "1d", "3mo", "1y", "native")]
    assert said == ["per minute", "per 15 minutes", "per hour", "per day", "per 3 months", "per year", "per hour"]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "UTC"])
def test_a_month_of_a_zone_is_named_under_its_own_bar(steady: QueriedNodes, zone: str) -> None:
    """Of old months bars begin with the months of UTC, hours before or after those of the zone."""
    found = asked(steady, f"from=2025-03-15&to=2025-11-15&step=1mo&tz={zone}")
    picture = draw_curve(found, 1_200, 300)
    named = {shape.text: shape.x for shape in picture.shapes if isinstance(shape, Label)}
    bars = [(box.left + box.right) / 2 for box in boxes(picture, "bar")]
    assert [named["Jun"], named["Sep"]] == pytest.approx([bars[2], bars[5]], abs=0.01)


def note(at: int, text: str) -> NoteAnswer:
    return NoteAnswer(str(at), at, "note", text)


def test_notes_are_upright_lines_with_numbers_and_are_explained() -> None:
    points = [point(day * DAY_S, (day + 1) * DAY_S, 5) for day in range(10)]
    noted = replace(
        curve(points), notes=[note(0, "first"), note(5 * DAY_S, "se<cond"), note(5 * DAY_S + 60, "third\n")]
    )
    picture = draw_curve(noted, 844, 300)
    marks = boxes(picture, "note")
    assert [round(mark.left, 3) for mark in marks] == [0, 0.5, 0.5]
    assert all(0 < (mark.right - mark.left) * 800 <= 2 for mark in marks)
    labels = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert {"1", "2-3", "1: first; 2: se<cond; 3: third\\n"} <= set(labels)
    assert ElementTree.fromstring(svg_file(picture, "auto")).findall(f".//{SVG}rect[@class='note']")
    assert png_file(picture, "dark") != png_file(draw_curve(curve(points), 844, 300), "dark")
    assert boxes(draw_curve(replace(noted, notes=[]), 844, 300), "note") == []


def test_a_comparison_is_a_dashed_line_that_is_explained(steady: QueriedNodes) -> None:
    picture = draw_curve(asked(steady, "last=28d&step=1d&compare=before"), 844, 300)
    (trace,) = [shape for shape in picture.shapes if isinstance(shape, Trace)]
    assert len(trace.places) == 28 and len({round(y) for _, y in trace.places[:-1]}) == 1
    assert any("dashed line: " in shape.text for shape in picture.shapes if isinstance(shape, Label))


# --- weekends ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("step", "width_s", "n", "weekends"),
    [("1d", 86_400, 30, 4), ("1h", 3_600, 24 * 7, 1), ("1w", 7 * 86_400, 10, 0), ("5m", 300, 288, 0)],
)
def test_weekends_are_shaded_where_bars_are_no_longer_than_a_day(
    step: str, width_s: int, n: int, weekends: int
) -> None:
    monday = 1_769_990_400  # 2 February 2026
    points = [point(monday + k * width_s, monday + (k + 1) * width_s, 1) for k in range(n)]
    picture = draw_curve(curve(points, step), 800, 300)
    shaded = [shape for shape in picture.shapes if isinstance(shape, Box) and shape.part == "weekend"]
    assert len(shaded) == weekends
    day = 86_400 / (n * width_s)
    assert [(round(box.left / day), round((box.right - box.left) / day)) for box in shaded] == [
        (5 + 7 * week, 2) for week in range(weekends)
    ]
