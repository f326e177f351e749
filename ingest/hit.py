"""A hit: as it is read, as it counts, and every reason to refuse one.

Rules. `key`: 1 to 1,024 bytes of UTF-8 without lone surrogates, kept as given. `ts`: epoch seconds (floored) or ISO
8601, not below 0, at most 300 s ahead; 13 digits are milliseconds and refused rather than guessed. `count`: an
integer from 1 to 1,000,000,000, not a boolean, not 1.0. `id`: 1 to 128 visible ASCII characters. `bot` beats `ua`
and the rules for bots; with neither it is a person. `event`: what came of a click, by a name of the settings; none: a
click. `value`: the amount of one event, an integer from 0 to 10^12. The other fields say who and from where; most
of their rules are in `ingest/attributes/`, and `ingest/reading/judge.py` judges by all. `null` in a field that may be
left out is the same as leaving it out. Fields with other names are ignored.

The functions take values as JSON gave them and raise `HitRejected` with field, value and rule. JSON that no field can
hold (an object, a list, a number without end) may be given as its bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import HOUR_S, MINUTE_S
from clickcurve.buckets.measures import EVENT_RULE, VALUE_MAX, is_event_name
from clickcurve.keys import ALL_LINKS, GROUP_BYTES, KEY_BYTES, is_key, link_key, require_key
from clickcurve.times import YEAR_RULE, YEARS, iso_seconds, year_hint
from ingest.attributes.profile import Profile
from ingest.attributes.text import text_of

COUNT_MAX = 1_000_000_000
ID_CHARACTERS = 128
FUTURE_S = 300
GROUPS = 4  # that one hit names
VISITOR_PATTERN = r"^[!-~]{1,128}\Z"
# Names that certainly are good; others may be, and are looked at one by one.
GROUP_PATTERN = r"^([ -~]{1,64}|[^\x00-\x1f\x7f-\x9f]{1,16})\Z"
_VISITOR = re.compile(VISITOR_PATTERN)

TS_RULE = "epoch seconds as a number, or ISO 8601 as a string"
TS_FLOOR_RULE = "not before 1970-01-01T00:00:00Z"
TS_UNIT_RULE = "seconds, not smaller units"
FUTURE_RULE = "not further ahead than the tolerance"
COUNT_RULE = f"an integer from 1 to {COUNT_MAX:,}"
ID_RULE = f"1 to {ID_CHARACTERS} visible ASCII characters"
UA_RULE = "a string"
BOT_RULE = "true or false"
VALUE_RULE = f"an integer from 0 to {VALUE_MAX:,}, of the smallest unit"
VISITOR_RULE = "1 to 128 visible ASCII characters"
GROUPS_RULE = f"a list of at most {GROUPS} names of 1 to {GROUP_BYTES} bytes"
FUTURE = "future"  # what breaks FUTURE_RULE is told apart from other times: a wrong clock
HIT_RULE = "a JSON object with a key"

# The fields that say who and from where.
ATTRIBUTE_FIELDS = ("ref", "ip", "country", "lang", "source", "utm", "tags", "visitor", "groups")

NO_TIME = -1
NO_COUNT = 0  # none is given: one hit

Judge = Callable[[str], bool]  # whether a user agent is a bot's


# --- hits as read -----------------------------------------------------------------------------------------------------
# Structs where other nouns are dataclasses: msgspec decodes into them, and one is made for every hit. A key of so many
# characters has at most KEY_BYTES bytes, whatever the characters are.
_Key = Annotated[str, Meta(min_length=1, max_length=KEY_BYTES // 4)]
_Count = Annotated[int, Meta(ge=1, le=COUNT_MAX)]


class PlainHit(Struct, forbid_unknown_fields=True, gc=False, eq=False):
    """A hit with nothing but key, time and count, in bounds: what almost all hits of batches are."""

    key: _Key
    ts: Annotated[int, Meta(ge=0)] = NO_TIME
    count: _Count = NO_COUNT


class JsonHit(Struct, gc=False, eq=False):
    """A hit with all its fields. Decoded at once, they have these types and bounds; one by one they may hold anything.

    None: the field is absent or null.
    """

    key: _Key
    ts: int | float | str | None = None
    count: _Count | None = None
    id: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS)] | None = None
    ua: str | None = None
    bot: bool | None = None
    ref: str | None = None
    ip: str | None = None
    country: str | None = None
    lang: str | None = None
    source: str | None = None
    utm: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None
    visitor: Annotated[str, Meta(pattern=VISITOR_PATTERN)] | None = None
    groups: Annotated[list[Annotated[str, Meta(pattern=GROUP_PATTERN)]], Meta(max_length=GROUPS)] | None = None
    event: str | None = None
    value: Annotated[int, Meta(ge=0, le=VALUE_MAX)] | None = None


class EventId(str):
    """An id that hits count under and no hit can send, made of the one that was: `sent`.

    That of a CloudEvent is made of its source too, that of a hit under a prefix of the prefix.
    """

    __slots__ = ("sent",)
    sent: str

    @classmethod
    def of(cls, joined: str, sent: str) -> EventId:
        """Returns the id of an event."""
        made = cls(joined)
        made.sent = sent
        return made


@dataclass(frozen=True, slots=True)
class NoHit:
    """A value that is refused without a look at the fields of a hit; `count`: what it may have sent as its count."""

    error: HitRejected
    count: object = None


class RawHits(Struct, frozen=True, eq=False):
    """Some hits as read, in the order of the body: one of the four is filled.

    odd: those that were read one by one. no_objects: so many values that are no hits, when enough of those were
    explained.
    """

    plain: Sequence[PlainHit] = ()
    json: Sequence[JsonHit] = ()
    odd: Sequence[JsonHit | NoHit] = ()
    no_objects: int = 0


# --- hits that count --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Moment:
    """The instant at which a body was received, and what depends on it. All in epoch seconds."""

    now: int
    late_before: int  # the start of the oldest day that is kept in minutes; earlier hits are late
    latest: int  # the last second that is not refused as too far ahead

    @classmethod
    def at(cls, now: float, minutes_since: Callable[[int], int]) -> Moment:
        second = math.floor(now)
        return cls(second, minutes_since(second), second + FUTURE_S)


class Hit(Struct, frozen=True, gc=False):
    """One visit, or `count` visits, to a link, as `HitJudge` makes it; `minute` is a minute's start.

    event: what came of the visits, where that is what it counts. value: of each of them, where one is given.
    """

    key: str
    minute: int
    count: int
    id: str | None
    bot: bool
    profile: Profile | None = None  # its value in each dimension
    visitors: tuple[int, ...] = ()  # its visitor's hash for the link, and for each of the groups; none if unknown
    groups: tuple[str, ...] = ()  # the stored keys of the groups that it counts in
    event: str = ""
    value: int = 0

    @property
    def rows(self) -> tuple[str, ...]:
        """The stored keys of all rows of clicks that an event counts beside."""
        return link_key(self.key), *self.groups, ALL_LINKS

    @property
    def sent_id(self) -> str:
        """The id as the client sent it."""
        return "" if self.id is None else sent_id(self.id)


def sent_id(id_: str) -> str:
    """Returns an id as the client sent it."""
    return id_.sent if isinstance(id_, EventId) else id_


def minute_start(ts: int) -> int:
    return ts - ts % MINUTE_S


def hour_start(ts: int) -> int:
    return ts - ts % HOUR_S


def refused_count(count: object) -> int:
    """Returns what a refused hit sums as: its count if that is valid, else 1."""
    return count if is_count(count) else 1  # type: ignore[return-value]


# --- rules ------------------------------------------------------------------------------------------------------------
class Rule(NamedTuple):
    """What a field must be: `is_good` tests a value that is not None, `refuse` raises HitRejected for one that is not.

    A test makes no error and no text: of a million refused hits only the first thousand are explained.
    """

    field: str
    is_good: Callable[[object, Moment], bool]
    refuse: Callable[[object, Moment], object]


def second_by_rules(raw: JsonHit, moment: Moment, explains: bool = True) -> int:
    """Returns the second of a hit whose fields keep to RULES; raises HitRejected for the first that does not.

    explains: False for an error that says no more than the field, and FUTURE_RULE if that is what is broken.
    """
    broken = RULES[0] if raw.key is None else None
    for value, rule in zip(_ruled(raw), RULES, strict=True):
        if value is not None and not rule[1](value, moment):
            broken = broken or rule
            break
    if broken is not None:
        if explains:
            broken.refuse(getattr(raw, broken.field), moment)
        is_ahead = broken.field == "ts" and _is_future(raw.ts, moment)
        raise HitRejected("", field=broken.field, rule=FUTURE_RULE if is_ahead else None)
    second = moment.now if raw.ts is None else second_of(raw.ts)
    assert second is not None
    return second


def second_of(value: object) -> int | None:
    """Returns epoch seconds; None for a value that is no time."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        return math.floor(value) if math.isfinite(value) else None
    return iso_seconds(value) if isinstance(value, str) else None


