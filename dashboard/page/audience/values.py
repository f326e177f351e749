"""What hits said, as tables for a page: values with their bounds, and the rest, so that parts are the total.

Any of the values can be the filter of a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from zoneinfo import ZoneInfo

from msgspec import UNSET

from clickcurve.answers.breakdowns import ValueAnswer, ValuesAnswer
from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.breakdowns.check import BOT, BOT_KIND, OF_BOTS
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import Subject
from clickcurve.visible import visible
from dashboard.page.audience.countries import COUNTRY, MOST, MapCountry, countries_on_map, flag_of
from dashboard.page.audience.country_names import COUNTRY_NAMES
from dashboard.page.changes import NO_CHANGE, Change, Count, certain_change, count_of
from dashboard.page.proofs.uncertain import BoundedPoint
from dashboard.page.view import EVENT, VALUE, PageView, TimeSpan
from dashboard.pictures.axes import PERCENT, wall, with_commas
from dashboard.questions import AskCurve, BreakdownQuestions, BrokenDown

SHOWN, LISTED = 10, 1_000  # values of a table beside others, and of a whole list
RISEN, FALLEN = "change", "-change"  # orders of a whole list
NOT_LISTED, OTHER, UNRECORDED = "not listed", "other", "unrecorded"  # what rows of the rest are of, as their values
_NAMES = {  # of one, and of several
    "ref": ("Referrer", "Referrers"),
    "country": ("Country", "Countries"),
    "device": ("Device", "Devices"),
    "source": ("Source", "Sources"),
    "browser": ("Browser", "Browsers"),
    "os": ("Operating system", "Operating systems"),
    "lang": ("Language", "Languages"),
    "utm_source": ("Campaign source", "Campaign sources"),
    "utm_medium": ("Campaign medium", "Campaign media"),
    "utm_campaign": ("Campaign", "Campaigns"),
    "channel": ("Channel", "Channels"),
    BOT: ("Bot", "Bots by name"),
    BOT_KIND: ("Kind of bot", "Kinds of bots"),
}
_NOT_GIVEN = {"ref": "Direct or unknown", BOT: "Without a name"}
KINDS_OF_BOTS = {
    "ai_crawler": "AI crawler",
    "ai_assistant": "AI assistant",
    "search": "Search engine",
    "preview": "Link preview",
    "monitor": "Monitor",
    "scanner": "Scanner",
    "feed": "Feed reader",
    "library": "Library or script",
    "rule": "Taken by a rule",
    "other_bot": "Other bots",
}
CHANNELS_NAMED = {
    "direct": "Direct",
    "search": "Search",
    "social": "Social",
    "video": "Video",
    "ai": "AI assistants",
    "email": "Email",
    "sms": "Text messages",
    "qr": "QR codes",
    "paid_search": "Paid search",
    "paid_social": "Paid social",
    "paid_video": "Paid video",
    "display": "Display ads",
    "paid_other": "Other paid",
    "shopping": "Shopping",
    "affiliate": "Affiliates",
    "audio": "Audio",
    "push": "Push notifications",
    "referral": "Referral",
}
_NAMED: Mapping[str, Mapping[str, str]] = {COUNTRY: COUNTRY_NAMES, BOT_KIND: KINDS_OF_BOTS, "channel": CHANNELS_NAMED}


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One line: a value or, with `rest`, what is of none: then `value` says of which rest.

    part: of the greatest line, 0 to 100; share: of all hits; change: since the period before; chosen: it is the filter;
    moved: by how many hits at least it changed; certain: its bounds meet.
    """

    text: str
    count: Count
    part: float
    share: str
    rest: bool = False
    value: str = ""
    change: Change = NO_CHANGE
    chosen: bool = False
    flag: str = ""
    moved: int = 0
    certain: bool = True


@dataclass(frozen=True, slots=True)
class ValueTable:
    """One dimension. total: hits of the kept buckets that the range touches; spoken: whether any said anything.

    more: there are values that it does not list; countries: on the map.
    """

    dimension: str
    name: str
    title: str
    total: str
    rows: list[ValueRow]
    spoken: bool
    more: bool = False
    countries: Sequence[MapCountry] = ()

    @property
    def of_bots(self) -> bool:
        """Whether its hits are those of bots."""
        return self.dimension in OF_BOTS


def dimension_name(dimension: str, plural: bool = False) -> str:
    """Names a dimension for people."""
    own = dimension.removeprefix("tag.")
    return _NAMES.get(dimension, (own, own))[plural]


def value_text(dimension: str, value: str) -> str:
    """Writes a value for people, also the one of hits that gave none."""
    return _NAMED.get(dimension, {}).get(value) or visible(value) or _NOT_GIVEN.get(dimension, "(not given)")


async def value_tables(
    broken_down: BrokenDown, subject: Subject, view: PageView, before: TimeSpan | None
) -> list[ValueTable]:
    """Asks for each dimension, in the order of the settings, beside the span before if there is one.

    A view that lists one dimension has that one alone. Raises what the questions raise.
    """
    dimensions = [view.list] if view.list else broken_down.dimensions
    asked = (_value_table(broken_down, subject, view, each, before) for each in dimensions)
    return await asyncio.gather(*asked)


async def _value_table(
    broken_down: BrokenDown, subject: Subject, view: PageView, dimension: str, before: TimeSpan | None
) -> ValueTable:
    questions, shown = broken_down.questions, LISTED if view.list else SHOWN
    asked = MOST if dimension == COUNTRY and not view.list else shown  # the map has all of them
    answer = await questions.by(subject, dimension, view.total_query + b"&limit=%d" % asked)
    was: Sequence[tuple[int, int]] = ()
    if before is not None and answer.total:
        values = [each.value for each in answer.values[:shown]]
        was = await questions.bounds_in(subject, dimension, values, before)
    return value_table(answer, was, view, shown)


