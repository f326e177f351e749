"""From the bytes of a body to hits as read: JSON (an object or an array), NDJSON, and CloudEvents batches.

Decoding 100,000 objects at once falls out of the processor's cache and takes twice as long as decoding them 1,400 at
a time, so a body is cut into pieces of about 48 KB: NDJSON at newlines, a JSON array as `json_array.py` says.

Each piece is tried in six ways, from lean to exact: hits of key and ts within bounds; those of key, ts and count; hits
whose fields have the right types, with id, ua and bot; those of key, ts and count among fields that mean nothing here;
the same with all fields; one by one. The ways agree on every body; only their
speed differs.

`read_hits` is a generator whose steps take at most about a millisecond, so that its caller can let others run between
them. It looks at bytes and types only: whether a hit is good, its rules decide (`ingest/hit.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import TypeVar

import msgspec

from clickcurve.buckets.errors import BodyUnreadable, HitRejected, MediaTypeUnsupported
from clickcurve.problem import shown
from ingest.hit import HIT_RULE, AnyHit, FullHit, LeanHit, PlainHit, RawHits, WordyHit
from ingest.reading.json_array import (
    BODY_RULE,
    PIECE_BYTES,
    SLOW_VALUES,
    UNREADABLE,
    WINDOW_PIECES,
    array_steps,
    line_pieces,
    not_json,
    one_a_line,
    skip_space,
)
from ingest.reading.json_hit import HIT_BYTES, NotJson, check_json, read_event, read_hit
from ingest.reading.receipt import RECEIPT_ITEMS


class PlainHitWithMore(PlainHit, forbid_unknown_fields=False, gc=False, eq=False):
    """A plain hit with fields of other names beside, which are ignored; none that another kind of hit has."""

    id: None = None
    ua: None = None
    bot: None = None
    ref: None = None
    ip: None = None
    country: None = None
    lang: None = None
    source: None = None
    utm: None = None
    tags: None = None
    visitor: None = None
    groups: None = None


# Hits with words in a step. A new agent takes 50 us; a thousand hits of a real log have some tens of those.
WORDY_VALUES = 256

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SPACES = b" \t\r\n"


_LEAN = msgspec.json.Decoder(LeanHit)
_LEAN_LIST = msgspec.json.Decoder(list[LeanHit])
_PLAIN = msgspec.json.Decoder(PlainHit)
_PLAIN_LIST = msgspec.json.Decoder(list[PlainHit])
_FULL = msgspec.json.Decoder(FullHit)
_FULL_LIST = msgspec.json.Decoder(list[FullHit])
_PLAIN_WITH_MORE = msgspec.json.Decoder(PlainHitWithMore)
_PLAIN_WITH_MORE_LIST = msgspec.json.Decoder(list[PlainHitWithMore])
_WORDY = msgspec.json.Decoder(WordyHit)
_WORDY_LIST = msgspec.json.Decoder(list[WordyHit])

_NO_OBJECT = AnyHit(rejected=HitRejected("a hit is a JSON object", field="hit", value=None, rule=HIT_RULE))

Steps = Generator[RawHits, None, None]
_Decoded = TypeVar("_Decoded")


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
        raise _unsupported("the body's type is not one that is read here", header)
    for parameter in parameters:
        attribute, _, value = parameter.partition("=")
        if attribute.strip() == "charset" and value.strip().strip('"') not in _CHARSETS:
            raise _unsupported("JSON is UTF-8 here", header)
    return media


def _unsupported(detail: str, header: str) -> MediaTypeUnsupported:
    rule = ", ".join(media.value for media in Media) + ", in UTF-8"
    return MediaTypeUnsupported(detail, field="Content-Type", value=shown(header), rule=rule)


def read_one(body: bytes) -> PlainHit | FullHit | None:
    """Reads a body that is one object with fields of the right types; None for any other."""
    try:
        return _PLAIN.decode(body)
    except UNREADABLE:
        pass
    if b'"ref"' not in body and b'"ip"' not in body:  # with one of these the next two can only fail, for 0.5 us each
        try:
            return _FULL.decode(body)
        except UNREADABLE:
            pass
        try:
            return _PLAIN_WITH_MORE.decode(body)
        except UNREADABLE:
            pass
    try:
        return _WORDY.decode(body)
    except UNREADABLE:
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
            raise BodyUnreadable(f"the body {what}", value=shown(value) if value else None, rule=BODY_RULE)
        if (plain := self._decoded(_PLAIN.decode, value)) is not None:
            yield RawHits(plain=[plain])
        elif (full := self._decoded(_FULL.decode, value)) is not None:
            yield RawHits(full=[full])
        elif (plain := self._decoded(_PLAIN_WITH_MORE.decode, value)) is not None:
            yield RawHits(plain=[plain])
        elif (wordy := self._decoded(_WORDY.decode, value)) is not None:
            yield RawHits(wordy=[wordy])
        else:
            yield RawHits(odd=[self._element(value)])

    def _decoded(self, decode: Callable[[bytes], _Decoded], piece: bytes) -> _Decoded | None:
        """Returns what a decoder finds in a piece of the usual size; None if it finds anything odd."""
        try:
            return decode(piece) if self._typed and len(piece) <= self._longest else None
        except UNREADABLE:
            return None

    def _element(self, value: bytes) -> AnyHit:
        try:
            return self._hit(value)
        except NotJson as error:
            raise not_json(str(error)) from None

    def _hit(self, value: bytes) -> AnyHit:
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
            if (lean := self._decoded(_LEAN.decode_lines, piece)) is not None and one_a_line(piece, len(lean)):
                yield RawHits(lean=lean)
            elif (plain := self._decoded(_PLAIN.decode_lines, piece)) is not None and one_a_line(piece, len(plain)):
                yield RawHits(plain=plain)
            elif (full := self._decoded(_FULL.decode_lines, piece)) is not None and one_a_line(piece, len(full)):
                yield from _full_in_steps(full)
            elif (more := self._decoded(_PLAIN_WITH_MORE.decode_lines, piece)) is not None and one_a_line(
                piece, len(more)
            ):
                yield RawHits(plain=more)
            elif (wordy := self._decoded(_WORDY.decode_lines, piece)) is not None and one_a_line(piece, len(wordy)):
                yield from _wordy_in_steps(wordy)
            else:
                yield from self._read_odd_lines(piece)

    def _read_odd_lines(self, piece: bytes) -> Steps:
        odd: list[AnyHit] = []
        for number, line in enumerate(piece.split(b"\n"), 1):
            if line := line.strip(_SPACES):
                odd.append(self._line(line))
            if number % SLOW_VALUES == 0:
                yield RawHits(odd=odd)
                odd = []
        yield RawHits(odd=odd)

    def _line(self, line: bytes) -> AnyHit:
        try:
            return self._hit(line)
        except NotJson as error:
            if self._to_explain <= 0:
                return _NO_OBJECT
            self._to_explain -= 1
            detail = f"the line is not JSON: {error}"
            return AnyHit(rejected=HitRejected(detail, field="hit", value=shown(line), rule=HIT_RULE))

    # --- an array -----------------------------------------------------------------------------------------------
    def read_array(self, body: bytes, start: int) -> Steps:
        """Reads the elements from start, which is after the opening bracket, and what follows the closing one."""
        return array_steps(body, start, self._read_piece, self._read_values, self._piece)

    def _read_piece(self, piece: bytes) -> Iterator[RawHits] | None:
        if (lean := self._decoded(_LEAN_LIST.decode, piece)) is not None:
            return iter((RawHits(lean=lean),))
        if (plain := self._decoded(_PLAIN_LIST.decode, piece)) is not None:
            return iter((RawHits(plain=plain),))
        if (full := self._decoded(_FULL_LIST.decode, piece)) is not None:
            return _full_in_steps(full)
        if (more := self._decoded(_PLAIN_WITH_MORE_LIST.decode, piece)) is not None:
            return iter((RawHits(plain=more),))
        wordy = self._decoded(_WORDY_LIST.decode, piece)
        return None if wordy is None else _wordy_in_steps(wordy)

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


def _full_in_steps(hits: list[FullHit]) -> Steps:
    for start in range(0, len(hits), SLOW_VALUES):
        yield RawHits(full=hits[start : start + SLOW_VALUES])


def _wordy_in_steps(hits: list[WordyHit]) -> Steps:
    for start in range(0, len(hits), WORDY_VALUES):
        yield RawHits(wordy=hits[start : start + WORDY_VALUES])
