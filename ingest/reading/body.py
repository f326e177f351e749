"""From the bytes of a body to hits as read: JSON (an object or an array), NDJSON, and CloudEvents batches.

Decoding 100,000 objects at once falls out of the processor's cache and takes twice as long as decoding them 1,400 at
a time, so a body is cut into pieces of about 48 KB: NDJSON at newlines, a JSON array as `json_array.py` says.

Each piece is tried in three ways (`WAYS`): plain hits, of key, ts and count within bounds; these among fields that
mean nothing here; hits with all fields. What none can decode is read one by one. Whichever way a hit is read, it
means the same.

`read_hits` is a generator whose steps take at most about a millisecond, so that its caller can let others run between
them. It looks at bytes and types only: whether a hit is good, its rules decide (`ingest/hit.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec

from clickcurve.buckets.errors import BodyUnreadable, HitRejected, MediaTypeUnsupported
from ingest.hit import HIT_RULE, JsonHit, NoHit, PlainHit, RawHits
from ingest.reading.json_array import (
    BODY_RULE,
    PIECE_BYTES,
    SLOW_VALUES,
    WINDOW_PIECES,
    array_steps,
    line_pieces,
    not_json,
    skip_space,
)
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
    for decode in _ONE:
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
