"""Joins links that were counted under several spellings of one key: `%6Caunch` becomes a part of `launch`.

Each owner's rows are joined by themselves: the row of the link gets what the row of the spelling has, counts and
breakdown, and the row of the spelling is emptied, in one transaction of the store. So at any moment, whatever is
killed, each hit is in one of the two, and no sum of an owner changes. The caller holds the owner and has flushed it: no
flush is left that could add to a row again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.parts import Parts, encode_parts, join_parts, parts_due, separate_parts
from clickcurve.buckets.codec import decode, decode_header, encode
from clickcurve.buckets.errors import OwnerFenced, RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Row, fold, merge, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import breakdown_of, link_key, link_of, moved_key
from storage.contract import Held, OwnRow, SavedRow, Store, StoredLink
from storage.tools.verify import pages
from storage.view import View

PAIRS_PER_SAVE = 50


class Spelling(NamedTuple):
    """A link, and the key that it is to be joined with. why_not: why it is left as it is; empty: it is not."""

    key: str
    joined: str
    people: int
    bots: int
    owners: tuple[int, ...]
    why_not: str = ""


def spellings(store: Store, form_of: Callable[[str], str], only: Iterable[str] = ()) -> Iterator[Spelling]:
    """Yields the links whose keys have another form, in the order of a walk. only: these keys; none: all."""
    chosen = frozenset(only)
    with store.view() as view:
        for page in pages(view):
            for stored, link in page:
                key = link_of(stored)
                if key is None or (chosen and key not in chosen) or (joined := form_of(key)) == key:
                    continue
                if (found := _spelling(view, key, joined, link)) is not None:
                    yield found


def _spelling(view: View, key: str, joined: str, link: StoredLink) -> Spelling | None:
    """Returns a link with what it counts; None if that is nothing, as after it was joined."""
    try:
        heads = {each.owner: decode_header(each.data) for each in link.rows}
    except RowCorrupt as error:
        return Spelling(key, joined, 0, 0, (), f"a row is damaged: {error.detail}")
    people, bots = sum(head.lifetime for head in heads.values()), sum(head.bots for head in heads.values())
    with_hits = tuple(owner for owner, head in heads.items() if _counts(head))
    if not with_hits:
        return None
    other, called = link_key(joined), moved_key(link_key(key))
    more = view.links([other, called])
    why_not = ""
    if link.erased_at or (other in more and more[other].erased_at):
        why_not = "it was deleted once, and hits from before must not come back"
    elif called in more and any(_counts(decode_header(each.data)) for each in more[called].rows):
        why_not = "some of its hits are called bots: undo these rules, join it, and make them again"
    return Spelling(key, joined, people, bots, with_hits, why_not)


def _counts(row: Row) -> bool:
    return bool(row.lifetime or row.bots or row.erased or row.erased_bots)


@dataclass(frozen=True, slots=True)
class Joiner:
    """Joins rows of owners. bounded: how much of breakdowns is kept."""

    store: Store
    ladder: Ladder
    bounded: BoundedLadder
    joined: set[tuple[str, int]] = field(default_factory=set)  # spellings, and the owners whose rows are joined
    too_large: set[str] = field(default_factory=set)

    def join(self, held: Held, found: Sequence[Spelling]) -> None:
        """Joins the rows that an owner has of these links. Raises OwnerFenced, RowCorrupt, StoreUnavailable."""
        mine = [each for each in found if held.owner in each.owners and not each.why_not]
        for at in range(0, len(mine), PAIRS_PER_SAVE):
            self._join_some(held, mine[at : at + PAIRS_PER_SAVE])

    def _join_some(self, held: Held, some: Sequence[Spelling]) -> None:
        record = self.store.owner(held.owner)
        if record is None:
            raise OwnerFenced(f"owner {held.owner} is unknown to the store")
        links = [link_key(key) for each in some for key in (each.key, each.joined)]
        own = self.store.load_own(held.owner, [*links, *map(breakdown_of, links)])
        saved: dict[str, SavedRow] = {}
        done = []
        for each in some:
            rows = self._rows(own, saved, record.begun, each)
            if rows is None:
                self.too_large.add(each.key)
                continue
            saved |= rows
            done.append((each.key, held.owner))
        if saved:
            self.store.save_own(held, record.begun, saved, {})
        self.joined.update(done)

    def _rows(
        self, own: Mapping[str, OwnRow], saved: Mapping[str, SavedRow], mark: int, spelling: Spelling
    ) -> dict[str, SavedRow] | None:
        """Returns the four rows of a spelling and its link; None where the sum would be too large."""
        source, target = link_key(spelling.key), link_key(spelling.joined)
        ours, more = (_bytes_of(own, saved, key) for key in (target, source))
        assert more is not None, "an owner of the spelling has a row of it"
        row = decode(more)
        whole = merge([row] if ours is None else [decode(ours), row], self.ladder)._replace(mark=mark)
        if max(whole.lifetime, whole.bots) > MAX_COUNT:
            return None
        emptied = fold(EMPTY._replace(mark=mark, erased_at=row.erased_at), row.fold_day, self.ladder)
        rows = {
            target: SavedRow(
                encode(whole), next_due(whole, self.ladder), upper_bounds=upper_bounds_of(whole, self.ladder)
            ),
            source: SavedRow(encode(emptied), None),
        }
        return rows | self._breakdowns(own, saved, breakdown_of(source), breakdown_of(target), mark)

    def _breakdowns(
        self, own: Mapping[str, OwnRow], saved: Mapping[str, SavedRow], source: str, target: str, mark: int
    ) -> dict[str, SavedRow]:
        more = _bytes_of(own, saved, source)
        if more is None:
            return {}
        ours, parts = _bytes_of(own, saved, target), separate_parts(more)
        whole = parts if ours is None else join_parts(separate_parts(ours), parts, self.bounded)
        head = parts.head
        nothing = self.bounded.empty._replace(fold_day=head.fold_day, mark=head.mark, erased_at=head.erased_at)
        return {target: self._saved(whole), source: self._saved(encode_parts(nothing, self.bounded))}

    def _saved(self, parts: Parts) -> SavedRow:
        return SavedRow(parts.open, parts_due(parts, self.bounded), None, parts.closed)


def _bytes_of(own: Mapping[str, OwnRow], saved: Mapping[str, SavedRow], key: str) -> bytes | None:
    """Returns a row as it will be after what is about to be saved; None: there is none."""
    if key in saved:
        return saved[key].whole
    return own[key].data if key in own else None