def ts_of(value: object, moment: Moment) -> int:
    """Returns epoch seconds, the moment's own where no time is given; raises HitRejected.

    It takes what an export of histories may hold: a number that may be a year, too.
    """
    if value is None:
        return moment.now
    second = second_of(value)
    if second is None or not 0 <= second <= moment.latest:
        refuse_time(value, moment)
    assert second is not None
    return second


def time_of(value: object, moment: Moment) -> int | None:
    """Returns epoch seconds; None for a time that no hit may have."""
    second = second_of(value)
    if second is None or not 0 <= second <= moment.latest:
        return None
    return second if second not in YEARS or isinstance(value, str) else None


def refuse_time(value: object, moment: Moment) -> None:
    """Raises HitRejected for a time that no hit may have."""
    second, rule = second_of(value), TS_RULE
    if second is None:
        detail = _not_a_time(value)
    elif second < 0:
        detail, rule = "ts lies before 1970", TS_FLOOR_RULE
    elif second in YEARS:
        detail, rule = f"ts is {second}: {year_hint(second)}", YEAR_RULE
    elif unit := _smaller_unit(second):
        detail, rule = f"ts has {len(str(second))} digits: {unit}?", TS_UNIT_RULE
    else:
        tolerated = moment.latest - moment.now
        detail = f"ts lies more than {tolerated} s ahead of the server's clock, which says {moment.now}"
        rule = FUTURE_RULE
    raise HitRejected(detail, field="ts", value=value, rule=rule)


