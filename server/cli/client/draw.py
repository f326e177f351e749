"""Curves, lists, values and visitors as text: pure functions from an answer of the server and a width to lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.visible import visible
from query.steps import STEPS
from query.zones import zone

BLOCKS = "▏▎▍▌▋▊▉█"  # eighths of a character
PLAIN = "#"
LEAST_BAR = 4
LEAST_NAME = 16  # characters of a key that a title shows, also on a narrow terminal
NEVER = "·"  # in place of a time
NOT_GIVEN = "(not given)"
_COUNTED = {"exclude": "people", "include": "people and bots", "only": "bots"}  # by --bots
SHORT = 0.9  # of a step: February and a day of 23 hours are longer
SHORTEST_RUN = 3  # points of nothing that are one line

# What may be kept at a time, finest first, and what people call it.
_KEPT = tuple(
    zip(
        Ladder.parse("60:1,300:1,3600:1,86400:1,week:1,month").tiers,
        ("minutes", "5 minutes", "hours", "days", "weeks", "months"),
        strict=True,
    )
)


def bar(size: float, most: float, room: int, plain: bool = False) -> str:
    """Draws a bar of up to `room` characters for a size of most. Anything above zero shows."""
    if size <= 0 or most <= 0:
        return ""
    if plain:
        return PLAIN * max(1, int(size * room / most))
    eighths = max(1, int(size * room * 8 / most))
    return BLOCKS[-1] * (eighths // 8) + (BLOCKS[eighths % 8 - 1] if eighths % 8 else "")


# --- curves -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A point of a curve. height: of its bar, the count per step. empty: why it need not be drawn, or ""."""

    label: str
    count: str
    height: float
    state: str
    empty: str


def curve_lines(answer: Any, width: int, plain: bool = False) -> list[str]:
    """Draws a curve's answer as lines of at most `width` characters (longer only where the terminal is tiny).

    One line a point: when it begins, its bar, its count, and its state unless it is complete. A point that is wider
    than its step, or much shorter, says when it ends, and has a bar as high as its count per step. Runs of zeros are
    one line.
    """
    place = zone(answer["tz"]).info
    name = name_of(answer)
    if answer["first_hit"] is None:
        return [f"{name}: no hits yet"]
    points = list(_points(answer, place))
    left = max((len(point.label) for point in points), default=0)
    right = max((len(point.count) for point in points), default=0)
    mark = max((len(point.state) for point in points), default=0)
    room = max(LEAST_BAR, width - left - right - mark - 4)
    most = max((point.height for point in points), default=0)
    about = f": {range_text(answer, answer['tz'])}, step {answer['step']}"
    lines = [_title_line(name, about, width)]
    for empty, some in groupby(points, lambda point: point.empty):
        run = list(some)
        if empty and len(run) >= SHORTEST_RUN:
            lines.append(f"{run[0].label:<{left}}  {len(run):,} points {empty}")
            continue
        for point in run:
            drawn = bar(point.height, most, room, plain)
            lines.append(f"{point.label:<{left}}  {drawn:<{room}} {point.count:>{right}} {point.state}".rstrip())
    return [*lines, _total_line(answer), *_kept_lines(answer, place)]


def step_that_fits(answer: Any, lines: int) -> str | None:
    """Returns the finest step whose points fit on this many lines; None if there is none."""
    # The title, the time before the first hit, the total, what is kept (two lines on a narrow screen), and a prompt.
    rows = lines - 6
    span_s = answer["to"] - max(answer["from"], answer["first_hit"])
    present_s = _step_s(answer)
    steps = sorted((step for step in STEPS.values() if step.average_s > present_s), key=lambda step: step.average_s)
    return next((step.name for step in steps if span_s / step.average_s + 1 <= rows), None)


def _step_s(answer: Any) -> int:
    """Returns the seconds of a step; of the native one the narrowest bucket."""
    widths = [point["end"] - point["start"] for point in answer["points"]]
    return STEPS[answer["step"]].average_s or min(widths, default=60)


def _are_wide(answer: Any) -> list[bool]:
    """Returns which points are wider than their step: of buckets as kept, than the narrowest."""
    points, step_s = answer["points"], _step_s(answer)
    if answer["step"] == "native":
        return [point["end"] - point["start"] > step_s for point in points]
    return [point.get("wide", False) for point in points]


