"""Hits from JSON: all of a piece at once, or one value however odd.

A piece is one object, an array of objects, or lines of one object each. The first way that can decode all of it gives
its hits. The ways agree on every piece that several can decode: only their speed differs.

What none can decode is read value by value, slowly and exactly. Only the fields that matter are built; the rest of an
object is skipped unread, so a hit with megabytes of other fields costs no memory. `NotJson` is raised for bytes that
are not one JSON value; JSON that cannot be a hit becomes a `NoHit`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from clickcurve.buckets.errors import HitRejected
from ingest.hit import HIT_RULE, ID_CHARACTERS, EventId, JsonHit, NoHit, RawHits

# A longer hit is refused unread: to read it would hold up all others. Only fields that are ignored can be so long.
HIT_BYTES = 1024 * 1024

SPECVERSION = "1.0"
EVENT_TEXT_RULE = "a string that is not empty"

ABSENT = Raw(b"")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_VISIBLE = re.compile(r"[!-~]+")

# What a decoder raises for bytes that it cannot take, whatever the reason; the next way of reading finds the reason.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# JSON hits in a step, of 1 to 5 us each; agents that are new are learned in steps of their own.
STEP_HITS = 240
_HEAD_BYTES = 1024  # that show which fields the hits of a piece have; the shape that follows from them proves it
_SHAPES = 256  # that are remembered: to make one takes 0.2 ms
_NAMES: Final = frozenset(name.encode() for name in JsonHit.__struct_fields__)


# --- a piece ----------------------------------------------------------------------------------------------------------
class Form(IntEnum):
    """How the hits of a piece are written."""

    object = 0
    array = 1
    lines = 2


class Decoders(NamedTuple):
    """Decode a piece into hits of one shape, by form."""

    object: Callable[[bytes], Any]
    array: Callable[[bytes], Any]
    lines: Callable[[bytes], Any]


class Way(NamedTuple):
    """Decodes pieces into hits of one shape. `hand_on` wraps some of them, about step_hits.

    narrows: a piece is first read by the fields of its first hits. That takes a third less time, its columns half.
    """

    shape: type[Struct]
    hand_on: Callable[[Any], RawHits]
    step_hits: int | None = STEP_HITS
    narrows: bool = False

    def decode(self, form: Form, piece: bytes) -> Any:
        """Returns the hits of a piece; raises one of UNREADABLE."""
        if self.narrows and form is not Form.object:
            texts = piece[:_HEAD_BYTES].split(b'"')  # names, and some values that do no harm
            try:
                return decoders_of(narrowed(self.shape, _NAMES.intersection(texts)))[form](piece)
            except UNREADABLE:
                pass
        return decoders_of(self.shape)[form](piece)


@lru_cache(_SHAPES)
def decoders_of(shape: type[Struct]) -> Decoders:
    """Returns the decoders of a shape."""
    one = msgspec.json.Decoder(shape)
    return Decoders(one.decode, msgspec.json.Decoder(list[shape]).decode, one.decode_lines)  # type: ignore[valid-type]


@lru_cache(_SHAPES)
def narrowed(shape: type[Struct], names: frozenset[bytes]) -> type[Struct]:
    """Returns a shape of hits that have no optional fields but these: of others an instance has the default.

    It decodes no object with any other field, known or not.
    """
    fields = msgspec.structs.fields(shape)
    kept = [each for each in fields if each.required or each.name.encode() in names]
    return msgspec.defstruct(
        shape.__name__,
        [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in kept],
        namespace={each.name: each.default for each in fields if each not in kept},
        forbid_unknown_fields=True,
        gc=False,
        eq=False,
    )


def decoded_steps(ways: Sequence[Way], form: Form, piece: bytes) -> Iterator[RawHits] | None:
    """Returns the hits of a piece in steps, by the first way that can decode it; None if none can."""
    for way in ways:
        try:
            hits = way.decode(form, piece)
        except UNREADABLE:
            continue
        if form is Form.object:
            hits = [hits]
        if form is not Form.lines or one_a_line(piece, len(hits)):
            return _steps(way, hits)
    return None


def _steps(way: Way, hits: Sequence[Struct]) -> Iterator[RawHits]:
    """Returns hits in steps of one size, about step_hits: a small rest costs nearly as much as a step."""
    steps = 1 if way.step_hits is None else max(1, round(len(hits) / way.step_hits))
    if steps == 1:
        return iter((way.hand_on(hits),))
    size = -(-len(hits) // steps)
    return (way.hand_on(hits[start : start + size]) for start in range(0, len(hits), size))


def one_a_line(piece: bytes, values: int) -> bool:
    """Tells whether so many values are one on each line that is not empty: the decoder takes several on a line, too."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(b" \t\r\n"))