def _not_a_time(value: object) -> str:
    if isinstance(value, float):
        return "ts is not a finite number"
    if isinstance(value, str):
        return "ts is a number in quotes: send it without" if value.isdecimal() else "ts is not a time in ISO 8601"
    return "ts is neither a readable number nor a string"


def _is_future(value: object, moment: Moment) -> bool:
    second = second_of(value)
    return second is not None and second > moment.latest and not _smaller_unit(second)


def _smaller_unit(ts: int) -> str | None:
    """Returns the unit that an epoch time of this size is most likely in, if it is not seconds."""
    if 10**12 <= ts < 10**14:
        return "milliseconds"
    if 10**14 <= ts < 10**17:
        return "microseconds"
    return "nanoseconds" if 10**17 <= ts < 10**20 else None


def is_count(value: object) -> bool:
    """Tells whether a value is an integer from 1 to COUNT_MAX; no boolean is."""
    return type(value) is int and 1 <= value <= COUNT_MAX


def refuse_count(value: object, _: Moment) -> None:
    """Raises HitRejected for a count that no hit may have."""
    what = "is out of range" if type(value) is int else "must be an integer, without quotes or fraction"
    raise HitRejected(f"count {what}", field="count", value=value, rule=COUNT_RULE)


def is_id(value: object, _: Moment | None = None) -> bool:
    """Tells whether a value is a text of 1 to 128 visible ASCII characters, or the id of an event."""
    if not isinstance(value, str):
        return False
    plain = 0 < len(value) <= ID_CHARACTERS and value.isascii() and value.isprintable() and " " not in value
    return plain or isinstance(value, EventId)


