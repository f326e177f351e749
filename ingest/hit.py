"""What a hit is: as read, as it counts, and every reason to refuse one.

Rules. `key`: 1 to 1,024 bytes of UTF-8 without lone surrogates, kept as given. `ts`: epoch seconds (floored) or ISO
8601, not below 0, at most 300 s ahead; 13 digits are milliseconds and refused rather than guessed. `count`: an
integer from 1 to 1,000,000,000, not a boolean, not 1.0. `id`: 1 to 128 visible ASCII characters. `bot` beats `ua`;
with neither it is a person. The fields of `Words`, `visitor` and `groups` say who and from where; their rules are in
`ingest/attributes/`. `null` in a field that may be left out is the same as leaving it out. Fields with other names are
ignored.

The functions take values as JSON gave them and raise `HitRejected` with field, value and rule. JSON that no field can
hold (an object, a list, a number without end) may be given as its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from clickcurve.keys import KEY_BYTES, group_key, is_key, require_key
from clickcurve.problem import shown
from clickcurve.times import iso_seconds
from ingest.attributes.profile import NO_DIMENSIONS, Profile, ProfileReader, WordFields, pairs_of
from ingest.attributes.visitor import (
    GROUP_PATTERN,
    GROUPS,
    VISITOR_PATTERN,
    require_groups,
    require_visitor,
    visitor_hash,
    who_of,
)

COUNT_MAX = 1_000_000_000
ID_CHARACTERS = 128
FUTURE_S = 300

TS_RULE = "epoch seconds as a number, or ISO 8601 as a string"
TS_FLOOR_RULE = "not before 1970-01-01T00:00:00Z"
TS_UNIT_RULE = "seconds, not smaller units"
FUTURE_RULE = "not further ahead than the tolerance"
COUNT_RULE = f"an integer from 1 to {COUNT_MAX:,}"
ID_RULE = f"1 to {ID_CHARACTERS} visible ASCII characters"
UA_RULE = "a string"
BOT_RULE = "true or false"
FUTURE = "future"  # what breaks FUTURE_RULE is told apart from other times: a wrong clock
HIT_RULE = "a JSON object with a key"

# The fields that say who and from where.
WORD_FIELDS = ("ref", "ip", "country", "lang", "source", "utm", "tags", "visitor", "groups")

NO_TIME = -1

Judge = Callable[[str], bool]  # whether a user agent is a bot's


# --- hits as read -----------------------------------------------------------------------------------------------------
# Structs where other nouns are dataclasses: msgspec decodes into them, and one is made for every hit. A key of so many
# characters has at most KEY_BYTES bytes, whatever the characters are.
_Key = Annotated[str, Meta(min_length=1, max_length=KEY_BYTES // 4)]
_Count = Annotated[int, Meta(ge=1, le=COUNT_MAX)]


class LeanHit(Struct, forbid_unknown_fields=True, gc=False, eq=False):
    """A hit with nothing but key and time, in bounds: what almost all hits of batches are."""

    key: _Key
    ts: Annotated[int, Meta(ge=0)] = NO_TIME


class PlainHit(LeanHit, gc=False, eq=False):
    """A hit with nothing but key, time and count, in bounds."""

    count: _Count = 1


class FullHit(Struct, forbid_unknown_fields=True, gc=False, eq=False):
    """A hit whose fields have the right types and bounds; time and id are yet to be checked."""

    key: _Key
    ts: int | float | str | None = None
    count: _Count | None = None
    id: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS)] | None = None
    ua: str | None = None
    bot: bool | None = None


class WordyHit(FullHit, forbid_unknown_fields=False, eq=False):
    """A hit that says who or from where, or has fields that are ignored; words are to be checked.

    A class of its own, because hits without any of these fields are decoded faster without them.
    """

    ref: str | None = None
    ip: str | None = None
    country: str | None = None
    lang: str | None = None
    source: str | None = None
    utm: dict[str, str | None] | None = None
    tags: dict[str, str | None] | None = None
    visitor: Annotated[str, Meta(pattern=VISITOR_PATTERN)] | None = None
    groups: Annotated[list[Annotated[str, Meta(pattern=GROUP_PATTERN)]], Meta(max_length=GROUPS)] | None = None


class AnyHit(Struct, eq=False):
    """A hit whose fields may hold anything, as JSON gave them; None where a field is absent or null."""

    key: object = None
    ts: object = None
    count: object = None
    id: object = None
    ua: object = None
    bot: object = None
    ref: object = None
    ip: object = None
    country: object = None
    lang: object = None
    source: object = None
    utm: object = None
    tags: object = None
    visitor: object = None
    groups: object = None
    event: tuple[str, str] | None = None  # of a CloudEvent: the id to count under, and the one it was sent with
    rejected: HitRejected | None = None  # why it is no hit, if its fields need not be looked at for that


_WITH_WORDS = (WordyHit, AnyHit)


class RawHits(Struct, frozen=True, eq=False):
    """Some hits as read, in the order of the body: one of the six is filled.

    no_objects: so many values that are no hits, when enough of those were explained.
    """

    lean: Sequence[LeanHit] = ()
    plain: Sequence[PlainHit] = ()
    full: Sequence[FullHit] = ()
    wordy: Sequence[WordyHit] = ()
    odd: Sequence[AnyHit] = ()
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
    """One visit, or `count` visits, to a link. Valid by construction through `hit_of`; `minute` is a minute's start."""

    key: str
    minute: int
    count: int
    id: str | None
    bot: bool
    sent_id: str | None = None  # the id that it was sent with, where it counts under another
    profile: Profile | None = None  # what it says beside, of what is divided
    visitors: tuple[tuple[str, int], ...] = ()  # its visitor's hash for the link, and for each group by its stored key
    groups: tuple[str, ...] = ()  # the stored keys of the groups that it counts in


