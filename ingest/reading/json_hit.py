"""One hit from the bytes of one JSON value, however odd: the slow and exact way, for the few that need it.

Only the fields that matter are built; the rest of an object is skipped unread, so a hit with megabytes of other fields
costs no memory. `NotJson` is raised for bytes that are not one JSON value; `Refusal` for JSON that is not a good hit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from clickcurve.buckets.errors import HitRejected
from clickcurve.problem import shown
from ingest.hit import COUNT_MAX, HIT_RULE, ID_CHARACTERS, Hit, Moment, hit_of

# A longer hit is refused unread: to read it would hold up all others. Only fields that are ignored can be so long.
HIT_BYTES = 1024 * 1024

SPECVERSION = "1.0"
EVENT_TEXT_RULE = "a string that is not empty"

_ABSENT = Raw(b"")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_VISIBLE = re.compile(r"[!-~]+")


class NotJson(ValueError):
    """The bytes are not one JSON value; the text says where and why."""


class Refusal(Exception):
    """A hit that breaks a rule, and what it sums as: its count if that is valid, else 1."""

    def __init__(self, error: HitRejected, count: int) -> None:
        super().__init__(error.detail)
        self.error = error
        self.count = count


class AnyHit(Struct, gc=False, eq=False):
    """A hit whose fields are of any type."""

    key: object = None
    ts: object = None
    count: object = None
    id: object = None
    ua: object = None
    bot: object = None


class _RawHit(Struct, gc=False, eq=False):
    key: Raw = _ABSENT
    ts: Raw = _ABSENT
    count: Raw = _ABSENT
    id: Raw = _ABSENT
    ua: Raw = _ABSENT
    bot: Raw = _ABSENT


class _RawEvent(Struct, gc=False, eq=False):
    specversion: Raw = _ABSENT
    source: Raw = _ABSENT
    id: Raw = _ABSENT
    subject: Raw = _ABSENT
    time: Raw = _ABSENT
    data: Raw = _ABSENT
    data_base64: Raw = _ABSENT


_RAW_HIT = msgspec.json.Decoder(_RawHit)
_RAW_EVENT = msgspec.json.Decoder(_RawEvent)
_ANY_JSON = msgspec.json.Decoder(Raw)
_NUMBER: msgspec.json.Decoder[int | float] = msgspec.json.Decoder(int | float)
_TEXT = msgspec.json.Decoder(str)

_Shape = TypeVar("_Shape", _RawHit, _RawEvent)
Judge = Callable[[str], bool]


def _judged(values: AnyHit, moment: Moment, is_bot: Judge) -> Hit:
    """`hit_of`, with the count in the refusal."""
    try:
        return hit_of(values, moment, is_bot)
    except HitRejected as error:
        raise Refusal(error, _count_or_one(values.count)) from None


def hit_in(element: bytes, moment: Moment, is_bot: Judge) -> Hit:
    """The hit in one JSON object."""
    return _judged(_hit_values(_fields(element, _RAW_HIT)), moment, is_bot)


def event_hit_in(element: bytes, moment: Moment, is_bot: Judge) -> tuple[Hit, str]:
    """The hit in one CloudEvent, identified by the event's source and id; and that id as the sender knows it.

    `data` is the hit; where it has no key the event's `subject` is the key, where it has no ts the event's `time`. An
    `id` inside `data` is not looked at: an event has its identity already.
    """
    event = _fields(element, _RAW_EVENT)
    data = event.get("data")
    values = AnyHit()
    if isinstance(data, bytes) and data.startswith(b"{"):
        values = _hit_values(_fields(data, _RAW_HIT))
    elif data is not None:
        raise _event_refused("data", data, HIT_RULE)
    count = _count_or_one(values.count)
    if event.get("specversion") != SPECVERSION:
        raise _event_refused("specversion", event.get("specversion"), f'"{SPECVERSION}"', count)
    if event.get("data_base64") is not None:
        raise _event_refused("data_base64", "", "no data but JSON, in the field data", count)
    source, event_id = _event_text(event, "source", count), _event_text(event, "id", count)
    values.key = event.get("subject") if values.key is None else values.key
    values.ts = event.get("time") if values.ts is None else values.ts
    values.id = None
    hit = _judged(values, moment, is_bot)
    return Hit(hit.key, hit.minute, hit.count, joined_id(source, event_id), hit.bot), event_id


def joined_id(source: str, event_id: str) -> str:
    """One id for an event's source and id, of at most 128 characters, that no other pair and no plain id can have.

    Both with a space between, which plain ids cannot hold; if that is too long or not visible ASCII, a space and a
    digest.
    """
    joined = f"{source} {event_id}"
    if len(joined) <= ID_CHARACTERS and _VISIBLE.fullmatch(source) and _VISIBLE.fullmatch(event_id):
        return joined
    pair = f"{len(source)}:{source}{event_id}".encode("utf-8", "surrogatepass")
    return " " + hashlib.sha256(pair).hexdigest()


def _event_text(event: dict[str, object], name: str, count: int) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise _event_refused(name, value, EVENT_TEXT_RULE, count)
    return value


def _event_refused(name: str, value: object, rule: str, count: int = 1) -> Refusal:
    what = "is missing" if value is None else "is not what the event of a hit holds"
    return Refusal(HitRejected(f"{name} of the event {what}", field=name, value=shown(value), rule=rule), count)


def _count_or_one(count: object) -> int:
    return count if type(count) is int and 1 <= count <= COUNT_MAX else 1


def _hit_values(fields: dict[str, object]) -> AnyHit:
    return AnyHit(**fields)


def _fields(element: bytes, decoder: msgspec.json.Decoder[_Shape]) -> dict[str, object]:
    """The fields of one object that are given and not null, and that the decoder's shape knows."""
    if len(element) > HIT_BYTES:
        detail, rule = f"the hit has {len(element):,} bytes", f"at most {HIT_BYTES:,} bytes"
        raise Refusal(HitRejected(detail, field="hit", value=shown(element), rule=rule), 1)
    if not element.startswith(b"{"):
        _prove(element)
        raise _no_object(element)
    try:
        shape = decoder.decode(element)
    except msgspec.DecodeError as error:
        if not _HALF_PAIR.search(element):
            raise NotJson(str(error)) from None
        return _whole(element, decoder.type.__struct_fields__)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    pairs = ((name, _value(bytes(getattr(shape, name)))) for name in decoder.type.__struct_fields__)
    return {name: value for name, value in pairs if value is not None}


