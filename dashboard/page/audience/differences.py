"""Why a range differs from the one before: a sentence with both totals, and the values that certainly moved it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from clickcurve.answers.breakdowns import CauseAnswer, WhyAnswer
from clickcurve.answers.counts import CurveAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.visible import shortened, visible
from dashboard.page.audience.values import dimension_name, value_text
from dashboard.page.changes import Count, signed
from dashboard.page.chart import in_path
from dashboard.page.compared import Compared
from dashboard.page.view import PageView, TimeSpan
from dashboard.pictures.axes import PERCENT, is_midnight, until_words, wall, with_commas

WEEK_S = 7 * DAY_S
_FIRST_MONDAY = 4 * DAY_S  # 5 January 1970 of UTC
_CAUSES = 3  # of a dimension, and links
_DIMENSIONS = 2  # those that explain most
_AS_KEPT = "By whole days or weeks, as values are kept"
_NAME_CHARS = 60  # of a value or a key in the sentence; the list of causes has all of it
_NOTABLE = 0.5  # the part of a change from which a dimension is named in the sentence


@dataclass(frozen=True, slots=True)
class CauseRow:
    """What changed, and by how much. way: up or down; address: of its own view, empty where there is none."""

    text: str
    before: str
    after: str
    change: Count
    way: str
    address: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Two totals in a sentence, what explains most of their difference, and causes by the name of their dimension.

    query: what to ask for all of it; ranges: of when the causes are, in words, empty where it is the page's own range.
    """

    sentence: str
    explained: str
    causes: dict[str, list[CauseRow]]
    query: str
    ranges: str = ""


