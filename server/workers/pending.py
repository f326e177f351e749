"""What a worker holds that may not be in the store yet: its own owner's hits, and those of orphaned journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from clickcurve.pending import Pending, PendingBreakdown
from ingest.owner import Owner
from ingest.owner_status import OwnerStatus
from server.workers.orphaned_journals import OrphanedJournals


class PendingHits:
    """Joins the owners of one worker for its readers: `own` accepts, those of `orphaned` journals are being emptied."""

    def __init__(self, own: Owner, orphaned: Sequence[OrphanedJournals]) -> None:
        self._own = own
        self._orphaned = orphaned

    def _shown(self) -> list[Owner]:
        return [owner for journals in self._orphaned for owner in journals.shown]

    def _adopted(self) -> list[Owner]:
        return [owner for journals in self._orphaned for owner in journals.owners]

    def _owners(self) -> list[Owner]:
        return [self._own, *self._shown()]

    def pending(self, key: str) -> Sequence[Pending]:
        """Returns what may not be in the stored rows of `key` (a stored key) yet. Raises RowCorrupt as `Owner`."""
        shown = self._shown()
        if not shown:
            return self._own.pending(key)
        return [each for owner in (self._own, *shown) for each in owner.pending(key)]

    def numbered(self, key: str) -> Sequence[tuple[Pending, int]]:
        """Returns the same, each with the least number that the flush which moves it can get.

        Raises StoreUnavailable before a claim: nobody knows that number.
        """
        pending = ((owner, each) for owner in self._owners() for each in owner.pending(key))
        return [(each, each.flush() or owner.next_flush) for owner, each in pending]

    def pending_breakdowns(self, key: str) -> Sequence[PendingBreakdown]:
        """Returns what may not be in the stored breakdowns of `key` (their stored key) yet. Raises as `pending`."""
        return [each for owner in self._owners() for each in owner.pending_breakdowns(key)]

    def numbered_breakdowns(self, key: str) -> Sequence[tuple[PendingBreakdown, int]]:
        """Returns the same as `numbered` does of counts."""
        pending = ((owner, each) for owner in self._owners() for each in owner.pending_breakdowns(key))
        return [(each, each.flush() or owner.next_flush) for owner, each in pending]

    def buffered_links(self) -> Iterable[dict[str, int]]:
        """Yields links with hits that may not be in the store yet, as `Owner.buffered_links` does."""
        return chain.from_iterable([owner.buffered_links() for owner in self._owners()])

    def buffered_beside(self, name_of: Callable[[str], str | None]) -> Iterable[dict[str, int]]:
        """Yields the same of rows beside links, as `Owner.buffered_beside` does."""
        return chain.from_iterable([owner.buffered_beside(name_of) for owner in self._owners()])

    @property
    def adopted(self) -> set[int]:
        """The numbers of the owners whose journals were orphaned."""
        return {owner.number for owner in self._shown()}

    @property
    def flushes(self) -> int:
        """A number that rises whenever a flush is complete."""
        return self._own.status.flushes + sum(journals.flushes for journals in self._orphaned)

    async def erased_here(self, *keys: str) -> None:
        """Hides what orphaned journals hold of rows (stored keys) that the own owner has erased."""
        for owner in self._adopted():
            await owner.hide_erased(*keys)

    async def hide_erased(self, *keys: str) -> None:
        """Hides what is held of rows (stored keys) that another worker has erased."""
        await self._own.hide_erased(*keys)
        await self.erased_here(*keys)

    @property
    def status(self) -> OwnerStatus:
        """The own owner's status, in which the hits of orphaned journals wait too."""
        status = self._own.status
        others = [owner.status for owner in self._adopted()]
        if not others:
            return status
        return replace(
            status,
            buffered_hits=status.buffered_hits + sum(each.buffered_hits for each in others),
            buffered_entries=status.buffered_entries + sum(each.buffered_entries for each in others),
            lag_s=max(status.lag_s, *(each.lag_s for each in others)),
            oldest_us=min((each.oldest_us for each in (status, *others) if each.oldest_us is not None), default=None),
        )