def _are_short(answer: Any) -> list[bool]:
    """Returns which points are shorter than their step because their edges moved together, not by the range's ends."""
    points, step_s = answer["points"], _step_s(answer)
    return [0 < n < len(points) - 1 and p["end"] - p["start"] < SHORT * step_s for n, p in enumerate(points)]


def _points(answer: Any, place: tzinfo) -> Iterator[DrawnPoint]:
    step_s, first = _step_s(answer), answer["first_hit"]
    points = answer["points"]
    uneven = [is_wide or is_short for is_wide, is_short in zip(_are_wide(answer), _are_short(answer), strict=True)]
    starts = [datetime.fromtimestamp(point["start"], place) for point in points]
    even = [start for start, is_uneven in zip(starts, uneven, strict=True) if not is_uneven]
    form = "%Y-%m-%d %H:%M"
    if step_s >= DAY_S:
        form = "%a %Y-%m-%d" if all(map(_is_midnight, even)) else "%a %Y-%m-%d %H:%M"
    for point, start, is_uneven in zip(points, starts, uneven, strict=True):
        width_s = point["end"] - point["start"]
        count, state = point["count"], point["state"]
        empty = "" if count or state != "complete" else "before the first hit" if point["end"] <= first else "of 0"
        yield DrawnPoint(
            _span(start, datetime.fromtimestamp(point["end"], place)) if is_uneven else f"{start:{form}}",
            f"{count:,}",
            count * step_s / width_s if is_uneven else count,
            "" if state == "complete" else state,
            empty,
        )


def _is_midnight(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second) == (0, 0, 0)


def _span(start: datetime, end: datetime) -> str:
    """Writes from when to when, in whole days where it is made of them: `05-11 Oct 2026`."""
    if not (_is_midnight(start) and _is_midnight(end)):
        form = "%H:%M" if start.date() == end.date() else "%d %b %H:%M"
        return f"{start:%d %b %Y %H:%M}-{end:{form}}"
    last = end.date() - timedelta(days=1)
    if start.date() == last:
        return f"{last:%d %b %Y}"
    if start.day == end.day == 1 and (start.year, start.month) == (last.year, last.month):
        return f"{last:%b %Y}"
    form = "%d" if (start.year, start.month) == (last.year, last.month) else "%d %b"
    return f"{start:{form}}-{last:%d %b %Y}"


def _title_line(name: str, rest: str, width: int) -> str:
    """Joins a name and what is said of it. The name is cut if the line would be too long."""
    room = max(LEAST_NAME, width - len(rest))
    return (name if len(name) <= room else name[: room - 1] + "…") + rest


def _total_line(answer: Any) -> str:
    if answer["exact"]:
        return f"total {answer['total']:,}"
    between = f"between {answer['at_least']:,} and {answer['at_most']:,}"
    return f"{between}: partial points are whole buckets"


def _kept_lines(answer: Any, place: tzinfo) -> Iterator[str]:
    """Says before when only wider buckets are kept than the step asks for, if they hold hits: one line or none."""
    until: dict[str, int] = {}
    kept = ""
    for point, is_wide in zip(reversed(answer["points"]), reversed(_are_wide(answer)), strict=True):
        if is_wide and point["end"] > answer["first_hit"]:
            # A week that a month cuts may be a day long: what is older is kept no finer than what is newer.
            kept = max((kept, _kept_name(point["start"], point["end"])), key=_coarseness)
            until.setdefault(kept, point["end"])
    until.pop("", None)
    if until:
        parts = ", ".join(f"{name} before {_short_text(end, place)}" for name, end in until.items())
        per = "the narrowest point" if answer["step"] == "native" else answer["step"]
        yield f"only {parts} are kept; their bars show hits per {per}"


def _kept_name(start: int, end: int) -> str:
    """Returns what a bucket is called; "" where a point is none: its edges moved to those of several."""
    return next((name for tier, name in _KEPT if tier.bucket(start) == (start, end)), "")


def _coarseness(name: str) -> int:
    return ["", *(each for _, each in _KEPT)].index(name)


def _minute_text(at: int, place: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, place):%Y-%m-%d %H:%M}"


