"""The filter of a view: one value of a dimension, whose hits the curve and the cards are of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from clickcurve.answers import CurveAnswer, PointAnswer
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import Subject
from dashboard.page.audience.values import dimension_name, value_text
from dashboard.page.view import PageView
from dashboard.questions import AskCurve, BreakdownQuestions, BrokenDown


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter in words. off: the view without it."""

    name: str
    value: str
    off: str


def filter_of(view: PageView) -> Filter | None:
    """Returns the filter of a view, None if it has none."""
    if not view.by:
        return None
    return Filter(dimension_name(view.by), value_text(view.by, view.value), view.address(by="", value="", step=""))


def filtered_curve(broken_down: BrokenDown | None, subject: Subject, dimension: str) -> AskCurve:
    """Returns the question for the curve of one value; raises ParameterInvalid where hits are not broken down."""
    if broken_down is None:
        why = "this server does not break hits down, so there is nothing to filter by"
        raise ParameterInvalid(why, field="by", value=dimension, rule="no filter")
    return partial(_value_curve, broken_down.questions, subject, dimension)


async def _value_curve(questions: BreakdownQuestions, subject: Subject, dimension: str, query: bytes) -> CurveAnswer:
    """Returns a value's curve with the hits that are certain as its counts, and with the bounds of its range."""
    curve = await questions.curve(subject, dimension, query)
    points = [PointAnswer(each.start, each.end, each.at_least, each.state, each.wide) for each in curve.points]
    return CurveAnswer(
        curve.key,
        curve.start,
        curve.end,
        curve.step,
        curve.tz,
        curve.first_hit,
        sum(point.count for point in points),
        curve.at_least,
        curve.at_most,
        curve.exact,
        points,
    )
