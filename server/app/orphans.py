"""The orphaned journals that a worker empties: of its data folder, and of the cluster if its own is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ingest.owner import Owner
from server import data_folder
from server.app.own_journal import OwnJournal
from server.process.cluster_owners import ClusterOwners
from server.process.jobs import DailyFold
from server.settings.table import Settings
from server.workers.orphaned_journals import OrphanedJournals
from server.workers.unheld_journals import UnheldJournals


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
