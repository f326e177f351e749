"""A copy of the SQLite database that servers can use, made while other servers go on writing the original.

The copy is the database at one moment between two flushes of every owner. The state of its owners depends on what may
be used with it later:

- **A new journal** takes a number that the original never had. So the rows move to new numbers, whose owners are
  closed: the new journal takes one over, and its rows go on being folded and written as before. Only a retired owner
  stays retired, because it may have been lost in the middle of a flush.
- **The original's journal**, perhaps with hits that were never flushed. The old numbers stay, without rows, as COPIED,
  with epoch and holder as they were, and `begun` is the last flush that the copy includes. So a server can find out
  whether all that the journal holds is newer than the copy and counts under another number, or must be quarantined.
- **Imports** go on at the copy's positions: their sources belong to the closed owners, and any owner may take them.
- **`clickcurve copy`** finds the same notes here that it makes itself: which of the original's owners are in the copy.
  So it never counts both in one store.

Ids that were claimed by flushes that are not in the copy are left out: the hits that they stood for are not there.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import RowCorrupt, SettingInvalid, StoreUnavailable
from clickcurve.buckets.quarantine import is_row_damaged
from clickcurve.keys import ALL_LINKS
from storage.contract import CLOSED, COPIED, RETIRED, Source
from storage.rankings import JOINED
from storage.sqlite.file import NOTE, SqliteFile, new_draft, put_in_place, translate_errors
from storage.sqlite.wal import sign
from storage.tools.copy_owner import Progress, name_of_copy

PAGES_PER_STEP = 1_000
COPY = "copy"  # the holder of the owners that a copy begins with


@dataclass(frozen=True, slots=True)
class Included:
    """What a copy has of an owner: all flushes up to `mark`, and a part of flush `half`, if that is not None.

    A retired owner never ends that flush.
    """

    owner: int
    mark: int
    half: int | None
    retired: bool = False


def backup(
    path: Path,
    target: Path,
    *,
    partial: bool = False,
    without_notes: Sequence[str] = (),
    look_again: Callable[[list[Included], bool], bool] = lambda halves, written: False,
    on_progress: Callable[[int, int], object] = lambda pages, of: None,
) -> list[Included]:
    """Copies the database at `path` to `target`, whole or not at all, durably; returns what it has of each owner.

    Waits for owners in the middle of a flush: calls `look_again` with these, and with whether any process wrote since
    the last look; looks once more if that returns True. If it returns False, `partial` copies all the same: then the
    links of that flush may include it, and the row of all links does not. Without `partial` raises StoreUnavailable.
    without_notes: how names of notes begin that it does not have. Calls `on_progress` with the pages copied and
    the pages in all.
    Raises SettingInvalid if the target exists, StoreMismatch, StoreUnavailable.
    """
    if target.exists():
        raise SettingInvalid(f"{target} exists; a backup never writes over anything", field="target", value=str(target))
    file = SqliteFile(path, ladder=None)
    with translate_errors(path), file.opened(read_only=True) as db:
        versions = -1, -1
        while True:
            db.execute("BEGIN")  # so that what is copied is what was looked at, whatever is written meanwhile
            included = [_included(db, *record) for record in _owners_with_rows(db)]
            halves = [one for one in included if one.half is not None and not one.retired]
            (seen,) = db.execute("PRAGMA data_version").fetchone()
            versions = versions[1], seen
            if not halves:
                break
            if not look_again(halves, versions[0] != seen):
                if partial:
                    break
                which = ", ".join(f"owner {one.owner} in flush {one.half}" for one in halves)
                raise StoreUnavailable(f"a flush is under way, and a copy would have a part of it: {which}")
            db.execute("ROLLBACK")
        with translate_errors(target):
            draft = new_draft(target)
            try:
                with closing(sqlite3.connect(draft)) as copy:
                    copy.execute("PRAGMA synchronous = OFF")  # it is synced as a whole at the end
                    db.backup(
                        copy, pages=PAGES_PER_STEP, progress=lambda _, left, pages: on_progress(pages - left, pages)
                    )
                _become_a_copy(draft, included, without_notes)
                put_in_place(draft, target)
            finally:
                draft.unlink(missing_ok=True)
    return included


def _owners_with_rows(db: sqlite3.Connection) -> list[tuple[int, int, bool]]:
    """Returns the owners that may have rows: number, `begun`, whether retired. COPIED owners have none."""
    query = "SELECT owner, begun, state = ? FROM owners WHERE state <> ? ORDER BY owner"
    return [(owner, begun, bool(retired)) for owner, begun, retired in db.execute(query, (RETIRED, COPIED))]


def _included(db: sqlite3.Connection, owner: int, begun: int, retired: bool) -> Included:
    """Reads the marks of an owner's rows.

    Every flush ends with the row of all links: so a row with a higher mark is of a flush that is under way. Only where
    that row is damaged, flushes end without it: then the highest mark tells what the copy has.
    """
    row_of_all = db.execute("SELECT data FROM rows WHERE key = ? AND owner = ?", (ALL_LINKS, owner)).fetchone()
    mark = _mark(row_of_all[0]) if row_of_all is not None else 0
    if mark == begun:
        return Included(owner, mark, None, retired)
    marks = (_mark(data) for (data,) in db.execute("SELECT data FROM rows WHERE owner = ?", (owner,)))
    others = (other for other in marks if mark < other <= begun)
    half = max(others, default=None) if row_of_all is not None and is_row_damaged(row_of_all[0]) else next(others, None)
    return Included(owner, mark, half, retired)


def _mark(data: bytes) -> int:
    try:
        return decode_header(data).mark
    except RowCorrupt:
        return 0  # a corrupt row is for `verify` to report; it is copied as it is


def _become_a_copy(draft: Path, included: list[Included], without_notes: Sequence[str]) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        (highest,) = db.execute("SELECT coalesce(max(owner), 0) FROM owners").fetchone()
        (original,) = db.execute("SELECT value FROM meta WHERE name = 'uuid'").fetchone()
        for one in included:
            old, new, begun = one.owner, one.owner + highest, one.half or one.mark
            db.execute(
                "INSERT INTO owners (owner, epoch, holder, journal, place, state, begun, begun_at)"
                " SELECT ?, epoch, ?, '', place, ?, ?, begun_at FROM owners WHERE owner = ?",
                (new, COPY, RETIRED if one.retired else CLOSED, begun, old),
            )
            db.execute("UPDATE owners SET state = ?, begun = ? WHERE owner = ?", (COPIED, begun, old))
            db.execute("DELETE FROM ids WHERE owner = ? AND flush > ?", (old, begun))
            db.execute("UPDATE sources SET owner = ? WHERE owner = ?", (new, old))
            (epoch,) = db.execute("SELECT epoch FROM owners WHERE owner = ?", (old,)).fetchone()
            whole = Source(new, 1, Progress(epoch, begun, whole=True).text(), epoch)
            db.execute(
                "INSERT INTO sources (source, owner, position, tail, epoch) VALUES (?, ?, ?, ?, ?)",
                (name_of_copy(original, old), *astuple(whole)),
            )
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('rows', 'leaders', 'bars')"
        for (table,) in db.execute(tables).fetchall():  # the first schema has rows alone
            db.execute(f"UPDATE {table} SET owner = owner + ? WHERE owner <> {JOINED}", (highest,))
        new_uuid = str(uuid.uuid4())
        db.execute("UPDATE meta SET value = ? WHERE name = 'uuid'", (new_uuid,))
        db.execute("PRAGMA secure_delete = 1")
        for prefix in without_notes:
            db.execute("DELETE FROM meta WHERE substr(name, 1, ?) = ?", (len(NOTE + prefix), NOTE + prefix))
        sign(db, new_uuid)
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")
