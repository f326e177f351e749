"""What one request asks to be counted, and its form in the journal.

A batch is valid by the time it exists: times are floored to the starts of their minutes, counts are positive and
summed. Hits without an id are only counts; hits with an id are kept apart, because they count only for the
owner that claims the id first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from sys import intern
from typing import cast

import msgspec

from ingest.attributes.profile import Profile, ProfileKind, ProfileRow, profile_of_row

Counts = dict[int, dict[str, int]]  # minute start -> link (or stored key) -> count
# Whose they were: start of a UTC day -> link -> a hash for each hit of a known visitor, of that day and link alone
Visitors = dict[int, dict[str, list[int]]]


class HourProfiles(msgspec.Struct, array_like=True):
    """The profiles of one hour's hits, in columns: of each its link, the place of its profile in the batch, its count.

    Not summed: that would cost more than the bytes it saves, and the buffer sums them in any case.
    counts: none where each is 1.
    """

    keys: list[str] = msgspec.field(default_factory=list)
    profiles: list[int] = msgspec.field(default_factory=list)
    counts: list[int] = msgspec.field(default_factory=list)

    def extend(self, keys: Sequence[str], profiles: Sequence[int], counts: Sequence[int] = ()) -> None:
        """Adds hits, of one each where no counts are given."""
        if counts and not self.counts:
            self.counts = [1] * len(self.keys)
        if counts or self.counts:
            self.counts += counts or [1] * len(keys)
        self.keys += keys
        self.profiles += profiles

    def pieces(self, size: int) -> Iterator[HourProfiles]:
        """Yields this in pieces of at most so many hits; itself if it is no larger."""
        if len(self.keys) <= size:
            yield self
            return
        for start in range(0, len(self.keys), size):
            part = slice(start, start + size)
            yield HourProfiles(self.keys[part], self.profiles[part], self.counts[part])

    def cells(self) -> Iterable[tuple[str, int, int]]:
        """Returns key, place of a profile, and count of each hit."""
        return zip(self.keys, self.profiles, self.counts or repeat(1), strict=False)


class AttributeCounts(msgspec.Struct, array_like=True):
    """Profiles of hits by the start of their hour, and visitors: of links, or of groups by their stored keys."""

    hours: dict[int, HourProfiles] = msgspec.field(default_factory=dict)
    visitors: Visitors = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.hours)


class GroupCounts(msgspec.Struct, array_like=True):
    """The hits of rows beside those of links, by their stored keys: of groups, whose hits links have too, of events."""

    people: Counts = msgspec.field(default_factory=dict)
    bots: Counts = msgspec.field(default_factory=dict)
    attributes: AttributeCounts = msgspec.field(default_factory=AttributeCounts)

    def __bool__(self) -> bool:
        return bool(self.people or self.bots)


class Identified(msgspec.Struct, array_like=True):
    """The hits that have one id: one hit, or all hits of a batch sent under an `Idempotency-Key`.

    None: no hit has attributes, or groups; there may be as many of these as hits.
    """

    id: str
    people: Counts
    bots: Counts
    attributes: AttributeCounts | None = None
    groups: GroupCounts | None = None


class SourceStep(msgspec.Struct, array_like=True, frozen=True):
    """How far a chunk of an import goes: bytes [start, end) of a source. `tail`: a hash of those before `end`."""

    source: str
    start: int
    end: int
    tail: str


class BatchAttributes(msgspec.Struct):
    """The part of a batch for attributes and groups.

    kinds: the dimensions that profiles share, and whether the visitors of their hits are known. profiles: the place of
    its kind in there, and its values.
    """

    kinds: list[ProfileKind] = msgspec.field(default_factory=list)
    profiles: Sequence[tuple[int | str, ...]] = msgspec.field(default_factory=list)
    links: AttributeCounts = msgspec.field(default_factory=AttributeCounts)
    groups: GroupCounts = msgspec.field(default_factory=GroupCounts)

    def table(self) -> list[Profile]:
        """Returns the profiles in the order of their numbers."""
        return [profile_of_row(row, self.kinds) for row in self.rows()]

    def rows(self) -> Sequence[ProfileRow]:
        return cast(Sequence[ProfileRow], self.profiles)  # a type that the decoder does not know


class Batch(msgspec.Struct, array_like=True):
    """The hits of one request; it lies whole in one journal frame, hence in one flush.

    `others` counts under stored keys of rows that are no link's: it is in no link and not in all links together.
    `attributes`: None where no hit has any, nor a group. `keys`: the start of a minute -> the link of each hit, of a
    request whose hits have nothing but keys and times; they are people's, one each, not summed, and all else is empty.
    """

    people: Counts = msgspec.field(default_factory=dict)
    bots: Counts = msgspec.field(default_factory=dict)
    identified: list[Identified] = msgspec.field(default_factory=list)
    openings: dict[str, int] = msgspec.field(default_factory=dict)
    source: SourceStep | None = None
    others: Counts = msgspec.field(default_factory=dict)
    attributes: BatchAttributes | None = None
    keys: dict[int, list[str]] = msgspec.field(default_factory=dict)

    def is_empty(self) -> bool:
        counts = self.people or self.bots or self.identified or self.openings or self.others or self.keys
        return not (counts or self.source or (self.attributes is not None and self.attributes.groups))


class _Singles(msgspec.Struct, array_like=True):
    """One person's hit each, all in one minute: what a group of single POSTs adds up to."""

    minute: int
    keys: list[str]


