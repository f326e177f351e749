"""Erasing a value in stored rows: found by a walk over all breakdowns, written again under the marks that they have.

The owner's process writes its rows, between two of its flushes. Rows of an owner that is not open are written by a
process that has claimed it (`Store.claim`). A walk that is cut off begins anew: what it has written
stays, and is found clean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.erased import Erased, ErasedWord, ErasedWords, erase_in_parts
from clickcurve.buckets.breakdowns.parts import Parts, parts_due, separate_parts
from clickcurve.buckets.errors import OwnerFenced, RowCorrupt
from clickcurve.buckets.measures import rows_with_events
from clickcurve.buckets.quarantine import AnyRow, decode_quarantined, encode_quarantined
from clickcurve.keys import QUARANTINE, breakdown_of, counts_key, link_of, moved_key
from clickcurve.row_kinds.table import instead_in, kind_of
from storage.contract import Held, SavedRow, Store

ROWS_PER_PAGE = 200
UNREADABLE_NAMED = 5


@dataclass
class RowsOfOwner:
    """What a walk has found and rewritten of an owner. hits: of links or, where one row is meant, of that."""

    rows: int = 0
    hits: int = 0
    damaged: set[str] = field(default_factory=set)  # stored keys of rows that cannot be read
    unsure: set[str] = field(default_factory=set)  # of rows that one replica may have in another version

    def refusal(self) -> str | None:
        """Returns why a row may have the value still; None: no row has it."""
        if not self.damaged:
            return None
        named = ", ".join(repr(key) for key in sorted(self.damaged)[:UNREADABLE_NAMED])
        return f"{len(self.damaged)} of its rows cannot be read, under the stored keys {named}; see `clickcurve repair`"


class Page(NamedTuple):
    """Rows that have the value or cannot be read: stored key and owner. last: where it ends; None: all were seen."""

    rows: list[tuple[str, int]]
    last: str | None


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases one value. bounded: how much of breakdowns is kept. events: the names of those that are stored."""

    store: Store
    words: ErasedWords
    bounded: BoundedLadder
    events: Collection[str] = ()

    @property
    def word(self) -> ErasedWord:
        return self.words.words[0]

    def keys(self) -> list[str] | None:
        """Returns the stored keys of all rows that may have the value; None: only a walk can tell."""
        row = self.word.row
        if row is None:
            return None
        counts = rows_with_events(row, self.events)
        return [*map(breakdown_of, counts), *map(breakdown_of, map(moved_key, counts)), QUARANTINE]

    def page(self, after: str | None, owners: Collection[int], anew: Collection[int] = ()) -> Page:
        """Looks at the rows of some owners after a key. anew: owners of which all rows are written again."""
        with self.store.view() as view:
            links = view.walk(after, ROWS_PER_PAGE)
        rows = [
            (key, row.owner)
            for key, link in links
            if kind_of(key).has_values
            for row in link.rows
            if row.owner in owners and (row.owner in anew or self._has_value(key, row.data))
        ]
        return Page(rows, links[-1][0] if links else None)

    def _has_value(self, key: str, data: bytes) -> bool:
        try:
            return self._erased(key, data)[0] is not None
        except RowCorrupt:
            return True

    def rewrite(self, held: Held, keys: Sequence[str], found: RowsOfOwner) -> None:
        """Writes these own rows again that have the value. Raises OwnerFenced, StoreUnavailable."""
        record = self.store.owner(held.owner)
        if record is None:
            raise OwnerFenced(f"owner {held.owner} is unknown to the store")
        saved: dict[str, SavedRow] = {}
        hits = 0
        for key, own in self.store.load_own(held.owner, keys).items():
            if own.data is None:
                continue
            try:
                row, of_row = self._erased(key, own.data, key in found.unsure)
            except RowCorrupt:
                found.damaged.add(key)
                continue
            if row is not None:
                saved[key] = row
                hits += of_row if self._counts(key) else 0
        found.unsure |= saved.keys()
        if saved:
            self.store.save_own(held, record.begun, saved, {})
        found.unsure -= saved.keys()
        found.rows += len(saved)
        found.hits += hits

    def _counts(self, key: str) -> bool:
        """Tells whether the hits of a row are counted, not a sum or a correction of them."""
        if kind_of(key).corrects:
            return False
        row = counts_key(key)
        return link_of(row) is not None if self.word.row is None else self.word.row == row

    def _erased(self, key: str, data: bytes, anew: bool = False) -> tuple[SavedRow | None, int]:
        """Returns a row without the value, None if it had none, and the hits.

        anew: the row in any case.
        """
        if key == QUARANTINE:
            rows, hits = self._erased_quarantine(data)
            return (SavedRow(encode_quarantined(rows), None) if hits or anew else None), hits
        erased = self._erased_parts(key, separate_parts(data))
        if not erased.hits and not anew:
            return None, 0
        due_day = parts_due(erased.parts, kind_of(key).bounded(self.bounded))
        return SavedRow(erased.parts.open, due_day, None, erased.parts.closed), erased.hits

    def _erased_quarantine(self, data: bytes) -> tuple[dict[str, AnyRow], int]:
        rows, hits = decode_quarantined(data), 0
        for key, row in rows.items():
            if isinstance(row, Parts):
                rows[key], of_row = self._erased_parts(key, row)
                hits += of_row
        return rows, hits

    def _erased_parts(self, key: str, parts: Parts) -> Erased:
        instead = instead_in(key, self.words)
        if instead is None:
            return Erased(parts, 0)
        return erase_in_parts(parts, instead, kind_of(key).bounded(self.bounded))
