"""Decoding many hits at once: the shapes that a whole piece of a body may have, tried one after the other.

A piece is one object, an array of objects, or lines of one object each. The first way that can decode all of it gives
its hits; what none can decode is read value by value (`json_hit.py`). The ways agree on every piece that several can
decode: only their speed differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ingest.hit import RawHits

# What a decoder raises for bytes that it cannot take, whatever the reason; the next way of reading finds the reason.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# JSON hits in a step. A new agent takes 50 us; a thousand hits of a real log have some tens of those.
STEP_HITS = 256
_HEAD_BYTES = 1024  # that show which fields the hits of a piece have; the shape that follows from them proves it
_SHAPES = 256  # that are remembered: to make one takes 0.2 ms


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
    """Decodes pieces into hits of one shape. `hand_on` wraps some of them, at most step_hits.

    narrows: a piece is first read by the fields of its first hits. That takes a third less time, its columns half.
    """

    shape: type[Struct]
    hand_on: Callable[[Any], RawHits]
    step_hits: int | None = STEP_HITS
    narrows: bool = False

    def decode(self, form: Form, piece: bytes) -> Any:
        """Returns the hits of a piece; raises one of UNREADABLE."""
        if self.narrows and form is not Form.object:
            head = piece[:_HEAD_BYTES]
            fields = frozenset(name for name, quoted in _optional(self.shape) if quoted in head)
            try:
                return decoders_of(narrowed(self.shape, fields))[form](piece)
            except UNREADABLE:
                pass
        return decoders_of(self.shape)[form](piece)


@lru_cache(_SHAPES)
def decoders_of(shape: type[Struct]) -> Decoders:
    """Returns the decoders of a shape."""
    one = msgspec.json.Decoder(shape)
    return Decoders(one.decode, msgspec.json.Decoder(list[shape]).decode, one.decode_lines)  # type: ignore[valid-type]


@lru_cache(_SHAPES)
def narrowed(shape: type[Struct], names: frozenset[str]) -> type[Struct]:
    """Returns a shape of hits that have no optional fields but these: of others an instance has the default.

    It decodes no object with any other field, known or not.
    """
    fields = msgspec.structs.fields(shape)
    kept = [each for each in fields if each.required or each.name in names]
    return msgspec.defstruct(
        shape.__name__,
        [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in kept],
        namespace={each.name: each.default for each in fields if each not in kept},
        forbid_unknown_fields=True,
        gc=False,
        eq=False,
    )


@lru_cache
def _optional(shape: type[Struct]) -> list[tuple[str, bytes]]:
    return [(each.name, f'"{each.name}"'.encode()) for each in msgspec.structs.fields(shape) if not each.required]


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
    if way.step_hits is None or len(hits) <= way.step_hits:
        return iter((way.hand_on(hits),))
    starts = range(0, len(hits), way.step_hits)
    return (way.hand_on(hits[start : start + way.step_hits]) for start in starts)


def one_a_line(piece: bytes, values: int) -> bool:
    """Tells whether so many values are one on each line that is not empty: the decoder takes several on a line, too."""
    lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
    return values == lines or values == sum(1 for line in piece.split(b"\n") if line.strip(b" \t\r\n"))
