"""The journal of a worker, and the orphaned ones that it empties: of its data folder, and of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from clickcurve.buckets.ladder import minutes_since
from ingest.buffer import Buffers
from ingest.journal.contract import Journal
from ingest.journal.disk_journal import DiskJournal
from ingest.journal.segment_format import NEW
from ingest.owner import Owner
from ingest.stamps import Slots, Stamps
from server import data_folder
from server.clock import TrustedClock
from server.process.cluster_owners import ClusterOwners
from server.process.jobs import DailyFold
from server.process.journals import MIB, is_alone, open_journal, open_owner, place_of, random_token
from server.settings.table import Settings
from server.workers.orphaned_journals import OrphanedJournals
from server.workers.unheld_journals import UnheldJournals
from storage.contract import Store


class OwnJournal:
    """The journal that a worker's hits go to, and the owner over it. `listening`: requests are answered.

    cluster: None if the journal is on a disk.
    """

    def __init__(
        self,
        settings: Settings,
        number: int,
        journal: Journal,
        store: Store,
        slots: Slots,
        trusted: TrustedClock,
        cluster: ClusterOwners | None = None,
    ) -> None:
        self.number, self.journal, self.cluster = number, journal, cluster
        self.listening = False
        self.clock = trusted
        self.stamps = Stamps(trusted.careful, slots, number - 1)
        self._settings, self._store = settings, store
        self.owner = self._open(journal, is_alone(settings, store))
        self.recovered = self.owner.status.buffered_hits  # that were found in it

    def _open(self, journal: Journal, alone: bool, buffers: Buffers | None = None) -> Owner:
        """Opens an owner over the own journal or an orphaned one. buffers: its hits, if they are read already."""
        if isinstance(journal, DiskJournal):
            place, token = place_of(journal), random_token
        else:
            assert self.cluster is not None
            place, token = self.cluster.place, self.cluster.token
        settings, store, served = self._settings, self._store, lambda: self.listening
        return open_owner(settings, journal, place, store, alone, self.clock, self.stamps, served, buffers, token)

    @property
    def is_judged(self) -> bool:
        """Whether the store has said that this journal may go on, or never saw it before."""
        if not isinstance(self.journal, DiskJournal):
            return True
        return self.owner.status.state != "unclaimed" or self.journal.found.identity == NEW.identity

    def in_cluster(self) -> dict[str, int]:
        """Returns which owner of the cluster it is, and in which epoch; nothing of a journal on a disk."""
        held = None if self.cluster is None or self.cluster.own is None else self.cluster.own.held
        return {} if held is None else {"owner": held.owner, "epoch": held.epoch}

    async def open_on_disk(self, number: int) -> Owner:
        """Opens the owner over orphaned journal `number` of the data folder. Raises JournalHeld, JournalDamaged."""
        return await self._open_orphan(await asyncio.to_thread(open_journal, self._settings, number))

    async def take_in_cluster(self, number: int) -> Owner:
        """Takes owner `number`, which nobody holds. Raises JournalHeld, JournalDamaged, StoreUnavailable."""
        assert self.cluster is not None
        return await self._open_orphan(await self.cluster.take_orphan(number))

    async def _open_orphan(self, journal: Journal) -> Owner:
        """Opens an owner over an orphaned journal, which is read in a thread: requests are answered meanwhile."""
        try:
            read = partial(Buffers, journal, minutes_since(int(self.clock.now())), self._settings.buffer_mib * MIB)
            return self._open(journal, False, await asyncio.to_thread(read))
        except BaseException:
            journal.close()
            raise


class Orphans:
    """What finds orphaned journals in the cluster and on the disk, each with what empties them.

    Where the worker's own is in the cluster, all on the disk are orphaned: the server had its journals there once.
    """

    def __init__(self, settings: Settings, own: OwnJournal, fold_day: Callable[[], int]) -> None:
        self._settings, self._own, self._fold_day = settings, own, fold_day
        self._found = [*self._all()]
        self.journals = [journals for _, journals in self._found]

    def _all(self) -> Iterator[tuple[ClusterOwners | UnheldJournals, OrphanedJournals]]:
        async def fold(orphan: Owner) -> None:
            await DailyFold(fold_day).visit(orphan)

        own, fold_day, workers = self._own, self._fold_day, self._settings.workers
        if own.cluster is not None:
            cluster, take = own.cluster, own.take_in_cluster
            yield cluster, OrphanedJournals(cluster.orphaned, take, cluster.quarantine, fold, fold_day)
            workers = 0
        on_disk = UnheldJournals(self._settings.data, own.number, workers)
        yield on_disk, OrphanedJournals(on_disk.orphaned, own.open_on_disk, on_disk.quarantine, fold, fold_day)

    async def take_up(self) -> None:
        for journals in self.journals:
            await journals.take_up()

    async def empty(self) -> None:
        for journals in self.journals:
            await journals.visit()

    async def adopt(self) -> None:
        """Empties the journals of workers that have died, as soon as no other worker goes on with them."""
        own = self._own
        if own.journal.must_flush:  # nothing is accepted until a flush has begun
            await own.owner.flush()
        if own.cluster is not None:
            await own.cluster.find_to_fold()
        for unheld, journals in self._found:
            if unheld.look():
                await journals.visit()

    async def release(self) -> None:
        for unheld, journals in self._found:
            await journals.release()
            unheld.close()

    def on_disk_quarantined(self) -> list[Path]:
        return data_folder.quarantined_journals(self._settings.data)

    def quarantined(self) -> int:
        """Returns how many journals nothing flushes."""
        in_cluster = 0 if self._own.cluster is None else self._own.cluster.quarantined
        return len(self.on_disk_quarantined()) + in_cluster