@dataclass(frozen=True, slots=True)
class Ranges:
    """A range, and the one before that it is compared with, as they are asked for: each [start, end)."""

    after: TimeSpan
    before: TimeSpan

    def query(self, tz: str) -> bytes:
        """Returns what to ask for the causes of their difference."""
        spans = {"from": self.after[0], "to": self.after[1], "before_from": self.before[0], "before_to": self.before[1]}
        return urlencode({**spans, "tz": tz, "limit": _CAUSES}).encode()

    def whole_weeks(self) -> Ranges | None:
        """Returns the whole weeks of UTC inside the range before, beside those of the other; None without one.

        Of old days values are kept by weeks. The range before is moved by whole days, so that its edges stay those of
        kept buckets.
        """
        first = _FIRST_MONDAY + -(-(self.before[0] - _FIRST_MONDAY) // WEEK_S) * WEEK_S
        end = first + (self.before[1] - first) // WEEK_S * WEEK_S
        moved = round((self.after[0] - self.before[0]) / DAY_S) * DAY_S
        return Ranges((first + moved, end + moved), (first, end)) if first < end else None


def ranges_asked(view: PageView, curve: CurveAnswer, compared: Compared | None, now: int) -> Ranges | None:
    """Returns the ranges whose causes are asked for; None where none are known: of bots, of a value.

    What goes on is asked for up to the hour, whose buckets are the finest, so that an hour's questions are one.
    """
    if compared is None or view.by or view.bots not in ("", "exclude"):
        return None
    end, until = curve.end, compared.until
    if end > now:
        until -= 1  # the range before reaches to the end of the minute, which may be that of the hour
        end, until = now - now % HOUR_S, until - until % HOUR_S
    if end <= curve.start or until <= compared.start:
        return None
    return Ranges((curve.start, end), (compared.start, until))


def is_fair(answer: WhyAnswer, asked: Ranges) -> bool:
    """Tells whether an answer compares what was asked for, or ranges of the same length inside it."""
    return answer.same_length or _spans(answer) == asked


def difference_of(answer: WhyAnswer, view: PageView, zone: ZoneInfo) -> Difference | None:
    """Says why a range differs from the one before; None where nothing was before, or nothing is certain."""
    causes = {
        dimension_name(each.dimension, plural=True): [_cause_row(each.dimension, cause, view) for cause in each.causes]
        for each in [each for each in answer.dimensions if each.causes][:_DIMENSIONS]
    }
    if answer.by_link:
        causes["Links"] = [
            CauseRow(
                visible(each.key),
                with_commas(each.before),
                with_commas(each.after),
                Count(signed(each.change)),
                _way(each.change),
                f"links/{in_path(each.key)}{view.of_one()}" if in_path(each.key) else "",
            )
            for each in answer.by_link
        ]
    if not answer.total.before or not causes or answer.before.end > answer.start:
        return None
    before = {"before_from": answer.before.start, "before_to": answer.before.end}
    query = urlencode({"from": answer.start, "to": answer.end, **before, "tz": zone.key})
    return Difference(totals_sentence(answer, zone), explained_sentence(answer), causes, query)


def difference_beside(
    answer: WhyAnswer, asked: Ranges, change: tuple[int, int] | None, view: PageView, zone: ZoneInfo
) -> Difference | None:
    """Says the same beside the card of hits, without a contradiction to it. change: the card's, by its bounds.

    Values of old days are kept by whole days, weeks or months only. Where the answer is therefore of other ranges than
    the card, it says of which, and names causes alone where their totals go another way; where they are not equally
    long, it says that no causes are told, and has none.
    """
    after = until_words(answer.start, answer.end, zone)
    before = until_words(answer.before.start, answer.before.end, zone)
    if not is_fair(answer, asked):
        why = f"Values are kept by whole days, weeks or months, here of {after} and of {before}"
        return Difference(f"{why}: not equally long, so what moved the hits is not told.", "", {}, "")
    found = difference_of(answer, view, zone)
    is_own = _spans(answer) == asked
    if found is None:
        return None
    agrees = change is not None and _goes_the_way_of(answer.total.change, change)
    if is_own and agrees:
        return found
    ranges = f"{after} compared with {before}"
    if agrees:
        return replace(
            found,
            sentence=f"{_AS_KEPT}: {totals_sentence(answer, zone)}",
            ranges=ranges,
        )
    moved = ", ".join(f"{shortened(rows[0].text, _NAME_CHARS)} {rows[0].change.text}" for rows in found.causes.values())
    return replace(found, sentence=f"{_AS_KEPT}: {moved} ({ranges}).", explained="", ranges=ranges)


def _goes_the_way_of(change: int, bounds: tuple[int, int]) -> bool:
    least, most = bounds
    return least > 0 if change > 0 else most < 0 if change < 0 else least == most == 0


def _spans(answer: WhyAnswer) -> Ranges:
    return Ranges((answer.start, answer.end), (answer.before.start, answer.before.end))


def totals_sentence(answer: WhyAnswer, zone: ZoneInfo) -> str:
    """Says both totals: `17 Feb - 22 Feb 2026 had 570 hits, 500 more than 10 Feb - 15 Feb 2026.`"""
    total = answer.total
    hits = f"{with_commas(total.after)} {'hit' if total.after == 1 else 'hits'}"
    before = until_words(answer.before.start, answer.before.end, zone)
    than = f"{with_commas(abs(total.change))} {'more' if total.change > 0 else 'fewer'} than"
    sentence = (
        f"{until_words(answer.start, answer.end, zone)} had {hits}, {than if total.change else 'as many as'} {before}."
    )
    if not answer.same_length and not _are_months(answer, zone):
        sentence += " The two ranges are not equally long: old days are kept as weeks or months."
    return sentence


def explained_sentence(answer: WhyAnswer) -> str:
    """Says which dimension explains most: `Referrers explain 92 % of it: news.example +380.` Empty if none does."""
    most = max(answer.dimensions, key=lambda each: each.explains, default=None)
    if most is None or most.explains < _NOTABLE:
        return ""
    causes = [
        f"{value_text(most.dimension, each.value)} {_bounds(each).text}"
        for each in most.causes[:_CAUSES]
        if each.change * answer.total.change > 0
    ]
    name = dimension_name(most.dimension, plural=True)
    return f"{name} explain {most.explains * 100:.0f}{PERCENT} of it: {', '.join(causes)}."


def _are_months(answer: WhyAnswer, zone: ZoneInfo) -> bool:
    edges = (answer.start, answer.end, answer.before.start, answer.before.end)
    return all(wall(t, zone).day == 1 and is_midnight(wall(t, zone)) for t in edges)


def _cause_row(dimension: str, cause: CauseAnswer, view: PageView) -> CauseRow:
    return CauseRow(
        value_text(dimension, cause.value),
        with_commas(cause.before),
        with_commas(cause.after),
        _bounds(cause),
        _way(cause.change),
        view.filtered(dimension, cause.value),
    )


def _bounds(cause: CauseAnswer) -> Count:
    if cause.at_least == cause.at_most:
        return Count(signed(cause.change))
    return Count(
        f"about {signed((cause.at_least + cause.at_most) // 2)}", f"{signed(cause.at_least)} to {signed(cause.at_most)}"
    )


def _way(change: int) -> str:
    return "up" if change > 0 else "down"
