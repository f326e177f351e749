"""Rows of one link that become a part of another link's rows: what is written for that, and how it is finished.

A store that is not shared changes all of them in one transaction. A cluster changes one partition at a time: a link's
row first, then the row that it has taken in. What is about to be done is noted before, with digests of the rows before
and after. So the next holder of the owner sees how far it came, and finishes it before any other write: a server as it
claims the owner, what rewrites rows of owners that are not open, or the command itself.

Why that is exact. Once the note is there, its writer looks whether it still is the holder, and writes only then. A
later holder finds the note. An earlier one saw none; then this writer has written nothing, and where that holder has
changed a row of the link, the row has neither digest. A row of the link that has the digest from before may be in the
middle of being written; it is written once more, with a newer stamp. The other row is emptied only when a quorum has
that of the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.parts import Parts, encode_parts, join_parts, parts_due, separate_parts
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.errors import OwnerFenced
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import EMPTY, MAX_COUNT, fold, merge, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import breakdown_of, counts_a_link
from clickcurve.row_kinds.table import kind_of
from storage.contract import Held, OwnRow, SavedRow, Store
from storage.notes import NoteSpace, leave
from storage.owners import check_fence

JOINING = "joining:"  # then an owner: which of its rows are being joined
JOINING_NOTES = NoteSpace("rows being joined", (JOINING,), leave)


def joining_owners(notes: Iterable[str]) -> set[int]:
    """Returns the owners of which some rows are being joined, by the names of a store's notes."""
    return {int(name.removeprefix(JOINING)) for name in notes if name.startswith(JOINING)}


class JoinedRows(NamedTuple):
    """What is saved for one pair of rows: of the link, and of what it takes in."""

    link: dict[str, SavedRow]
    taken_in: dict[str, SavedRow]


@dataclass(frozen=True, slots=True)
class RowJoiner:
    """Makes joined rows. bounded: how much of breakdowns is kept. fold_day: under which links are listed as touched."""

    ladder: Ladder
    bounded: BoundedLadder
    fold_day: int

    def join(self, rows: Mapping[str, bytes], mark: int, source: str, link: str) -> JoinedRows | None:
        """Returns the rows of two stored keys of counts, and of their breakdowns; None if a sum is too large.

        rows: those that the owner has, by stored key. mark: of its last flush. Raises RowCorrupt.
        """
        joined = JoinedRows({}, {})
        if source in rows:
            more = decode(rows[source])
            whole = merge([decode(rows[link]), more] if link in rows else [more], self.ladder)._replace(mark=mark)
            if max(whole.lifetime, whole.bots) > MAX_COUNT:
                return None
            is_link = counts_a_link(link)
            joined.link[link] = SavedRow(
                encode(whole),
                next_due(whole, self.ladder),
                self.fold_day if is_link else None,
                upper_bounds=upper_bounds_of(whole, self.ladder) if is_link else None,
            )
            emptied = fold(EMPTY._replace(mark=mark, erased_at=more.erased_at), more.fold_day, self.ladder)
            joined.taken_in[source] = SavedRow(encode(emptied), None)
        self._join_breakdowns(joined, rows, breakdown_of(source), breakdown_of(link))
        return joined

    def _join_breakdowns(self, joined: JoinedRows, rows: Mapping[str, bytes], source: str, link: str) -> None:
        if source not in rows:
            return
        bounded = kind_of(link).bounded(self.bounded)
        parts = separate_parts(rows[source])
        whole = join_parts(separate_parts(rows[link]), parts, bounded) if link in rows else parts
        head = parts.head
        nothing = bounded.empty._replace(fold_day=head.fold_day, mark=head.mark, erased_at=head.erased_at)
        joined.link[link] = _saved(whole, bounded)
        joined.taken_in[source] = _saved(encode_parts(nothing, bounded), bounded)


def _saved(parts: Parts, bounded: BoundedLadder) -> SavedRow:
    return SavedRow(parts.open, parts_due(parts, bounded), None, parts.closed)


def rows_in(own: Mapping[str, OwnRow]) -> dict[str, bytes]:
    """Returns the bytes of an owner's rows by stored key."""
    return {key: row.data for key, row in own.items() if row.data is not None}


def with_breakdowns(keys: Iterable[str]) -> list[str]:
    """Returns these stored keys of counts and those of their breakdowns."""
    return [each for key in dict.fromkeys(keys) for each in (key, breakdown_of(key))]


