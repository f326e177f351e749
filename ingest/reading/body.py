"""From the bytes of a body to hits as read: JSON (an object or an array), NDJSON, and CloudEvents batches.

Decoding 100,000 objects at once falls out of the processor's cache and takes twice as long as decoding them 1,400 at
a time, so a body is cut into pieces of about 48 KB. NDJSON is cut at newlines. A JSON array is cut at `},{`,
and each piece is read as an array of its own: a cut that hit the inside of a string or of a nested array leaves a
piece that cannot be read, since a quote or a brace stays open in it; so what can be read was cut rightly. A piece
that cannot is split exactly, token by token.

Each piece is tried in three ways, from lean to exact: hits of key, ts and count within bounds; hits whose fields have
the right types; one by one. The ways agree on every body; only their speed differs.

`read_hits` is a generator whose steps take at most about a millisecond, so that its caller can let others run between
them. It looks at bytes and types only: whether a hit is good, its rules decide (`ingest/hit.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from enum import Enum
from typing import TypeVar

import msgspec
from msgspec import Raw

from clickcurve.buckets.errors import BodyUnreadable, HitRejected, MediaTypeUnsupported
from clickcurve.problem import shown
from ingest.hit import HIT_RULE, AnyHit, FullHit, PlainHit, RawHits
from ingest.reading.json_hit import HIT_BYTES, NotJson, read_event, read_hit

PIECE_BYTES = 48 * 1024
# An array without a cut in so many pieces' length is split exactly. Also the most that is read as one last piece.
_WINDOW_PIECES = 3
_SLOW_HITS = 128  # a step, where hits are judged one by one
_SLOW_TOKENS = 4096

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_CUT = re.compile(rb"\}[ \t\r\n]*+,[ \t\r\n]*+\{")
_SPACE = re.compile(rb"[ \t\r\n]*+")
# A string, whole; a bracket or comma outside of strings; or the quote of a string that has no end.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},"]', re.DOTALL)

_SPACES = b" \t\r\n"
_NO_END = "the array has no end"
_BODY_RULE = "a hit, an array of hits, or one hit a line, as the Content-Type says"

_QUOTE, _COMMA, _END, _OPENING, _CLOSING = *b'",]', b"[{", b"]}"

_PLAIN = msgspec.json.Decoder(PlainHit)
_PLAIN_LIST = msgspec.json.Decoder(list[PlainHit])
_FULL = msgspec.json.Decoder(FullHit)
_FULL_LIST = msgspec.json.Decoder(list[FullHit])
_RAW_LIST = msgspec.json.Decoder(list[Raw])
# What a decoder raises for bytes that it cannot take, whatever the reason; the next way of reading finds the reason.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

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
    except _UNREADABLE:
        pass
    try:
        return _FULL.decode(body)
    except _UNREADABLE:
        return None


def read_hits(body: bytes, media: Media, piece_bytes: int = PIECE_BYTES) -> Steps:
    """Reads every hit of a body, some with each step; raises BodyUnreadable if it is not what its type says.

    What was read before the error must then count for nothing.
    """
    if body.startswith(_UTF16_BOMS):
        raise BodyUnreadable("the body is UTF-16; JSON is UTF-8")
    start = _skip_space(body, len(_BOM) if body.startswith(_BOM) else 0)
    reader = _Reader(media is not Media.events, piece_bytes)
    if media is Media.lines:
        return reader.read_lines(body, start)
    if body.startswith(b"[", start):
        return reader.read_array(body, start + 1)
    return reader.read_object(body, start)


class _Reader:
    """Reads bodies of hits, or of events with a hit in their data, which cannot be decoded in whole pieces."""

    def __init__(self, typed: bool, piece_bytes: int) -> None:
        self._typed = typed
        self._read_value = read_hit if typed else read_event
        self._piece = piece_bytes
        self._window = piece_bytes * _WINDOW_PIECES
        self._longest = max(self._window, HIT_BYTES)

    # --- a value ------------------------------------------------------------------------------------------------
    def read_object(self, body: bytes, start: int) -> Steps:
        """Reads a body that is not an array: one object, or nothing that counts."""
        value = body[start:] if start else body
        if not value.startswith(b"{"):
            what = "is neither an object nor an array" if value else "is empty"
            raise BodyUnreadable(f"the body {what}", value=shown(value) if value else None, rule=_BODY_RULE)
        if (plain := self._decoded(_PLAIN.decode, value)) is not None:
            yield RawHits(plain=[plain])
        elif (full := self._decoded(_FULL.decode, value)) is not None:
            yield RawHits(full=[full])
        else:
            yield RawHits(odd=[self._element(value)])

    def _decoded(self, decode: Callable[[bytes], _Decoded], piece: bytes) -> _Decoded | None:
        """Returns what a decoder finds in a piece of the usual size; None if it finds anything odd."""
        try:
            return decode(piece) if self._typed and len(piece) <= self._longest else None
        except _UNREADABLE:
            return None

    def _element(self, value: bytes) -> AnyHit:
        try:
            return self._read_value(value)
        except NotJson as error:
            raise _not_json(str(error)) from None

    # --- lines --------------------------------------------------------------------------------------------------
    def read_lines(self, body: bytes, start: int) -> Steps:
        """Reads one value a line; a line that is not JSON is one rejected hit."""
        while start < len(body):
            end = body.find(b"\n", start + self._piece) + 1 or len(body)
            piece = body[start:end]
            start = end
            if (plain := self._decoded(_PLAIN.decode_lines, piece)) is not None and _one_a_line(piece, len(plain)):
                yield RawHits(plain=plain)
            elif (full := self._decoded(_FULL.decode_lines, piece)) is not None and _one_a_line(piece, len(full)):
                yield from _in_steps(full)
            else:
                yield from self._read_odd_lines(piece)

    def _read_odd_lines(self, piece: bytes) -> Steps:
        odd: list[AnyHit] = []
        for number, line in enumerate(piece.split(b"\n"), 1):
            if line := line.strip(_SPACES):
                odd.append(self._line(line))
            if number % _SLOW_HITS == 0:
                yield RawHits(odd=odd)
                odd = []
        yield RawHits(odd=odd)

    def _line(self, line: bytes) -> AnyHit:
        try:
            return self._read_value(line)
        except NotJson as error:
            detail = f"the line is not JSON: {error}"
            return AnyHit(rejected=HitRejected(detail, field="hit", value=shown(line), rule=HIT_RULE))

    # --- an array -----------------------------------------------------------------------------------------------
    def read_array(self, body: bytes, start: int) -> Steps:
        """Reads the elements from start, which is after the opening bracket, and what follows the closing one."""
        start = _skip_space(body, start)
        if body.startswith(b"]", start):
            _check_end(body, start + 1)
            return
        if start == len(body):
            raise _not_json(_NO_END)
        while start < len(body):
            left, cut = len(body) - start, None
            if left > 2 * self._piece:
                cut = _CUT.search(body, start + self._piece, start + self._window)
            if cut is not None:
                piece, after = b"[" + body[start : cut.start() + 1] + b"]", cut.end() - 1
            else:
                piece, after = b"[" + body[start : start + self._window], len(body)
            whole = (cut is not None or left <= self._window) and (yield from self._read_piece(piece))
            start = after if whole else (yield from self._read_exactly(body, start))

    def _read_piece(self, piece: bytes) -> Generator[RawHits, None, bool]:
        """Reads the elements of an array; returns False, with nothing read, if the piece is not one."""
        if (plain := self._decoded(_PLAIN_LIST.decode, piece)) is not None:
            yield RawHits(plain=plain)
        elif (full := self._decoded(_FULL_LIST.decode, piece)) is not None:
            yield from _in_steps(full)
        else:
            try:
                values = _RAW_LIST.decode(piece)
            except _UNREADABLE:
                return False
            for start in range(0, len(values), _SLOW_HITS):
                yield RawHits(odd=[self._element(bytes(value)) for value in values[start : start + _SLOW_HITS]])
        return True

    def _read_exactly(self, body: bytes, start: int) -> Generator[RawHits, None, int]:
        """Reads the elements from start one by one, for a piece's length; returns where the next begins, or the end."""
        odd: list[AnyHit] = []
        depth, element = 0, start
        for number, token in enumerate(_TOKEN.finditer(body, start), 1):
            if number % _SLOW_TOKENS == 0:
                yield RawHits(odd=odd)
                odd = []
            sign = body[token.start()]
            if sign == _QUOTE:
                if token.end() - token.start() == 1:
                    break  # a string without an end
            elif sign in _OPENING:
                depth += 1
            elif depth and sign in _CLOSING:
                depth -= 1
            elif depth == 0:
                odd.append(self._element(body[element : token.start()]))
                element = _skip_space(body, token.end())
                if sign == _END:
                    _check_end(body, element)
                    yield RawHits(odd=odd)
                    return len(body)
                if sign != _COMMA or body[element : element + 1] in (b"]", b""):
                    raise _not_json(f"a value is missing (byte {element})")
                if element - start > self._piece:
                    yield RawHits(odd=odd)
                    return element
        raise _not_json(_NO_END)


def _in_steps(hits: list[FullHit]) -> Steps:
    for start in range(0, len(hits), _SLOW_HITS):
        yield RawHits(full=hits[start : start + _SLOW_HITS])


def _one_a_line(piece: bytes, values: int) -> bool:
    """Tells whether so many values are one on each line that is not empty: the decoder takes several on a line, too."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(_SPACES))


def _skip_space(body: bytes, start: int) -> int:
    space = _SPACE.match(body, start)
    return space.end() if space else start


def _check_end(body: bytes, start: int) -> None:
    if _skip_space(body, start) != len(body):
        raise _not_json("trailing characters")


def _not_json(why: str) -> BodyUnreadable:
    hint = "; one value a line is application/x-ndjson" if "trailing characters" in why else ""
    return BodyUnreadable(f"the body is not JSON: {why}{hint}", rule=_BODY_RULE)
