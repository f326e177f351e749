"""The parameters of a read request, checked, and the range and step that they mean at a moment `now`.

Two steps, because the first depends on the text alone and can be cached: parsing gives `Parameters`, resolving a
`Window`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import unquote_to_bytes
from zoneinfo import ZoneInfo

from clickcurve.answers.written import CsvForm
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, MINUTE_S, Ladder, fold_day
from clickcurve.buckets.measures import CLICKS, EVENT_RULE, Measure, is_event_name
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import OUTCOMES
from clickcurve.times import LATEST, parse_time, require_in_range
from query.comparison import Compare, TimeSpan, span_before
from query.steps import AUTO, Last, Step, auto_step, parse_last, parse_step
from query.zones import EPOCH, UTC_ZONE, Zone, iso, zone

_FORM = ("format", "raw", "bom")  # how an answer is written
_DATED_FORM = (*_FORM, "times")
_MEASURE = ("event", "measure")  # what is counted
LIMIT_CURVE = ("outcome", "caller", "from", "to", "last", "step", "tz", "bots", "compare", *_DATED_FORM)
LIMIT_TOTAL = ("outcome", "caller", "from", "to", "last", "tz", "bots", "compare")
SUM = (*_MEASURE, "from", "to", "last", "step", "tz", "bots", "compare", *_DATED_FORM)
CURVE = (*SUM, "notes")
TOTAL = (*_MEASURE, "from", "to", "last", "tz", "bots", "compare")
SUMMARY = (*_MEASURE, "tz", "bots")
NOW = (*_MEASURE, "bots")
HOURS = (*_MEASURE, "from", "to", "last", "tz", "bots", *_FORM)
BY = (*_MEASURE, "value", "not", "from", "to", "last", "tz", "limit", *_FORM)
BY_CURVE = (*_MEASURE, "value", "not", "from", "to", "last", "step", "tz", *_DATED_FORM)
VISITORS = ("from", "to", "last", "tz", *_DATED_FORM)
EVENTS = ("from", "to", "last", "tz", "bots", *_FORM)
EVENTS_BY = ("from", "to", "last", "tz", "limit", *_FORM)
WHY = (*_MEASURE, "from", "to", "last", "compare", "before_from", "before_to", "tz", "limit", *_FORM)
LINKS = (
    *(*_MEASURE, "sort", "from", "to", "last", "compare", "prefix", "contains", "after", "limit", "tz", "bots"),
    *_FORM,
)
ERASURE = ("prefix", "limit")
EXPORT = ("prefix", "after")

SEVERAL = ("value", "not")  # may stand several times

MAX_TOP = 1_000
DEFAULT_TOP = 20
MAX_ERASED = 10_000  # links of one request
DEFAULT_ERASED = 1_000
DEFAULT_LAST = parse_last("24h")
FORMATS = ("json", "csv")
ROWS = "rows"
CURVE_FORMATS = (*FORMATS, ROWS)
TIMES = ("epoch", "iso")
NO_OR_YES = ("0", "1")
MEASURES = ("count", "value")
FALSE_OR_TRUE = ("false", "true")
BY_KEY = "key"
SORTS = ("hits", BY_KEY)
DEFAULT_OUTCOME = "asked"

_LATEST_END = LATEST + 360 * DAY_S  # still in the last year of the calendar: units of now end there

# `+05:30` in a query string that was not percent-encoded arrives as ` 05:30`.
_LOST_PLUS = re.compile(r"([0-9-]{8,10}[Tt ][0-9:.,]+) ([0-9]{2}:?[0-9]{2})")


@dataclass(frozen=True, slots=True)
class Parameters:
    """One request's parameters. start and end are epoch seconds; step None is `auto`."""

    start: int | None = None
    end: int | None = None
    last: Last | None = None
    step: Step | None = None
    zone: Zone = UTC_ZONE
    bots: Bots = Bots.exclude
    limit: int = DEFAULT_TOP
    outcome: str = DEFAULT_OUTCOME
    caller: str | None = None
    start_text: str = ""  # the start as it was given, for sentences
    sort: str = SORTS[0]
    prefix: str = ""
    after: str | None = None
    values: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    contains: str = ""
    measure: Measure = CLICKS
    compare: Compare | None = None
    notes: bool = False

    @property
    def ranged(self) -> bool:
        """Whether it names a range at all."""
        return self.last is not None or self.start is not None or self.end is not None


