"""SQLite as many shorteners use it: a row for each hit with an index, or a counter for each link and hour."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from bench.peers.engines.engine import filled, lines_of

HOUR_S = 3_600
BATCH = 100_000


class _Sqlite:
    schema: str

    def __init__(self, folder: str) -> None:
        self._db = sqlite3.connect(f"{folder}/hits.db", isolation_level=None)
        self._db.executescript(
            f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536; {self.schema}"
        )
        self._links: dict[str, int] = dict(self._db.execute("SELECT key, id FROM links"))

    def version(self) -> str:
        return sqlite3.sqlite_version

    def settle(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _link(self, key: str) -> int:
        found = self._links.get(key)
        if found is None:
            found = len(self._links) + 1
            self._db.execute("INSERT INTO links VALUES (?, ?)", (found, key))
            self._links[key] = found
        return found

    def _asked(self, select: str, start: int, end: int, step_s: int) -> list[int]:
        return filled(self._db.execute(select).fetchall(), (end - start) // step_s)


class Rows(_Sqlite):
    """A row for each hit; the index holds all that is asked."""

    schema = """
        CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE IF NOT EXISTS hits (link INTEGER NOT NULL, ts INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS by_link ON hits (link, ts);"""

    def load(self, raw: str, summed: str) -> None:
        del summed
        self._db.executescript("DROP INDEX by_link")
        lines = lines_of(raw)
        while some := list(islice(lines, BATCH)):
            self._db.execute("BEGIN")
            rows = [(self._link(key), int(ts)) for key, ts in some]
            self._db.executemany("INSERT INTO hits VALUES (?, ?)", rows)
            self._db.execute("COMMIT")
        self._db.executescript(self.schema)

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        link = self._links.get(key, 0)
        where = f"FROM hits WHERE link = {link} AND ts >= {start} AND ts < {end}"
        if end - start == step_s:
            return [self._db.execute(f"SELECT count(*) {where}").fetchone()[0]]
        return self._asked(f"SELECT (ts - {start}) / {step_s}, count(*) {where} GROUP BY 1", start, end, step_s)

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        sums = f"SELECT link, count(*) AS n FROM hits WHERE ts >= {since} AND ts < {until} GROUP BY link"
        best = f"SELECT key, n FROM ({sums}) JOIN links ON links.id = link ORDER BY n DESC, key LIMIT {most}"
        return self._db.execute(best).fetchall()

    def add(self, key: str, ts: int) -> None:
        self.add_many([key], [ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO hits VALUES (?, ?)", list(zip(map(self._link, keys), moments, strict=True)))
        self._db.execute("COMMIT")

    def counted(self) -> int | None:
        found: int = self._db.execute("SELECT count(*) FROM hits").fetchone()[0]
        return found


class Hours(_Sqlite):
    """A counter for each link and hour, raised by upsert; minutes are not kept."""

    schema = """
        CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE IF NOT EXISTS hours
            (link INTEGER, hour INTEGER, n INTEGER, PRIMARY KEY (link, hour)) WITHOUT ROWID;"""

    def load(self, raw: str, summed: str) -> None:
        del summed
        lines = lines_of(raw)
        while some := list(islice(lines, BATCH)):
            self.add_many([key for key, _ in some], [int(ts) for _, ts in some])

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        if step_s < HOUR_S:
            return None
        first, last, hours = start // HOUR_S, end // HOUR_S, step_s // HOUR_S
        where = f"FROM hours WHERE link = {self._links.get(key, 0)} AND hour >= {first} AND hour < {last}"
        if end - start == step_s:
            return [self._db.execute(f"SELECT coalesce(sum(n), 0) {where}").fetchone()[0]]
        return self._asked(f"SELECT (hour - {first}) / {hours}, sum(n) {where} GROUP BY 1", start, end, step_s)

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        within = f"hour >= {since // HOUR_S} AND hour < {until // HOUR_S}"
        sums = f"SELECT link, sum(n) AS n FROM hours WHERE {within} GROUP BY link"
        best = f"SELECT key, n FROM ({sums}) JOIN links ON links.id = link ORDER BY n DESC, key LIMIT {most}"
        return self._db.execute(best).fetchall()

    def add(self, key: str, ts: int) -> None:
        self.add_many([key], [ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        sums = Counter((key, ts // HOUR_S) for key, ts in zip(keys, moments, strict=True))
        self._db.execute("BEGIN")
        rows = [(self._link(key), hour, n) for (key, hour), n in sums.items()]
        upsert = "INSERT INTO hours VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n"
        self._db.executemany(upsert, rows)
        self._db.execute("COMMIT")

    def counted(self) -> int | None:
        found: int = self._db.execute("SELECT coalesce(sum(n), 0) FROM hours").fetchone()[0]
        return found
