"""What workers say to each other of hits that are not stored yet: questions and answers, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

import msgspec

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.buckets.row import Delta
from clickcurve.keys import FIRST_GROUP, group_key, group_of, link_key, namespace_key
from clickcurve.pending import Pending, PendingBreakdown
from clickcurve.row_kinds.table import kind_of
from query.lists.listed_rows import Stamp, WorkerPending
from server.workers.pending import PendingHits

NUMBERS_MOST = 100_000  # in one answer, some 1.5 MB; the keys after that are left out, and the answer says so

# Asks for what is held of all groups. No group has the empty name, so it is no other row's.
ALL_GROUPS = FIRST_GROUP
# Before a prefix: asks for what is held of all links whose keys begin so. No row has a stored key of this namespace.
_LINKS_WITHIN = namespace_key("links-within", "")

AnyPending = Pending | PendingBreakdown | WorkerPending  # of a breakdown's key the second, of ALL_GROUPS the third


class Wanted(msgspec.Struct, array_like=True):
    """Stored keys whose pending hits are wanted, and stored keys that the asking worker has erased."""

    keys: list[str]
    erased: list[str]


class PendingAttributes(msgspec.Struct, array_like=True):
    """What pending hits add to a breakdown, as BreakdownDelta has it."""

    values: dict[str, dict[int, dict[str, int]]]
    visitors: dict[int, list[int]]
    known: dict[int, int]


class PendingRows(msgspec.Struct, array_like=True):
    """Pending hits of one row that one flush moves. flush: the least number that it can get."""

    owner: int
    flush: int
    people: dict[int, int] = msgspec.field(default_factory=dict)
    bots: dict[int, int] = msgspec.field(default_factory=dict)
    opening: int = 0
    erased: int = 0
    erased_bots: int = 0
    attributes: PendingAttributes | None = None

    def size(self) -> int:
        """Returns how many numbers it has, nearly."""
        attributes = self.attributes
        if attributes is None:
            return len(self.people) + len(self.bots)
        values = sum(len(members) for hours in attributes.values.values() for members in hours.values())
        return values + sum(map(len, attributes.visitors.values()))

    def pending(self) -> Pending | PendingBreakdown:
        attributes = self.attributes
        if attributes is not None:
            visitors = {day: set(members) for day, members in attributes.visitors.items()}
            return PendingBreakdown(
                lambda: self.owner,
                lambda: self.flush,
                partial(BreakdownDelta, attributes.values, visitors, attributes.known),
            )
        return self.counts()

    def counts(self) -> Pending:
        """Returns it as pending hits of a row of counts."""
        delta = Delta(self.people, self.bots, self.opening, self.erased, self.erased_bots)
        return Pending(lambda: self.owner, lambda: self.flush, delta)


class PendingGroups(msgspec.Struct):
    """Pending hits of all groups, or of some links, by stored key, and how many flushes were complete."""

    flushes: int
    rows: dict[str, list[PendingRows]]

    def size(self) -> int:
        """Returns how many numbers it has, nearly."""
        return sum(1 + sum(part.size() for part in parts) for parts in self.rows.values())

    def worker_pending(self, worker: str, connection: int) -> WorkerPending:
        """Returns it as what the worker holds, heard over its connection of this number."""
        stamp: Stamp = (worker, connection, self.flushes)
        return WorkerPending(stamp, {key: [part.counts() for part in parts] for key, parts in self.rows.items()})


# About one key: its pending hits; or why they cannot be read; or None, if there are too many.
KeyAnswer = list[PendingRows] | PendingGroups | str | None
ENCODER = msgspec.msgpack.Encoder()
QUESTIONS = msgspec.msgpack.Decoder(Wanted)
ANSWERS = msgspec.msgpack.Decoder(list[KeyAnswer])


def links_within(prefix: str) -> str:
    """Returns what asks for all links whose keys begin with a prefix."""
    return _LINKS_WITHIN + prefix


def answer_of(asked: PendingHits, keys: Iterable[str]) -> list[msgspec.Raw]:
    """Returns what the worker says of each key, packed."""
    answers = []
    room = NUMBERS_MOST
    for key in keys:
        parts = _answer_about(asked, key)
        if isinstance(parts, list):
            room -= sum(part.size() for part in parts)
        elif isinstance(parts, PendingGroups):
            room -= parts.size()
        try:
            answers.append(msgspec.Raw(ENCODER.encode(parts if room >= 0 else None)))
        except OverflowError:  # imported openings can add up to more than 64 bits
            answers.append(msgspec.Raw(ENCODER.encode(None)))
    return answers


def _answer_about(asked: PendingHits, key: str) -> KeyAnswer:
    try:
        if key == ALL_GROUPS or key.startswith(_LINKS_WITHIN):
            stored = {*_stored_keys(asked, key)}
            return PendingGroups(asked.flushes, {each: _numbered_parts(asked, each) for each in stored})
        if kind_of(key).beside_counts:
            return [_attributes_part(pending, flush) for pending, flush in asked.numbered_breakdowns(key)]
        return _numbered_parts(asked, key)
    except RowCorrupt as error:
        return error.detail
    except StoreUnavailable:
        return None  # not claimed yet: nobody knows which number its flush will have


def _stored_keys(asked: PendingHits, key: str) -> Iterator[str]:
    """Yields the stored keys that are meant by a question about several."""
    if key == ALL_GROUPS:
        yield from map(group_key, chain.from_iterable(asked.buffered_beside(group_of)))
        return
    prefix = key.removeprefix(_LINKS_WITHIN)
    for names in asked.buffered_links():
        yield from (link_key(name) for name in names if name.startswith(prefix))


def _numbered_parts(asked: PendingHits, key: str) -> list[PendingRows]:
    return [_part(pending, flush) for pending, flush in asked.numbered(key)]


def _part(pending: Pending, flush: int) -> PendingRows:
    delta = pending.delta
    people, bots = dict(delta.people), dict(delta.bots)
    return PendingRows(pending.owner, flush, people, bots, delta.opening, delta.erased, delta.erased_bots)


def _attributes_part(pending: PendingBreakdown, flush: int) -> PendingRows:
    delta = pending.delta
    values = {name: {hour: dict(counts) for hour, counts in hours.items()} for name, hours in delta.values.items()}
    visitors = {day: sorted(hashes) for day, hashes in delta.visitors.items()}
    return PendingRows(pending.owner, flush, attributes=PendingAttributes(values, visitors, dict(delta.known)))
