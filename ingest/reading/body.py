"""A body to hits: JSON (an object or an array), NDJSON, and CloudEvents batches, read in pieces.

Decoding 100,000 objects at once falls out of the processor's cache and takes twice as long as decoding them 1,400 at
a time, so a body is cut into pieces of about 48 KB. NDJSON is cut at newlines. A JSON array is cut where `},{` stands
and each piece is read as an array of its own: a cut that hit the inside of a string or of a nested array leaves a
piece that cannot be read, since a quote or a brace stays open in it; so what can be read was cut rightly. A piece
that cannot is split exactly, token by token.

Each piece is tried in three ways, from lean to exact: hits of key, ts and count within bounds; hits whose fields have
the right types; one by one. The ways agree on every body; only their speed differs.

`read` is a generator that yields between steps of at most about a millisecond: whoever drives it can let others run.
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
from ingest.hit import HIT_RULE
from ingest.reading.json_hit import HIT_BYTES, Judge, NotJson, Refusal, event_hit_in, hit_in
from ingest.reading.request_sums import FullHit, PlainHit, RequestSums

PIECE_BYTES = 48 * 1024
# An array without a cut in so many pieces' length is split exactly. Also the most that is read as one last piece.
_WINDOW_PIECES = 3
_SLOW_HITS = 128  # between two pauses, where hits are read one by one
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

Pauses = Generator[None, None, None]
_Decoded = TypeVar("_Decoded")


class Media(Enum):
    json = "application/json"
    lines = "application/x-ndjson"
    events = "application/cloudevents-batch+json"


_MEDIA = {media.value: media for media in Media} | {"application/ndjson": Media.lines, "application/jsonl": Media.lines}
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")


def media_of(header: str) -> Media:
    """What a Content-Type header (empty: JSON) says; MediaTypeUnsupported if it is nothing that is read here."""
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


def read(body: bytes, media: Media, tally: RequestSums, is_bot: Judge, piece_bytes: int = PIECE_BYTES) -> Pauses:
    """Add every hit of the body to the tally. BodyUnreadable if the body as a whole is not what its type says."""
    if body.startswith(_UTF16_BOMS):
        raise BodyUnreadable("the body is UTF-16; JSON is UTF-8")
    start = _behind_space(body, len(_BOM) if body.startswith(_BOM) else 0)
    reader = (_Events if media is Media.events else _Hits)(tally, is_bot, piece_bytes)
    if media is Media.lines:
        return reader.read_lines(body, start)
    if body.startswith(b"[", start):
        return reader.read_array(body, start + 1)
    return reader.read_value(body, start)


class _Hits:
    """Reads bodies of hits. The verbs are generators that yield where others may run."""

    typed = True  # elements are hits themselves, so that whole pieces can be decoded into fields

    def __init__(self, tally: RequestSums, is_bot: Judge, piece_bytes: int) -> None:
        self.tally = tally
        self.is_bot = is_bot
        self.piece = piece_bytes
        self.window = piece_bytes * _WINDOW_PIECES
        self.longest = max(self.window, HIT_BYTES)

    def add_value(self, value: bytes) -> None:
        """One value, read by itself. NotJson if it is none."""
        try:
            self.tally.add(hit_in(value, self.tally.moment, self.is_bot))
        except Refusal as refusal:
            self.tally.refuse(refusal.error, refusal.count)

    # --- a value ------------------------------------------------------------------------------------------------
    def read_value(self, body: bytes, start: int) -> Pauses:
        """A body that is no array: one object, or nothing that counts."""
        value = body[start:] if start else body
        if not value.startswith(b"{"):
            what = "is neither an object nor an array" if value else "is empty"
            raise BodyUnreadable(f"the body {what}", value=shown(value) if value else None, rule=_BODY_RULE)
        if (plain := self._typed(_PLAIN.decode, value)) is not None:
            self.tally.add_plain([plain])
        elif (full := self._typed(_FULL.decode, value)) is not None:
            self.tally.add_full([full], self.is_bot)
        else:
            self._add_element(value)
        yield from ()

    def _typed(self, decode: Callable[[bytes], _Decoded], piece: bytes) -> _Decoded | None:
        """What a decoder finds in a piece of the usual size; None if it finds anything odd."""
        try:
            return decode(piece) if self.typed and len(piece) <= self.longest else None
        except _UNREADABLE:
            return None

    def _add_element(self, value: bytes) -> None:
        try:
            self.add_value(value)
        except NotJson as error:
            raise _not_json(str(error)) from None

    def _add_full(self, hits: list[FullHit]) -> Pauses:
        for start in range(0, len(hits), _SLOW_HITS):
            if start:
                yield
            self.tally.add_full(hits[start : start + _SLOW_HITS], self.is_bot)

    # --- lines --------------------------------------------------------------------------------------------------
    def read_lines(self, body: bytes, start: int) -> Pauses:
        """One value a line; a line that is none is a refused hit."""
        while start < len(body):
            end = body.find(b"\n", start + self.piece) + 1 or len(body)
            piece = body[start:end]
            start = end
            if (plain := self._typed(_PLAIN.decode_lines, piece)) is not None and _one_a_line(piece, len(plain)):
                self.tally.add_plain(plain)
            elif (full := self._typed(_FULL.decode_lines, piece)) is not None and _one_a_line(piece, len(full)):
                yield from self._add_full(full)
            else:
                yield from self._add_lines(piece)
            if start < len(body):
                yield

    def _add_lines(self, piece: bytes) -> Pauses:
        for number, line in enumerate(piece.split(b"\n"), 1):
            if line := line.strip(_SPACES):
                try:
                    self.add_value(line)
                except NotJson as error:
                    detail = f"the line is not JSON: {error}"
                    self.tally.refuse(HitRejected(detail, field="hit", value=shown(line), rule=HIT_RULE))
            if number % _SLOW_HITS == 0:
                yield

    # --- an array -----------------------------------------------------------------------------------------------
    def read_array(self, body: bytes, start: int) -> Pauses:
        """The elements from start, which is behind the opening bracket, and what follows the closing one."""
        start = _behind_space(body, start)
        if body.startswith(b"]", start):
            _check_end(body, start + 1)
            return
        if start == len(body):
            raise _not_json(_NO_END)
        while start < len(body):
            left, cut = len(body) - start, None
            if left > 2 * self.piece:
                cut = _CUT.search(body, start + self.piece, start + self.window)
            if cut is not None:
                piece, behind = b"[" + body[start : cut.start() + 1] + b"]", cut.end() - 1
            else:
                piece, behind = b"[" + body[start : start + self.window], len(body)
            read = (cut is not None or left <= self.window) and (yield from self._add_piece(piece))
            start = behind if read else (yield from self._add_exactly(body, start))
            if start < len(body):
                yield

    def _add_piece(self, piece: bytes) -> Generator[None, None, bool]:
        """Add the elements of an array; False, with nothing added, if it cannot be read."""
        if (plain := self._typed(_PLAIN_LIST.decode, piece)) is not None:
            self.tally.add_plain(plain)
        elif (full := self._typed(_FULL_LIST.decode, piece)) is not None:
            yield from self._add_full(full)
        else:
            try:
                values = _RAW_LIST.decode(piece)
            except _UNREADABLE:
                return False
            for number, value in enumerate(values, 1):
                self._add_element(bytes(value))
                if number % _SLOW_HITS == 0:
                    yield
        return True

    def _add_exactly(self, body: bytes, start: int) -> Generator[None, None, int]:
        """Add the elements from start one by one, for a piece's length; returns where the next begins, or the end."""
        depth, element = 0, start
        for number, token in enumerate(_TOKEN.finditer(body, start), 1):
            if number % _SLOW_TOKENS == 0:
                yield
            mark = body[token.start()]
            if mark == _QUOTE:
                if token.end() - token.start() == 1:
                    break  # a string without an end
            elif mark in _OPENING:
                depth += 1
            elif depth and mark in _CLOSING:
                depth -= 1
            elif depth == 0:
                self._add_element(body[element : token.start()])
                element = _behind_space(body, token.end())
                if mark == _END:
                    _check_end(body, element)
                    return len(body)
                if mark != _COMMA or body[element : element + 1] in (b"]", b""):
                    raise _not_json(f"a value is missing (byte {element})")
                if element - start > self.piece:
                    return element
        raise _not_json(_NO_END)


class _Events(_Hits):
    """Reads CloudEvents, each with a hit in its data."""

    typed = False

    def add_value(self, value: bytes) -> None:
        try:
            hit, event_id = event_hit_in(value, self.tally.moment, self.is_bot)
        except Refusal as refusal:
            self.tally.refuse(refusal.error, refusal.count)
        else:
            self.tally.add(hit, event_id)


def _one_a_line(piece: bytes, values: int) -> bool:
    """Whether so many values are one on every line that is not empty: the decoder also takes several on a line."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(_SPACES))


def _behind_space(body: bytes, start: int) -> int:
    space = _SPACE.match(body, start)
    return space.end() if space else start


def _check_end(body: bytes, start: int) -> None:
    if _behind_space(body, start) != len(body):
        raise _not_json("trailing characters")


def _not_json(why: str) -> BodyUnreadable:
    hint = "; one value a line is application/x-ndjson" if "trailing characters" in why else ""
    return BodyUnreadable(f"the body is not JSON: {why}{hint}", rule=_BODY_RULE)