def hit_of(raw: FullHit | AnyHit, moment: Moment, is_bot: Judge, reader: ProfileReader = NO_DIMENSIONS) -> Hit:
    """Returns the hit that was meant; raises HitRejected for the first rule that is broken."""
    event = None
    if isinstance(raw, AnyHit):
        if raw.rejected is not None:
            raise raw.rejected.with_traceback(None)  # some are raised many times: else each raise would make it longer
        event = raw.event
    key = require_key(raw.key, HitRejected)
    ts = ts_of(raw.ts, moment)
    count = count_of(raw.count)
    if event is None:
        id_, sent_id = id_of(raw.id), None
    else:
        id_, sent_id = event
    ua = ua_of(raw.ua)
    bot = bot_of(raw.bot)
    if bot is None:
        bot = is_bot(ua) if ua is not None else False
    minute = minute_start(ts)
    profile = None if type(raw) is FullHit and not reader.wants_agents else profile_of(raw, reader)
    if not isinstance(raw, _WITH_WORDS):
        return Hit(key, minute, count, id_, bot, sent_id, reader.bot(ua) if bot else profile)
    groups = groups_of(raw.groups)
    if bot:
        return Hit(key, minute, count, id_, bot, sent_id, reader.bot(ua), (), groups)
    visitors = hashes_of_visitor(raw, key, minute, groups, reader)
    return Hit(
        key,
        minute,
        count,
        id_,
        bot,
        sent_id,
        reader.with_known_visitor(profile) if visitors else profile,
        visitors,
        groups,
    )


def groups_of(names: object) -> tuple[str, ...]:
    """Returns the stored keys of the groups in the field `groups`, which was checked, each once."""
    return tuple(dict.fromkeys(map(group_key, names))) if isinstance(names, list) and names else ()


def hashes_of_visitor(
    raw: WordyHit | AnyHit, key: str, minute: int, groups: Sequence[str], reader: ProfileReader
) -> tuple[tuple[str, int], ...]:
    """Returns the hashes of a hit's visitor, by link and groups; () if it says too little, or none count."""
    salt = None if reader.salts is None else reader.salts.get(minute - minute % DAY_S)
    if salt is None or (raw.visitor is None and raw.ip is None):
        return ()
    who = who_of(*(text if isinstance(text, str) else None for text in (raw.visitor, raw.ip, raw.ua)))
    if who is None:
        return ()
    return tuple([(each, visitor_hash(salt, each, who)) for each in (key, *groups)])


def profile_of(raw: FullHit | AnyHit, reader: ProfileReader) -> Profile | None:
    """Returns what a person's hit says of what is divided; raises HitRejected for the first broken rule of words."""
    if not isinstance(raw, _WITH_WORDS):
        return reader.profile(WordFields(ua=raw.ua)) if raw.ua is not None and reader.wants_agents else None
    if raw.visitor is not None:
        require_visitor(raw.visitor)
    if raw.groups is not None:
        require_groups(raw.groups)
    return reader.profile(
        WordFields(
            ip=raw.ip,
            ref=raw.ref,
            ua=raw.ua,
            country=raw.country,
            lang=raw.lang,
            source=raw.source,
            utm=pairs_of(raw.utm),
            tags=pairs_of(raw.tags),
        )
    )


def broken_rule(raw: FullHit | AnyHit, moment: Moment, reader: ProfileReader = NO_DIMENSIONS) -> str | None:
    """Returns the field for which `hit_of` would refuse a hit, FUTURE for its time; None for a good one.

    Makes no error and no text but for words: of a million refused hits only the first thousand are explained.
    """
    if isinstance(raw, AnyHit) and raw.rejected is not None:
        return raw.rejected.field
    id_ = None if isinstance(raw, AnyHit) and raw.event is not None else raw.id
    return _broken_field(raw.key, raw.ts, raw.count, id_, raw.ua, raw.bot, moment) or _broken_words(raw, reader)


