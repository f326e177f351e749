"""A curve as a picture: bars whose height is a count per time, never a count of whatever width is kept.

So a week that is kept whole is as high as its days were on average, and no bucket looks like a peak because it is long.
Points that are cut by the range, or have not ended, look different from those that are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from zoneinfo import ZoneInfo

from msgspec import UNSET
from msgspec.structs import replace

from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.times import parse_length
from clickcurve.visible import shortened, visible
from dashboard.pictures.axes import count_words, end_of_day, is_midnight, range_words, wall, with_commas
from dashboard.pictures.note_marks import note_marks, notes_text
from dashboard.pictures.plot_frame import Bar, Frame, scale_labels, scale_of, shades, time_labels, weekends
from dashboard.pictures.shapes import Box, Label, Line, Picture, Shape, Trace

HIT = "hit"  # what a curve counts, if nothing else is said
GUTTER = 44  # pixels left of the plot, for counts
_HEAD, _FOOT, _LEGEND = 46, 22, 20  # pixels above the plot, below it, and for a line that explains the bars
_COLUMN = 2  # pixels of the narrowest bar; points that are narrower share one
_GAP_FROM = 4  # pixels of a bar from which there is a gap to the next
_GAP_PART, _GAP_MOST = 0.18, 8  # the gap: this part of a bar's place, and at most so many pixels
_TEXT_PX, _TITLE_PX = 6.6, 9.0  # of a letter, about
_MOST_PLACES = 120  # of a line over the bars
_HEADROOM = 18  # pixels above the highest line, for its label

# The seconds of the shortest step and the longest: a point of such a length is one step high.
_STEPS: Mapping[str, tuple[int, int]] = {
    "1d": (22 * HOUR_S, 26 * HOUR_S),
    "1w": (7 * DAY_S - 2 * HOUR_S, 7 * DAY_S + 2 * HOUR_S),
    "1mo": (28 * DAY_S - 2 * HOUR_S, 31 * DAY_S + 2 * HOUR_S),
    "3mo": (89 * DAY_S, 93 * DAY_S),
    "1y": (364 * DAY_S, 367 * DAY_S),
}
_UNITS = {"m": ("minute", 60), "h": ("hour", HOUR_S), "d": ("day", DAY_S), "w": ("week", 7 * DAY_S)}
_UNITS |= {"mo": ("month", 2_629_746), "y": ("year", 31_556_952)}


class Unit(Protocol):
    """How amounts are written, which are integers of the smallest unit: so many decimals of a larger one."""

    @property
    def decimals(self) -> int: ...

    def shown(self, amount: int) -> str:
        """Returns an amount as people read it: `1,234.50 EUR`."""
        ...


def draw_curve(
    curve: CurveAnswer,
    width: int,
    height: int,
    titled: bool = True,
    noun: str = HIT,
    beside: CurveAnswer | None = None,
    earlier: CurveAnswer | None = None,
    unit: Unit | None = None,
) -> Picture:
    """Draws a curve. titled: with the link's name, its total and its range above; noun: what is counted.

    unit: how it is written, if the curve is of amounts, those of what the noun says.

    beside: a curve of the same range whose bars are to be compared, so both have one scale. earlier: one of another
    range, which is a dashed line over the bars from their beginning on; without it, that of the range before, if the
    curve was asked for with a comparison. Notes of the curve are upright lines.
    """
    sentence = curve_sentence(curve, noun, unit)
    shapes: list[Shape] = []
    bars = bars_of(curve, (width - GUTTER) // _COLUMN)
    earlier = earlier or _curve_before(curve)
    legend = "; ".join(filter(None, (legend_of(curve, bars), _words_of_before(curve), _words_of_notes(curve))))
    legend = legend if titled else ""
    top = (_HEAD if titled and height > 2 * _HEAD else 0) + _HEADROOM
    bottom = height - _FOOT - (_LEGEND if legend and height > 120 else 0)
    if titled and top > _HEADROOM:
        name = "all links" if curve.key is None else visible(curve.key)
        shapes.append(Label("title", 0, 20, _fitting(name, width, _TITLE_PX), shift=8 - GUTTER))
        shapes.append(Label("said", 0, 39, _fitting(sentence, width, _TEXT_PX), shift=8 - GUTTER))
    if curve.points and bottom - top >= 20:
        before = [] if earlier is None else bars_of(earlier, min(len(bars), _MOST_PLACES))
        scaled = [*bars, *before] if beside is None else [*bars, *bars_of(beside, (width - GUTTER) // _COLUMN)]
        one = 1 if unit is None else 10**unit.decimals
        shapes += _plot(curve, bars, scaled, before, top, bottom, width - GUTTER, one)
    if legend and bottom < height - _FOOT:
        shapes.append(Label("label", 0, height - 6, _fitting(legend, width, _TEXT_PX), shift=8 - GUTTER))
    name = "" if curve.key is None else f"{visible(curve.key)}: "
    return Picture(width, height, name + sentence, tuple(shapes), GUTTER)


def _curve_before(curve: CurveAnswer) -> CurveAnswer | None:
    """Returns the range before as a curve of its own, if a curve has one."""
    before = curve.before
    if before is UNSET:
        return None
    points = before.points
    return replace(curve, start=before.start, end=before.end, points=points, before=UNSET, notes=UNSET)


def _words_of_before(curve: CurveAnswer) -> str:
    if curve.before is UNSET:
        return ""
    return f"dashed line: {range_words(curve.before.start, curve.before.end, ZoneInfo(curve.tz))}"


def _words_of_notes(curve: CurveAnswer) -> str:
    return "" if curve.notes is UNSET else notes_text(curve.notes)


def _fitting(text: str, width: int, letter_px: float) -> str:
    """Returns the text, cut where the picture ends."""
    most = max(1, int((width - 16) / letter_px))
    return shortened(text, most)


def draw_spark(curve: CurveAnswer, width: int, height: int) -> Picture:
    """Draws the bars alone, for a line of a table."""
    bars = bars_of(curve, width // _COLUMN)
    highest = max((bar.rate for bar in bars), default=0) or 1
    boxes = _boxes(bars, Frame(curve, 1, height - 1, highest, width))
    return Picture(width, height, "", (Line("base", height - 0.5), *boxes))


def bars_of(curve: CurveAnswer, most: int) -> list[Bar]:
    """Returns the bars of a curve, about `most` at most; counts are kept: a bar of several points is their mean.

    What the range's ends leave of a step counts as one: by its length a hit in the first minute of a week would be
    10,080 hits a week, and all other bars flat beside it.
    """
    points = curve.points
    if not points:
        return []
    unit_s = step_s(curve)
    shortest_s = (points[-1].end - points[0].start) / max(1, most)
    bars: list[Bar] = []
    several: list[PointAnswer] = []
    for point in points:
        several.append(point)
        if point.end - several[0].start >= shortest_s * (1 - 1e-9):
            bars.append(_bar(several, curve, unit_s))
            several = []
    return [*bars, _bar(several, curve, unit_s)] if several else bars


def _bar(points: Sequence[PointAnswer], curve: CurveAnswer, unit_s: int) -> Bar:
    outermost = (curve.points[0], curve.points[-1])
    states = {point.state for point in points}
    state = next((state for state in ("open", "partial") if state in states), "complete")
    steps = 0.0
    for point in points:
        length = _steps(point.end - point.start, curve.step, unit_s)
        steps += 1.0 if length < 1 and point in outermost else length
    return Bar(points[0].start, points[-1].end, sum(point.count for point in points) / steps, state)


def _steps(width_s: int, step: str, unit_s: int) -> float:
    """Returns how many steps long a point is. A month is one, of whatever length."""
    shortest_s, longest_s = _STEPS.get(step, (unit_s, unit_s))
    return 1.0 if shortest_s <= width_s <= longest_s else width_s / unit_s


def step_s(curve: CurveAnswer) -> int:
    """Returns the seconds of a usual step of a curve; of `native` the length of its shortest point."""
    if curve.step == "native":
        return min((point.end - point.start for point in curve.points), default=60)
    number, (_, unit_s) = _length(curve.step)
    return number * unit_s


def step_words(curve: CurveAnswer) -> str:
    """Says of what length a bar's count is: `per hour`, `per 15 minutes`."""
    if curve.step == "native":
        seconds = step_s(curve)
        name, unit_s = max(((name, s) for name, s in _UNITS.values() if s <= seconds), key=lambda each: each[1])
        return f"per {_several(round(seconds / unit_s), name)}"
    number, (name, _) = _length(curve.step)
    return f"per {_several(number, name)}"


