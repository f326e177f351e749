"""A chunk of an import on its way to the owner: what a stretch of a source adds, and the body that carries it.

A body is NDJSON, or a JSON array, of three kinds of objects, which may be mixed:

    {"key", "ts", "count", "bot"}     hits of one minute, summed; with the fields of words, if they say the same
    {"key", "opening"}                a count without dates
    {"key", "total", "buckets", ...}  a link's past, see history_line.py; with "group" for "key" a group's

What breaks a rule is refused one by one, with the reason; the rest counts, and the offset in the source moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw

from clickcurve.buckets.errors import BodyUnreadable, HitRejected
from clickcurve.buckets.ladder import Ladder
from clickcurve.keys import group_key, is_key
from clickcurve.problem import shown
from ingest.batch import Counts, SourceStep
from ingest.hit import COUNT_MAX, HIT_RULE, AnyHit, FullHit, RawHits, WordyHit
from ingest.imports.history_line import Wide, history_steps
from ingest.reading.body import WORDY_VALUES
from ingest.reading.json_array import (
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
from ingest.reading.json_hit import ABSENT, HIT_BYTES, NotJson, check_json, object_fields, read_hit
from ingest.reading.request_sums import RequestSums

_LONGEST_PIECE = PIECE_BYTES * WINDOW_PIECES
_LINE_COST = PIECE_BYTES // SLOW_VALUES  # what a line costs in time, in bytes, however short it is
_SPACES = b" \t\r\n"
_OF_HISTORY = frozenset(("total", "opening", "buckets"))  # the fields that history alone has tell it from hits
_NO_TS = HitRejected("ts is missing", field="ts", value=None, rule="imported hits say when they were")


@dataclass(slots=True)
class Chunk:
    """Bytes [step.start, step.end) of a source as counts, or as lines of history that the other side reads."""

    step: SourceStep
    people: Counts = field(default_factory=dict)
    bots: Counts = field(default_factory=dict)
    history: bytes = b""
    wordy: Sequence[WordyHit] = ()

    def hits(self) -> list[FullHit]:
        """Returns the counts as hits."""
        return [
            _DatedHit(key=key, ts=minute, count=count, bot=bot)
            for counts, bot in ((self.people, False), (self.bots, True))
            for minute, by_key in counts.items()
            for key, count in by_key.items()
        ]

    def body(self) -> bytes:
        """Returns the NDJSON that carries this."""
        return self.history or _encoder.encode_lines([*self.hits(), *self.wordy])


class _DatedHit(FullHit, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False, eq=False):
    """What almost all objects of a body are."""

    ts: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    id: None = None
    ua: None = None
    bot: bool = False


class DatedWordyHit(WordyHit, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, eq=False):
    """An imported hit that says something: what a line of an access log gives."""

    ts: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    id: None = None
    bot: bool = False


class _ObjectFields(msgspec.Struct, gc=False, eq=False):
    """Any object of a body."""

    key: Raw = ABSENT
    ts: Raw = ABSENT
    count: Raw = ABSENT
    bot: Raw = ABSENT
    total: Raw = ABSENT
    opening: Raw = ABSENT
    buckets: Raw = ABSENT
    group: Raw = ABSENT


_encoder = msgspec.json.Encoder()
_dated_decoder = msgspec.json.Decoder(_DatedHit)
_wordy_decoder = msgspec.json.Decoder(DatedWordyHit)
_dated_list_decoder = msgspec.json.Decoder(list[_DatedHit])
_object_decoder = msgspec.json.Decoder(_ObjectFields)
_Decoded = TypeVar("_Decoded")


class ChunkReader:
    """Reads chunks into the sums of one request each. Buckets of history are placed by the ladder and by `wide`."""

    def __init__(self, ladder: Ladder, wide: Wide = Wide.refuse) -> None:
        self._ladder = ladder
        self._wide = wide

    def read(self, chunk: Chunk, sums: RequestSums) -> Iterator[None]:
        """Adds a chunk that was made in this process; yields between steps, for others to run."""
        yield from self.read_body(chunk.history, sums)
        sums.add(RawHits(full=chunk.hits()), _is_bot)
        yield from _sum_wordy(chunk.wordy, sums)

    def read_body(self, body: bytes, sums: RequestSums, is_array: bool = False) -> Iterator[None]:
        """Adds every object of a body; yields between steps of some milliseconds, for others to run.

        Raises BodyUnreadable if an array as a whole is not JSON; a line that is not JSON is refused.
        """
        return self._array_steps(body, sums) if is_array else self._line_steps(body, sums)

    # --- an array -----------------------------------------------------------------------------------------------
    def _array_steps(self, body: bytes, sums: RequestSums) -> Iterator[None]:
        def read_piece(piece: bytes) -> Iterator[Iterator[None]] | None:
            hits = _decoded(_dated_list_decoder.decode, piece)
            return None if hits is None else iter((_sum_dated(hits, sums),))

        def read_values(values: list[bytes]) -> Iterator[None]:
            for value in values:
                try:
                    yield from self._read_value(value, sums)
                except NotJson as error:
                    raise not_json(str(error)) from None
            yield

        start = skip_space(body, 0)
        if not body.startswith(b"[", start):
            raise BodyUnreadable("the body is not a JSON array", rule="one object a line is NDJSON")
        for steps in array_steps(body, start + 1, read_piece, read_values):
            yield from steps

    # --- lines --------------------------------------------------------------------------------------------------
    def _line_steps(self, body: bytes, sums: RequestSums) -> Iterator[None]:
        for lines in line_pieces(body, 0, PIECE_BYTES):
            hits = _decoded(_dated_decoder.decode_lines, lines)
            if hits is not None and one_a_line(lines, len(hits)):
                yield from _sum_dated(hits, sums)
            elif (wordy := _decoded(_wordy_decoder.decode_lines, lines)) is not None and one_a_line(lines, len(wordy)):
                yield from _sum_wordy(wordy, sums)
            else:
                yield from self._odd_line_steps(lines, sums)

    def _odd_line_steps(self, lines: bytes, sums: RequestSums) -> Iterator[None]:
        size = 0
        for line in lines.split(b"\n"):
            if value := line.strip(_SPACES):
                yield from self._read_line(value, sums)
            size += len(line) + _LINE_COST
            if size > PIECE_BYTES:
                size = 0
                yield
        yield

    def _read_line(self, line: bytes, sums: RequestSums) -> Iterator[None]:
        try:
            yield from self._read_value(line, sums)
        except NotJson as error:
            if sums.explains_no_more():
                sums.refuse_unexplained("hit")
            else:
                sums.refuse(HitRejected(f"not an object: {error}", field="hit", value=shown(line), rule=HIT_RULE))

    # --- a value ------------------------------------------------------------------------------------------------
    def _read_value(self, value: bytes, sums: RequestSums) -> Iterator[None]:
        """Adds or refuses one value; yields within a long history; raises NotJson."""
        if not value.startswith(b"{") and len(value) <= HIT_BYTES and sums.explains_no_more():
            check_json(value)
            sums.refuse_unexplained("hit")
            return
        try:
            found = object_fields(value, _object_decoder)
        except HitRejected as error:
            sums.refuse(error)
            return
        if "ts" not in found and not _OF_HISTORY.isdisjoint(found):
            # Hits of a group are those of links, which have lines of their own: they are counted once in a receipt.
            yield from self._read_history(value, found, sums)
        else:
            sums.add(RawHits(odd=[_dated_hit(value)]), _is_bot)

    def _read_history(self, value: bytes, found: Mapping[str, object], sums: RequestSums) -> Iterator[None]:
        try:
            history = yield from history_steps(value, sums.moment, self._ladder, self._wide)
        except HitRejected as error:
            total = None if "group" in found else found.get("total")
            # Which line of a million it is: what is wrong with it seldom says.
            detail = f"{error.detail}, in the line of {shown(found.get('group', found.get('key')))!r}"
            named = HitRejected(detail, field=error.field, value=error.value, rule=error.rule)
            sums.refuse(named, total if isinstance(total, int) and total > 0 else 1, "history")
            return
        if history.is_group:
            sums.add_group_history(group_key(history.key), history.people, history.bots, history.words)
        else:
            sums.add_history(history.key, history.people, history.bots, history.opening, history.words)


def _decoded(decode: Callable[[bytes], _Decoded], piece: bytes) -> _Decoded | None:
    """Returns what a decoder finds in a piece of the usual size; None if it finds anything odd."""
    try:
        return decode(piece) if len(piece) <= _LONGEST_PIECE else None
    except UNREADABLE:
        return None


def _sum_dated(hits: list[_DatedHit], sums: RequestSums) -> Iterator[None]:
    sums.add(RawHits(full=hits), _is_bot)
    yield


def _sum_wordy(hits: Sequence[WordyHit], sums: RequestSums) -> Iterator[None]:
    for start in range(0, len(hits), WORDY_VALUES):
        sums.add(RawHits(wordy=hits[start : start + WORDY_VALUES]), _is_bot)
        yield


def _dated_hit(value: bytes) -> AnyHit:
    hit = read_hit(value)
    hit.id = hit.visitor = hit.groups = None
    if hit.bot is None:
        hit.bot = False
    if hit.ts is None and hit.rejected is None and is_key(hit.key):  # a bad key is named first
        hit.rejected = _NO_TS
    return hit


def _is_bot(agent: str) -> bool:
    """Returns False: imported hits say themselves whether they are bots' and have no agent."""
    return False