def _no_object(element: bytes) -> Refusal:
    return Refusal(HitRejected("a hit is a JSON object", field="hit", value=shown(element), rule=HIT_RULE), 1)


def _prove(element: bytes) -> None:
    """NotJson unless the bytes are one JSON value."""
    try:
        _ANY_JSON.decode(element)
    except msgspec.DecodeError as error:
        if not _HALF_PAIR.search(element):
            raise NotJson(str(error)) from None
        _whole(element, ())
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def _whole(element: bytes, names: tuple[str, ...]) -> dict[str, object]:
    """Like `_fields`, by the parser that takes half surrogate pairs as they come."""
    try:
        text = element.decode("utf-8", "surrogateescape")
        found = json.loads(text, parse_constant=_no_constant, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    if not isinstance(found, dict):
        raise _no_object(element)
    fields = {name: found[name] for name in names if found.get(name) is not None}
    return {k: json.dumps(v).encode() if isinstance(v, dict | list) else v for k, v in fields.items()}


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _value(text: bytes) -> object:
    """A JSON value as Python has it; one that no field of a hit can hold stays bytes."""
    start = text[:1]
    if start == b'"':
        try:
            return _TEXT.decode(text)
        except UnicodeDecodeError:
            return json.loads(text.decode("utf-8", "surrogateescape"))
    if start in (b"", b"n"):
        return None
    if start in (b"t", b"f"):
        return start == b"t"
    if start in (b"{", b"["):
        return text
    return _number(text)


def _number(text: bytes | str) -> int | float | bytes:
    """As the decoder of whole pieces reads it; a number that it finds out of range stays bytes."""
    try:
        return _NUMBER.decode(text)
    except msgspec.ValidationError:
        return text if isinstance(text, bytes) else text.encode()