def refuse_id(value: object, _: Moment) -> None:
    """Raises HitRejected for an id that no hit may have."""
    what = "is empty, too long, or not visible ASCII" if isinstance(value, str) else "must be a string"
    raise HitRejected(f"id {what}", field="id", value=value, rule=ID_RULE)


def _refuse_ua(value: object, _: Moment) -> None:
    raise HitRejected("ua must be a string", field="ua", value=value, rule=UA_RULE)


def _refuse_bot(value: object, _: Moment) -> None:
    raise HitRejected("bot must be true or false", field="bot", value=value, rule=BOT_RULE)


def _refuse_event(value: object, _: Moment) -> None:
    raise HitRejected("event is no name of an event", field="event", value=value, rule=EVENT_RULE)


def is_value(value: object) -> bool:
    """Tells whether a value is an integer from 0 to VALUE_MAX; no boolean is."""
    return type(value) is int and 0 <= value <= VALUE_MAX


def _refuse_value(value: object, _: Moment) -> None:
    what = "is out of range" if type(value) is int else "must be an integer, without quotes or fraction"
    raise HitRejected(f"value {what}", field="value", value=value, rule=VALUE_RULE)


def is_visitor(value: object, _: Moment | None = None) -> bool:
    """Tells whether a value can be the field `visitor` of a hit."""
    return isinstance(value, str) and _VISITOR.search(value) is not None


def _refuse_visitor(value: object, _: Moment) -> None:
    raise HitRejected("visitor is not a valid text", field="visitor", value=None, rule=VISITOR_RULE)


def _require_groups(value: object, _: Moment | None = None) -> None:
    if not isinstance(value, list) or len(value) > GROUPS:
        raise HitRejected("groups is not a valid list", field="groups", value=value, rule=GROUPS_RULE)
    for name in value:
        require_group(name, "groups", GROUPS_RULE)


def _are_groups(value: object, _: Moment) -> bool:
    try:
        _require_groups(value)
    except HitRejected:
        return False
    return True


def require_group(name: object, field: str, rule: str) -> None:
    """Raises HitRejected unless a value of this field is a name of a group."""
    if not text_of(name, field, rule, GROUP_BYTES):
        raise HitRejected("a group's name is empty", field=field, value="", rule=rule)


# In the order in which they are tested. The attributes that are not here are checked by the reader of profiles, next.
RULES: Final = (
    Rule("key", lambda value, _: is_key(value), lambda value, _: require_key(value, HitRejected)),
    Rule("ts", lambda value, moment: time_of(value, moment) is not None, refuse_time),
    Rule("count", lambda value, _: is_count(value), refuse_count),
    Rule("id", is_id, refuse_id),
    Rule("event", lambda value, _: is_event_name(value), _refuse_event),
    Rule("value", lambda value, _: is_value(value), _refuse_value),
    Rule("ua", lambda value, _: isinstance(value, str), _refuse_ua),
    Rule("bot", lambda value, _: isinstance(value, bool), _refuse_bot),
    Rule("visitor", is_visitor, _refuse_visitor),
    Rule("groups", _are_groups, _require_groups),
)
# Many fields at once, in C.
_ruled: Callable[[JsonHit], tuple[object, ...]] = attrgetter(*(rule.field for rule in RULES))
