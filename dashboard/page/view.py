"""What the address bar says of a view: the range, the step, the zone, bots, the filter, and what is searched for.

The page never keeps it anywhere else, so that a view can be sent, bookmarked, and gone back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any
from urllib.parse import unquote_plus, urlencode

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import KEY_BYTES
from dashboard.page.periods import EVER, after_last_day, moment_written

_AS_WRITTEN = ("q", "prefix", "after", "compare", "value", "not")  # spaces at their ends are kept
_OF_LISTS = ("q", "prefix", "after", "sort", "page", "show", "list")  # what is of one page and not of its neighbours
USUAL = "30d"
EVENT, VALUE = "event:", "value:"  # what an address shows or sorts by, before the name of an event
TimeSpan = tuple[int, int]  # [start, end), epoch seconds
STEPS = (
    ("", "automatic"),
    ("1m", "minute"),
    ("5m", "5 minutes"),
    ("15m", "15 minutes"),
    ("1h", "hour"),
    ("6h", "6 hours"),
    ("1d", "day"),
    ("1w", "week"),
    ("1mo", "month"),
    ("1y", "year"),
)
BOTS = (("", "people"), ("include", "people and bots"), ("only", "bots"))


@dataclass(frozen=True, slots=True)
class PageView:
    """The texts as they were given, empty where they were not. What they mean is for the query code to judge."""

    last: str = ""
    start: str = ""
    end: str = ""
    step: str = ""
    tz: str = ""
    bots: str = ""
    q: str = ""
    prefix: str = ""  # of the keys in the table of links
    after: str = ""
    compare: str = ""
    by: str = ""  # the dimension of the filter
    values: tuple[str, ...] = ()  # those that the filter shows together; an empty one: hits that gave none
    left_out: tuple[str, ...] = ()  # those that it leaves out
    sort: str = ""  # of the table of links
    page: str = ""  # the number of a page of it
    show: str = ""  # what the chart draws, empty: hits
    list: str = ""  # the dimension whose values are all listed
    keys: tuple[str, ...] = ()  # links that are drawn together, and
    groups: tuple[str, ...] = ()  # groups; only the page that draws them reads them
    begun: str = ""  # what questions say in the place of EVER; in no address
    page_step: str = ""  # that the page chooses where the address has none; in no address
    home_tz: str = ""  # the zone that holds where the address names none, empty for UTC; in no address

    @property
    def is_ever(self) -> bool:
        """Tells whether the view is of all time."""
        return self.start == EVER and not self.end

    @property
    def zone_name(self) -> str:
        """The zone that holds, empty for UTC."""
        return self.tz or self.home_tz

    @property
    def span(self) -> str:
        """The `last` that holds, empty for a range from a moment to another."""
        return self.last or ("" if self.start or self.end else USUAL)

    @property
    def curve_query(self) -> bytes:
        """What to ask for the curve of the view."""
        return _encoded({**self._asked(), "step": self.step or self.page_step, "tz": self.zone_name, **self._hits()})

    @property
    def total_query(self) -> bytes:
        """What to ask for the range as a whole, of breakdowns too."""
        return _encoded({**self._asked(), "tz": self.zone_name})

    def _hits(self) -> dict[str, str | tuple[str, ...]]:
        """Returns which hits a curve counts: those of the filter, which are people's, or of people and bots."""
        return {"value": self.values, "not": self.left_out} if self.by else {"bots": self.bots}

    def _asked(self, span: TimeSpan | None = None) -> dict[str, str]:
        """Returns the view's range as questions have it, or another span."""
        if span is not None:
            return {"from": moment_written(span[0]), "to": moment_written(span[1])}
        return {"last": self.span, "from": self.begun or self.start, "to": after_last_day(self.end)}

    def ranking_query(self, limit: int, span: TimeSpan | None = None) -> bytes:
        """Returns what to ask for the ranking of the view's range, or of another span.

        All time is asked for without a range, which is quicker.
        """
        asked = {} if self.is_ever and span is None else self._asked(span)
        return _encoded({**asked, "prefix": self.prefix, "limit": str(limit), "tz": self.zone_name, "bots": self.bots})

    def keys_query(self, limit: int) -> bytes:
        """Returns what to ask for links in the order of their keys: for those that the view searches, or for all."""
        chosen = {"prefix": self.prefix, "contains": self.q, "after": self.after}
        return _encoded({"sort": "key", **chosen, "limit": str(limit), "bots": self.bots})

    def begun_at(self, first_hit: int | None, now: int) -> PageView:
        """Returns a view of all time whose questions begin with the hour, day or month of the first hit."""
        if not self.is_ever or first_hit is None:
            return self
        since = datetime.fromtimestamp(first_hit, UTC).replace(minute=0, second=0)
        if now - first_hit > 2 * DAY_S:
            since = since.replace(hour=0)
        if now - first_hit > 92 * DAY_S:
            since = since.replace(day=1)
        return replace(self, begun=str(int(since.timestamp())))

    def curve_query_of(self, start: int, end: int, step: str) -> bytes:
        """Returns what to ask for the curve of another range, by the same step, of the same hits."""
        return _encoded({**self._asked((start, end)), "step": step, "tz": self.zone_name, **self._hits()})

    def people_query(self, span: TimeSpan) -> bytes:
        """Returns what to ask of another span of what only people's hits say, such as visitors."""
        return _encoded({**self._asked(span), "tz": self.zone_name})

    def with_bots(self, bots: str) -> PageView:
        return replace(self, bots=bots)

    def count_query(self, span: TimeSpan | None = None) -> bytes:
        """Returns what to ask for the total of the view's range, or of another span, of the same hits."""
        return _encoded({**self._asked(span), "tz": self.zone_name, "bots": self.bots})

    def compared_query(self, compare: str) -> bytes:
        """Returns what to ask for the total of the view's range beside one before, as the API names them."""
        return self.count_query() + b"&compare=" + compare.encode()

    def filtered(self, dimension: str, value: str) -> str:
        """Returns the query of the view whose filter is a value."""
        return self.of_one(by=dimension, values=(value,), left_out=(), bots="", step="")

    def filtered_with(self, dimension: str, value: str) -> str:
        """Returns the query of the view whose filter shows a value beside those that it shows already."""
        others = self.values if self.by == dimension else ()
        return self.of_one(by=dimension, values=(*others, value), left_out=(), bots="", step="")

    def filtered_without(self, dimension: str, value: str) -> str:
        """Returns the query of the view whose filter leaves a value out, beside those that it leaves out already."""
        others = self.left_out if self.by == dimension else ()
        left_out = tuple(dict.fromkeys((*others, value)))
        return self.of_one(by=dimension, values=(), left_out=left_out, bots="", step="")

    def unfiltered(self) -> PageView:
        """Returns the view of all hits."""
        return replace(self, by="", values=(), left_out=())

    def of_one(self, **changes: Any) -> str:
        """Returns the query of the view with changes, for the page of a link or a group."""
        return self.address(**{**dict.fromkeys(_OF_LISTS, ""), "keys": (), "groups": (), **changes})

    def address(self, **changes: Any) -> str:
        """Returns the query of the view with changes, with its question mark, for links of the page."""
        changed = replace(self, **changes)
        if {"last", "start", "end"} & changes.keys():
            kept = {name: changes.get(name, "") for name in ("last", "start", "end", "page")}
            changed = replace(changed, **kept)
        if not changed.by:
            changed = changed.unfiltered()
        written = {name: getattr(changed, field) for name, field in _FIELDS.items()}
        return "?" + _encoded(written).decode()


