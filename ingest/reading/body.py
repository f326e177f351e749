"""From the bytes of a body to hits as read: JSON (an object or an array), NDJSON, and CloudEvents batches.

Decoding 100,000 objects at once falls out of the processor's cache and takes twice as long as decoding them 1,400 at
a time, so a body is cut into pieces of about 48 KB: NDJSON at newlines, a JSON array at `},{`. Each piece of an array
is read as an array of its own: a cut that hit the inside of a string or of a nested array leaves a piece that cannot be
read, since a quote or a brace stays open in it; so what can be read was cut rightly. A piece that cannot is split
exactly, token by token. So is one of many tiny values: to decode 70,000 zeros at once holds up all others for 20 ms.
How long a value may be, and how many tokens are walked in all, is bounded: a string of 63 MB took half a second in one
step, and 63 MB of brackets, packed into 16 kB, took 12 seconds in many.

Each piece is tried in four ways (`WAYS`): plain hits, of key and ts within bounds; those with a count; these among
fields that mean nothing here; hits with all fields. What none can decode is read one by one. Whichever way a hit is
read, it means the same.

`read_hits` is a generator whose steps take at most about a millisecond, so that its caller can let others run between
them. It looks at bytes and types only: whether a hit is good, its rules decide (`ingest/hit.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from clickcurve.buckets.errors import BodyTooLarge, BodyUnreadable, HitRejected, MediaTypeUnsupported
from ingest.hit import HIT_RULE, JsonHit, NoHit, PlainHit, RawHits
from ingest.reading.json_hit import (
    HIT_BYTES,
    UNREADABLE,
    Form,
    NotJson,
    Way,
    check_json,
    decoded_steps,
    decoders_of,
    narrowed,
    read_event,
    read_hit,
)
from ingest.reading.receipt import RECEIPT_ITEMS

PIECE_BYTES = 48 * 1024
BODY_RULE = "a hit, an array of hits, or one hit a line, as the Content-Type says"
SLOW_VALUES = 128  # a step, where values are judged one by one
VALUE_BYTES = HIT_BYTES  # of a value with the white space around it, in an array or on a line
WALKED_TOKENS = 4_000_000  # strings, brackets and commas of a body that are walked one by one, some 0.8 s
BLANK_BYTES = 4 * 1024 * 1024  # of white space in one place, which is passed in one step: 4 to 16 ms

# An array without a cut in so many pieces' length is split exactly. Also the most that is read as one last piece.
WINDOW_PIECES = 3
_SLOW_TOKENS = 2048
_DENSE = 6  # fewer bytes than this for each comma, and a piece is of tiny values

_CUT = re.compile(rb"\}[ \t\r\n]*+,[ \t\r\n]*+\{")
_SPACE = re.compile(rb"[ \t\r\n]{0,%d}+" % (BLANK_BYTES + 1))
# A string, whole; a bracket or comma outside of strings; or the quote of a string that has no end.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},"]', re.DOTALL)
_NO_END = "the array has no end"
_QUOTE, _COMMA, _END, _OPENING, _CLOSING = *b'",]', b"[{", b"]}"
_RAW_LIST = msgspec.json.Decoder(list[Raw])

_Step = TypeVar("_Step")
ReadPiece = Callable[[bytes], Iterator[_Step] | None]
ReadValues = Callable[[list[bytes]], _Step]

# A plain hit beside fields of other names, which are ignored; null in those that a JSON hit has.
PlainHitBesideOthers: Final = msgspec.defstruct(
    "PlainHitBesideOthers",
    [(name, None, None) for name in JsonHit.__struct_fields__ if name not in PlainHit.__struct_fields__],
    bases=(PlainHit,),
    forbid_unknown_fields=False,
    gc=False,
    eq=False,
)


def _plain(hits: Sequence[PlainHit]) -> RawHits:
    return RawHits(plain=hits)


WAYS: Final = (
    Way(narrowed(PlainHit, frozenset((b"ts",))), _plain, step_hits=None),  # each counts one: nearly always
    Way(PlainHit, _plain, step_hits=None),  # a piece of them takes half a millisecond
    Way(PlainHitBesideOthers, _plain, step_hits=None),
    Way(JsonHit, lambda hits: RawHits(json=hits), narrows=True),
)
_ONE: Final = [decoders_of(way.shape).object for way in WAYS[1:]]
_FULL: Final = _ONE[-1:]
# What a plain hit has at most, unless its key is long or has quotes, or a name stands twice: then it is read as a full
# one, which means the same.
_PLAIN_QUOTES, _PLAIN_BYTES = 8, 128

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SPACES = b" \t\r\n"


_NO_OBJECT = NoHit(HitRejected("a hit is a JSON object", field="hit", value=None, rule=HIT_RULE))

Steps = Generator[RawHits, None, None]


class Media(Enum):
    json = "application/json"
    lines = "application/x-ndjson"
    events = "application/cloudevents-batch+json"


_MEDIA = {media.value: media for media in Media} | {"application/ndjson": Media.lines, "application/jsonl": Media.lines}
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")


def media_of(header: str) -> Media:
    """Returns what a Content-Type header (empty: JSON) says; raises MediaTypeUnsupported for types not read here."""
    name, *parameters = (part.strip() for part in header.lower().split(";"))
    media = _MEDIA.get(name) if name else Media.json
    if media is None:
        raise _unsupported("the body's type is not supported", header)
    for parameter in parameters:
        attribute, _, value = parameter.partition("=")
        if attribute.strip() == "charset" and value.strip().strip('"') not in _CHARSETS:
            raise _unsupported("JSON is UTF-8 here", header)
    return media


def _unsupported(detail: str, header: str) -> MediaTypeUnsupported:
    rule = ", ".join(media.value for media in Media) + ", in UTF-8"
    return MediaTypeUnsupported(detail, field="Content-Type", value=header, rule=rule)


def read_one(body: bytes) -> PlainHit | JsonHit | None:
    """Reads a body that is one object with fields of the right types; None for any other."""
    is_short = len(body) <= _PLAIN_BYTES and body.count(b'"') <= _PLAIN_QUOTES
    for decode in _ONE if is_short else _FULL:  # a vain try takes longer than a good one
        try:
            return decode(body)  # type: ignore[no-any-return]
        except UNREADABLE:
            pass
    return None


def read_hits(body: bytes, media: Media, piece_bytes: int = PIECE_BYTES, explained: int = RECEIPT_ITEMS) -> Steps:
    """Reads every hit of a body, some with each step; raises BodyUnreadable if it is not what its type says.

    What was read before the error must then count for nothing. Of values that are no object the first `explained` say
    why; all later ones are one and the same rejected hit.
    """
    if body.startswith(_UTF16_BOMS):
        raise BodyUnreadable("the body is UTF-16; JSON is UTF-8")
    start = len(_BOM) if body.startswith(_BOM) else 0
    reader = _Reader(media is not Media.events, piece_bytes, explained)
    if media is Media.lines:
        return reader.read_lines(body, start)
    start = skip_space(body, start)
    if body.startswith(b"[", start):
        return reader.read_array(body, start + 1)
    return reader.read_object(body, start)


class _Reader:
    """Reads bodies of hits, or of events with a hit in their data, which cannot be decoded in whole pieces."""

    def __init__(self, typed: bool, piece_bytes: int, explained: int) -> None:
        self._to_explain = explained
        self._typed = typed
        self._read_value = read_hit if typed else read_event
        self._piece = piece_bytes
        self._window = piece_bytes * WINDOW_PIECES
        self._longest = max(self._window, HIT_BYTES)

    # --- a value ------------------------------------------------------------------------------------------------
    def read_object(self, body: bytes, start: int) -> Steps:
        """Reads a body that is not an array: one object, or nothing that counts."""
        value = body[start:] if start else body
        if not value.startswith(b"{"):
            what = "is neither an object nor an array" if value else "is empty"
            raise BodyUnreadable(f"the body {what}", value=value or None, rule=BODY_RULE)
        steps = self._decoded(Form.object, value)
        yield from (RawHits(odd=[self._element(value)]),) if steps is None else steps

    def _decoded(self, form: Form, piece: bytes) -> Iterator[RawHits] | None:
        """Returns what a piece of the usual size holds, in steps; None if anything in it is odd."""
        return decoded_steps(WAYS, form, piece) if self._typed and len(piece) <= self._longest else None

    def _element(self, value: bytes) -> JsonHit | NoHit:
        try:
            return self._hit(value)
        except NotJson as error:
            raise not_json(str(error)) from None

    def _hit(self, value: bytes) -> JsonHit | NoHit:
        if value.startswith(b"{"):
            return self._read_value(value)
        if self._to_explain > 0:
            self._to_explain -= 1
            return self._read_value(value)
        if len(value) <= HIT_BYTES:
            check_json(value)
        return _NO_OBJECT

    # --- lines --------------------------------------------------------------------------------------------------
    def read_lines(self, body: bytes, start: int) -> Steps:
        """Reads one value a line; a line that is not JSON is one rejected hit."""
        for piece in line_pieces(body, start, self._piece):
            steps = self._decoded(Form.lines, piece)
            yield from self._read_odd_lines(piece) if steps is None else steps

    def _read_odd_lines(self, piece: bytes) -> Steps:
        odd: list[JsonHit | NoHit] = []
        for number, line in enumerate(piece.split(b"\n"), 1):
            if line := line.strip(_SPACES):
                odd.append(self._line(line))
            if number % SLOW_VALUES == 0:
                yield RawHits(odd=odd)
                odd = []
        yield RawHits(odd=odd)

    def _line(self, line: bytes) -> JsonHit | NoHit:
        try:
            return self._hit(line)
        except NotJson as error:
            if self._to_explain <= 0:
                return _NO_OBJECT
            self._to_explain -= 1
            detail = f"the line is not JSON: {error}"
            return NoHit(HitRejected(detail, field="hit", value=line, rule=HIT_RULE))

    # --- an array -----------------------------------------------------------------------------------------------
    def read_array(self, body: bytes, start: int) -> Steps:
        """Reads the elements from start, which is after the opening bracket, and what follows the closing one."""
        return array_steps(body, start, self._read_piece, self._read_values, self._piece)

    def _read_piece(self, piece: bytes) -> Iterator[RawHits] | None:
        return self._decoded(Form.array, piece)

    def _read_values(self, values: list[bytes]) -> RawHits:
        if self._to_explain <= 0 and self._has_no_object(values):
            return RawHits(no_objects=len(values))
        return RawHits(odd=[self._element(value) for value in values])

    def _has_no_object(self, values: list[bytes]) -> bool:
        """Tells whether all values are short JSON and none an object, at once: one by one costs four times as much."""
        if not all(values) or any(value.startswith(b"{") or len(value) > HIT_BYTES for value in values):
            return False
        try:
            check_json(b"[" + b",".join(values) + b"]")
        except NotJson as error:
            raise not_json(str(error)) from None
        return True


# --- pieces of a body -----------------------------------------------------------------------------------------------
def array_steps(
    body: bytes,
    start: int,
    read_piece: ReadPiece[_Step],
    read_values: ReadValues[_Step],
    piece_bytes: int = PIECE_BYTES,
) -> Generator[_Step, None, None]:
    """Reads the elements from start, which is after the opening bracket, and what follows the closing one.

    read_piece reads a whole piece, an array of its own, or returns None if its values are odd in any way; read_values
    reads a few values, which need not be JSON. Raises BodyUnreadable.
    """
    window = piece_bytes * WINDOW_PIECES
    start = skip_space(body, start)
    if body.startswith(b"]", start):
        _check_end(body, start + 1)
        return
    if start == len(body):
        raise not_json(_NO_END)
    walk = _Walk(body, read_values, piece_bytes)
    while start < len(body):
        left, cut = len(body) - start, None
        if left > 2 * piece_bytes:
            cut = _CUT.search(body, start + piece_bytes, start + window)
        if cut is not None:
            piece, after = b"[" + body[start : cut.start() + 1] + b"]", cut.end() - 1
        else:
            piece, after = b"[" + body[start : start + window], len(body)
        steps = _piece_steps(piece, read_piece, read_values) if cut is not None or left <= window else None
        if steps is not None:
            yield from steps
            start = after
        else:
            start = yield from walk.steps(start)


def _piece_steps(piece: bytes, read_piece: ReadPiece[_Step], read_values: ReadValues[_Step]) -> Iterator[_Step] | None:
    """Returns the steps of an array that can be decoded at once; None, with nothing read, for any other."""
    steps = read_piece(piece)
    if steps is not None:
        return steps
    if piece.count(b",") * _DENSE > len(piece) and len(piece) > _DENSE * SLOW_VALUES:
        return None
    try:
        values = _RAW_LIST.decode(piece)
    except UNREADABLE:
        return None
    return (
        read_values([bytes(value) for value in values[at : at + SLOW_VALUES]])
        for at in range(0, len(values), SLOW_VALUES)
    )


class _Walk(Generic[_Step]):
    """Reads elements token by token, where pieces cannot be read."""

    def __init__(self, body: bytes, read_values: ReadValues[_Step], piece_bytes: int) -> None:
        self._body = body
        self._read_values = read_values
        self._piece = piece_bytes
        self._tokens = 0

    def steps(self, start: int) -> Generator[_Step, None, int]:
        """Reads the elements from start one by one, for a piece's length; returns where the next begins, or the end."""
        body, read_values = self._body, self._read_values
        end = min(len(body), start + self._piece + VALUE_BYTES)
        elements: list[bytes] = []
        depth, element = 0, start
        for number, token in enumerate(_TOKEN.finditer(body, start, end), 1):
            if number % _SLOW_TOKENS == 0 or len(elements) == SLOW_VALUES:
                self._check_tokens(number)
                yield read_values(elements)
                elements = []
            sign = body[token.start()]
            if sign == _QUOTE:
                if token.end() - token.start() == 1:
                    break  # a string without an end
            elif sign in _OPENING:
                depth += 1
            elif depth and sign in _CLOSING:
                depth -= 1
            elif depth == 0:
                elements.append(body[element : token.start()])
                element = skip_space(body, token.end())
                if sign == _END:
                    _check_end(body, element)
                    yield read_values(elements)
                    return len(body)
                if sign != _COMMA or body[element : element + 1] in (b"]", b""):
                    raise not_json(f"a value is missing (byte {element})")
                if element - start > self._piece:
                    self._tokens += number
                    yield read_values(elements)
                    return element
        if end < len(body):
            raise _value_too_long("value of the array", element)
        raise not_json(_NO_END)

    def _check_tokens(self, number: int) -> None:
        if self._tokens + number > WALKED_TOKENS:
            rule = f"at most {WALKED_TOKENS:,} strings, brackets and commas in values that are nested or no hits"
            raise BodyTooLarge("the array has too many nested values; send fewer values in a request", rule=rule)