def _broken_words(raw: FullHit | AnyHit, reader: ProfileReader) -> str | None:
    try:
        profile_of(raw, reader)
    except HitRejected as error:
        return error.field
    return None


def _broken_field(
    key: object, ts: object, count: object, id_: object, ua: object, bot: object, moment: Moment
) -> str | None:
    if not is_key(key):
        return "key"
    if ts is not None and (broken := _broken_time(ts, moment)):
        return broken
    if count is not None and not (type(count) is int and 1 <= count <= COUNT_MAX):
        return "count"
    if id_ is not None and not (isinstance(id_, str) and is_id(id_)):
        return "id"
    if not isinstance(ua, str | None):
        return "ua"
    return None if isinstance(bot, bool | None) else "bot"


def _broken_time(value: object, moment: Moment) -> str | None:
    seconds = _seconds_or_none(value)
    if seconds is None or seconds < 0:
        return "ts"
    if seconds <= moment.latest:
        return None
    return "ts" if _smaller_unit(seconds) else FUTURE


def minute_start(ts: int) -> int:
    return ts - ts % MINUTE_S


def hour_start(ts: int) -> int:
    return ts - ts % HOUR_S


def ts_of(value: object, moment: Moment) -> int:
    """Returns epoch seconds: the moment's own where no time is given."""
    if value is None:
        return moment.now
    ts = _ts_seconds(value)
    if ts < 0:
        raise HitRejected("ts lies before 1970", field="ts", value=shown(value), rule=TS_FLOOR_RULE)
    if ts > moment.latest:
        unit = _smaller_unit(ts)
        if unit:
            detail = f"ts has {len(str(ts))} digits: {unit}?"
            raise HitRejected(detail, field="ts", value=shown(value), rule=TS_UNIT_RULE)
        tolerated = moment.latest - moment.now
        detail = f"ts lies more than {tolerated} s ahead of the server's clock, which says {moment.now}"
        raise HitRejected(detail, field="ts", value=shown(value), rule=FUTURE_RULE)
    return ts


def _seconds_or_none(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        return math.floor(value) if math.isfinite(value) else None
    return iso_seconds(value) if isinstance(value, str) else None


def _ts_seconds(value: object) -> int:
    seconds = _seconds_or_none(value)
    if seconds is not None:
        return seconds
    if isinstance(value, float):
        raise HitRejected("ts is not a finite number", field="ts", value=shown(value), rule=TS_RULE)
    if isinstance(value, str):
        hint = "is a number in quotes: send it without" if value.isdecimal() else "is not a time in ISO 8601"
        raise HitRejected(f"ts {hint}", field="ts", value=shown(value), rule=TS_RULE)
    raise HitRejected("ts is neither a readable number nor a string", field="ts", value=shown(value), rule=TS_RULE)


def _smaller_unit(ts: int) -> str | None:
    """Returns the unit that an epoch time of this size is most likely in, if it is not seconds."""
    if 10**12 <= ts < 10**14:
        return "milliseconds"
    if 10**14 <= ts < 10**17:
        return "microseconds"
    return "nanoseconds" if 10**17 <= ts < 10**20 else None


def count_of(value: object) -> int:
    if value is None:
        return 1
    if type(value) is not int:
        hint = "must be an integer, without quotes or fraction"
        raise HitRejected(f"count {hint}", field="count", value=shown(value), rule=COUNT_RULE)
    if not 1 <= value <= COUNT_MAX:
        raise HitRejected("count is out of range", field="count", value=shown(value), rule=COUNT_RULE)
    return value


def refused_count(count: object) -> int:
    """Returns what a refused hit sums as: its count if that is valid, else 1."""
    return count if type(count) is int and 1 <= count <= COUNT_MAX else 1


def id_of(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise HitRejected("id must be a string", field="id", value=shown(value), rule=ID_RULE)
    if not is_id(value):
        raise HitRejected("id is empty, too long, or not visible ASCII", field="id", value=shown(value), rule=ID_RULE)
    return value


def is_id(text: str) -> bool:
    """Tells whether a text is 1 to 128 visible ASCII characters."""
    return 0 < len(text) <= ID_CHARACTERS and text.isascii() and text.isprintable() and " " not in text


def ua_of(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise HitRejected("ua must be a string", field="ua", value=shown(value), rule=UA_RULE)


def bot_of(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise HitRejected("bot must be true or false", field="bot", value=shown(value), rule=BOT_RULE)