@dataclass(frozen=True, slots=True)
class Window:
    """The requested range [start, end) in epoch seconds, and its step. start == end only when nothing was ever hit.

    Raises ParameterInvalid for a range that ends after the calendar.
    """

    start: int
    end: int
    step: Step
    zone: Zone

    def __post_init__(self) -> None:
        if self.end > _LATEST_END:
            raise ParameterInvalid(
                f"the range ends at {self.end} s, after the year 9998",
                field="to",
                value=self.end,
                rule="not after the year 9998",
            )

    def __hash__(self) -> int:
        return hash((self.start, self.end, self.step.name, self.zone.name))  # a third of the time of the whole one


# --- parsing --------------------------------------------------------------------------------------------------------
def parse_query(query: bytes, allowed: Sequence[str]) -> dict[str, str]:
    """Reads the parameters of a raw query string: each known, at most once, percent-decoded as a form.

    Of those that may stand several times it returns the last one: see `parse_divided`.
    """
    values: dict[str, str] = {}
    for name, value in _pairs(query):
        if name not in allowed:
            raise ParameterInvalid(
                f"parameter {name!r} is not known here",
                field=name,
                value=value,
                rule=f"one of {', '.join(allowed)}" if allowed else "no parameters",
            )
        if name in values and name not in SEVERAL:
            raise ParameterInvalid(
                f"parameter {name!r} is given twice", field=name, value=value, rule="each parameter at most once"
            )
        values[name] = value
    return values


def _pairs(query: bytes) -> Iterator[tuple[str, str]]:
    """Yields name and value of each part of a raw query string that is not empty."""
    for part in filter(None, query.split(b"&")):
        name, _, value = part.partition(b"=")
        yield _unquoted(name), _unquoted(value)


def parse_divided(query: bytes, allowed: Sequence[str]) -> Parameters:
    """Checks the parameters of a raw query string about values of a dimension; raises ParameterInvalid."""
    parameters = parse_parameters(parse_query(query, allowed))
    of = {each: tuple(value for name, value in _pairs(query) if name == each) for each in SEVERAL}
    return replace(parameters, values=of["value"], left_out=of["not"])


def given_form(query: bytes) -> tuple[str | None, CsvForm, ZoneInfo]:
    """Returns how an answer to a query string that was understood is written: its format, and as CSV how.

    And the zone that was asked for.
    """
    names = (part.partition(b"=") for part in query.split(b"&"))
    given = {_unquoted(name): _unquoted(value) for name, _, value in names}
    where = _zone_of(given).info
    raw, bom = (given.get(name) == NO_OR_YES[1] for name in ("raw", "bom"))
    return given.get("format"), CsvForm(where if given.get("times") == TIMES[1] else None, raw, bom), where


def _unquoted(raw: bytes) -> str:
    data = unquote_to_bytes(raw.replace(b"+", b" "))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ParameterInvalid(
            "the query string is not UTF-8 once percent-decoded",
            field="query",
            value=data.decode(errors="replace"),
            rule="percent-encoded UTF-8",
        ) from None


def parse_parameters(given: Mapping[str, str], formats: tuple[str, ...] = FORMATS) -> Parameters:
    """Checks the parameters; raises ParameterInvalid. Only names that the request may use are expected."""
    where = _zone_of(given)
    last = parse_last(given["last"]) if "last" in given else None
    if last and ("from" in given or "to" in given):
        raise ParameterInvalid(
            "last cannot be given together with from or to",
            field="last",
            value=given["last"],
            rule="either last, or from and to",
        )
    start = moment("from", given["from"], where) if "from" in given else None
    end = moment("to", given["to"], where) if "to" in given else None
    if start is not None and end is not None:
        _check_order(start, end, given["from"])
    sort = _one_of("sort", given, SORTS) or SORTS[0]
    _check_sort(given, sort)
    _one_of("format", given, formats)
    _one_of("times", given, TIMES)
    for name in ("raw", "bom"):
        _one_of(name, given, NO_OR_YES)
    compare = _one_of("compare", given, tuple(Compare))
    _check_compare(given)
    return Parameters(
        start,
        end,
        last,
        parse_step(given.get("step", AUTO)),
        where,
        Bots(_one_of("bots", given, tuple(Bots)) or Bots.exclude),
        _limit(given),
        _one_of("outcome", given, OUTCOMES) or DEFAULT_OUTCOME,
        given.get("caller"),
        given.get("from", ""),
        sort,
        given.get("prefix", ""),
        given.get("after"),
        contains=given.get("contains", ""),
        measure=_measure(given),
        compare=None if compare is None else Compare(compare),
        notes=_one_of("notes", given, FALSE_OR_TRUE) == FALSE_OR_TRUE[1],
    )


