"""What stands around the bars of a curve: its scale, its times, and the ground of weekends and of what is ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, timedelta
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from dashboard.pictures.axes import round_steps, short, time_marks, wall, with_commas
from dashboard.pictures.shapes import Box, Label, Shape

_WEEKENDS_FROM, _WEEKENDS_TO = 2 * 86_400, 100 * 86_400  # seconds of a curve that shows them
_CENTRED_FROM = 20  # pixels of a bar from which a label at the picture's edge is centred under it too
_MARK_EVERY = 90  # pixels from one time to the next, at least
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One or several points beside each other. rate: their count per step."""

    start: int
    end: int
    rate: float
    state: str


class Frame:
    """Turns times and rates into places. highest: the rate at the top."""

    def __init__(self, curve: CurveAnswer, top: float, bottom: float, highest: float, width: int) -> None:
        self.start, self.end = curve.points[0].start, curve.points[-1].end
        self.top, self.bottom, self.highest, self.width = top, bottom, highest, width

    def x(self, t: int) -> float:
        return (min(max(t, self.start), self.end) - self.start) / (self.end - self.start)

    def y(self, rate: float) -> float:
        return self.bottom - (self.bottom - self.top) * rate / self.highest


def scale_of(bars: Iterable[Bar], height: float, one: int = 1) -> list[float]:
    """Returns the marks of a scale that has room for all bars, from the lowest on.

    height: of the plot, in pixels. one: how many the marks call 1: of cents 100.
    """
    rates = [bar.rate for bar in bars]
    whole = one == 1 and all(rate == int(rate) for rate in rates)
    return round_steps(max(rates) / one, min(_MOST_LINES, max(1, int(height // 36))), whole)


def scale_labels(marks: Iterable[float], frame: Frame, one: int = 1) -> Iterable[Label]:
    """Yields what stands left of the plot beside the marks of its scale."""
    for mark in marks:
        text = short(mark) if mark == int(mark) else with_commas(mark)
        yield Label("label", 0, frame.y(mark * one) + 4, text, "end", -6)


def time_labels(bars: Sequence[Bar], frame: Frame, zone: ZoneInfo) -> Iterable[Label]:
    """Yields labels centred under the bars that begin then; where no bar does, or it is thin, under the moment.

    A bar begins with a month of a zone if it begins some hours before or after it: where no finer buckets are kept.
    """
    covered = frame.start  # until where the bar goes that has the label before
    for number, (t, text) in enumerate(time_marks(frame.start, frame.end, zone, frame.width // _MARK_EVERY)):
        bar = min(bars, key=lambda bar: abs(bar.start - t), default=None)
        if bar is None or abs(bar.start - t) >= (bar.end - bar.start) / 4:
            begins, ends = t, t
        else:
            begins, ends = bar.start, bar.end
        if begins < covered:
            continue
        left, right = frame.x(begins), frame.x(covered := ends)
        if t == frame.end and len(bars) * _CENTRED_FROM < frame.width:
            break  # it would stand under the bar before
        x, anchor = (left + right) / 2, "middle"
        if (right - left) * frame.width < _CENTRED_FROM:
            anchor = "start" if x < 0.04 else "end" if x > 0.96 else "middle"
        yield Label("label" if number % 3 == 0 else "label wide", x, frame.bottom + 15, text, anchor)


def weekends(curve: CurveAnswer, frame: Frame) -> Iterable[Shape]:
    """Yields the ground of Saturdays and Sundays, where bars are no longer than a day and days are wide enough."""
    longest_s = max(point.end - point.start for point in curve.points)
    if longest_s > DAY_S + HOUR_S or not _WEEKENDS_FROM < frame.end - frame.start <= _WEEKENDS_TO:
        return
    zone = ZoneInfo(curve.tz)
    first = wall(frame.start, zone).replace(hour=0, minute=0, second=0)
    if first.year == MAXYEAR:  # a week later there is no calendar
        return
    saturday = first + timedelta(days=5 - first.weekday())
    while (begun := int(saturday.replace(tzinfo=zone).timestamp())) < frame.end:
        monday = int((saturday + timedelta(days=2)).replace(tzinfo=zone).timestamp())
        if monday > frame.start:
            yield Box("weekend", frame.x(begun), frame.top, frame.x(monday), frame.bottom)
        saturday += timedelta(days=7)


def shades(curve: CurveAnswer, frame: Frame) -> Iterable[Shape]:
    """Yields the ground of what lies before the first hit and of what has not ended: there a zero means nothing."""
    early = frame.x(frame.end if curve.first_hit is None else curve.first_hit)
    if early > 0:
        yield Box("early", 0, frame.top, early, frame.bottom)
    begun = next((point.start for point in curve.points if point.state == "open"), frame.end)
    if frame.x(begun) < 1:
        yield Box("ahead", frame.x(begun), frame.top, 1, frame.bottom)
