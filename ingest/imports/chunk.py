"""A chunk of an import on its way to the owner: what a stretch of a source adds, and the body that carries it.

A body is NDJSON, or a JSON array, of three kinds of objects, which may be mixed:

    {"key", "ts", "count", "bot"}     hits of one minute, summed
    {"key", "opening"}                a count without dates
    {"key", "total", "buckets", ...}  a link's past, see history.py

What breaks a rule is refused one by one, with the reason; the rest counts, and the offset in the source moves on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from clickcurve.buckets.errors import BodyUnreadable, HitRejected
from clickcurve.buckets.ladder import Ladder
from clickcurve.keys import KEY_BYTES, require_key
from clickcurve.problem import shown
from ingest.batch import Batch, Counts, SourceStep, sum_counts
from ingest.hit import COUNT_MAX, HIT_RULE, Moment, bot_of, count_of, minute_start, ts_of
from ingest.imports.history_line import Wide, history_of
from ingest.reading.counters import IngestCounters, refusal_class
from ingest.reading.receipt import RECEIPT_ITEMS, Item, Receipt

_CHUNK_BYTES = 48 * 1024  # decoded at once: more falls out of the processor's cache
_VALUES_PER_PAUSE = 128


@dataclass(slots=True)
class Chunk:
    """Bytes [step.start, step.end) of a source as counts, or as lines of history that the other side reads."""

    step: SourceStep
    people: Counts = field(default_factory=dict)
    bots: Counts = field(default_factory=dict)
    history: bytes = b""


class _Hits(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What almost all objects are. Its key fits in any encoding."""

    key: Annotated[str, Meta(min_length=1, max_length=KEY_BYTES // 4)]
    ts: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    bot: bool = False


_ABSENT = msgspec.Raw(b"")


class _Values(msgspec.Struct):
    """Any object; the fields that history alone has tell it from hits."""

    key: object = None
    ts: object = None
    count: object = None
    bot: object = None
    total: object = None
    opening: object = None
    buckets: msgspec.Raw = _ABSENT

    def is_history(self) -> bool:
        return self.ts is None and (self.buckets is not _ABSENT or (self.total, self.opening) != (None, None))


_hits_decoder = msgspec.json.Decoder(_Hits)
_values_decoder = msgspec.json.Decoder(_Values)
_raws_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Taking:
    """Adds up what a chunk brings; then the batch for the owner, and the receipt."""

    def __init__(self, moment: Moment, ladder: Ladder, wide: Wide = Wide.refuse) -> None:
        self._moment = moment
        self._ladder = ladder
        self._wide = wide
        self._people: Counts = {}
        self._bots: Counts = {}
        self._openings: dict[str, int] = {}
        self._read = 0  # objects so far: the index of the next
        self._refused_sums: Counter[str] = Counter()
        self._refused: list[Item] = []
        self._refused_items = 0

    def take_body(self, body: bytes, is_array: bool = False) -> Iterator[None]:
        """Add every object of a body; yields between steps of some milliseconds, for others to run.

        BodyUnreadable if an array as a whole is none; a line that is none is refused.
        """
        if is_array:
            for number, value in enumerate(_array(body), 1):
                self._take_value(value)
                if number % _VALUES_PER_PAUSE == 0:
                    yield
            return
        start = 0
        while start < len(body):
            end = body.find(b"\n", start + _CHUNK_BYTES) + 1 or len(body)
            self._take_lines(body[start:end])
            start = end
            yield

    def _take_lines(self, lines: bytes) -> None:
        try:
            hits = _hits_decoder.decode_lines(lines)
        except _UNREADABLE:
            for line in lines.split(b"\n"):
                if line.strip():
                    self._take_value(line)
        else:
            self.take_hits((hit.key, hit.ts, hit.count, hit.bot) for hit in hits)

    def take_counts(self, people: Counts, bots: Counts) -> None:
        """Add counts that were read in this process."""
        for counts, bot in ((people, False), (bots, True)):
            for minute, by_key in counts.items():
                self.take_hits((key, minute, count, bot) for key, count in by_key.items())

    def take_hits(self, hits: Iterable[tuple[str, int, int, bool]]) -> None:
        latest, people, bots = self._moment.latest, self._people, self._bots
        for key, ts, count, bot in hits:
            self._read += 1
            if ts > latest:
                self._refuse_late_clock(ts, count)
                continue
            counts = bots if bot else people
            minute = minute_start(ts)
            by_key = counts.get(minute)
            if by_key is None:
                counts[minute] = {key: count}
            else:
                by_key[key] = by_key.get(key, 0) + count

    def _refuse_late_clock(self, ts: int, count: int) -> None:
        try:
            ts_of(ts, self._moment)
        except HitRejected as error:
            self._refuse(error, count, self._read - 1)

    def _take_value(self, value: bytes) -> None:
        index = self._read
        self._read += 1
        amount, is_history = 1, False
        try:
            try:
                values = _values_decoder.decode(value)
            except _UNREADABLE as error:
                raise HitRejected(f"not an object: {error}", field="hit", value=shown(value), rule=HIT_RULE) from None
            is_history = values.is_history()
            if is_history:
                amount = values.total if isinstance(values.total, int) and values.total > 0 else 1
                self._take_history(value)
            else:
                amount = values.count if isinstance(values.count, int) and 0 < values.count <= COUNT_MAX else 1
                self._take_one(values)
        except HitRejected as error:
            self._refuse(error, amount, index, is_history)

    def _take_one(self, values: _Values) -> None:
        key = require_key(values.key, HitRejected)
        if values.ts is None:
            raise HitRejected("ts is missing", field="ts", value=None, rule="imported hits say when they were")
        ts, count = ts_of(values.ts, self._moment), count_of(values.count)
        cell = (self._bots if bot_of(values.bot) else self._people).setdefault(minute_start(ts), {})
        cell[key] = cell.get(key, 0) + count

    def _take_history(self, value: bytes) -> None:
        history = history_of(value, self._moment, self._ladder, self._wide)
        if history.opening:
            self._openings[history.key] = self._openings.get(history.key, 0) + history.opening
        for counts, past in ((self._people, history.people), (self._bots, history.bots)):
            for minute, count in past.items():
                cell = counts.setdefault(minute, {})
                cell[history.key] = cell.get(history.key, 0) + count

    def _refuse(self, error: HitRejected, amount: int, index: int, is_history: bool = False) -> None:
        self._refused_sums["history" if is_history else refusal_class(error)] += amount
        self._refused_items += 1
        if len(self._refused) < RECEIPT_ITEMS:
            self._refused.append(Item.refused(index, error))

    def batch(self, step: SourceStep) -> Batch:
        return Batch(self._people, self._bots, [], self._openings, step)

    def receipt(self) -> Receipt:
        dated = sum_counts(self._people) + sum_counts(self._bots)
        late = sum(
            sum(by_key.values())
            for counts in (self._people, self._bots)
            for minute, by_key in counts.items()
            if minute < self._moment.late_before
        )
        counted = dated + sum(self._openings.values())
        omitted = self._refused_items - len(self._refused)
        return Receipt(counted, 0, late, self._refused_sums.total(), tuple(self._refused), omitted)

    def count_into(self, counters: IngestCounters, receipt: Receipt, body_bytes: int) -> None:
        """Add this chunk, as its receipt has it, to the counters."""
        counters.batches += 1
        counters.body_bytes += body_bytes
        counters.counted += receipt.counted
        counters.late += receipt.late
        for reason, count in self._refused_sums.items():
            counters.refused[reason] = counters.refused.get(reason, 0) + count


def _array(body: bytes) -> Sequence[bytes]:
    try:
        return [bytes(value) for value in _raws_decoder.decode(body)]
    except _UNREADABLE as error:
        raise BodyUnreadable(f"the body is not a JSON array: {error}", rule="one object a line is NDJSON") from None


_encoder = msgspec.json.Encoder()


def body_of(chunk: Chunk) -> bytes:
    """The NDJSON that carries a chunk."""
    if chunk.history:
        return chunk.history
    hits = [
        {"key": key, "ts": minute, "count": count, "bot": True} if bot else {"key": key, "ts": minute, "count": count}
        for counts, bot in ((chunk.people, False), (chunk.bots, True))
        for minute, by_key in counts.items()
        for key, count in by_key.items()
    ]
    return _encoder.encode_lines(hits)
