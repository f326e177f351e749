"""The page of several links and groups on one chart, and its numbers as CSV."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer, TotalAnswer
from clickcurve.keys import Subject
from clickcurve.visible import visible
from clickcurve.waiting import computed
from dashboard.page.audience.values import filter_of, filtered_curve
from dashboard.page.changes import NO_CHANGE, Change, Count, about, change_of
from dashboard.page.chart import DRAWING, fitting_step, in_path
from dashboard.page.compared import Compared, compared_of
from dashboard.page.periods import offered_periods
from dashboard.page.several.lines_chart import LinesAnswer, lines_answer, make_lines_chart
from dashboard.page.several.names import subjects_of
from dashboard.page.view import PageView
from dashboard.pictures.lines_picture import MOST_LINES
from dashboard.questions import GROUP, AskCurve, BrokenDown, Questions, kind_of


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """One line of the chart. name: as text; address: of its own page, empty where no browser can ask for it.

    known: it has a hit; before: its hits of the range before, empty where nothing is compared with. without: the view
    that lacks it, empty where it is the only one.
    """

    kind: str
    name: str
    address: str
    known: bool
    count: Count
    before: str
    change: Change
    without: str


@dataclass(frozen=True, slots=True)
class SeveralPage:
    """Answers for links and groups that are drawn together. Raises ParameterInvalid and what the questions raise."""

    questions: Questions
    broken_down: BrokenDown | None

    async def page(self, view: PageView, now: int) -> dict[str, object]:
        """Returns the values of the page. now: epoch seconds."""
        view, curves = await self._view_and_curves(view, now)
        subjects, zone = subjects_of(view), ZoneInfo(curves[0].tz)
        compared = compared_of(self.questions.before, curves[0], view, now)
        before = await self._before(subjects, view, compared, curves[0].step)
        found = zip(subjects, curves, before, strict=True)
        lines = [_line(subject, curve, was, view) for subject, curve, was in found]
        names = _names(subjects)
        return {
            "lines": lines,
            "names": names,
            "chart": await computed(DRAWING, make_lines_chart, curves, names, view, now),
            "periods": offered_periods(now, zone),
            "filter": filter_of(view),
            "compared_with": "" if compared is None else compared.words(zone),
            "has_room": len(lines) < MOST_LINES,
            "most": MOST_LINES,
        }

    async def csv(self, view: PageView, now: int) -> tuple[LinesAnswer, ZoneInfo]:
        """Returns the numbers of the chart, and the zone of the view. now: epoch seconds."""
        _, curves = await self._view_and_curves(view, now)
        answer = await computed("joining points", lines_answer, curves, _names(subjects_of(view)))
        return answer, ZoneInfo(curves[0].tz)

    def _ask(self, subject: Subject, view: PageView) -> AskCurve:
        if view.by:
            return filtered_curve(self.broken_down, subject, view.by)

        async def ask(query: bytes) -> CurveAnswer:
            return await self.questions.curve(subject, query)

        return ask

    async def _curves(self, view: PageView) -> list[CurveAnswer]:
        return await gather(*(self._ask(each, view)(view.curve_query) for each in subjects_of(view)))

    async def _view_and_curves(self, view: PageView, now: int) -> tuple[PageView, list[CurveAnswer]]:
        """Asks for all curves over one range, by one step that fits them; the view says so."""
        curves = await self._curves(view)
        shown = _begun(view, curves, now)
        if shown is not view:
            curves = await self._curves(shown)
        step = "" if view.step else _fitting_step(curves)
        if step:
            shown = replace(shown, page_step=step)
            curves = await self._curves(shown)
        return shown, curves

    async def _before(
        self, subjects: Sequence[Subject], view: PageView, compared: Compared | None, step: str
    ) -> Sequence[CurveAnswer | TotalAnswer | None]:
        """Asks for the hits of each in the range that is compared with."""
        if compared is None:
            return [None] * len(subjects)
        if view.by:
            query = view.curve_query_of(compared.start, compared.until, step)
            return await gather(*(self._ask(each, view)(query) for each in subjects))
        return await gather(*(self.questions.total(each, view.count_query(compared.span)) for each in subjects))


def _begun(view: PageView, curves: Sequence[CurveAnswer], now: int) -> PageView:
    """Returns a view whose questions begin at one moment, not each with the first hit of its own.

    They do of all time, and of a range that has an end alone.
    """
    with_hits = [curve for curve in curves if curve.first_hit is not None]
    if view.is_ever:
        first_hit = min((curve.first_hit for curve in with_hits if curve.first_hit is not None), default=None)
        return view.begun_at(first_hit, now)
    if view.end and not view.start and not view.last:
        return replace(view, begun=str(min(curve.start for curve in with_hits or curves)))
    return view


def _fitting_step(curves: Sequence[CurveAnswer]) -> str:
    """Returns the step in which the curves are read best; empty where their own is good.

    Old buckets that are kept whole decide, and else the curve with the most hits.
    """
    coarse = [curve for curve in curves if any(point.wide for point in curve.points)]

    def longest_s(curve: CurveAnswer) -> int:
        return max((point.end - point.start for point in curve.points if point.wide), default=0)

    return fitting_step(max(coarse, key=longest_s) if coarse else max(curves, key=lambda curve: curve.at_most))


def _line(subject: Subject, curve: CurveAnswer, was: CurveAnswer | TotalAnswer | None, view: PageView) -> DrawnLine:
    kind, name = kind_of(subject), subject.name or ""
    path = in_path(name)
    field, names = ("groups", view.groups) if kind == GROUP else ("keys", view.keys)
    rest = tuple(each for each in names if each != name)
    return DrawnLine(
        kind=kind,
        name=visible(name),
        address=f"{kind}s/{path}{view.of_one()}" if path else "",
        known=curve.first_hit is not None,
        count=about(curve.at_least, curve.at_most),
        before="" if was is None else about(was.at_least, was.at_most).text,
        change=NO_CHANGE if was is None else change_of((was.at_least, was.at_most), (curve.at_least, curve.at_most)),
        without=view.address(**{field: rest}) if len(view.keys) + len(view.groups) > 1 else "",
    )


def _names(subjects: Sequence[Subject]) -> list[str]:
    """Names links and groups as text; a group says that it is one."""
    return [f"{'group ' if kind_of(each) == GROUP else ''}{visible(each.name or '')}" for each in subjects]
