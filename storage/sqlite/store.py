"""The embedded store: one SQLite file that several processes of one machine may write, each as an owner of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import astuple
from functools import partial
from pathlib import Path

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.upper_bounds import UpperBounds
from clickcurve.keys import counts_key
from storage.contract import (
    FoundLinks,
    Held,
    OwnerRecord,
    OwnRow,
    Save,
    SavedRow,
    Source,
    Store,
    StoredLink,
    StoredRow,
    first_after,
)
from storage.first_use import FirstUse, Later
from storage.journals import Journals
from storage.owners import begun, check_fence, claimed, closed, source_claimed, source_moved
from storage.sqlite import tables
from storage.sqlite.candidates import COLUMNS, bounds_of_candidates, owner_cutoffs, ranked_prefixes, save_candidates
from storage.sqlite.connections import Connections
from storage.sqlite.file import NOTE, translate_errors, unavailable
from storage.sqlite.rankings import SqliteRankings
from storage.view import View

IDS_PER_TRANSACTION = 1_000
IDS_PER_FORGETTING = 5_000

_OWN = (
    f"SELECT key, data, {COLUMNS} FROM rows LEFT JOIN"
    f" (SELECT key, owner, {COLUMNS} FROM leaders WHERE ranking = (SELECT id FROM rankings WHERE prefix = ''))"
    " USING (key, owner)"
    f" WHERE key IN {tables.MANY} AND owner = ?"
)

_CLAIMS = f"SELECT id, owner, flush, at_us FROM ids WHERE id IN {tables.MANY}"
_CLAIMED = f"SELECT DISTINCT id FROM ids WHERE id IN {tables.MANY} AND at_us >= ?"

# One statement, so that rows and erasure come from one view; no owner has the number -1.
_LINK = "SELECT owner, data FROM rows WHERE key = ? UNION ALL SELECT -1, at_us FROM erased WHERE key = ?"
_IDS = "SELECT id, max(at_us) FROM ids WHERE id >= ? GROUP BY id ORDER BY id LIMIT ?"
_DUE = "SELECT key FROM rows WHERE key >= ? AND owner = ? AND due_day <= ? ORDER BY key LIMIT ?"


class SqliteStore(SqliteRankings, Store):
    shared = False
    replay_us: int | None = None
    links_per_load = 100  # in some 0.4 ms: a request that wakes the loop may not get Python's lock meanwhile

    def __init__(
        self, path: Path, ladder: Ladder | None, *, read_only: bool = False, later: Later | None = None
    ) -> None:
        """Opens the database, or makes it unless `read_only`. `ladder` None: its own, of a new one the default.

        Raises StoreUnavailable (no such folder, no rights, disk full) unless there is `later`: then the database is
        opened on first use. Raises StoreMismatch (another schema, ladder or program). A read-only store changes nothing
        and raises StoreUnavailable for all that would.
        """
        connect = partial(Connections, path, ladder, read_only=read_only)
        self._connections = FirstUse(connect, later)
        self._known = {}

    def uuid(self) -> str:
        with self._connections.open().on_worker() as db:
            return str(db.execute("SELECT value FROM meta WHERE name = 'uuid'").fetchone()[0])

    def ladder(self) -> Ladder:
        return self._connections.opened().file.ladder

    # --- owners ---------------------------------------------------------------------------------------------------
    def owners(self) -> list[OwnerRecord]:
        with self._connections.open().on_worker() as db:
            return tables.owner_records(db)

    def owner(self, owner: int) -> OwnerRecord | None:
        with self._connections.open().on_worker() as db:
            return tables.owner_record(db, owner)

    def create_owner(self, record: OwnerRecord) -> bool:
        with self._connections.open().transaction() as db:
            db.execute("INSERT OR IGNORE INTO owners VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(record))
            return tables.owner_record(db, record.owner) == record

    def claim(self, before: OwnerRecord, after: OwnerRecord, *, rewrites: bool = False) -> bool:
        return self._change(before.owner, lambda stored: claimed(stored, before, after, rewrites))

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        return self._change(held.owner, lambda stored: begun(stored, held, previous, flush, at))

    def close_owner(self, held: Held) -> bool:
        return self._change(held.owner, lambda stored: closed(stored, held))

    def journals(self) -> Journals:
        raise SettingInvalid(
            "a SQLite store keeps no journals: they lie on this machine's disk, as the store does", field="journal"
        )

    def _change(self, owner: int, change: Callable[[OwnerRecord | None], OwnerRecord | None]) -> bool:
        with self._connections.open().transaction() as db:
            stored = tables.owner_record(db, owner)
            after = change(stored)
            if after is not None and after != stored:
                db.execute("REPLACE INTO owners VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(after))
            return after is not None

    # --- a flush --------------------------------------------------------------------------------------------------
    def claim_ids(self, held: Held, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        taken: set[str] = set()
        for some in tables.slices(sorted(ids), IDS_PER_TRANSACTION):
            with self._connections.open().transaction() as db:
                check_fence(held, flush, tables.owner_record(db, held.owner))
                mine, others = set(), set()
                for id_, owner, number, at_us in tables.each_of(db, _CLAIMS, some):
                    if (owner, number) == (held.owner, flush):
                        mine.add(id_)
                    elif abs(at_us - ids[id_]) <= window_us:
                        others.add(id_)
                others -= mine
                new = ((id_, held.owner, flush, ids[id_]) for id_ in some if id_ not in others)
                db.executemany("INSERT OR IGNORE INTO ids VALUES (?, ?, ?, ?)", new)
            taken |= others
        return taken

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        with self._connections.open().on_worker() as db:
            db.execute("BEGIN")  # rows and erasures from one view
            erased = tables.erasures_of(db, keys)
            own = {
                key: OwnRow(data, erased.pop(key, 0), None if last is None else (last, *bounds))
                for key, data, last, *bounds in tables.each_of(db, _OWN, keys, owner)
            }
        own.update((key, OwnRow(None, at_us)) for key, at_us in erased.items())
        return own

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        self._save(held, flush, rows, sources, synced=True)

    def _save(
        self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source], *, synced: bool
    ) -> None:
        with self._connections.open().transaction(synced=synced) as db:
            check_fence(held, flush, tables.owner_record(db, held.owner))
            tables.save_rows(db, held.owner, rows)
            save_candidates(db, held.owner, rows, self._known.get(held.owner), self.ladder())
            for name, source in sources.items():
                tables.put_source(db, name, source_moved(tables.source_of(db, name), held, source))

    def save_together(self, saves: Sequence[tuple[Held, int, Mapping[str, SavedRow]]]) -> None:
        with self._connections.open().transaction() as db:
            for held, flush, rows in saves:
                check_fence(held, flush, tables.owner_record(db, held.owner))
                tables.save_rows(db, held.owner, rows)
            for held, _, rows in saves:  # a link some hits of which are called bots is ranked by all its rows
                save_candidates(db, held.owner, rows, self._known.get(held.owner), self.ladder())

    def saving(self, held: Held, flush: int) -> AbstractContextManager[Save]:
        return nullcontext(lambda rows: self._save(held, flush, rows, {}, synced=False))

    # --- erasing, ids, sources ------------------------------------------------------------------------------------
    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str] = ()) -> None:
        with self._connections.open().transaction() as db:
            db.executemany(
                "INSERT INTO erased VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at_us = max(at_us, excluded.at_us)",
                [(counts_key(key), at_us) for key in (*keys, *last)],
            )

    def newest_erasure(self) -> int:
        with self._connections.open().on_worker() as db:
            return int(db.execute("SELECT coalesce(max(at_us), 0) FROM erased").fetchone()[0])

    def forget_bytes(self) -> None:
        self._connections.open().forget_bytes()

    def forget_ids(self, before_us: int) -> None:
        first: str | None = ""
        while first is not None:  # in steps, so that other writers get their turn
            with self._connections.open().transaction() as db:
                edge = "SELECT id FROM ids WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
                (last,) = db.execute(edge, (first, IDS_PER_FORGETTING)).fetchone() or (None,)
                db.execute(
                    "DELETE FROM ids WHERE id >= :first AND (:last IS NULL OR id < :last) AND at_us < :before_us",
                    {"first": first, "last": last, "before_us": before_us},
                )
            first = last

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        with self._connections.open().transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (NOTE + name, value))
            return str(tables.noted_in(db, name))

    def change_note(self, name: str, before: str, after: str) -> str | None:
        with self._connections.open().transaction() as db:
            db.execute("UPDATE meta SET value = ? WHERE name = ? AND value = ?", (after, NOTE + name, before))
            return tables.noted_in(db, name)

    def drop_notes(self, names: Sequence[str]) -> None:
        with self._connections.open().transaction() as db:
            db.executemany("DELETE FROM meta WHERE name = ?", [(NOTE + name,) for name in names])

    def notes(self, prefix: str = "") -> dict[str, str]:
        with self._connections.open().on_worker() as db:
            return tables.notes_of(db, prefix)

    def noted(self, name: str) -> str | None:
        with self._connections.open().on_worker() as db:
            return tables.noted_in(db, name)

    def source(self, source: str) -> Source | None:
        with self._connections.open().on_worker() as db:
            return tables.source_of(db, source)

    def claim_source(self, source: str, held: Held, before: Source | None) -> bool:
        with self._connections.open().transaction() as db:
            after = source_claimed(tables.source_of(db, source), held, before)
            tables.put_source(db, source, after)
            return after is not None

    # --- reading --------------------------------------------------------------------------------------------------
    async def rows(self, key: str) -> StoredLink:
        opened = self._connections.opened()
        if not opened.file.in_place:  # a write has found out; looking each time would cost a fifth of the read
            opened.file.check_in_place()
        try:
            rows = opened.reader.execute(_LINK, (key, counts_key(key))).fetchall()
        except sqlite3.Error as error:
            raise unavailable(opened.file.path, error) from error
        erased_at = 0
        if rows and rows[-1][0] == -1:
            erased_at = rows.pop()[1]
        return StoredLink(erased_at, tuple([StoredRow(owner, data) for owner, data in rows]))

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        opened = self._connections.opened()
        claimed: set[str] = set()
        for some in tables.slices(ids, tables.KEYS_PER_QUERY):
            with translate_errors(opened.file.path):
                claimed.update(id_ for (id_,) in tables.each_of(opened.reader, _CLAIMED, some, since_us))
            await asyncio.sleep(0)
        return claimed

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        with self._connections.open().on_scanner() as db:
            return [key for (key,) in db.execute(_DUE, (first_after(after), owner, fold_day, limit))]

    def in_order(self, start: str, limit: int) -> list[tuple[str, StoredLink]]:
        with self._connections.open().on_scanner() as db:
            return tables.walk_counts(db, start, limit)

    def containing(self, text: str, start: str, limit: int, most: int, prefix: str) -> FoundLinks:
        wanted = text.encode().lower().decode()
        keys: list[str] = []
        at = start
        last: str | None = start
        while last is not None and len(keys) < limit and most > 0:
            with self._connections.open().on_scanner() as db:  # in steps, so that other walks get their turn
                some, last = tables.keys_containing(db, wanted, at, min(most, tables.KEYS_PER_LOOK), prefix)
            keys += some
            most -= tables.KEYS_PER_LOOK
            at = f"{last}\0"
        with self._connections.open().on_scanner() as db:
            links = tables.links_of(db, keys[:limit])
        links_with_rows = [(key, links[key]) for key in keys[:limit] if links[key].rows]
        return FoundLinks(links_with_rows, last if len(keys) < limit else keys[limit - 1])

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        with self._connections.open().on_scanner() as db:
            return {key: link for key, link in tables.links_of(db, keys).items() if link.rows}

    @contextmanager
    def view(self) -> Iterator[SqliteView]:
        file = self._connections.open().file
        with translate_errors(file.path):
            db = file.connect(read_only=True)
        try:
            with translate_errors(file.path):
                db.execute("BEGIN")
                db.execute("SELECT count(*) FROM meta").fetchone()  # the view is of this moment, not of the first use
            yield SqliteView(file.path, db)
        finally:
            db.close()

    def close(self) -> None:
        self._connections.close()


class SqliteView(View):
    """The database at one moment, on a connection of its own."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db

    def owners(self) -> list[OwnerRecord]:
        with translate_errors(self._path):
            return tables.owner_records(self._db)

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        with translate_errors(self._path):
            return tables.walk(self._db, first_after(after), limit)

    def count_rows(self, breakdowns: bool) -> int:
        with translate_errors(self._path):
            return tables.count_rows(self._db, breakdowns)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        with translate_errors(self._path):
            return tables.links_of(self._db, keys)

    def ranked_prefixes(self) -> list[str]:
        with translate_errors(self._path):
            return [prefix for prefix, _ in ranked_prefixes(self._db)]

    def upper_bounds(self, keys: Sequence[str], prefix: str) -> dict[tuple[str, int], UpperBounds]:
        with translate_errors(self._path):
            return bounds_of_candidates(self._db, dict(ranked_prefixes(self._db))[prefix], keys)

    def ranked_cutoffs(self, owner: int, prefix: str) -> Cutoffs:
        with translate_errors(self._path):
            return owner_cutoffs(self._db, dict(ranked_prefixes(self._db))[prefix], owner)

    def notes(self) -> dict[str, str]:
        with translate_errors(self._path):
            return tables.notes_of(self._db)

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        with translate_errors(self._path):
            return self._db.execute(_IDS, (first_after(after), limit)).fetchall()

    def sources(self) -> dict[str, Source]:
        with translate_errors(self._path):
            rows = self._db.execute("SELECT source, owner, position, tail, epoch FROM sources")
            return {name: Source(*source) for name, *source in rows}