def parse_erasure(query: bytes) -> tuple[str, int]:
    """Returns which links a deletion is about: how their keys begin, and how many of them at most."""
    given = parse_query(query, ERASURE)
    prefix = given.get("prefix", "")
    if not prefix:
        detail = "the prefix is missing: it says which links are deleted"
        raise ParameterInvalid(detail, field="prefix", value=given.get("prefix"), rule="1 character or more")
    return prefix, _limit(given, DEFAULT_ERASED, MAX_ERASED)


def _zone_of(given: Mapping[str, str]) -> Zone:
    # The + of `Etc/GMT+12`, not percent-encoded, arrives as a blank, and no zone has a blank in its name.
    return zone(given["tz"].replace(" ", "+")) if "tz" in given else UTC_ZONE


def _measure(given: Mapping[str, str]) -> Measure:
    """Returns what is asked for in place of clicks, whether or not there is such an event."""
    event, of_values = given.get("event"), _one_of("measure", given, MEASURES) == MEASURES[1]
    if event is None:
        if of_values:
            detail = "values are those of an event, and none is named"
            raise ParameterInvalid(detail, field="measure", value=given["measure"], rule="together with event")
        return CLICKS
    if not is_event_name(event):
        raise ParameterInvalid("event is no name of an event", field="event", value=event, rule=EVENT_RULE)
    return Measure(event, of_values)


def moment(field: str, text: str, zone: Zone) -> int:
    """Returns the epoch seconds (floored) that a time in a query string means; without an offset it is in `zone`."""
    lost_plus = _LOST_PLUS.fullmatch(text)
    written = parse_time(field, f"{lost_plus[1]}+{lost_plus[2]}" if lost_plus else text)
    t = written.utc_s
    if written.offset_s is None and -DAY_S <= t <= LATEST + DAY_S:  # else it is out of range in every zone
        t = zone.instant(EPOCH + timedelta(seconds=written.wall_s))
    return require_in_range(field, text, t)


def parse_before(given: Mapping[str, str], zone: Zone) -> tuple[int, int] | None:
    """Returns the span that a change is measured from, [before_from, before_to); None if it is not given."""
    names = ("before_from", "before_to")
    missing = [name for name in names if name not in given]
    if len(missing) == 2:
        return None
    if missing:
        name = missing[0]
        raise ParameterInvalid(f"{name} is missing", field=name, rule="both of before_from and before_to, or none")
    start, end = (moment(name, given[name], zone) for name in names)
    _check_order(start, end, given["before_from"], *names)
    return start, end


def _check_sort(given: Mapping[str, str], sort: str) -> None:
    """Refuses what another order of links needs."""
    ranges = ((name, SORTS[0]) for name in ("from", "to", "last", "compare"))
    for name, order in (*ranges, ("contains", BY_KEY), ("after", BY_KEY)):
        if name in given and sort != order:
            raise ParameterInvalid(
                f"{name} cannot be given with sort={sort}", field=name, value=given[name], rule=f"with sort={order}"
            )


def _check_compare(given: Mapping[str, str]) -> None:
    """Refuses a comparison beside what it cannot stand with."""
    if "compare" not in given:
        return
    for name in ("before_from", "before_to"):
        if name in given:
            rule = "compare, or before_from and before_to"
            raise ParameterInvalid(f"{name} cannot be given with compare", field=name, value=given[name], rule=rule)
    if given.get("format") == ROWS:
        detail = "rows hold one range: ask for the one before by its own from and to"
        raise ParameterInvalid(detail, field="compare", value=given["compare"], rule=f"without format={ROWS}")


