"""Cuts a JSON array of any length into steps of about a millisecond.

An array is cut at `},{`, and each piece is read as an array of its own: a cut that hit the inside of a string or of a
nested array leaves a piece that cannot be read, since a quote or a brace stays open in it; so what can be read was cut
rightly. A piece that cannot is split exactly, token by token. So is one of many tiny values: to decode 70,000 zeros at
once holds up all others for 20 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw

from clickcurve.buckets.errors import BodyUnreadable

PIECE_BYTES = 48 * 1024
BODY_RULE = "a hit, an array of hits, or one hit a line, as the Content-Type says"
SLOW_VALUES = 128  # a step, where values are judged one by one

# What a decoder raises for bytes that it cannot take, whatever the reason; the next way of reading finds the reason.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# An array without a cut in so many pieces' length is split exactly. Also the most that is read as one last piece.
WINDOW_PIECES = 3
_SLOW_TOKENS = 2048
_DENSE = 6  # fewer bytes than this for each comma, and a piece is of tiny values

_CUT = re.compile(rb"\}[ \t\r\n]*+,[ \t\r\n]*+\{")
_SPACE = re.compile(rb"[ \t\r\n]*+")
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
            start = yield from _exact_steps(body, start, read_values, piece_bytes)


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


def _exact_steps(
    body: bytes, start: int, read_values: ReadValues[_Step], piece_bytes: int
) -> Generator[_Step, None, int]:
    """Reads the elements from start one by one, for a piece's length; returns where the next begins, or the end."""
    found: list[bytes] = []
    depth, element = 0, start
    for number, token in enumerate(_TOKEN.finditer(body, start), 1):
        if number % _SLOW_TOKENS == 0 or len(found) == SLOW_VALUES:
            yield read_values(found)
            found = []
        sign = body[token.start()]
        if sign == _QUOTE:
            if token.end() - token.start() == 1:
                break  # a string without an end
        elif sign in _OPENING:
            depth += 1
        elif depth and sign in _CLOSING:
            depth -= 1
        elif depth == 0:
            found.append(body[element : token.start()])
            element = skip_space(body, token.end())
            if sign == _END:
                _check_end(body, element)
                yield read_values(found)
                return len(body)
            if sign != _COMMA or body[element : element + 1] in (b"]", b""):
                raise not_json(f"a value is missing (byte {element})")
            if element - start > piece_bytes:
                yield read_values(found)
                return element
    raise not_json(_NO_END)


def skip_space(body: bytes, start: int) -> int:
    """Returns the place after the white space at start."""
    space = _SPACE.match(body, start)
    return space.end() if space else start


def one_a_line(piece: bytes, values: int) -> bool:
    """Tells whether so many values are one on each line that is not empty: the decoder takes several on a line, too."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(b" \t\r\n"))


def not_json(why: str) -> BodyUnreadable:
    """Makes the error for a body that is not JSON."""
    hint = "; one value a line is application/x-ndjson" if "trailing characters" in why else ""
    return BodyUnreadable(f"the body is not JSON: {why}{hint}", rule=BODY_RULE)


def _check_end(body: bytes, start: int) -> None:
    if skip_space(body, start) != len(body):
        raise not_json("trailing characters")
