"""Corrections of counted hits, carried out: computed from stored rows, journaled as a group's batch, flushed.

One owner of a store carries out all of them, one after the other: the one that keeps the source CORRECTIONS_SOURCE.
Two at once would each see the other's dimension uncorrected, and call too much. Each correction is a step of the
source, journaled together with its counts. It is computed after a flush, so from rows that hold all earlier ones;
computed again, after a crash between journal and flush, it adds nothing. So it counts once through a kill at any
moment.

A correction of a link reduces all links too, by the same counts under their own key; one of its events those of all.

A row may be erased, on another machine, while its correction is made. That would then be of hits that are no more,
and would take new ones away. So an erasure goes through the row first and then through what is called of it, and a step
says when the latter was last erased: as the store said before anything else of the row was read. Once the step is in
the store, this moment is compared: before the next step at the latest, if the process was killed in between. If it is a
later one, all that is called of the row is called back: the erasure takes the effect of earlier rules along.

So every erasure is noticed that ends after this moment was read. What is called of the row gets its stamp last, and

- before the flush adds the step: then the moment that is compared is a later one;
- or after the flush has read what it adds the step to: then the step is erased with it;
- or it has a later stamp by then: from an erasure that the row knows too, so this one changes neither.

One that ended before is in all that was read. One that fails before its last stamp is written may leave what is called
of a row that is gone, until it is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder, Breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.check import BACK
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, CalledLink, Correction, Moved, call_back_all
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid, RowCorrupt
from clickcurve.buckets.ladder import HOUR_S, fold_day
from clickcurve.buckets.measures import measured
from clickcurve.buckets.row import Row, fold, merge
from clickcurve.keys import ALL_LINKS, breakdown_of, corrected_key, link_of, moved_key
from clickcurve.waiting import in_thread
from ingest.batch import AttributeCounts, Batch, BatchAttributes, GroupCounts, HourProfiles, SourceStep
from ingest.owner import Owner
from storage.contract import Store, StoredLink

CORRECTIONS_SOURCE = "disavow"
STEP_BUCKETS = 5_000  # of one batch: some 200 kB of journal

R = TypeVar("R", Row, Breakdown)
T = TypeVar("T")


class ErasedAhead(ClickcurveError):
    """A row was erased by a machine whose clock is ahead: what is accepted here now would count for nothing."""

    status = 503
    title = "erased ahead of the clock"


_read_erasures = msgspec.json.Decoder(dict[str, int]).decode


class _ReadLink(NamedTuple):
    """What is stored of a row, with moments in epoch microseconds.

    erased_at: when what is called of it was erased, before anything else was read. newest_erased_at: the latest moment
    at which any of the rows was.
    """

    link: CalledLink
    erased_at: int
    newest_erased_at: int


class Corrector:
    """Carries out corrections by an owner. clock: epoch seconds; bounded: how much of breakdowns is kept."""

    def __init__(self, owner: Owner, store: Store, bounded: BoundedLadder, clock: Callable[[], float]) -> None:
        self._owner, self._store, self._bounded, self._clock = owner, store, bounded, clock
        self._compared: int | None = None  # the last step whose moments were compared when it was in the store

    async def flush(self) -> None:
        """Moves what the owner has accepted into the store."""
        await self._owner.flush()

    def require_fine_counts(self) -> None:
        """Raises ParameterInvalid where hits are counted in wider buckets than their values, and StoreUnavailable."""
        ladder = self._store.ladder()
        if not ladder.nests_in(CORRECTIONS.ladder):
            detail = "this store counts hits in wider buckets than their values, so no rule can be exact"
            rule = f"counts in buckets as fine as those of values: {CORRECTIONS.ladder}"
            raise ParameterInvalid(detail, field="ladder", value=str(ladder), rule=rule)

    async def carry_out(self, stored: str, make: Callable[[CalledLink], Correction]) -> Correction:
        """Makes a correction of the row of a stored key and counts it, durably and once; returns it.

        Raises ImportElsewhere if another owner carries out corrections, and RowCorrupt, ErasedAhead, StoreUnavailable.
        """
        await self._begin()
        read = await self._read(stored)
        correction = make(read.link)
        self._require_counting(stored, read, correction)
        await self._count({stored: correction}, {stored: read.erased_at})
        return correction

    async def carry_out_many(
        self, stored: Sequence[str], make: Callable[[str, CalledLink], Correction]
    ) -> dict[str, ClickcurveError]:
        """Makes a correction of each of these rows that has a breakdown, and counts them as `carry_out` does.

        Returns the rows that are left out, and why: they are damaged, or were erased ahead of the clock.
        """
        await self._begin()
        left_out: dict[str, ClickcurveError] = {}
        corrections: dict[str, Correction] = {}
        seen: dict[str, int] = {}
        for key in stored:
            try:
                read = await self._read_divided(key)
                correction = None if read is None else await in_thread("reading a link", make, key, read.link)
                if read is None or not correction:
                    continue
                self._require_counting(key, read, correction)
            except (RowCorrupt, ErasedAhead) as error:
                left_out[key] = error
                continue
            corrections[key], seen[key] = correction, read.erased_at
            if sum(each.buckets for each in corrections.values()) >= STEP_BUCKETS:
                await self._count(corrections, seen)
                corrections, seen = {}, {}
        await self._count(corrections, seen)
        return left_out

    def _require_counting(self, stored: str, read: _ReadLink, correction: Correction) -> None:
        """Raises ErasedAhead if a correction would count for nothing in its row, and yet in that of all links."""
        if correction and not self._owner.counts_after(read.newest_erased_at):
            detail = "it was deleted by a server whose clock is ahead of this one's"
            raise ErasedAhead(detail, field="key", value=stored)

    async def _begin(self) -> None:
        await self._owner.claim()
        await self._owner.source(CORRECTIONS_SOURCE)  # first: a worker that may not do this need not flush for it
        await self._owner.flush()
        await self._call_back_erased()

    async def _count(self, corrections: Mapping[str, Correction], seen: Mapping[str, int]) -> None:
        """Counts corrections of rows as one step, if there are any. seen: of each row the erased_at that was read."""
        some = {key: correction for key, correction in corrections.items() if correction}
        if not some:
            return
        position = (await self._owner.source(CORRECTIONS_SOURCE)).position
        erased = msgspec.json.encode({moved_key(key): seen[key] for key in some}).decode()
        step = SourceStep(CORRECTIONS_SOURCE, position, position + 1, erased)
        await self._owner.accept(correction_batch(some, step))
        await self._owner.flush()
        await self._call_back_erased()

    async def _call_back_erased(self) -> None:
        """Calls back what is called of rows that were erased while the last step was made."""
        step = await self._owner.source(CORRECTIONS_SOURCE)
        if step.position == self._compared or not step.tail:
            return
        corrections: dict[str, Correction] = {}
        seen: dict[str, int] = {}
        for moved, erased_at in _read_erasures(step.tail).items():
            if (await self._store.rows(moved)).erased_at > erased_at:
                key = corrected_key(moved)
                read = await self._read(key)
                corrections[key], seen[key] = call_back_all(read.link), read.erased_at
                self._require_counting(key, read, corrections[key])
        if not any(corrections.values()):
            self._compared = step.position
        await self._count(corrections, seen)

    async def read(self, stored: str) -> CalledLink:
        """Returns what is stored of a row and its correction, of all owners. Raises RowCorrupt, StoreUnavailable."""
        return (await self._read(stored)).link

    async def ask_divided(self, stored: str, dimension: str, ask: Callable[[CalledLink], T]) -> T | None:
        """Returns what `ask` says, in a thread, of a row that has a breakdown; None for any other row.

        Of the breakdown this dimension alone is read, which takes a third of the time. Raises as `read` does.
        """
        moved = moved_key(stored)
        named = await self._named(moved, stored)
        if not named[1].rows:
            return None
        counts = await self._counts(moved, stored)
        only = (dimension, BACK + dimension)
        return await in_thread("reading a link", lambda: ask(self._joined(named, counts, only).link))

    async def _read_divided(self, stored: str) -> _ReadLink | None:
        divided = (await self._store.rows(breakdown_of(stored))).rows
        return await self._read(stored) if divided else None

    async def _read(self, stored: str) -> _ReadLink:
        moved = moved_key(stored)
        named = await self._named(moved, stored)
        return await in_thread("reading a link", self._joined, named, await self._counts(moved, stored))

    # The corrections first, and counts after breakdowns: what the one has is then in the other for certain. So the
    # first answer of all says when the corrections were erased.
    async def _named(self, moved: str, stored: str) -> list[StoredLink]:
        return [await self._store.rows(breakdown_of(moved)), await self._store.rows(breakdown_of(stored))]

    async def _counts(self, moved: str, stored: str) -> list[StoredLink]:
        return [await self._store.rows(moved), await self._store.rows(stored)]

    def _joined(
        self, named: Sequence[StoredLink], counts: Sequence[StoredLink], only: Sequence[str] | None = None
    ) -> _ReadLink:
        ladder = self._store.ladder()
        rows = [_rows_of(link, decode) for link in counts]
        breakdowns = [_rows_of(link, lambda data: decode_parts(separate_parts(data), only)) for link in named]
        days = [row.fold_day for some in rows for row in some] + [row.fold_day for some in breakdowns for row in some]
        day = max([fold_day(int(self._clock())), *days])
        calling, counted = (fold(merge(some, ladder), day, ladder) for some in rows)
        called = merge_breakdowns(breakdowns[0], day, CORRECTIONS)
        divided = merge_breakdowns(breakdowns[1], day, self._bounded)
        erased_at = [each.erased_at for each in (*named, *counts)]
        link = CalledLink(counted, divided, Moved(calling, called), ladder)
        return _ReadLink(link, named[0].erased_at, max(erased_at))


def _rows_of(link: StoredLink, decoded: Callable[[bytes], R]) -> list[R]:
    """Returns the rows of all owners, without those that an erasure has emptied."""
    rows = [decoded(each.data) for each in link.rows]
    return [row for row in rows if row.erased_at >= link.erased_at]


def correction_batch(corrections: Mapping[str, Correction], step: SourceStep) -> Batch:
    """Returns the batch that counts corrections of rows, and of all links those of links."""
    part = BatchAttributes(groups=GroupCounts({}, {}, AttributeCounts()))
    kinds: dict[str, int] = {}
    profiles: dict[tuple[int, str], int] = {}
    for stored, correction in corrections.items():
        measure, clicks = measured(stored)
        keys = [moved_key(stored)] + ([moved_key(measure.row(ALL_LINKS))] if link_of(clicks) is not None else [])
        for counts, added in (
            (part.groups.people, correction.counts.people),
            (part.groups.bots, correction.counts.bots),
        ):
            for minute, count in added.items():
                of_minute = counts.setdefault(minute, {})
                for key in keys:
                    of_minute[key] = of_minute.get(key, 0) + count
        for dimension, hours in correction.named.values.items():
            kind = kinds.setdefault(dimension, len(kinds))
            for start, values in hours.items():
                assert start % HOUR_S == 0, "the buckets of breakdowns begin with hours"
                for value, count in values.items():
                    profile = profiles.setdefault((kind, value), len(profiles))
                    hour = part.groups.attributes.hours.setdefault(start, HourProfiles())
                    hour.extend(keys, [profile] * len(keys), [count] * len(keys))
    part.kinds.extend(((dimension,), False) for dimension in kinds)
    part.profiles = list(profiles)
    return Batch(source=step, attributes=part)
