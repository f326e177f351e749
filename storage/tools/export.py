"""Every link's and group's history as plain objects, in the form that `import` takes, however the rows are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder, Breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.measures import measures_of, rows_with_events
from clickcurve.buckets.row import Row, fold, merge
from clickcurve.hosts import host_in_key
from clickcurve.keys import breakdown_of, group_of, link_of
from clickcurve.row_kinds.names import row_name
from storage.contract import OwnRow, Store, StoredLink
from storage.tools.verify import OnProgress, pages, rows_in


def export(
    store: Store,
    ladder: Ladder,
    now: int,
    damaged: Callable[[str], object],
    on_progress: OnProgress = lambda done, total: None,
    bounded: BoundedLadder = BREAKDOWN,
    events: Collection[str] = (),
) -> Iterator[dict[str, Any]]:
    """Yields one object for each link and group with hits, in the store's order, summed over owners, folded to `now`:

        {"key", "total", "bots", "first_hit", "last_hit", "opening", "buckets": [[start, end, people, bots], ...],
         "by": {"ref": [[start, end, {"news.example": 3}, other, slack], ...]},
         "events": {"sale": {"total", ..., "by", "values": {"total", ..., "by"}}}}

    A group has "group" in the place of "key". A link whose key has a host has `"grouped": true`: its hits in the group
    of the host are in that group's object. `now` is in epoch seconds. `by` is there if hits said something; it has
    no visitors. `events` is there if something came of clicks: an event, and its values, have the fields that the line
    has of clicks, but no opening. Erased links, the row of all links and other namespaces are left out. Each link is as
    of one moment, so a slow reader delays nothing. A link with a damaged row is left out, and `damaged` called with a
    sentence that names it. Raises StoreUnavailable. bounded: says for how long values are kept. events: the names of
    those that are stored.
    """
    with store.view() as view:
        done, total = 0, view.count_rows(breakdowns=False)
    for page in pages(store):
        for history in histories(store, page, ladder, now, bounded, events=events):
            if isinstance(history, RowCorrupt):
                damaged(history.detail)
            else:
                yield history
        done += rows_in(page)
        on_progress(done, total)


def histories(
    store: Store,
    page: Sequence[tuple[str, StoredLink]],
    ladder: Ladder,
    now: int,
    bounded: BoundedLadder,
    has_group: Callable[[str], bool] = lambda host: True,
    events: Collection[str] = (),
) -> Iterator[dict[str, Any] | RowCorrupt]:
    """Yields the histories of one page of keys, as `export` does; in place of a damaged one the error.

    has_group: tells whether the group of a host is exported too.
    """
    links = [(key, link) for key, link in page if link_of(key) is not None or group_of(key) is not None]
    reader = _HistoryReader(_own_rows(store, links, events), events, ladder, fold_day(now), bounded)
    for key, link in links:
        try:
            line = reader.past(key, link)
            of_events = reader.of_events(key, link)
        except RowCorrupt as error:
            yield error
            continue
        if _counts(line) or of_events:
            yield _link_or_group(key, has_group) | line | ({"events": of_events} if of_events else {})


@dataclass(frozen=True, slots=True)
class _HistoryReader:
    """Sums owners' rows of links and groups. own: of each owner. events: their names. day: to which all is folded."""

    own: Mapping[int, Mapping[str, OwnRow]]
    events: Collection[str]
    ladder: Ladder
    day: int
    bounded: BoundedLadder

    def past(self, stored: str, link: StoredLink) -> dict[str, Any]:
        """Returns what is counted under a stored key; link: the row of clicks beside it. Raises RowCorrupt."""
        rows = [live for row in link.rows if (live := _live(stored, row.owner, self.own[row.owner])) is not None]
        row = fold(merge((row for row, _ in rows), self.ladder), self.day, self.ladder)
        divided = [breakdown for _, breakdown in rows if breakdown is not None]
        by = _by(merge_breakdowns(divided, row.fold_day, self.bounded))
        return {
            "total": row.lifetime,
            "bots": row.bots,
            "first_hit": row.first,
            "last_hit": row.last,
            "opening": row.opening,
            "buckets": _bucket_list(row, self.ladder),
        } | ({"by": by} if by else {})

    def of_events(self, clicks: str, link: StoredLink) -> dict[str, dict[str, Any]]:
        """Returns what came of the clicks of a row (its stored key), by event. Raises RowCorrupt."""
        found = {}
        for event in sorted(self.events):
            counts, values = (self.past(measure.row(clicks), link) for measure in measures_of(event))
            if _counts(counts):
                found[event] = _dated(counts) | ({"values": _dated(values)} if _counts(values) else {})
        return found


def _counts(past: Mapping[str, Any]) -> bool:
    return bool(past["total"] or past["bots"])


def _dated(past: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what came of clicks, of which all is dated."""
    return {name: value for name, value in past.items() if name != "opening"}


def _link_or_group(stored: str, has_group: Callable[[str], bool]) -> dict[str, str | bool]:
    if (group := group_of(stored)) is not None:
        return {"group": group}
    key = link_of(stored) or ""
    host = host_in_key(key)
    return {"key": key, "grouped": True} if host and has_group(host) else {"key": key}


def _own_rows(
    store: Store, links: list[tuple[str, StoredLink]], events: Collection[str]
) -> dict[int, dict[str, OwnRow]]:
    """Returns all rows of each link, by owner and key: those of a link are read at one moment."""
    keys: dict[int, list[str]] = {}
    for key, link in links:
        for row in link.rows:
            for counts in rows_with_events(key, events):
                keys.setdefault(row.owner, []).extend((counts, breakdown_of(counts)))
    return {owner: store.read_own(owner, some) for owner, some in keys.items()}


def _live(key: str, owner: int, own: Mapping[str, OwnRow]) -> tuple[Row, Breakdown | None] | None:
    """Returns an owner's row and breakdown, if there is one; None if an erasure has emptied them."""
    name = row_name(key, owner)
    try:
        counts, parts_row = own.get(key), own.get(breakdown_of(key))
        if counts is None or counts.data is None:
            return None
        row = decode(counts.data)
        if row.erased_at < counts.erased_at:
            return None
        if parts_row is None or parts_row.data is None:
            return row, None
        name = row_name(breakdown_of(key), owner)
        breakdown = decode_parts(separate_parts(parts_row.data))
    except RowCorrupt as error:
        raise RowCorrupt(f"{name}: {error.detail}") from error
    return row, breakdown if breakdown.erased_at >= counts.erased_at else None


def _by(breakdown: Breakdown) -> dict[str, list[list[object]]]:
    """Returns [start, end, values, other, slack] of each bucket of each dimension, oldest first."""
    return {
        name: sorted(
            (
                [*tier.bucket(start), dict(sorted(counts.values.items())), counts.other, counts.slack]
                for tier, buckets in zip(BREAKDOWN.ladder.tiers, tiers, strict=True)
                for start, counts in buckets.items()
            ),
            key=itemgetter(0),
        )
        for name, tiers in sorted(breakdown.dimensions.items())
        if any(tiers)
    }


def _bucket_list(row: Row, ladder: Ladder) -> list[list[int]]:
    """Returns [start, end, people, bots] of each bucket, oldest first."""
    buckets: dict[int, list[int]] = {}
    for series, cells in ((2, row.people_cells), (3, row.bot_cells)):
        for tier, (starts, counts) in zip(ladder.tiers, cells, strict=True):
            for start, count in zip(starts, counts, strict=True):
                bucket = buckets.setdefault(start, [start, tier.bucket(start)[1], 0, 0])
                bucket[series] += count
    return [buckets[start] for start in sorted(buckets)]