def _short_text(at: int, place: tzinfo) -> str:
    return _minute_text(at, place).removesuffix(" 00:00")


# --- totals and lists -------------------------------------------------------------------------------------------------
HITS = ("hit", "hits")
Noun: TypeAlias = tuple[str, str]  # for one, and for any other number


def noun_of(event: str | None, measure: str | None) -> Noun:
    """Returns what is counted, by the flags --event and --measure."""
    if event is None:
        return HITS
    return (f"in values of {event}",) * 2 if measure == "value" else (f"event {event}", f"events {event}")


def hits_text(bots: str | None, count: str = "", noun: Noun = HITS) -> str:
    """Writes which hits are counted, by the flag --bots, and perhaps how many."""
    number, hits = (f"{count} ", noun[count != "1"]) if count else ("", noun[1].removeprefix("in "))
    return f"{number}{hits} of {_COUNTED[bots or 'exclude']}"


def range_text(answer: Any, tz: str | None) -> str:
    """Writes the range of an answer in the zone that was asked for, or that there is none."""
    if answer["from"] is None:
        return "all time"
    tz = tz or "UTC"
    return f"{span_text(answer, zone(tz).info)} {tz}"


def span_text(span: Any, place: tzinfo) -> str:
    """Writes from when to when something was, in a zone."""
    return f"{_minute_text(span['from'], place)} to {_minute_text(span['to'], place)}"


def name_of(answer: Any) -> str:
    """Returns what an answer is about."""
    return visible(answer.get("key") or "all links")


def total_lines(answer: Any, tz: str | None = None, bots: str | None = None, noun: Noun = HITS) -> list[str]:
    """Writes the total of a range, or its bounds."""
    about, when = name_of(answer), range_text(answer, tz)
    if answer["exact"]:
        total = f"{answer['total']:,}"
        return [f"{about}: {hits_text(bots, total, noun)}, {when}"]
    between = f"between {answer['at_least']:,} and {answer['at_most']:,}"
    return [f"{about}: {hits_text(bots, between, noun)}, {when} (the range cuts a bucket)"]


def ranking_lines(
    answer: Any, what: str, tz: str | None, bots: str | None, width: int, plain: bool = False, noun: Noun = HITS
) -> list[str]:
    """Lists the links or the groups (`what`) of an answer, under a line that says what is counted, and when."""
    head = f"{what} by {hits_text(bots, noun=noun)}, {range_text(answer, tz)}"
    if not answer[what]:
        return [f"{head}: none"]
    return [head if answer["exact"] else f"{head} (the range cuts a bucket)", *top_lines(answer[what], width, plain)]


def top_lines(links: Sequence[Any], width: int, plain: bool = False) -> list[str]:
    """Lists links with their counts, one a line."""
    counts = [(link["key"], link.get("value", link["count"])) for link in links]
    drawn = [DrawnCount(visible(key), count, count) for key, count in counts]
    return _count_lines(drawn, width, plain, has_notes=False)


def clock_time(t: int, tz: str) -> str:
    """Writes when something was, by the second, in a zone."""
    return datetime.fromtimestamp(t, zone(tz).info).strftime("%H:%M:%S")


def undated_lines(answer: Any) -> list[str]:
    """Writes, from a link's totals, that no hit of it has a time."""
    undated = f"{answer['opening']:,} hits without dates, and none with one" if answer["opening"] else "no hits yet"
    return [f"{visible(answer['key'])}: {undated}"]


def link_lines(answer: Any, tz: str = "UTC", bots: str | None = None, noun: Noun = HITS) -> list[str]:
    """Lists a link's totals, one a line, with times in the zone `tz`."""
    if answer["first_hit"] is None and not answer["opening"]:
        return undated_lines(answer)
    place = zone(tz).info
    sums = ("lifetime", "today", "yesterday", "last_7d", "last_30d", "bots", "opening")
    head = f"{name_of(answer)}: {hits_text(bots, noun=noun)}, days in {tz}"
    lines = [head, *(f"  {each:<10} {answer[each]:>15,}" for each in sums)]
    for each in ("first_hit", "last_hit"):
        at = answer[each]
        lines.append(f"  {each:<10} " + (f"{NEVER:>15}" if at is None else f"{_minute_text(at, place)} {tz}"))
    if not answer["exact"]:
        lines.append(f"  not exact: a day of {tz} begins inside a bucket, which counts whole")
    return lines


