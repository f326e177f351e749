"""Checks of breakdowns, and of what was called bots, against the rows of counts that they belong to.

For each owner a link's breakdown records no more than its row of counts has, bucket by bucket, and the breakdown of all
links no less than those of the links together. Less is no fault: most hits may say nothing, and what erased links
said stays in all links. What was called bots is never less than nothing, nor more than was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from clickcurve.buckets.breakdowns.breakdown import WIDEST, Breakdown
from clickcurve.buckets.breakdowns.check import check_against_counts, check_breakdown
from clickcurve.buckets.breakdowns.disavow import spans_of
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Row, fold, merge
from clickcurve.keys import ALL_LINKS, counts_key, link_of
from storage.contract import StoredLink


class Breakdowns:
    """The breakdowns of a store, checked one by one and added up by owner. `ladder`: of the rows of counts."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._of_links: dict[int, Counter[str]] = {}  # owner -> dimension -> hits
        self._of_all: dict[int, Counter[str]] = {}

    def checked(
        self, key: str, link: StoredLink, counts: Mapping[str, StoredLink]
    ) -> Iterator[tuple[int, None, list[str]]]:
        """Yields the owner of each of these breakdowns, and what is wrong with it. counts: rows read after them."""
        beside = counts.get(counts_key(key), StoredLink(0, ()))
        data_of = {stored.owner: stored.data for stored in beside.rows}
        for stored in link.rows:
            try:
                row = decode_parts(separate_parts(stored.data))
            except RowCorrupt as error:
                yield stored.owner, None, [error.detail]
                continue
            broken = check_breakdown(row, WIDEST)
            yield stored.owner, None, broken or self._compared(row, data_of.get(stored.owner), beside.erased_at)
            if counts_key(key) == ALL_LINKS:
                self._of_all.setdefault(stored.owner, Counter()).update(_recorded(row))
            elif link_of(counts_key(key)) is not None and row.erased_at >= beside.erased_at:
                self._of_links.setdefault(stored.owner, Counter()).update(_recorded(row))

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

    def too_few_in_all_links(self, owner: int) -> list[str]:
        """Returns in which dimensions an owner's links record more than its breakdown of all links."""
        of_all = self._of_all.get(owner, Counter())
        return [
            f"{name} records {of_all[name]} hits of all links, and {recorded} of single links"
            for name, recorded in sorted(self._of_links.get(owner, Counter()).items())
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


def _sum_of(link: StoredLink, ladder: Ladder) -> Row:
    rows = [decode(each.data) for each in link.rows]
    return merge([row for row in rows if row.erased_at >= link.erased_at], ladder)