_NO_ATTRIBUTES, _NO_GROUPS = AttributeCounts(), GroupCounts()
_encoder = msgspec.msgpack.Encoder()
_batch_decoder = msgspec.msgpack.Decoder(Batch)
_attributes_decoder = msgspec.msgpack.Decoder(
    tuple[
        Counts,
        Counts,
        list[Identified],
        dict[str, int],
        SourceStep | None,
        Counts,
        list[ProfileKind],
        list[tuple[int | str, ...]],
        AttributeCounts,
        GroupCounts,
    ]
)
_keys_decoder = msgspec.msgpack.Decoder(dict[int, list[str]])
_singles_decoder = msgspec.msgpack.Decoder(_Singles)
# What came later has a first byte of its own: a program too old to know it refuses it as a whole.
_SINGLES, _BATCH, _WITH_OTHERS, _WITH_ATTRIBUTES, _KEYS = b"s", b"b", b"o", b"p", b"k"


def encode_singles(minute: int, keys: list[str]) -> bytes:
    return _SINGLES + _encoder.encode((minute, keys))


def encode_batch(batch: Batch) -> bytes:
    if batch.keys:
        return _KEYS + _encoder.encode(batch.keys)
    part = batch.attributes
    if part is None:
        ids = [(one.id, one.people, one.bots) for one in batch.identified]
        counts = (batch.people, batch.bots, ids, batch.openings, batch.source, batch.others)
        return (_WITH_OTHERS if batch.others else _BATCH) + _encoder.encode(counts)
    with_ids = [
        (one.id, one.people, one.bots, one.attributes or _NO_ATTRIBUTES, one.groups or _NO_GROUPS)
        for one in batch.identified
    ]
    return _WITH_ATTRIBUTES + _encoder.encode(
        (
            *(batch.people, batch.bots, with_ids, batch.openings, batch.source, batch.others),
            *(part.kinds, part.profiles, part.links, part.groups),
        )
    )


def decode_batch(payload: bytes | memoryview) -> Batch | tuple[int, Sequence[str]]:
    """Returns what a journal payload holds: a batch, or (minute, keys) of single hits."""
    kind, body = bytes(payload[:1]), payload[1:]
    if kind in (_BATCH, _WITH_OTHERS):
        return _batch_decoder.decode(body)
    if kind == _KEYS:
        return Batch(keys=_keys_decoder.decode(body))
    if kind == _WITH_ATTRIBUTES:
        *counts, kinds, profiles, links, groups = _attributes_decoder.decode(body)
        batch = Batch(*counts)  # type: ignore[arg-type]  # the first six, in this order
        for one in batch.identified:
            one.attributes, one.groups = one.attributes or None, one.groups or None
        part = BatchAttributes(kinds, profiles, links, groups)
        part.profiles = [(place, *map(intern, texts)) for place, *texts in part.rows()]  # as they came: once each
        batch.attributes = part
        return batch
    assert kind == _SINGLES, f"unknown journal payload {kind!r}"
    singles = _singles_decoder.decode(body)
    return singles.minute, singles.keys


def sum_counts(counts: Counts) -> int:
    return sum(sum(by_key.values()) for by_key in counts.values())


def keys_of(*counts: Mapping[int, Mapping[str, int]]) -> set[str]:
    return {key for by_minute in counts for by_key in by_minute.values() for key in by_key}