def columns_of(text: str) -> int:
    """Returns how many columns of a terminal a text takes: letters of East Asia two, marks above a letter none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


# --- counts, one a line -----------------------------------------------------------------------------------------------
class DrawnCount(NamedTuple):
    """One line: a name, what is known of its count, and what is said after the bar."""

    name: str
    at_least: int
    at_most: int
    note: str = ""

    @property
    def number(self) -> str:
        if self.at_least == self.at_most:
            return f"{self.at_most:,}"
        return f"{self.at_least:,} to {self.at_most:,}"


def _count_lines(drawn: Sequence[DrawnCount], width: int, plain: bool, has_notes: bool = True) -> list[str]:
    """Lists counts with their bars. has_notes: room is kept for what is said after a bar."""
    if not drawn:
        return []
    # A key of 1,024 bytes, or a value of 100, takes a line of its own, and the others stay aligned.
    left = min(max(columns_of(each.name) for each in drawn), max(LEAST_BAR, width // 2))
    right = max(len(each.number) for each in drawn)
    notes = max(len(each.note) + 1 for each in drawn) if has_notes else 0
    room = max(LEAST_BAR, width - left - right - notes - 4)
    most = max(each.at_most for each in drawn)
    return [
        f"{each.name}{' ' * (left - columns_of(each.name))}  {each.number:>{right}}  "
        f"{bar(each.at_most, most, room, plain):<{room}} {each.note}".rstrip()
        for each in drawn
    ]


# --- values and visitors ----------------------------------------------------------------------------------------------
def value_lines(answer: Any, tz: str | None, width: int, plain: bool = False, noun: Noun = HITS) -> list[str]:
    """Lists values with their counts, one a line, then what is of no value that is shown, and the total.

    The first line says what is counted, and when.
    """
    dimension = answer["dimension"]
    hits = hits_text("only" if dimension in OF_BOTS else None, noun=noun)
    head = _title_line(name_of(answer), f": {hits} by {dimension}, {range_text(answer, tz)}", width)
    hidden = answer["not_shown"]
    rest = (
        (f"({hidden['values']:,} more values)", hidden["count"]),
        ("(other)", answer["other"]),
        ("(unrecorded)", answer["unrecorded"]),
    )
    drawn = [
        DrawnCount(visible(each["value"]) or NOT_GIVEN, each["at_least"], each["at_most"]) for each in answer["values"]
    ]
    drawn += [DrawnCount(name, count, count) for name, count in rest if count]
    return [head, *_count_lines(drawn, width, plain), f"total {answer['total']:,}", *_kept_since(answer)]


def _kept_since(answer: Any) -> list[str]:
    """Says from when on values are kept, where the range begins before; that is a midnight of UTC."""
    since = answer.get("kept_since")
    if since is None or (answer["from"] or 0) >= since:
        return []
    return [f"values are kept since {datetime.fromtimestamp(since, UTC):%Y-%m-%d} (UTC); older ones are (other)"]


def visitor_lines(answer: Any, width: int, plain: bool = False) -> list[str]:
    """Lists the days with their visitors, one a line, and the sum."""
    drawn = [_drawn_visitors(_days(day["start"], day["end"]), day["visitors"], day) for day in answer["days"]]
    whole = _drawn_visitors("visitor-days", answer["visitor_days"], answer)
    unknown = [f"unknown {answer['unknown']:,}"] if answer["unknown"] else []
    return [*_count_lines(drawn, width, plain), f"{whole.name} {whole.number} {whole.note}".rstrip(), *unknown]


def _drawn_visitors(name: str, visitors: int | None, answer: Any) -> DrawnCount:
    """Returns the visitors of one line: one number, or the bounds where there is none."""
    if visitors is None:
        return DrawnCount(name, answer["at_least"], answer["at_most"])
    note = "" if answer["exact"] else f"estimated, error {answer.get('error', 0):,}"
    return DrawnCount(name, visitors, visitors, note)


def _days(start: int, end: int) -> str:
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end - 1))
    return f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
