"""A chunk of an import on its way to the owner: what a stretch of a source adds, and the body that carries it.

A body is NDJSON, or a JSON array, of three kinds of objects, which may be mixed:

    {"key", "ts", "count", "bot"}     hits of one minute, summed
    {"key", "opening"}                a count without dates
    {"key", "total", "buckets", ...}  a link's past, see history_line.py

What breaks a rule is refused one by one, with the reason; the rest counts, and the offset in the source moves on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from clickcurve.buckets.errors import BodyUnreadable, HitRejected
from clickcurve.buckets.ladder import Ladder
from clickcurve.keys import require_key
from clickcurve.problem import shown
from ingest.batch import Counts, SourceStep
from ingest.hit import COUNT_MAX, HIT_RULE, AnyHit, FullHit, RawHits
from ingest.imports.history_line import Wide, history_of
from ingest.reading.request_sums import RequestSums

_READ_BYTES = 48 * 1024  # decoded at once: more falls out of the processor's cache
_VALUES_PER_PAUSE = 128


@dataclass(slots=True)
class Chunk:
    """Bytes [step.start, step.end) of a source as counts, or as lines of history that the other side reads."""

    step: SourceStep
    people: Counts = field(default_factory=dict)
    bots: Counts = field(default_factory=dict)
    history: bytes = b""

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
        return self.history or _encoder.encode_lines(self.hits())


class _DatedHit(FullHit, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False, eq=False):
    """What almost all objects of a body are."""

    ts: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    id: None = None
    ua: None = None
    bot: bool = False


_ABSENT = msgspec.Raw(b"")


class _AnyObject(msgspec.Struct):
    """Any object of a body; the fields that history alone has tell it from hits."""

    key: object = None
    ts: object = None
    count: object = None
    bot: object = None
    total: object = None
    opening: object = None
    buckets: msgspec.Raw = _ABSENT

    def is_history(self) -> bool:
        return self.ts is None and (self.buckets is not _ABSENT or (self.total, self.opening) != (None, None))


_encoder = msgspec.json.Encoder()
_dated_decoder = msgspec.json.Decoder(_DatedHit)
_object_decoder = msgspec.json.Decoder(_AnyObject)
_raws_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ChunkReader:
    """Reads chunks into the sums of one request each. Buckets of history are placed by the ladder and by `wide`."""

    def __init__(self, ladder: Ladder, wide: Wide = Wide.refuse) -> None:
        self._ladder = ladder
        self._wide = wide

    def read(self, chunk: Chunk, sums: RequestSums) -> Iterator[None]:
        """Adds a chunk that was made in this process; yields between steps, for others to run."""
        yield from self.read_body(chunk.history, sums)
        sums.add(RawHits(full=chunk.hits()), _is_bot)

    def read_body(self, body: bytes, sums: RequestSums, is_array: bool = False) -> Iterator[None]:
        """Adds every object of a body; yields between steps of some milliseconds, for others to run.

        Raises BodyUnreadable if an array as a whole is not JSON; a line that is not JSON is refused.
        """
        if is_array:
            for number, value in enumerate(_array(body), 1):
                self._read_value(value, sums)
                if number % _VALUES_PER_PAUSE == 0:
                    yield
            return
        start = 0
        while start < len(body):
            end = body.find(b"\n", start + _READ_BYTES) + 1 or len(body)
            self._read_lines(body[start:end], sums)
            start = end
            yield

    def _read_lines(self, lines: bytes, sums: RequestSums) -> None:
        try:
            hits = _dated_decoder.decode_lines(lines)
        except _UNREADABLE:
            for line in lines.split(b"\n"):
                if line.strip():
                    self._read_value(line, sums)
        else:
            sums.add(RawHits(full=hits), _is_bot)

    def _read_value(self, value: bytes, sums: RequestSums) -> None:
        try:
            found = _object_decoder.decode(value)
        except _UNREADABLE as error:
            sums.refuse(HitRejected(f"not an object: {error}", field="hit", value=shown(value), rule=HIT_RULE))
            return
        if found.is_history():
            self._read_history(value, found.total, sums)
        else:
            sums.add(RawHits(odd=[_dated_hit(found)]), _is_bot)

    def _read_history(self, value: bytes, total: object, sums: RequestSums) -> None:
        try:
            history = history_of(value, sums.moment, self._ladder, self._wide)
        except HitRejected as error:
            sums.refuse(error, total if isinstance(total, int) and total > 0 else 1, "history")
        else:
            sums.add_history(history.key, history.people, history.bots, history.opening)


def _dated_hit(found: _AnyObject) -> AnyHit:
    hit = AnyHit(found.key, found.ts, found.count, bot=found.bot)
    if found.ts is None:
        try:
            require_key(found.key, HitRejected)  # a bad key is named first
        except HitRejected:
            return hit
        hit.rejected = HitRejected("ts is missing", field="ts", value=None, rule="imported hits say when they were")
    return hit


def _is_bot(agent: str) -> bool:
    """Returns False: imported hits say themselves whether they are bots' and have no agent."""
    return False


def _array(body: bytes) -> Sequence[bytes]:
    try:
        return [bytes(value) for value in _raws_decoder.decode(body)]
    except _UNREADABLE as error:
        raise BodyUnreadable(f"the body is not a JSON array: {error}", rule="one object a line is NDJSON") from None
