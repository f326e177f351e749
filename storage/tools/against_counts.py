"""Checks of breakdowns, and of what was called bots, against the rows of counts that they belong to.

For each owner a link's breakdown records no more than its row of counts has, bucket by bucket, and the breakdown of all
links no less than those of the links together; so of each event. Less is no fault: most hits may say nothing, and what
erased links said stays in all links. What was called bots is never less than nothing, nor more than was counted. The
values of an event are of events that were counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

from clickcurve.buckets.breakdowns.breakdown import WIDEST, Breakdown
from clickcurve.buckets.breakdowns.check import check_against_counts, check_breakdown
from clickcurve.buckets.breakdowns.disavow import spans_of
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.cells import Cells
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.measures import Measure, measured
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import EMPTY, Row, fold, merge
from clickcurve.keys import ALL_LINKS, counts_key, link_of
from storage.contract import StoredLink
from storage.view import View

NO_LINK = StoredLink(0, ())


class Breakdowns:
    """The breakdowns of a store, checked one by one and added up by owner. `ladder`: of the rows of counts."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        # By owner and measure: dimension -> hits.
        self._of_links: dict[tuple[int, Measure], Counter[str]] = {}
        self._of_all: dict[tuple[int, Measure], Counter[str]] = {}

    def checked(self, key: str, link: StoredLink, beside: StoredLink) -> Iterator[tuple[int, None, list[str]]]:
        """Yields the owner of each of these breakdowns, and what is wrong with it. beside: counts read after them."""
        measure, clicks = measured(counts_key(key))
        data_of = {stored.owner: stored.data for stored in beside.rows}
        for stored in link.rows:
            try:
                row = decode_parts(separate_parts(stored.data))
            except RowCorrupt as error:
                yield stored.owner, None, [error.detail]
                continue
            broken = check_breakdown(row, WIDEST)
            yield stored.owner, None, broken or self._compared(row, data_of.get(stored.owner), beside.erased_at)
            if clicks == ALL_LINKS:
                self._of_all.setdefault((stored.owner, measure), Counter()).update(_recorded(row))
            elif link_of(clicks) is not None and row.erased_at >= beside.erased_at:
                self._of_links.setdefault((stored.owner, measure), Counter()).update(_recorded(row))

    def _compared(self, row: Breakdown, data: bytes | None, erased_at: int) -> list[str]:
        if data is None:
            return ["there is no row of counts beside it"]
        try:
            counts = decode(data)
        except RowCorrupt:
            return []  # which is said of that row
        if row.mark > counts.mark:
            return [f"it has flush {row.mark}, and the row of counts beside it only flush {counts.mark}"]
        if row.erased_at < max(erased_at, counts.erased_at):
            return []  # it counts for nothing
        return check_against_counts(row, counts, WIDEST, self._ladder)

    def too_few_in_all_links(self, owner: int, measure: Measure) -> list[str]:
        """Returns in which dimensions an owner's links record more than its breakdown of all links."""
        of_all = self._of_all.get((owner, measure), Counter())
        return [
            f"{name} records {of_all[name]} hits of all links, and {recorded} of single links"
            for name, recorded in sorted(self._of_links.get((owner, measure), Counter()).items())
            if recorded > of_all[name]
        ]


def _recorded(row: Breakdown) -> dict[str, int]:
    return {
        name: sum(bucket.recorded() for tier in tiers for bucket in tier.values())
        for name, tiers in row.dimensions.items()
    }


def check_disavowed(moved: StoredLink, counts: StoredLink, ladder: Ladder) -> list[str]:
    """Returns the buckets in which the sum of owners' corrections cannot be; [] = none. counts: read after `moved`."""
    try:
        called, counted = _sum_of(moved, ladder), _sum_of(counts, ladder)
    except RowCorrupt:
        return []  # which is said of that row
    day = max(called.fold_day, counted.fold_day)
    called, counted = fold(called, day, ladder), fold(counted, day, ladder)
    broken = []
    for start, end, hits in spans_of(called, day, ladder):
        (people,) = between(counted, (start, end), Bots.exclude)
        if not 0 <= hits <= people:
            broken.append(f"{hits} hits in [{start}, {end}) are called bots, of {people} that were counted as people's")
    return broken


class Values:
    """The values of events, held against these: for each owner and row none count where no event does."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._events: dict[str, StoredLink] = {}
        self._broken: dict[int, list[tuple[str, list[str]]]] = {}

    def read(self, view: View, keys: Iterable[str]) -> None:
        """Reads the events beside the values among these rows (stored keys), which were read before."""
        self._events = view.links([*filter(None, map(_events_of_values, keys))])

    def check(self, key: str, owner: int, row: Row | None, erased_at: int) -> None:
        """Checks an owner's row of a stored key, if it counts values. erased_at: as the store says."""
        events = _events_of_values(key)
        if events is None or row is None or row.erased_at < erased_at:
            return
        beside = (each.data for each in self._events.get(events, NO_LINK).rows if each.owner == owner)
        with suppress(RowCorrupt):  # which is said of that row
            if broken := self._without_events(row, next((decode(data) for data in beside), EMPTY)):
                self._broken.setdefault(owner, []).append((key, broken))

    def _without_events(self, values: Row, events: Row) -> list[str]:
        day = max(values.fold_day, events.fold_day)
        values, events = (fold(row, day, self._ladder) for row in (values, events))
        series = (("people", values.people_cells, events.people_cells), ("bots", values.bot_cells, events.bot_cells))
        return [
            f"there are values of {name} in the bucket from {start}, and no events"
            for name, valued, counted in series
            for start in sorted(_starts(valued) - _starts(counted))
        ]

    def broken(self, owner: int) -> list[tuple[str, list[str]]]:
        """Returns the stored keys of an owner's rows in which values are of no events, and in which buckets.

        Means something when no flush of the owner is under way.
        """
        return self._broken.get(owner, [])


def _events_of_values(key: str) -> str | None:
    """Returns the stored key of the events whose values a row counts; None if it counts others."""
    measure, clicks = measured(key)
    return measure.of_counts.row(clicks) if measure.of_values else None


def _starts(cells: Iterable[Cells]) -> set[int]:
    return {start for starts, _ in cells for start in starts}


def _sum_of(link: StoredLink, ladder: Ladder) -> Row:
    rows = [decode(each.data) for each in link.rows]
    return merge([row for row in rows if row.erased_at >= link.erased_at], ladder)
