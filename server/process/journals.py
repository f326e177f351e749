"""Opens the journals of a data folder, and owners over them."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path

from clickcurve.buckets.errors import ClickcurveError, JournalDamaged, JournalHeld
from ingest.buffer import Buffers
from ingest.flush import Pace
from ingest.journal.contract import Journal
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from ingest.owner_status import OwnerStatus
from ingest.stamps import Stamps
from server import clock, data_folder
from server.clock import TrustedClock
from server.corrections.rules import DisavowBook
from server.logs import log
from server.settings.table import Settings
from storage.contract import OPEN, OwnerRecord, Store
from storage.erased_words import ErasureBook, KnownWords
from storage.from_uri import open_store
from storage.joined_rows import finish_joins
from storage.sqlite.file import flush_bytes

MIB = 1024 * 1024
LONG_SHARE = 0.8  # of the flush interval, from which on a flush is warned of


def take_journal(settings: Settings) -> tuple[int, DiskJournal]:
    """Opens the first of the workers' journals that no process holds. Returns its number too.

    Raises JournalHeld, JournalDamaged, JournalFull.
    """
    for number in 2 * [*range(1, settings.workers + 1)]:  # twice: another worker may have looked whether one is held
        with suppress(JournalHeld):
            return number, open_journal(settings, number)
    raise JournalHeld(f"all {settings.workers} journals in {settings.data} are held by other processes")


def make_give_way(settings: Settings, journal: DiskJournal) -> Path:
    """Puts a new journal in the place of this one, which is orphaned from then on; returns its new folder.

    Raises JournalFull or JournalBroken, and changes nothing, if the disk does not take a new one.
    """
    draft = data_folder.draft_of(journal.folder)
    _open(settings, draft).close()
    number = data_folder.give_way(journal.folder, settings.workers)
    with suppress(OSError):  # another worker that is starting has made one there
        draft.rename(journal.folder)
    return data_folder.journal_folder(settings.data, number)


def open_journal(settings: Settings, number: int) -> DiskJournal:
    return _open(settings, data_folder.journal_folder(settings.data, number))


def _open(settings: Settings, folder: Path) -> DiskJournal:
    return DiskJournal(
        folder,
        max_bytes=settings.journal_mib * MIB,
        sync="always" if settings.sync else "off",
        timer=clock.monotonic,
        stall_s=settings.journal_stall_s,
        flush_bytes=_flush_bytes(settings),
    )


def _flush_bytes(settings: Settings) -> Callable[[int], int] | None:
    """Returns how much room a flush needs on the journal's disk, if the store is a file there.

    All workers of the folder may hold as much as the one that asks.
    """
    scheme, _, path = settings.store.partition(":///")
    database = Path(path)
    if scheme != "sqlite" or not database.parent.is_dir():
        return None
    if database.parent.stat().st_dev != settings.data.stat().st_dev:
        return None
    return lambda journal_bytes: flush_bytes(database, journal_bytes * settings.workers)


def is_alone(settings: Settings, store: Store) -> bool:
    """Returns whether no other journal's hits could carry the same ids. Then an id is judged when it comes."""
    if store.shared or settings.workers > 1:
        return False
    numbers = data_folder.journal_numbers(settings.data)
    try:
        return not any(_holds_hits(settings, number) for number in numbers if number > settings.workers)
    except JournalDamaged:
        return False  # nobody knows what it holds; the job that empties them names it


def _holds_hits(settings: Settings, number: int) -> bool:
    """Returns whether journal `number` holds anything that is not in the store. Raises JournalHeld, JournalDamaged."""
    with closing(open_journal(settings, number)) as journal:
        return journal.state.flush is not None or next(journal.frames(), None) is not None


def learn_flushes(trusted: TrustedClock, store: Store, owner: int) -> None:
    """Tells the clock, before the owner is claimed, when that and other machines flushed. Raises StoreUnavailable."""
    own = store.owner(owner) if owner else None
    newest = own.begun_at if own is not None else 0
    if own is None and not store.shared:  # a new journal beside an old database
        newest = max((each.begun_at for each in store.owners()), default=0)
    if newest:
        trusted.learn_flush(newest)
    if store.shared and trusted.status().folding_held:  # else the others say nothing new, and reading all takes
        trusted.learn_others(flushes_elsewhere(store.owners()))  # 20 s where a node has just begun to stand still


