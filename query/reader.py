"""The current row of a key: what is stored, summed over owners, plus hits here that are not stored yet.

The order matters. Pending hits, also those of this machine's other workers, are taken first and the stored rows after
that, so that a flush which ends in between is seen twice, never not at all; each stored row's mark then says which of
the pending hits it has already.
The row is folded to `now` here, in memory, so an answer depends on the hits and on `now` and on nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from clickcurve.buckets.codec import decode, decode_header
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.row import Pending, Row, add, fold, merge
from clickcurve.keys import ALL_LINKS, group_of, link_of
from storage.contract import StoredLink

_MAX_REVISITED = 10_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store has of one key, merged and folded to now.

    marks: owner -> the last flush that its row includes. fat: folding a stored row drops buckets.
    """

    row: Row
    marks: Mapping[int, int]
    fat: bool


HEAD = -1  # for `since`: no buckets at all, only what stands in the head (lifetime, first and last hit)


def stored(link: StoredLink, now: int, ladder: Ladder, *, since: int = 0, bots: bool = True) -> Stored:
    """Returns the sum of the stored rows, without those that an erasure has emptied.

    Rows that are folded to now already may come without the buckets before `since`, the start of a kept bucket, and
    without those of bots: that is up to four times as quick, for callers that do not need them.
    """
    day = fold_day(now)
    marks: dict[int, int] = {}
    rows: list[Row] = []
    fat = False
    for each in link.rows:
        row = decode_header(each.data) if since == HEAD else decode(each.data, since, bots)
        marks[each.owner] = row.mark
        if row.erased_at < link.erased_at:
            continue
        if row.fold_day != day and since != HEAD:
            older = decode(each.data)
            row = fold(older, day, ladder)
            fat = fat or (row.people_cells, row.bot_cells) != (older.people_cells, older.bot_cells)
        rows.append(row)
    whole = rows[0] if len(rows) == 1 else merge(rows, ladder)
    return Stored(fold(whole, day, ladder), marks, fat)


def naming(error: RowCorrupt, key: str, link: StoredLink) -> RowCorrupt:
    """Returns the error of a damaged row with the link, and the owners whose rows are damaged."""
    owners = ", ".join(str(each.owner) for each in link.rows if _is_damaged(each.data))
    what, name = what_it_is(key, "row")
    detail = f"{what}, of owner {owners}, is damaged ({error.detail}); `clickcurve repair` says more"
    return RowCorrupt(detail, field="key", value=name)


def what_it_is(key: str, noun: str) -> tuple[str, str | None]:
    """Returns the noun with what a stored row of counts belongs to, and its name if it has one."""
    if key == ALL_LINKS:
        return f"the {noun} of all links", None
    group = group_of(key)
    return (f"this link's {noun}", link_of(key)) if group is None else (f"this group's {noun}", group)


def _is_damaged(data: bytes) -> bool:
    try:
        decode(data)
    except RowCorrupt:
        return True
    return False


def unstored(pending: Sequence[Pending], marks: Mapping[int, int], onto: Row, ladder: Ladder) -> Row:
    """Returns `onto` with those pending hits added that the rows with these marks do not include."""
    for each in pending:
        if each.is_missing(marks.get(each.owner, 0)):
            onto = add(onto, each.delta, ladder)
    return onto


class Reader:
    """Reads rows for queries.

    rows and ladder: the store's; pending and revisit: the owner's. A row that is found fat is asked to be folded, once
    a fold day. elsewhere: what other owners hold that are near enough to be asked, as `pending`; None: there are none.
    """

    def __init__(
        self,
        rows: Callable[[str], Awaitable[StoredLink]],
        pending: Callable[[str], Sequence[Pending]],
        revisit: Callable[[Iterable[str]], None],
        ladder: Callable[[], Ladder],
        elsewhere: Callable[[str], Awaitable[Sequence[Pending]]] | None = None,
    ) -> None:
        self._ladder = ladder
        self._elsewhere = elsewhere
        self._rows = rows
        self._pending = pending
        self._revisit = revisit
        self._revisited: set[str] = set()
        self._day = -1

    @cached_property
    def ladder(self) -> Ladder:
        """Returns the store's ladder; raises StoreUnavailable until the store has been reached once."""
        return self._ladder()

    async def row(self, key: str, now: int, *, since: int = 0, bots: bool = True) -> Row:
        """Returns the current row of a stored key; since and bots as in `stored`.

        Raises StoreUnavailable, RowCorrupt.
        """
        pending = self._pending(key) if self._elsewhere is None else await self._all_pending(key, self._elsewhere)
        link = await self._rows(key)
        try:
            found = stored(link, now, self.ladder, since=since, bots=bots)
        except RowCorrupt as error:
            raise naming(error, key, link) from error
        if found.fat:
            self._revisit_once(key, fold_day(now))
        return unstored(pending, found.marks, found.row, self.ladder) if pending else found.row

    async def _all_pending(
        self, key: str, elsewhere: Callable[[str], Awaitable[Sequence[Pending]]]
    ) -> Sequence[Pending]:
        others = await elsewhere(key)
        return [*others, *self._pending(key)]

    def _revisit_once(self, key: str, day: int) -> None:
        if day != self._day or len(self._revisited) >= _MAX_REVISITED:
            self._revisited.clear()
            self._day = day
        if key not in self._revisited:
            self._revisited.add(key)
            self._revisit((key,))