def value_table(
    answer: ValuesAnswer, was: Sequence[tuple[int, int]] = (), view: PageView | None = None, shown: int = SHOWN
) -> ValueTable:
    """Makes a table of the first values, and of the rest. was: the bounds of each before; view: has the filter."""
    view = view or PageView()
    listed, beyond = answer.values[:shown], answer.values[shown:]
    most = max((each.at_most for each in listed), default=1) or 1

    def row(each: ValueAnswer, before: tuple[int, int] | None) -> ValueRow:
        share = share_text(each.at_least, answer.total) if each.at_least == each.at_most else ""
        return ValueRow(
            value_text(answer.dimension, each.value),
            count_of(each.at_least, each.at_most),
            each.at_least * 100 / most,
            share,
            value=each.value,
            change=NO_CHANGE if before is None else certain_change(before, (each.at_least, each.at_most)),
            chosen=view.by == answer.dimension and each.value in view.values,
            flag=flag_of(each.value) if answer.dimension == COUNTRY else "",
            moved=0 if before is None else each.at_least - before[0],
            certain=each.at_least == each.at_most,
        )

    rows = _sorted(list(map(row, listed, was or repeat(None))), view)
    many, hidden = answer.not_shown.values + len(beyond), answer.not_shown.count + sum(each.at_least for each in beyond)
    rest = (
        (NOT_LISTED, f"{many:,} more", hidden),
        (OTHER, _other_text(answer), answer.other),
        (UNRECORDED, "Before this was recorded", answer.unrecorded),
    )
    rows += [
        ValueRow(text, count_of(count, count), 0, share_text(count, answer.total), rest=True, value=value)
        for value, text, count in rest
        if count
    ]
    return ValueTable(
        answer.dimension,
        dimension_name(answer.dimension),
        dimension_name(answer.dimension, plural=True),
        with_commas(answer.total),
        rows,
        any(each.value for each in answer.values) or bool(answer.other),
        bool(many),
        countries_on_map(answer.values, view) if answer.dimension == COUNTRY else [],
    )


def _sorted(rows: list[ValueRow], view: PageView) -> list[ValueRow]:
    """Sorts the values of a whole list as the view says; raises ParameterInvalid for what nothing is sorted by."""
    if not view.list or not view.sort:
        return rows
    if view.sort == "key":
        return sorted(rows, key=lambda row: row.text.casefold())
    if view.sort.startswith((EVENT, VALUE)):  # once that is known
        return rows
    if view.sort not in (RISEN, FALLEN):
        rule = f"key, {RISEN} or {FALLEN}, or left out for hits"
        raise ParameterInvalid(f"sort {view.sort!r} is not known", field="sort", value=view.sort, rule=rule)
    return sorted(rows, key=lambda row: row.moved, reverse=view.sort == RISEN)


def _other_text(answer: ValuesAnswer) -> str:
    """Names the hits of values that are not kept; kept_since is a midnight of UTC."""
    since = answer.kept_since
    if since is UNSET or (answer.start or 0) >= since:
        return "Other values"
    return f"Other values, and all before {wall(since, ZoneInfo('UTC')):%Y-%m-%d} UTC"


def share_text(count: int, total: int) -> str:
    """Writes a part of a total in percent, without claiming all or nothing of what is only nearly so."""
    part = count * 100 / total if total else 0
    if 0 < part < 1:
        return f"<1{PERCENT}"
    return f"{min(int(part + 0.5), 99) if part < 100 else 100}{PERCENT}"


# --- the filter of a view: values of a dimension, whose hits the curve and the cards are of ---------------------------
@dataclass(frozen=True, slots=True)
class Chip:
    """One value of a filter, shown or left out. off: the view without it."""

    value: str
    is_left_out: bool
    off: str


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter in words. value: all of it; off: the view without it."""

    name: str
    value: str
    off: str
    chips: list[Chip]


def filter_of(view: PageView) -> Filter | None:
    """Returns the filter of a view, None if it has none."""
    if not view.by:
        return None
    off = view.address(by="", step="")

    def chip(value: str, is_left_out: bool) -> Chip:
        values, left_out = (tuple(each for each in some if each != value) for some in (view.values, view.left_out))
        rest = view.address(values=values, left_out=left_out) if values or left_out else off
        return Chip(value_text(view.by, value), is_left_out, rest)

    chips = [*(chip(value, False) for value in view.values), *(chip(value, True) for value in view.left_out)]
    words = ", ".join(f"not {each.value}" if each.is_left_out else each.value for each in chips)
    return Filter(dimension_name(view.by), words, off, chips)


def filtered_curve(broken_down: BrokenDown | None, subject: Subject, dimension: str) -> AskCurve:
    """Returns the question for the curve of a filter; raises ParameterInvalid where hits are not broken down."""
    if broken_down is None:
        why = "this server does not break hits down, so there is nothing to filter by"
        raise ParameterInvalid(why, field="by", value=dimension, rule="no filter")
    return partial(_value_curve, broken_down.questions, subject, dimension)


async def _value_curve(questions: BreakdownQuestions, subject: Subject, dimension: str, query: bytes) -> CurveAnswer:
    """Returns the curve of a filter, with the bounds of its points and of its range."""
    curve = await questions.curve(subject, dimension, query)
    points: list[PointAnswer] = [
        BoundedPoint(each.start, each.end, each.at_least, each.state, each.wide, each.at_most) for each in curve.points
    ]
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