# --- where one row is changed at a time -------------------------------------------------------------------------------
class _NotedPair(msgspec.Struct, frozen=True):
    """Stored keys of counts, and digests of their rows as they were and as that of the link will be."""

    source: str
    link: str
    source_before: str
    link_before: str
    link_after: str


class _Noted(msgspec.Struct, frozen=True):
    mark: int
    fold_day: int
    pairs: list[_NotedPair]


_read_noted = msgspec.json.Decoder(_Noted).decode


def join_noted(store: Store, held: Held, joiner: RowJoiner, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Joins own rows of these pairs of stored keys, none in two of them; returns the pairs that are joined.

    A pair is left out whose sum is too large, or one of which was erased. Raises OwnerFenced, RowCorrupt,
    StoreUnavailable: then the next holder, or the next call, finishes it.
    """
    finish_joins(store, held, joiner.bounded)
    record = store.owner(held.owner)
    if record is None:
        raise OwnerFenced(f"owner {held.owner} is unknown to the store")
    own = store.read_own(held.owner, with_breakdowns(key for pair in pairs for key in pair))
    rows, saved = rows_in(own), JoinedRows({}, {})
    noted: list[_NotedPair] = []
    for source, link in pairs:
        joined = joiner.join(rows, record.begun, source, link)
        if joined is None or any(key in own and own[key].erased_at for key in (source, link)):
            continue
        saved.link.update(joined.link)
        saved.taken_in.update(joined.taken_in)
        after = {key: row.whole for key, row in joined.link.items()}
        digests = _digest(rows, source), _digest(rows, link), _digest(rows | after, link)
        noted.append(_NotedPair(source, link, *digests))
    if not noted:
        return []
    name = f"{JOINING}{held.owner}"
    text = msgspec.json.encode(_Noted(record.begun, joiner.fold_day, noted)).decode()
    if store.note(name, text) != text:
        raise OwnerFenced(f"rows of owner {held.owner} are being joined by another process")
    check_fence(held, record.begun, store.owner(held.owner))  # one that took it before this may know no note
    _write(store, held, record.begun, saved)
    store.drop_notes([name])
    return [(each.source, each.link) for each in noted]


def finish_joins(store: Store, held: Held, bounded: BoundedLadder) -> None:
    """Finishes what was noted of the owner and not done, before its holder writes a row of it.

    Raises OwnerFenced, RowCorrupt, StoreUnavailable: then it writes none.
    """
    name = f"{JOINING}{held.owner}"
    text = store.noted(name) if store.shared else None
    if text is None:
        return
    noted, record = _read_noted(text), store.owner(held.owner)
    if record is None:
        raise OwnerFenced(f"owner {held.owner} is unknown to the store")
    joiner = RowJoiner(store.ladder(), bounded, noted.fold_day)
    own = store.read_own(held.owner, with_breakdowns(key for each in noted.pairs for key in (each.source, each.link)))
    rows, saved = rows_in(own), JoinedRows({}, {})
    for each in noted.pairs:
        now = _digest(rows, each.link)
        if now not in (each.link_before, each.link_after) or _digest(rows, each.source) != each.source_before:
            continue  # nothing of it was written, or all
        joined = joiner.join(rows, noted.mark, each.source, each.link)
        assert joined is not None, "it was not too large when it was noted"
        if now == each.link_before:
            if own[each.source].erased_at > decode(rows[each.source]).erased_at:
                # Its hits are gone since. The link's row is written as it is: a late write of the other one loses.
                taken_in = {key: row.whole for key, row in joined.taken_in.items()}
                joined = joiner.join(rows | taken_in, noted.mark, each.source, each.link) or joined
            saved.link.update(joined.link)
        saved.taken_in.update(joined.taken_in)
    _write(store, held, record.begun, saved)
    store.drop_notes([name])


def _write(store: Store, held: Held, flush: int, saved: JoinedRows) -> None:
    for rows in saved:
        if rows:
            store.save_own(held, flush, rows, {})


def _digest(rows: Mapping[str, bytes], key: str) -> str:
    """Returns a digest of a row of counts with its breakdown."""
    hashed = blake2b(digest_size=16)
    for each in (key, breakdown_of(key)):
        data = rows.get(each)
        hashed.update(b"-" if data is None else b"%d:%s" % (len(data), data))
    return hashed.hexdigest()
