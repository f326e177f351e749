"""What a page shows: a subject's view, its curve, and the period that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer, TotalAnswer
from clickcurve.keys import Subject
from dashboard.page.compared import Compared
from dashboard.page.lists.names import Beside
from dashboard.page.view import PageView
from dashboard.questions import AskCurve, CountedEvents


@dataclass(frozen=True, slots=True)
class Shown:
    """A view of a subject. ask_curve: the question for the curve of its hits: all, or those of the filter's value.

    was: those hits in the period before; None where nothing is compared with. events: those that the page may show.
    """

    subject: Subject
    view: PageView
    curve: CurveAnswer
    compared: Compared | None
    was: CurveAnswer | TotalAnswer | None
    ask_curve: AskCurve
    now: int
    events: CountedEvents | None = None

    @property
    def before(self) -> tuple[int, int] | None:
        """The span that is compared with, as far as it is; None where it has no hits: all would be new."""
        if self.compared is None or self.was is None or not (self.was.at_most or self.view.by):
            return None
        return self.compared.span

    @property
    def change(self) -> tuple[int, int] | None:
        """By how many hits at least and at most the range differs from the one before; None without one."""
        was = self.was
        return None if was is None else (self.curve.at_least - was.at_most, self.curve.at_most - was.at_least)

    @property
    def compared_words(self) -> str:
        """What is compared with, in words; empty where nothing is."""
        return "" if self.compared is None else self.compared.words(ZoneInfo(self.curve.tz))

    @property
    def beside(self) -> Beside:
        """What the lines of lists stand beside; under a filter the curve is not that of all hits."""
        return Beside(None if self.view.by else self.curve.total, self.before)

    async def earlier(self, ask: AskCurve) -> CurveAnswer | None:
        """Asks for the whole period before by the step of the curve; None where nothing is compared with."""
        if self.compared is None:
            return None
        return await ask(self.view.curve_query_of(self.compared.start, self.compared.end, self.curve.step))
