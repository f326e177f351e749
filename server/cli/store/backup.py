"""`clickcurve backup | restore`: a copy of the SQLite database that serves, and its way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid
from ingest.claim_table import Action, Claimant, Holds, choose_number, what_it_holds
from server import clock, data_folder
from server.app.note_spaces import NOT_IN_BACKUPS
from server.cli.options import with_settings
from server.cli.output import ProgressLine, Result, progress, reports
from server.cli.store.inspect import require_database
from server.process.journals import open_journal
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from server.tokens.audit import PROMPT, AuditLog
from storage.contract import OwnerRecord
from storage.from_uri import open_store
from storage.sqlite.backup import Included, backup
from storage.sqlite.restore import Restored, restore

LOOK_S = 0.1
QUIET_S = 10  # nothing was written for so long: the flush that is under way has no process
LONGEST_S = 600  # for one flush, where others write: four million counts take a few minutes


@reports("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--partial", is_flag=True, help="Copy even if an unfinished flush is under way that never ends.")
@with_settings("data", "store", "config")
def backup_command(settings: Settings, file: Path, partial: bool) -> Result:
    """Copy the SQLite database to FILE while a server goes on writing it.

    The copy is a complete database between two flushes: the command waits for a flush that is under way. Hits that were
    not flushed are in the journal, not in the copy. FILE must not exist; only you can read it (mode 0600). `clickcurve
    restore FILE` puts it in place. Never copy it over a database by hand: a killed server may have left a write-ahead
    log there, which belongs to the old database.

    \b
    Examples:
      clickcurve backup /backup/monday.db
      clickcurve verify --store sqlite:////backup/monday.db
    """
    path = _database(settings, "backup")
    require_database(settings.store)
    waiting = FlushWait(clock.monotonic, clock.pause)
    with ProgressLine("copied", "pages") as line:
        included = backup(
            path,
            file,
            partial=partial,
            without_notes=NOT_IN_BACKUPS,
            look_again=waiting.look_again,
            on_progress=line.show,
        )
    size = file.stat().st_size
    owners = f"{len(included)} owner{'' if len(included) == 1 else 's'}"
    object_ = {"file": str(file), "bytes": size, "owners": [asdict(owner) for owner in included]}
    return Result([f"{file}: {size:,} bytes, all flushes of {owners} so far"], [object_])


class FlushWait:
    """The patience of a backup with flushes that are under way: as long as somebody may finish them."""

    def __init__(self, now: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._now, self._pause = now, pause
        self._flushes: list[tuple[int, int | None]] = []
        self._since = self._written_at = now()

    def look_again(self, halves: list[Included], written: bool) -> bool:
        now = self._now()
        flushes = [(one.owner, one.half) for one in halves]
        if flushes != self._flushes:
            self._flushes, self._since = flushes, now
        if written:
            self._written_at = now
        if now - self._written_at > QUIET_S or now - self._since > LONGEST_S:
            return False
        owners = ", ".join(str(owner) for owner, _ in flushes)
        progress(f"waiting for the flush of owner {owners}, {now - self._since:.0f} s")
        self._pause(LOOK_S)
        return True


@reports("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@with_settings("data", "store", "ladder", "config")
def restore_command(settings: Settings, file: Path) -> Result:
    """Replace the SQLite database by the backup FILE. No server may hold the data folder.

    FILE is checked first, and copied. The old database is kept under another name, with its write-ahead log; it has
    what was stored after the backup. Journals stay as they are. Hits in a journal that were not stored yet count at
    the next start, unless they may be in the backup already; the output says which. Tokens and shares are those of the
    backup: revoke again what was revoked since. If the command was interrupted, run it again.

    \b
    Examples:
      clickcurve restore /backup/monday.db
      clickcurve restore /backup/monday.db --data /var/lib/clickcurve
      clickcurve restore /backup/monday.db --store sqlite:////srv/clickcurve.db
    """
    path = _database(settings, "restore")
    with data_folder.held(settings.data, settings.store, "clickcurve restore"):
        with ProgressLine("copied", "pages") as line:
            restored = restore(file, path, settings.ladder, line.show)
        with closing(open_store(settings.store, settings.ladder)) as store:
            owners = store.owners()
            AuditLog(store, open_clock(settings).now).note(PROMPT, "restored", str(file))
        journals = [_outlook(settings, number, owners) for number in data_folder.journal_numbers(settings.data)]
    object_ = {
        "file": str(file),
        "database": str(path),
        "bytes": restored.size,
        "moved_to": [str(name) for name in restored.moved],
        "journals": [asdict(journal) for journal in journals],
    }
    return Result(_restored_lines(file, path, restored, journals), [object_])


def _database(settings: Settings, what: str) -> Path:
    """Returns the file of an SQLite store. Raises SettingInvalid for any other store."""
    scheme, _, path = settings.store.partition(":///")
    if scheme != "sqlite" or not path:
        raise SettingInvalid(
            f"{what} is for SQLite databases; {settings.store} is something else", field="store", value=settings.store
        )
    return Path(path)


@dataclass(frozen=True, slots=True)
class JournalOutlook:
    """What the next start does with a journal beside the restored database: nothing, count, quarantined or damaged."""

    journal: str
    then: str
    sentence: str


def _outlook(settings: Settings, number: int, owners: list[OwnerRecord]) -> JournalOutlook:
    name = data_folder.journal_folder(settings.data, number).name
    try:
        with closing(open_journal(settings, number)) as journal:
            holds = what_it_holds(journal)
            action, _ = choose_number(Claimant.of(journal.name, journal.state), owners, holds)
    except ClickcurveError as error:
        return JournalOutlook(name, "damaged", f"cannot be read: {error.detail}")
    if action is Action.QUARANTINE:
        reason = (
            "it holds hits that may be in the backup already, so the next start quarantines it and counts none of them"
        )
        return JournalOutlook(name, "set aside", reason)
    if holds == {Holds.NOTHING}:
        return JournalOutlook(name, "nothing", "it holds no hits")
    return JournalOutlook(name, "count", "it holds hits that are not in the backup; the next start counts them")


def _restored_lines(file: Path, path: Path, restored: Restored, journals: list[JournalOutlook]) -> Iterator[str]:
    yield f"{path}: restored from {file}, {restored.size:,} bytes"
    yield "tokens and shares are those of the backup: revoke again what was revoked since"
    if restored.moved:
        yield f"what was there is now {', '.join(map(str, restored.moved))}"
        if len(restored.moved) == 1:
            yield "  hits that were stored after the backup was made are there only"
        else:
            yield "  SQLite could not make that one database: hits that were stored after the backup may be lost"
    for journal in journals:
        yield f"{journal.journal}: {journal.sentence}"
