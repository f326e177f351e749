"""Joins links that were counted under several spellings of one key: `%6Caunch` becomes a part of `launch`.

The row of the link gets what the row of the spelling has, counts and breakdown, and the row of the spelling is emptied.
So no sum of an owner changes. The caller holds the owners and has flushed them: no flush is left that could add to a
row again. In a store that is not shared each link is joined in one transaction, of all owners that are held; in a
cluster owner by owner (`storage.joined_rows`).

What is called bots of a spelling lies in rows of its own, which may be another owner's. It moves in the same
transaction as all of the link's rows, or the link stays as it is: of one that is joined in part more could be called
than counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import OwnerFenced, RowCorrupt
from clickcurve.buckets.measures import CLICKS, Measure, measured
from clickcurve.buckets.row import Row
from clickcurve.keys import link_key, link_of, moved_key
from storage.contract import Held, SavedRow, Store, StoredLink
from storage.joined_rows import RowJoiner, finish_joins, join_noted, rows_in, with_breakdowns
from storage.tools.verify import pages
from storage.view import View

PAIRS_PER_SAVE = 50
DELETED = "it was deleted once, and hits from before must not come back"
TOO_LARGE = "the sum would be too large"


class Spelling(NamedTuple):
    """A link, and the key that it is to be joined with. why_not: why it is left as it is; empty: it is not.

    pairs: stored keys of rows of counts, what is taken in and what by: of clicks, events and what is called bots.
    called: how many clicks of people are called bots by rules. of_rules: whether rows say that any hits ever were;
    is_called: that some are.
    """

    key: str
    joined: str
    people: int
    bots: int
    owners: tuple[int, ...]
    pairs: tuple[tuple[str, str], ...]
    why_not: str = ""
    called: int = 0
    of_rules: bool = False
    is_called: bool = False


def spellings(store: Store, form_of: Callable[[str], str], only: Iterable[str] = ()) -> Iterator[Spelling]:
    """Yields the links whose keys have another form, in the order of a walk. only: these keys; none: all."""
    chosen = frozenset(only)
    with store.view() as view:
        measures: dict[str, set[Measure]] = {}
        for page in pages(view):
            for stored, _ in page:
                measure, clicks = measured(stored)
                key = link_of(clicks)
                if key is not None and (not chosen or key in chosen) and form_of(key) != key:
                    measures.setdefault(key, set()).add(measure)
        for key, found in measures.items():
            if (spelling := _spelling(view, key, form_of(key), {CLICKS, *found})) is not None:
                yield spelling


def _spelling(view: View, key: str, joined: str, measures: Iterable[Measure]) -> Spelling | None:
    """Returns a link with what it counts; None if that is nothing, as after it was joined."""
    source, link = link_key(key), link_key(joined)
    counted = [(each.row(source), each.row(link)) for each in sorted(measures)]
    called = [(moved_key(row), moved_key(other)) for row, other in counted]
    stored = view.links([row for pair in (*counted, *called) for row in pair])
    try:
        heads = {row: _heads(stored[row]) if row in stored else {} for row, _ in (*counted, *called)}
    except RowCorrupt as error:
        return Spelling(key, joined, 0, 0, (), (), f"a row is damaged: {error.detail}")
    owners = tuple(sorted({owner for of_row in heads.values() for owner in of_row}))
    if not owners:
        return None
    clicks, nets = heads[source].values(), [sum(h.lifetime - h.bots for h in heads[row].values()) for row, _ in called]
    of_rules = any(heads[row] for row, _ in called)
    erased = any(row in stored and stored[row].erased_at for pair in counted for row in pair)
    return Spelling(
        key,
        joined,
        sum(head.lifetime for head in clicks),
        sum(head.bots for head in clicks),
        owners,
        tuple(pair for pair in (*counted, *called) if heads[pair[0]]),
        DELETED if erased else "",
        nets[0],
        of_rules,
        any(net > 0 for net in nets),
    )


def _heads(link: StoredLink) -> dict[int, Row]:
    heads = {each.owner: decode_header(each.data) for each in link.rows}
    return {
        owner: head for owner, head in heads.items() if head.lifetime or head.bots or head.erased or head.erased_bots
    }


@dataclass(slots=True)
class Joiner:
    """Joins links. joined: spellings, and the owners whose rows are joined; left: spellings that are not, and why."""

    store: Store
    rows: RowJoiner
    joined: set[tuple[str, int]] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)

    def is_joined(self, each: Spelling) -> bool:
        return bool(each.owners) and all((each.key, owner) in self.joined for owner in each.owners)

    def join_together(self, helds: Mapping[int, Held], found: Sequence[Spelling]) -> None:
        """Joins links in a store that is not shared. helds: the owners that are held.

        Raises OwnerFenced, RowCorrupt, StoreUnavailable.
        """
        todo = [each for each in found if not each.why_not]
        for at in range(0, len(todo), PAIRS_PER_SAVE):
            self._join_some(helds, todo[at : at + PAIRS_PER_SAVE])

    def _join_some(self, helds: Mapping[int, Held], some: Sequence[Spelling]) -> None:
        marks: dict[int, int] = {}
        rows: dict[int, dict[str, bytes]] = {}
        for owner in {owner for each in some for owner in each.owners if owner in helds}:
            record = self.store.owner(owner)
            if record is None:
                raise OwnerFenced(f"owner {owner} is unknown to the store")
            keys = with_breakdowns(key for each in some for pair in each.pairs for key in pair)
            marks[owner], rows[owner] = record.begun, rows_in(self.store.load_own(owner, keys))
        saved: dict[int, dict[str, SavedRow]] = {owner: {} for owner in rows}
        done: set[tuple[str, int]] = set()
        for each in some:
            missing = sorted(set(each.owners) - rows.keys())
            if missing and each.of_rules:
                self.left[each.key] = (
                    f"rules call hits of it bots, so all its rows are joined in one step, and owners"
                    f" {', '.join(map(str, missing))} have no journal here"
                )
                continue
            of_owners = self._of_link(each, rows, marks)
            if of_owners is None:
                self.left[each.key] = TOO_LARGE
                continue
            for owner, new in of_owners.items():
                saved[owner] |= new
                rows[owner] |= {key: row.whole for key, row in new.items()}
                done.add((each.key, owner))
        self.store.save_together([(helds[owner], marks[owner], new) for owner, new in saved.items() if new])
        self.joined |= done

    def _of_link(
        self, each: Spelling, rows: Mapping[int, Mapping[str, bytes]], marks: Mapping[int, int]
    ) -> dict[int, dict[str, SavedRow]] | None:
        """Returns what is saved of a link by owner; None where a sum would be too large."""
        saved: dict[int, dict[str, SavedRow]] = {}
        for owner in set(each.owners) & rows.keys():
            new = saved.setdefault(owner, {})
            for source, link in each.pairs:
                joined = self.rows.join(rows[owner], marks[owner], source, link)
                if joined is None:
                    return None
                new |= joined.link | joined.taken_in
        return saved

    def join_by_owner(self, take: Callable[[], Held], owner: int, found: Sequence[Spelling]) -> None:
        """Joins an owner's rows of links in a cluster, and finishes what was begun. take: holds the owner anew.

        Raises OwnerFenced, RowCorrupt, StoreUnavailable.
        """
        mine = [each for each in found if owner in each.owners and not each.why_not]
        if not mine:
            finish_joins(self.store, take(), self.rows.bounded)
        for some in _apart(mine):
            done = join_noted(self.store, take(), self.rows, [pair for each in some for pair in each.pairs])
            for each in some:
                if all(pair in done for pair in each.pairs):
                    self.joined.add((each.key, owner))
                else:
                    self.left[each.key] = TOO_LARGE


def _apart(some: Sequence[Spelling]) -> Iterator[list[Spelling]]:
    """Yields links in lists in which each is joined with another one."""
    lists: list[list[Spelling]] = []
    keys: list[set[str]] = []
    for each in some:
        at = next((n for n, taken in enumerate(keys) if each.joined not in taken and len(taken) < PAIRS_PER_SAVE), None)
        if at is None:
            lists.append([])
            keys.append(set())
            at = len(lists) - 1
        lists[at].append(each)
        keys[at].add(each.joined)
    yield from lists