def _length(text: str) -> tuple[int, tuple[str, int]]:
    """Reads `15m`: the number, and its unit with the seconds of one."""
    length = parse_length(text, _UNITS)
    assert length is not None, text
    return length


def _several(number: int, name: str) -> str:
    return name if number == 1 else f"{number} {name}s"


def amount_words(least: int, most: int, unit: Unit) -> str:
    """Writes an amount by its bounds: `1,234.50 EUR`, `10.00 EUR to 12.00 EUR`."""
    return unit.shown(least) if least == most else f"{unit.shown(least)} to {unit.shown(most)}"


def curve_sentence(curve: CurveAnswer, noun: str, unit: Unit | None = None) -> str:
    """Says what a curve shows: how many hits, from when to when; of amounts their sum, and of what."""
    if not curve.points:
        return f"no {noun}s"
    hits = with_commas(curve.total) if curve.exact else count_words(curve.at_least, curve.at_most)
    where = "" if curve.tz == "UTC" else f" ({curve.tz})"
    if unit is not None:
        return f"{amount_words(curve.at_least, curve.at_most, unit)} of {noun}s, {period_words(curve)}{where}"
    return f"{'no' if hits == '0' else hits} {noun if hits == '1' else f'{noun}s'}, {period_words(curve)}{where}"


