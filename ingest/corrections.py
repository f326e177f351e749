"""Corrections of counted hits, carried out: computed from stored rows, journaled as a group's batch, flushed.

One owner of a store carries out all of them, one after the other: the one that keeps the source CORRECTIONS_SOURCE.
Two at once would each see the other's dimension uncorrected, and call too much. Each correction is a step of the
source, journaled together with its counts. It is computed after a flush, so from rows that hold all earlier ones;
computed again, after a crash between journal and flush, it adds nothing. So it counts once through a kill at any
moment.

A correction of a link reduces all links too, by the same counts under their own key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder, Breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, CalledLink, Correction, Moved
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import HOUR_S, fold_day
from clickcurve.buckets.row import Row, fold, merge
from clickcurve.keys import ALL_LINKS, breakdown_of, link_of, moved_key
from ingest.batch import AttributeCounts, Batch, BatchAttributes, GroupCounts, HourProfiles, SourceStep
from ingest.owner import Owner
from storage.contract import Store, StoredLink

CORRECTIONS_SOURCE = "disavow"

R = TypeVar("R", Row, Breakdown)


class Corrector:
    """Carries out corrections by an owner. clock: epoch seconds; bounded: how much of breakdowns is kept."""

    def __init__(self, owner: Owner, store: Store, bounded: BoundedLadder, clock: Callable[[], float]) -> None:
        self._owner, self._store, self._bounded, self._clock = owner, store, bounded, clock

    async def flush(self) -> None:
        """Moves what the owner has accepted into the store."""
        await self._owner.flush()

    async def moved_of(self, stored: Sequence[str]) -> list[str]:
        """Returns the stored keys of the corrections that there are of these rows. Raises StoreUnavailable."""
        keys = [moved_key(each) for each in stored]
        found = await asyncio.gather(*map(self._store.rows, keys))
        return [key for key, link in zip(keys, found, strict=True) if link.rows]

    def require_fine_counts(self) -> None:
        """Raises ParameterInvalid where hits are counted in wider buckets than their values, and StoreUnavailable."""
        ladder = self._store.ladder()
        if not ladder.nests_in(CORRECTIONS.ladder):
            detail = "this store counts hits in wider buckets than their values, so no rule can be exact"
            rule = f"counts in buckets as fine as those of values: {CORRECTIONS.ladder}"
            raise ParameterInvalid(detail, field="ladder", value=str(ladder), rule=rule)

    async def carry_out(self, stored: str, make: Callable[[CalledLink], Correction]) -> Correction:
        """Makes a correction of the row of a stored key and counts it, durably and once; returns it.

        Raises ImportElsewhere if another owner carries out corrections, and RowCorrupt, StoreUnavailable.
        """
        await self._owner.flush()
        step = (await self._owner.source(CORRECTIONS_SOURCE)).position
        correction = make(await self.read(stored))
        if correction:
            batch = correction_batch(stored, correction, SourceStep(CORRECTIONS_SOURCE, step, step + 1, ""))
            await self._owner.accept(batch)
            await self._owner.flush()
        return correction

    async def read(self, stored: str) -> CalledLink:
        """Returns what is stored of a row and its correction, of all owners. Raises RowCorrupt, StoreUnavailable."""
        moved, ladder = moved_key(stored), self._store.ladder()
        # The corrections first, and counts after breakdowns: what the one has is then in the other for certain.
        named = [await self._store.rows(breakdown_of(moved)), await self._store.rows(breakdown_of(stored))]
        counts = [await self._store.rows(moved), await self._store.rows(stored)]
        rows = [_rows_of(link, decode) for link in counts]
        breakdowns = [_rows_of(link, lambda data: decode_parts(separate_parts(data))) for link in named]
        days = [row.fold_day for some in rows for row in some] + [row.fold_day for some in breakdowns for row in some]
        day = max([fold_day(int(self._clock())), *days])
        calling, counted = (fold(merge(some, ladder), day, ladder) for some in rows)
        called = merge_breakdowns(breakdowns[0], day, CORRECTIONS)
        return CalledLink(counted, merge_breakdowns(breakdowns[1], day, self._bounded), Moved(calling, called), ladder)


def _rows_of(link: StoredLink, decoded: Callable[[bytes], R]) -> list[R]:
    """Returns the rows of all owners, without those that an erasure has emptied."""
    rows = [decoded(each.data) for each in link.rows]
    return [row for row in rows if row.erased_at >= link.erased_at]


def correction_batch(stored: str, correction: Correction, step: SourceStep) -> Batch:
    """Returns the batch that counts a correction of a row, and of all links where it is a link's."""
    keys = [moved_key(stored)]
    if link_of(stored) is not None:
        keys.append(moved_key(ALL_LINKS))
    people, bots = (
        {minute: dict.fromkeys(keys, count) for minute, count in counts.items()}
        for counts in (correction.counts.people, correction.counts.bots)
    )
    part = BatchAttributes(groups=GroupCounts(people, bots, AttributeCounts()))
    profiles: list[tuple[int, str]] = []
    for dimension, hours in correction.named.values.items():
        part.kinds.append(((dimension,), False))
        for start, values in hours.items():
            assert start % HOUR_S == 0, "the buckets of breakdowns begin with hours"
            for value, count in values.items():
                hour = part.groups.attributes.hours.setdefault(start, HourProfiles())
                hour.extend(keys, [len(profiles)] * len(keys), [count] * len(keys))
                profiles.append((len(part.kinds) - 1, value))
    part.profiles = profiles
    return Batch(source=step, attributes=part)