def skip_space(body: bytes, start: int) -> int:
    """Returns the place after the white space at start."""
    space = _SPACE.match(body, start)
    end = space.end() if space else start
    if end - start > BLANK_BYTES:
        rule = f"at most {BLANK_BYTES:,} bytes of it in one place"
        raise BodyTooLarge("the body is mostly white space", rule=rule)
    return end


def line_pieces(body: bytes, start: int, piece_bytes: int) -> Iterator[bytes]:
    """Yields the lines from start, some together in a piece; raises BodyTooLarge for a line that is far too long."""
    while start < len(body):
        end = body.find(b"\n", start + piece_bytes) + 1 or len(body)
        if end - start > piece_bytes + VALUE_BYTES:
            raise _value_too_long("line", body.rfind(b"\n", start, start + piece_bytes) + 1 or start)
        yield body[start:end].strip(b" \t\r\n")
        start = end


def _value_too_long(what: str, start: int) -> BodyTooLarge:
    rule = f"at most {VALUE_BYTES:,} bytes, white space included"
    return BodyTooLarge(f"a {what} is too long (byte {start})", field="hit", rule=rule)


def not_json(why: str) -> BodyUnreadable:
    """Makes the error for a body that is not JSON."""
    hint = "; one value a line is application/x-ndjson" if "trailing characters" in why else ""
    return BodyUnreadable(f"the body is not JSON: {why}{hint}", rule=BODY_RULE)


def _check_end(body: bytes, start: int) -> None:
    if skip_space(body, start) != len(body):
        raise not_json("trailing characters")