def flushes_elsewhere(owners: Iterable[OwnerRecord]) -> list[int]:
    """Returns when the owners of other machines began their last flushes."""
    here = f"{socket.gethostname()}:"
    return [each.begun_at for each in owners if each.state == OPEN and not each.place.startswith(here)]


def random_token() -> str:
    return secrets.token_hex(16)


def place_of(journal: DiskJournal) -> str:
    """Returns where a journal is, for people."""
    return f"{socket.gethostname()}:{journal.folder.absolute()}"


def open_owner(
    settings: Settings,
    journal: Journal,
    place: str,
    store: Store,
    alone: bool,
    trusted: TrustedClock,
    stamps: Stamps | None = None,
    served: Callable[[], bool] = lambda: False,
    buffers: Buffers | None = None,
    token: Callable[[], str] = random_token,
) -> Owner:
    """Opens an owner over a journal, with the journal's hits in its buffer. Needs a running event loop.

    served: whether requests are answered meanwhile, so that flushes make room for them. buffers: the journal's hits, if
    they are read already. token: names the claims of this process.
    """
    logged: set[str] = set()

    def damaged(key: str, error: ClickcurveError) -> None:
        if key not in logged:
            logged.add(key)
            row = {"key": key, "owner": journal.state.identity.owner, "reason": error.detail}
            log.error("damaged row", extra={**row, "then": "its hits are quarantined; see `clickcurve repair`"})

    return Owner(
        journal,
        store,
        trusted.now,
        token=token,
        pace=Pace(clock.monotonic, settings.flush_s, served),
        place=place,
        alone=alone,
        buffer_bytes=settings.buffer_mib * MIB,
        buffers=buffers,
        stamps=stamps,
        flushed=FlushLog(Path(place).name, settings.flush_s),
        unreadable=damaged,
        bounded=settings.bounded,
        erased_words=partial(KnownWords(ErasureBook(store)).read, trusted.careful),
        careful=trusted.careful,
        running=clock.running,
        finish=lambda held: finish_joins(store, held, settings.bounded),
        late=DisavowBook(store).unsettle_since,
    )


class FlushLog:
    """Logs the flushes of a journal, and warns when they begin to take nearly all of their interval."""

    def __init__(self, journal: str, flush_s: float) -> None:
        self._journal, self._flush_s = journal, flush_s
        self._was_long = False

    def __call__(self, status: OwnerStatus) -> None:
        """Logs a flush that the store took."""
        log.info(
            "flush",
            extra={
                "journal": self._journal,
                "owner": status.owner,
                "hits": status.last_flush_hits,
                "rows": status.last_flush_rows,
                "seconds": round(status.last_flush_s, 3),
                "journal_bytes": status.journal_bytes,
            },
        )
        share = status.last_flush_s / self._flush_s
        if share > LONG_SHARE and not self._was_long:
            seconds = {"seconds": round(status.last_flush_s, 3), "flush_s": self._flush_s}
            then = "hits wait longer for the store; fewer links a machine, or a longer flush_s, end that"
            log.warning(
                "long flush", extra={"journal": self._journal, **seconds, "rows": status.last_flush_rows, "then": then}
            )
        self._was_long = share > LONG_SHARE


@asynccontextmanager
async def owning(settings: Settings, number: int, trusted: TrustedClock) -> AsyncIterator[tuple[Owner, Store]]:
    """Opens the owner of journal `number` for a command, with its store; flushes as the block begins and ends.

    The caller holds the data folder. Raises ClickcurveError, StoreUnavailable too: a command accepts no hits meanwhile.
    """
    store = open_store(settings.store, settings.ladder)
    journal = open_journal(settings, number)
    owner = open_owner(settings, journal, place_of(journal), store, alone=False, trusted=trusted)
    try:
        await asyncio.to_thread(learn_flushes, trusted, store, owner.number)
        await owner.flush()  # claims the owner: imports ask the store for their offset
        yield owner, store
    finally:
        try:
            await owner.close()
        finally:
            store.close()