# --- a value ----------------------------------------------------------------------------------------------------------
class NotJson(ValueError):
    """The bytes are not one JSON value; the text says where and why."""


_HIT_FIELDS = JsonHit.__struct_fields__
_OF_PARTS = ("utm", "tags", "groups")  # the fields that are objects or lists


class _EventFields(Struct, gc=False, eq=False):
    specversion: Raw = ABSENT
    source: Raw = ABSENT
    id: Raw = ABSENT
    subject: Raw = ABSENT
    time: Raw = ABSENT
    data: Raw = ABSENT
    data_base64: Raw = ABSENT


_HIT = msgspec.json.Decoder(msgspec.defstruct("_HitFields", [(name, Raw, ABSENT) for name in _HIT_FIELDS], gc=False))
_EVENT = msgspec.json.Decoder(_EventFields)
_ANY_JSON = msgspec.json.Decoder(Raw)
_NUMBER: msgspec.json.Decoder[int | float] = msgspec.json.Decoder(int | float)
_TEXT = msgspec.json.Decoder(str)

_Shape = TypeVar("_Shape", bound=Struct)


def read_hit(value: bytes) -> JsonHit | NoHit:
    """Reads one hit from a JSON value; raises NotJson if the bytes are not one."""
    try:
        return _hit_of_object(value)
    except HitRejected as error:
        return NoHit(error.with_traceback(None))


def read_event(value: bytes) -> JsonHit | NoHit:
    """Reads the hit in one CloudEvent, which counts under the event's source and id; raises NotJson.

    `data` is the hit; where it has no key the event's `subject` is the key, where it has no ts the event's `time`. An
    `id` inside `data` is not looked at: an event has its identity already.
    """
    hit = _empty_hit()
    try:
        event = object_fields(value, _EVENT)
        data = event.get("data")
        if isinstance(data, bytes) and data.startswith(b"{"):
            hit = _hit_of_object(data)
        elif data is not None:
            raise _event_rejected("data", data, HIT_RULE)
        if event.get("specversion") != SPECVERSION:
            raise _event_rejected("specversion", event.get("specversion"), f'"{SPECVERSION}"')
        if event.get("data_base64") is not None:
            raise _event_rejected("data_base64", "", "JSON in the field data; no data_base64")
        source, event_id = _event_text(event, "source"), _event_text(event, "id")
    except HitRejected as error:
        return NoHit(error.with_traceback(None), hit.count)
    for field, outside in (("key", "subject"), ("ts", "time")):
        if getattr(hit, field) is None:
            setattr(hit, field, event.get(outside))
    hit.id = EventId.of(joined_id(source, event_id), event_id)
    return hit


def _empty_hit() -> JsonHit:
    return JsonHit(key=None)  # type: ignore[arg-type]  # its rule says that it is missing


def _hit_of_object(value: bytes) -> JsonHit:
    hit = _empty_hit()
    for name, given in object_fields(value, _HIT).items():
        if name in _OF_PARTS and isinstance(given, bytes) and given[:1] in (b"{", b"["):
            given = _parts(given)
        setattr(hit, name, given)
    return hit


