"""Every link's history as plain objects, in the form that `import` takes, however the rows are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.row import Row, fold, merge
from clickcurve.keys import link_of
from storage.contract import Store, StoredLink
from storage.tools.verify import each_link, row_name


def export(store: Store, ladder: Ladder, now: int, damaged: Callable[[str], object]) -> Iterator[dict[str, Any]]:
    """Yields one object for each link that has hits, in the store's order, summed over owners and folded to `now`:

        {"key", "total", "bots", "first_hit", "last_hit", "opening", "buckets": [[start, end, people, bots], ...]}

    `now` is in epoch seconds. Erased links, the row of all links and other namespaces are left out. Each page of the
    walk is one consistent view, so a slow reader delays nothing. A link with a damaged row is left out, and `damaged`
    called with a sentence that names it. Raises StoreUnavailable.
    """
    day = fold_day(now)
    for key, link in each_link(store):
        name = link_of(key)
        if name is None:
            continue
        try:
            row = fold(merge(_live(key, link), ladder), day, ladder)
        except RowCorrupt as error:
            damaged(error.detail)
            continue
        if row.lifetime or row.bots:
            yield {
                "key": name,
                "total": row.lifetime,
                "bots": row.bots,
                "first_hit": row.first,
                "last_hit": row.last,
                "opening": row.opening,
                "buckets": _bucket_list(row, ladder),
            }


def _live(key: str, link: StoredLink) -> Iterator[Row]:
    for stored in link.rows:
        try:
            row = decode(stored.data)
        except RowCorrupt as error:
            raise RowCorrupt(f"{row_name(key, stored.owner)}: {error.detail}") from error
        if row.erased_at >= link.erased_at:
            yield row


def _bucket_list(row: Row, ladder: Ladder) -> list[list[int]]:
    """Returns [start, end, people, bots] of each bucket, oldest first."""
    found: dict[int, list[int]] = {}
    for series, cells in ((2, row.people_cells), (3, row.bot_cells)):
        for tier, (starts, counts) in zip(ladder.tiers, cells, strict=True):
            for start, count in zip(starts, counts, strict=True):
                bucket = found.setdefault(start, [start, tier.bucket(start)[1], 0, 0])
                bucket[series] += count
    return [found[start] for start in sorted(found)]
