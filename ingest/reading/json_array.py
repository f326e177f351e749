"""Cuts a JSON array of any length into steps of about a millisecond.

An array is cut at `},{`, and each piece is read as an array of its own: a cut that hit the inside of a string or of a
nested array leaves a piece that cannot be read, since a quote or a brace stays open in it; so what can be read was cut
rightly. A piece that cannot is split exactly, token by token. So is one of many tiny values: to decode 70,000 zeros at
once holds up all others for 20 ms. How long a value may be, and how many tokens are walked in all, is bounded: a string
of 63 MB took half a second in one step, and 63 MB of brackets, packed into 16 kB, took 12 seconds in many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from clickcurve.buckets.errors import BodyTooLarge, BodyUnreadable
from ingest.reading.json_hit import HIT_BYTES, UNREADABLE

PIECE_BYTES = 48 * 1024
BODY_RULE = "a hit, an array of hits, or one hit a line, as the Content-Type says"
SLOW_VALUES = 128  # a step, where values are judged one by one
VALUE_BYTES = HIT_BYTES  # of a value with the white space around it, in an array or on a line
WALKED_TOKENS = 4_000_000  # strings, brackets and commas of a body that are walked one by one, some 0.8 s
BLANK_BYTES = 16 * 1024 * 1024  # of white space before the first value and after the last one

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