def _parts(value: bytes) -> object:
    """Returns a whole JSON value as Python has it, by the parser that takes half surrogate pairs as they come."""
    try:
        text = value.decode("utf-8", "surrogateescape")
        return json.loads(text, parse_constant=_no_constant, parse_int=_number_or_bytes, parse_float=_number_or_bytes)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def joined_id(source: str, event_id: str) -> str:
    """Returns one id for an event's source and id, of at most 128 characters.

    No other pair and no plain id gives the same: it is both with a space between, which plain ids cannot hold; if that
    is too long or not visible ASCII, a space and a digest.
    """
    joined = f"{source} {event_id}"
    if len(joined) <= ID_CHARACTERS and _VISIBLE.fullmatch(source) and _VISIBLE.fullmatch(event_id):
        return joined
    pair = f"{len(source)}:{source}{event_id}".encode("utf-8", "surrogatepass")
    return " " + hashlib.sha256(pair).hexdigest()


def _event_text(event: dict[str, object], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise _event_rejected(name, value, EVENT_TEXT_RULE)
    return value


def _event_rejected(name: str, value: object, rule: str) -> HitRejected:
    what = "is missing" if value is None else "is not what the event of a hit holds"
    return HitRejected(f"{name} of the event {what}", field=name, value=value, rule=rule)


def object_fields(value: bytes, decoder: msgspec.json.Decoder[_Shape]) -> dict[str, object]:
    """Returns the fields of one object that the decoder's shape, all of it Raw, knows, without those that are null.

    Objects and lists stay bytes. Raises HitRejected for JSON that is no object or too long, NotJson for anything else.
    """
    if len(value) > HIT_BYTES:
        detail, rule = f"the hit has {len(value):,} bytes", f"at most {HIT_BYTES:,} bytes"
        raise HitRejected(detail, field="hit", value=value, rule=rule)
    if not value.startswith(b"{"):
        check_json(value)
        raise _no_object(value)
    try:
        shape = decoder.decode(value)
    except msgspec.DecodeError as error:
        if not _HALF_PAIR.search(value):
            raise NotJson(str(error)) from None
        return _fields_with_half_pairs(value, decoder.type.__struct_fields__)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    given: dict[str, object] = {}
    for name in decoder.type.__struct_fields__:
        raw = getattr(shape, name)
        if raw is not ABSENT and (decoded := _python_value(bytes(raw))) is not None:
            given[name] = decoded
    return given


def _no_object(value: bytes) -> HitRejected:
    return HitRejected("a hit is a JSON object", field="hit", value=value, rule=HIT_RULE)


def check_json(value: bytes) -> None:
    """Raises NotJson unless the bytes are one JSON value."""
    try:
        _ANY_JSON.decode(value)
    except msgspec.DecodeError as error:
        if not _HALF_PAIR.search(value):
            raise NotJson(str(error)) from None
        _fields_with_half_pairs(value, ())
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def _fields_with_half_pairs(value: bytes, names: tuple[str, ...]) -> dict[str, object]:
    """Returns what `object_fields` does where a text has half surrogate pairs."""
    decoded = _parts(value)
    if not isinstance(decoded, dict):
        raise _no_object(value)
    fields = {name: decoded[name] for name in names if decoded.get(name) is not None}
    return {k: json.dumps(v).encode() if isinstance(v, dict | list) else v for k, v in fields.items()}


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _python_value(text: bytes) -> object:
    """Returns a JSON value as Python has it; one that no field of a hit can hold stays bytes."""
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
    return _number_or_bytes(text)


def _number_or_bytes(text: bytes | str) -> int | float | bytes:
    """Reads a number as the decoder of whole pieces does; one that is out of its range stays bytes."""
    try:
        return _NUMBER.decode(text)
    except msgspec.ValidationError:
        return text if isinstance(text, bytes) else text.encode()