def _one_of(field: str, given: Mapping[str, str], allowed: tuple[str, ...]) -> str | None:
    value = given.get(field)
    if value is not None and value not in allowed:
        raise ParameterInvalid(
            f"{field} {value!r} is not known", field=field, value=value, rule=f"one of {', '.join(allowed)}"
        )
    return value


def _limit(given: Mapping[str, str], usual: int = DEFAULT_TOP, most: int = MAX_TOP) -> int:
    text = given.get("limit")
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise ParameterInvalid(
            f"limit {text!r} is not allowed", field="limit", value=text, rule=f"a whole number from 1 to {most}"
        )
    return int(text)


def _check_order(start: int, end: int, value: str, from_: str = "from", to: str = "to") -> None:
    if start >= end:
        detail = f"{from_} {iso(start)} is not before {to} {iso(end)}"
        raise ParameterInvalid(detail, field=from_, value=value, rule=f"{from_} before {to}")


# --- resolving ------------------------------------------------------------------------------------------------------
def resolve_window(parameters: Parameters, now: int, ladder: Ladder) -> Window | None:
    """Returns the range and step that are meant at `now`.

    None for an end alone, which depends on the link: see `resolve_until`. Without a range it is the last 24 hours.
    `last` runs to the end of the step that holds now, a start alone to the end of the minute that does.
    """
    if parameters.start is None and parameters.end is not None:
        return None
    if parameters.start is not None:
        return _between(parameters, parameters.start, _end_or(now, parameters))
    last = parameters.last or DEFAULT_LAST
    start = last.start(now, parameters.zone)
    step = parameters.step or auto_step(start, last.end(now, parameters.zone), parameters.zone)
    end = step.unit.after(now, parameters.zone) if step.unit else ladder.kept(now, fold_day(now))[1]
    return Window(start, end, step, parameters.zone)


def resolve_until(parameters: Parameters, first: int | None) -> Window:
    """Returns the window of an end alone: from the minute of the first hit; empty when there is none before the end."""
    return _between(parameters, *_until(parameters, first))


def resolve_range(parameters: Parameters, now: int, first: int | None) -> tuple[int, int] | None:
    """Returns [start, end) of a range without a step, None for all time; `last` is whole units then."""
    if parameters.last is not None:
        return parameters.last.start(now, parameters.zone), parameters.last.end(now, parameters.zone)
    if parameters.start is not None:
        return parameters.start, _end_or(now, parameters)
    return None if parameters.end is None else _until(parameters, first)


def resolve_before(parameters: Parameters, asked: TimeSpan, now: int, now_end: int) -> TimeSpan | None:
    """Returns the range that the asked one is compared with, up to the same part of it; None without `compare`.

    now_end: the end of the kept bucket that holds now.
    """
    if parameters.compare is None:
        return None
    last, where = parameters.last or (None if parameters.ranged else DEFAULT_LAST), parameters.zone
    if last is not None:  # its whole units, whatever the step
        asked = last.start(now, where), last.end(now, where)
    return span_before(parameters.compare, asked, now_end, where)


def require_range(parameters: Parameters) -> None:
    """Raises ParameterInvalid where a comparison has no range: all of time has none before it."""
    if parameters.compare is not None and not parameters.ranged:
        detail = "compare needs a range: all of time has none before it"
        raise ParameterInvalid(detail, field="compare", value=parameters.compare.value, rule="with from, to or last")


def _between(parameters: Parameters, start: int, end: int) -> Window:
    return Window(start, end, parameters.step or auto_step(start, end, parameters.zone), parameters.zone)


def _end_or(now: int, parameters: Parameters) -> int:
    assert parameters.start is not None
    if parameters.end is not None:
        return parameters.end
    minute_end = now - now % MINUTE_S + MINUTE_S
    _check_order(parameters.start, minute_end, parameters.start_text)
    return minute_end


def _until(parameters: Parameters, first: int | None) -> tuple[int, int]:
    assert parameters.end is not None
    return parameters.end if first is None else min(first, parameters.end), parameters.end