_NOT_IN_ADDRESSES = ("begun", "page_step", "home_tz")
# Name in an address -> field of PageView.
_RENAMED = {"start": "from", "end": "to", "values": "value", "left_out": "not", "keys": "key", "groups": "group"}
_FIELDS: Mapping[str, str] = {
    _RENAMED.get(each.name, each.name): each.name for each in fields(PageView) if each.name not in _NOT_IN_ADDRESSES
}
NAMES = tuple(name for name in _FIELDS if name not in ("key", "group"))


def view_of(query: bytes, home_tz: str = "") -> PageView:
    """Reads a raw query string; raises ParameterInvalid. home_tz: the zone where it names none.

    A name is known and given once, a value at most KEY_BYTES characters long. `value` and `not` come with `by`, may
    stand several times, and have no more characters together.
    """
    given: dict[str, str] = {}
    several: dict[str, list[str]] = {"value": [], "not": []}
    for part in filter(None, query.split(b"&")):
        name, _, value = (unquote_plus(each.decode("latin-1")) for each in part.partition(b"="))
        if name not in NAMES or (name in given and name not in several):
            why = "is given twice" if name in given else "is not known here"
            rule = f"one of {', '.join(NAMES)}, each at most once"
            raise ParameterInvalid(f"parameter {name!r} {why}", field=name, value=value, rule=rule)
        several.get(name, []).append(value)
        characters = sum(map(len, chain(*several.values()))) if name in several else len(value)
        if characters > KEY_BYTES:  # each link of a page repeats the view: 50,000 characters made a page of 1 MB
            long = f"parameter {name} has {characters:,} characters"
            raise ParameterInvalid(long, field=name, value=value[:100], rule=f"at most {KEY_BYTES:,} characters")
        given[name] = value if name in _AS_WRITTEN else value.strip()
    if given.get("from") or given.get("to"):
        given.pop("last", None)  # the form of the page has both: a range that somebody typed is meant
    if not given.get("by") and (named := [name for name in several if name in given]):
        why = f"{named[0]} is given without its dimension"
        raise ParameterInvalid(why, field="by", value="", rule="such as by=ref&value=news.example")
    values, left_out = (tuple(dict.fromkeys(each)) for each in several.values())
    if given.get("by") and not (values or left_out):
        values = ("",)  # an address without one is as old as the page
    texts = {_FIELDS[name]: value for name, value in given.items() if name not in several}
    return PageView(home_tz=home_tz, values=values, left_out=left_out, keys=(), groups=(), **texts)


def _encoded(values: Mapping[str, str | tuple[str, ...]]) -> bytes:
    return urlencode({name: value for name, value in values.items() if value}, doseq=True).encode()
