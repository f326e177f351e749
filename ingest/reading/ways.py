"""Decoding many hits at once: the shapes that a whole piece of a body may have, tried one after the other.

A piece is one object, an array of objects, or lines of one object each. The first way that can decode all of it gives
its hits; what none can decode is read value by value (`json_hit.py`). The ways agree on every piece that several can
decode: only their speed differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ingest.hit import RawHits

# What a decoder raises for bytes that it cannot take, whatever the reason; the next way of reading finds the reason.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# JSON hits in a step. A new agent takes 50 us; a thousand hits of a real log have some tens of those.
STEP_HITS = 256


class Form(IntEnum):
    """How the hits of a piece are written."""

    object = 0
    array = 1
    lines = 2


class Way(NamedTuple):
    """Decodes pieces into hits of one shape, by form. `hand_on` wraps some of them, at most step_hits."""

    decoders: tuple[Callable[[bytes], Any], Callable[[bytes], Any], Callable[[bytes], Any]]
    hand_on: Callable[[Any], RawHits]
    step_hits: int | None


def way_of(shape: type[Struct], hand_on: Callable[[Any], RawHits], step_hits: int | None = STEP_HITS) -> Way:
    """Returns the way of decoding hits of a shape."""
    one = msgspec.json.Decoder(shape)
    return Way((one.decode, msgspec.json.Decoder(list[shape]).decode, one.decode_lines), hand_on, step_hits)  # type: ignore[valid-type]


def decoded_steps(ways: Sequence[Way], form: Form, piece: bytes) -> Iterator[RawHits] | None:
    """Returns the hits of a piece in steps, by the first way that can decode it; None if none can."""
    for way in ways:
        try:
            hits = way.decoders[form](piece)
        except UNREADABLE:
            continue
        if form is Form.object:
            hits = [hits]
        if form is not Form.lines or one_a_line(piece, len(hits)):
            return _steps(way, hits)
    return None


def _steps(way: Way, hits: Sequence[Struct]) -> Iterator[RawHits]:
    if way.step_hits is None or len(hits) <= way.step_hits:
        return iter((way.hand_on(hits),))
    starts = range(0, len(hits), way.step_hits)
    return (way.hand_on(hits[start : start + way.step_hits]) for start in starts)


def one_a_line(piece: bytes, values: int) -> bool:
    """Tells whether so many values are one on each line that is not empty: the decoder takes several on a line, too."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(b" \t\r\n"))
