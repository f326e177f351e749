"""What a store promises of its view (`Store.view`), from which tools add up what they see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.upper_bounds import UpperBounds
from storage.contract import OwnerRecord, Source, StoredLink


class View(Protocol):
    """The store at one moment, as far as it can: SQLite and memory show a single state until the view is left.

    Other stores read as they go, but the ALL_LINKS rows before all others: so a caller that adds rows up can tell from
    the marks which owners flushed in between.
    """

    def owners(self) -> list[OwnerRecord]: ...

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        """Returns up to `limit` keys after `after` (None: from the first), of breakdowns too, each with all rows."""

    def count_rows(self, breakdowns: bool) -> int | None:
        """Returns how many rows there are, of counts and perhaps of breakdowns; None: only a walk can tell."""

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        """Returns everything stored of these keys, without those that have neither rows nor an erasure."""

    def notes(self) -> dict[str, str]:
        """Returns all notes by name."""

    def ranked_prefixes(self) -> list[str]:
        """Returns the prefixes of stored keys whose links have all their candidates, "" for all links."""
        return []

    def upper_bounds(self, keys: Sequence[str], prefix: str) -> dict[tuple[str, int], UpperBounds]:
        """Returns the upper bounds of a ranked prefix's candidates among the rows of these keys, by key and owner.

        A link some hits of which are called bots has one for all its rows, of JOINED.
        """
        return {}

    def ranked_cutoffs(self, owner: int, prefix: str) -> Cutoffs:
        """Returns the cutoffs of this owner: no row of the prefix but a candidate passes one. Raises RowCorrupt."""
        return Cutoffs()

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """Returns up to `limit` claimed ids after `after`, each with the newest accept stamp of its claims."""

    def sources(self) -> dict[str, Source]: ...
