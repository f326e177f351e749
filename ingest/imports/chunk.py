"""A chunk of an import: the counts of one part of a source, and the body that carries them.

A body is NDJSON, or a JSON array, of three kinds of objects, which may be mixed:

    {"key", "ts", "count", "bot"}     hits of one minute, summed; with their attributes, if these are the same
    {"key", "opening"}                a count without dates
    {"key", "total", "buckets", ...}  a link's past, see history_line.py; with "group" for "key" a group's

What breaks a rule is refused one by one, with the reason; the rest counts, and the offset in the source moves on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from clickcurve.buckets.errors import BodyUnreadable, HitRejected, shown
from clickcurve.buckets.ladder import Ladder
from clickcurve.keys import group_key, is_key
from ingest.batch import SourceStep
from ingest.hit import COUNT_MAX, HIT_RULE, JsonHit, NoHit, RawHits
from ingest.imports.history_line import HistoryReader
from ingest.imports.places import AS_IT_WAS, Placing
from ingest.reading.body import (
    PIECE_BYTES,
    SLOW_VALUES,
    WINDOW_PIECES,
    array_steps,
    line_pieces,
    not_json,
    skip_space,
)
from ingest.reading.json_hit import (
    ABSENT,
    HIT_BYTES,
    STEP_HITS,
    Form,
    NotJson,
    Way,
    check_json,
    decoded_steps,
    object_fields,
    read_hit,
)
from ingest.reading.request_sums import RequestSums

_LONGEST_PIECE = PIECE_BYTES * WINDOW_PIECES
_LINE_COST = PIECE_BYTES // SLOW_VALUES  # what a line costs in time, in bytes, however short it is
_SPACES = b" \t\r\n"
_OF_HISTORY = frozenset(("total", "opening", "buckets", "events"))  # what history alone has
_NO_TS = HitRejected("ts is missing", field="ts", value=None, rule="imported hits say when they were")


class DatedHit(JsonHit, forbid_unknown_fields=True, omit_defaults=True, gc=False, eq=False):
    """Hits of one minute, summed, with their attributes: what almost all objects of a body are."""

    ts: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    id: None = None


@dataclass(slots=True)
class Chunk:
    """Bytes [step.start, step.end) of a source as hits, or as lines of history that the other side reads."""

    step: SourceStep
    hits: Sequence[DatedHit] = ()
    history: bytes = b""

    def body(self) -> bytes:
        """Returns the NDJSON that carries this."""
        return self.history or _encoder.encode_lines(self.hits)


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
    events: Raw = ABSENT


_encoder = msgspec.json.Encoder()
_WAYS = (Way(DatedHit, lambda hits: RawHits(json=hits), narrows=True),)
_NO_OBJECT = RawHits(no_objects=1)
_object_decoder = msgspec.json.Decoder(_ObjectFields)


class ChunkReader:
    """Reads chunks into the sums of one request each. Buckets of history are placed by the ladder and by `placing`."""

    def __init__(self, ladder: Ladder, placing: Placing = AS_IT_WAS) -> None:
        self._ladder = ladder
        self._placing = placing

    def read(self, chunk: Chunk, sums: RequestSums) -> Iterator[None]:
        """Adds a chunk that was made in this process; yields between steps, for others to run."""
        yield from self.read_body(chunk.history, sums)
        starts = range(0, len(chunk.hits), STEP_HITS)
        yield from _added((RawHits(json=chunk.hits[start : start + STEP_HITS]) for start in starts), sums)

    def read_body(self, body: bytes, sums: RequestSums, is_array: bool = False) -> Iterator[None]:
        """Adds every object of a body; yields between steps of some milliseconds, for others to run.

        Raises BodyUnreadable if an array as a whole is not JSON; a line that is not JSON is refused.
        """
        return self._array_steps(body, sums) if is_array else self._line_steps(body, sums)

    # --- an array -----------------------------------------------------------------------------------------------
    def _array_steps(self, body: bytes, sums: RequestSums) -> Iterator[None]:
        def read_piece(piece: bytes) -> Iterator[Iterator[None]] | None:
            steps = _decoded(Form.array, piece, sums)
            return None if steps is None else iter((steps,))

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
            steps = _decoded(Form.lines, lines, sums)
            yield from self._odd_line_steps(lines, sums) if steps is None else steps

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
            if sums.refusals.are_explained():
                sums.add(_NO_OBJECT, _is_bot)
            else:
                sums.refuse(HitRejected(f"not an object: {error}", field="hit", value=line, rule=HIT_RULE))

    # --- a value ------------------------------------------------------------------------------------------------
    def _read_value(self, value: bytes, sums: RequestSums) -> Iterator[None]:
        """Adds or refuses one value; yields within a long history; raises NotJson."""
        if not value.startswith(b"{") and len(value) <= HIT_BYTES and sums.refusals.are_explained():
            check_json(value)
            sums.add(_NO_OBJECT, _is_bot)
            return
        try:
            fields = object_fields(value, _object_decoder)
        except HitRejected as error:
            sums.refuse(error)
            return
        if "ts" not in fields and not _OF_HISTORY.isdisjoint(fields):
            # Hits of a group are those of links, which have lines of their own: they are counted once in a receipt.
            yield from self._read_history(value, fields, sums)
        else:
            yield from sums.add_steps(RawHits(odd=[_dated_hit(value)]), _is_bot)

    def _read_history(self, value: bytes, fields: Mapping[str, object], sums: RequestSums) -> Iterator[None]:
        try:
            reader = HistoryReader(self._ladder, self._placing, sums.judge.events)
            history = yield from reader.steps(value, sums.moment)
        except HitRejected as error:
            total = None if "group" in fields else fields.get("total")
            # Which line of a million it is: what is wrong with it seldom says.
            detail = f"{error.detail}, in the line of {shown(fields.get('group', fields.get('key')))!r}"
            named = HitRejected(detail, field=error.field, value=error.value, rule=error.rule)
            sums.refuse(named, total if isinstance(total, int) and total > 0 else 1, "history")
            return
        if history.is_group:
            past = history.people, history.bots, history.values
            sums.add_group_history(group_key(history.key), *past, events=history.events)
        else:
            of_link = history.people, history.bots, history.opening, history.values
            sums.add_history(history.key, *of_link, is_grouped=history.is_grouped, events=history.events)


def _decoded(form: Form, piece: bytes, sums: RequestSums) -> Iterator[None] | None:
    """Returns the steps that add a piece of the usual size; None if anything in it is odd."""
    steps = decoded_steps(_WAYS, form, piece) if len(piece) <= _LONGEST_PIECE else None
    return None if steps is None else _added(steps, sums)


def _added(steps: Iterator[RawHits], sums: RequestSums) -> Iterator[None]:
    for hits in steps:
        yield from sums.add_steps(hits, _is_bot)
        yield


def _dated_hit(value: bytes) -> JsonHit | NoHit:
    hit = read_hit(value)
    if isinstance(hit, NoHit):
        return hit
    hit.id = None
    if hit.ts is None and is_key(hit.key):  # a bad key is named first
        return NoHit(_NO_TS, hit.count)
    return hit


def _is_bot(agent: str) -> bool:
    """Returns False: the command that read a log has judged its agents. The rules for bots hold here, too."""
    return False