def period_words(curve: CurveAnswer) -> str:
    """Writes the range of a curve. One that began with a day and goes on is said in days.

    Where its last point is longer than a day only the first day is said: the last one may be weeks ahead.
    """
    zone = ZoneInfo(curve.tz)
    if not curve.points or curve.points[-1].state != "open":
        return range_words(curve.start, curve.end, zone)
    if not is_midnight(wall(curve.start, zone)):
        return f"{range_words(curve.start, curve.end, zone)}, so far"
    if curve.points[-1].end - curve.points[-1].start > DAY_S + HOUR_S:
        return f"since {range_words(curve.start, end_of_day(curve.start + 1, zone), zone)}"
    return f"{range_words(curve.start, end_of_day(curve.end, zone), zone)}, so far"


def legend_of(curve: CurveAnswer, bars: Iterable[Bar]) -> str:
    """Explains what is unusual about the bars that there are."""
    states = {bar.state for bar in bars if bar.rate}
    notes = []
    if "open" in states:
        notes.append("dashed: still counting")
    if "partial" in states:
        notes.append("pale: partly outside the range")
    if any(point.wide for point in curve.points):
        notes.append(f"wide: kept as one sum, shown {step_words(curve)}")
    return "; ".join(notes)


# --- the plot -------------------------------------------------------------------------------------------------------
def _plot(
    curve: CurveAnswer,
    bars: Sequence[Bar],
    scaled: Sequence[Bar],
    before: Sequence[Bar],
    top: float,
    bottom: float,
    width: int,
    one: int,
) -> Iterable[Shape]:
    """Yields the plot. one: how many the labels beside it call 1: of cents 100."""
    lines = scale_of(scaled, bottom - top, one)
    frame = Frame(curve, top, bottom, lines[-1] * one, width)
    yield from weekends(curve, frame)
    yield from shades(curve, frame)
    for line in lines:
        yield Line("grid", frame.y(line * one))
    yield from _boxes(bars, frame)
    if len(places := _places(before, frame)) > 1:
        yield Trace("earlier", places)
    yield Line("base", bottom)
    if curve.notes is not UNSET:
        yield from note_marks(curve.notes, frame.x, top, bottom, width)
    yield from scale_labels(lines, frame, one)
    yield Label("label", 0, top - 5, step_words(curve))
    yield from time_labels(bars, frame, ZoneInfo(curve.tz))


def _places(before: Sequence[Bar], frame: Frame) -> tuple[tuple[float, float], ...]:
    """Returns where the line of another range runs: over the bars of this one that are as far from its beginning."""
    length_s = frame.end - frame.start
    places = (((bar.start + bar.end) / 2 - before[0].start, bar.rate) for bar in before)
    return tuple((past_s / length_s, frame.y(rate)) for past_s, rate in places if past_s <= length_s)


def _boxes(bars: Iterable[Bar], frame: Frame) -> Iterable[Shape]:
    for bar in bars:
        if bar.rate:
            left, right = frame.x(bar.start), frame.x(bar.end)
            width = (right - left) * frame.width
            gap = min(_GAP_MOST, max(1, width * _GAP_PART)) / 2 / frame.width if width >= _GAP_FROM else 0
            part = "bar" if bar.state == "complete" else bar.state
            top = min(frame.y(bar.rate), frame.bottom - 1)  # one hit among a million is seen
            yield Box(part, left + gap, top, right - gap, frame.bottom)
