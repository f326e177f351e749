"""Stores that are called in process, each in a process of its own: `python -m bench.peers.engines NAME FOLDER`.

That process may have another environment, so nothing of ours is imported here, and libraries only where they are used.
A line of JSON, a verb and its arguments, is answered by a line of JSON.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import cycle, groupby, islice
from pathlib import Path
from time import perf_counter, time
from typing import Any, ClassVar

HOUR_S = 3_600
BATCH = 100_000
# (seconds a point, points): what Clickcurve keeps, with days in place of weeks, which whisper begins on Thursdays.
ARCHIVES = [(60, 1_500), (300, 888), (3_600, 840), (86_400, 500)]


class Engine(ABC):
    """A store. `package` is what its environment must have; `synced` and `sends` as of `Peer`.

    `counts` answers as many counts as there are steps; None: not kept. Moments are epoch seconds.
    """

    name: ClassVar[str]
    synced: ClassVar[str]
    sends: ClassVar[str]
    package: ClassVar[str] = ""

    @abstractmethod
    def __init__(self, folder: str) -> None: ...

    def version(self) -> str:
        return version(self.package)

    @abstractmethod
    def load(self, raw: str, summed: str) -> None:
        """Load the CSV files of raw hits, or of those summed by link and time."""

    @abstractmethod
    def settle(self) -> None:
        """Bring what was loaded into the form in which it stays."""

    @abstractmethod
    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None: ...

    @abstractmethod
    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]: ...

    @abstractmethod
    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        """A batch of hits, as durable as the engine can."""

    def add(self, key: str, ts: int) -> None:
        """One hit, as durable as the engine can."""
        self.add_many([key], [ts])

    def counted(self) -> int | None:
        """All hits; None: it cannot say."""
        return None

    def loaded_s(self, raw: str, summed: str) -> float:
        """Seconds of a load."""
        begun = perf_counter()
        self.load(raw, summed)
        return perf_counter() - begun

    def latency(self, keys: Sequence[str], seconds: float, start: int, end: int, step_s: int) -> list[float]:
        """Milliseconds of each question within so many seconds."""
        took_ms: list[float] = []
        until = perf_counter() + seconds
        for key in cycle(keys):
            begun = perf_counter()
            self.counts(key, start, end, step_s)
            done = perf_counter()
            took_ms.append((done - begun) * 1_000)
            if done > until:
                break
        return took_ms

    def singles(self, keys: Sequence[str], seconds: float) -> float:
        """Hits a second, each by itself."""
        now = int(time()) // 60 * 60
        return _per_s(keys, lambda key: self.add(key, now), seconds)

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        """Hits a second in batches."""
        pairs = [(some, [at - index % 240 for index in range(len(some))]) for some in keys]
        return _per_s(pairs, lambda pair: self.add_many(*pair), seconds) * len(keys[0])


def _per_s(turns: Sequence[Any], do: Callable[[Any], None], seconds: float) -> float:
    begun, done = perf_counter(), 0
    for turn in cycle(turns):
        do(turn)
        done += 1
        if perf_counter() - begun > seconds:
            break
    return done / (perf_counter() - begun)


def _lines_of(path: str) -> Iterator[list[str]]:
    """The cells of each line of a CSV file of ours."""
    with Path(path).open() as lines:
        for line in lines:
            yield line.rstrip("\n").split(",")


def _filled(found: Sequence[tuple[int, int]], points: int) -> list[int]:
    """Counts given by the number of their step, with zeros between them."""
    counts = [0] * points
    for step, count in found:
        counts[step] += count
    return counts


class _Sqlite(Engine):
    schema: str
    synced = "each commit after a sync (WAL, synchronous=FULL)"

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
        return _filled(self._db.execute(select).fetchall(), (end - start) // step_s)


class Rows(_Sqlite):
    """A row for each hit; the index holds all that is asked."""

    name = "SQLite, a row a hit"
    sends = "each hit by itself, the index made afterwards"

    schema = """
        CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE IF NOT EXISTS hits (link INTEGER NOT NULL, ts INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS by_link ON hits (link, ts);"""

    def load(self, raw: str, summed: str) -> None:
        del summed
        self._db.executescript("DROP INDEX by_link")
        lines = _lines_of(raw)
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

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        sums = f"SELECT link, count(*) AS n FROM hits WHERE ts >= {since} AND ts < {until} GROUP BY link"
        best = f"SELECT key, n FROM ({sums}) JOIN links ON links.id = link ORDER BY n DESC, key LIMIT {most}"
        return self._db.execute(best).fetchall()

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO hits VALUES (?, ?)", list(zip(map(self._link, keys), moments, strict=True)))
        self._db.execute("COMMIT")

    def counted(self) -> int | None:
        found: int = self._db.execute("SELECT count(*) FROM hits").fetchone()[0]
        return found


class Hours(_Sqlite):
    """A counter for each link and hour, raised by upsert; minutes are not kept."""

    name = "SQLite, a counter an hour"
    sends = "each hit by itself, summed by the caller in batches of 100,000"

    schema = """
        CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE IF NOT EXISTS hours
            (link INTEGER, hour INTEGER, n INTEGER, PRIMARY KEY (link, hour)) WITHOUT ROWID;"""

    def load(self, raw: str, summed: str) -> None:
        del summed
        lines = _lines_of(raw)
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

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        within = f"hour >= {since // HOUR_S} AND hour < {until // HOUR_S}"
        sums = f"SELECT link, sum(n) AS n FROM hours WHERE {within} GROUP BY link"
        best = f"SELECT key, n FROM ({sums}) JOIN links ON links.id = link ORDER BY n DESC, key LIMIT {most}"
        return self._db.execute(best).fetchall()

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


class Duck(Engine):
    """DuckDB: rows sorted at loading, so that a link's lie in one row group; later hits are rows of their own."""

    name, package = "DuckDB", "duckdb"
    synced = "each commit after a sync"
    sends = "each hit by itself, one CSV file, summed and sorted by the database"

    def __init__(self, folder: str) -> None:
        import duckdb

        self._db = duckdb.connect(f"{folder}/hits.duckdb")
        self._db.execute("CREATE TABLE IF NOT EXISTS hits (key VARCHAR, ts UINTEGER, n UINTEGER)")

    def load(self, raw: str, summed: str) -> None:
        del summed
        columns = "columns = {'key': 'VARCHAR', 'ts': 'UINTEGER'}, header = false"
        self._db.execute(
            f"INSERT INTO hits SELECT key, ts, count(*) FROM read_csv('{raw}', {columns}) GROUP BY ALL ORDER BY key, ts"
        )

    def settle(self) -> None:
        self._db.execute("CHECKPOINT")

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        where = "FROM hits WHERE key = ? AND ts >= ? AND ts < ?"
        if end - start == step_s:
            return [int(self._all(f"SELECT coalesce(sum(n), 0) {where}", key, start, end)[0][0])]
        found = self._all(f"SELECT (ts - {start}) // {step_s}, sum(n) {where} GROUP BY 1", key, start, end)
        return _filled([(int(step), int(count)) for step, count in found], (end - start) // step_s)

    def _all(self, select: str, *values: object) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self._db.execute(select, values).fetchall()
        return found

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        best = "SELECT key, sum(n) FROM hits WHERE ts >= ? AND ts < ? GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
        return [(key, int(n)) for key, n in self._db.execute(best, [since, until, most]).fetchall()]

    def add(self, key: str, ts: int) -> None:
        self._db.execute("INSERT INTO hits VALUES (?, ?, 1)", [key, ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        import pyarrow

        batch = pyarrow.table({"key": list(keys), "ts": list(moments)})
        self._db.register("batch", batch)
        self._db.execute("INSERT INTO hits SELECT key, ts, 1 FROM batch")

    def counted(self) -> int | None:
        return int(self._db.execute("SELECT coalesce(sum(n), 0) FROM hits").fetchall()[0][0])


class ClickHouse(Engine):
    """ClickHouse by chdb: a SummingMergeTree adds up equal links and times when it merges; inserts are synced."""

    name, package = "ClickHouse (chdb)", "chdb"
    synced = "each insert after a sync (fsync_after_insert)"
    sends = "each hit by itself, one CSV file"

    def __init__(self, folder: str) -> None:
        from chdb.session import Session

        self._db = Session(f"{folder}/data")
        self._db.query("CREATE DATABASE IF NOT EXISTS c ENGINE = Atomic")
        self._db.query(
            "CREATE TABLE IF NOT EXISTS c.hits "
            "(key String CODEC(ZSTD), ts UInt32 CODEC(Delta, ZSTD), n UInt64 CODEC(T64, ZSTD)) "
            "ENGINE = SummingMergeTree(n) ORDER BY (key, ts) SETTINGS index_granularity = 1024, fsync_after_insert = 1"
        )

    def version(self) -> str:
        return f"{version('chdb')} (ClickHouse {self._rows('SELECT version()')[0][0]})"

    def load(self, raw: str, summed: str) -> None:
        del summed
        self._db.query(
            f"INSERT INTO c.hits SELECT key, ts, 1 FROM file('{raw}', 'CSV', 'key String, ts UInt32') "
            "SETTINGS max_insert_block_size = 2000000"
        )

    def settle(self) -> None:
        self._db.query("OPTIMIZE TABLE c.hits FINAL")

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        where = f"FROM c.hits WHERE key = '{key}' AND ts >= {start} AND ts < {end}"
        if end - start == step_s:
            return [int(self._rows(f"SELECT sum(n) {where}")[0][0])]
        found = self._rows(f"SELECT intDiv(ts - {start}, {step_s}), sum(n) {where} GROUP BY 1")
        return _filled([(int(step), int(count)) for step, count in found], (end - start) // step_s)

    def _rows(self, select: str) -> list[list[str]]:
        return [line.split("\t") for line in str(self._db.query(select, "TabSeparated")).splitlines()]

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        within = f"ts >= {since} AND ts < {until}"
        best = f"SELECT key, sum(n) AS s FROM c.hits WHERE {within} GROUP BY key ORDER BY s DESC, key LIMIT {most}"
        return [(key, int(n)) for key, n in self._rows(best)]

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        lines = "\n".join(f"{key}\t{ts}\t1" for key, ts in zip(keys, moments, strict=True))
        self._db.query(f"INSERT INTO c.hits FORMAT TabSeparated\n{lines}\n")

    def counted(self) -> int | None:
        return int(self._rows("SELECT sum(n) FROM c.hits")[0][0])


class Whisper(Engine):
    """Files written by the library, as carbon writes them; the popular links alone, for a file takes 45 kB."""

    name, package = "Graphite (carbon, whisper)", "whisper"
    synced = "not answered: a line is in memory until its file is written"
    sends = "2,000 popular links alone, summed by bucket, whisper's update_many"

    def __init__(self, folder: str) -> None:
        import whisper

        self._whisper = whisper
        self._folder = Path(folder) / "whisper"
        self._folder.mkdir(exist_ok=True)

    def load(self, raw: str, summed: str) -> None:
        """`raw` names the links that are loaded, one a line."""
        loaded = set(Path(raw).read_text().split())
        for key, rows in groupby(_lines_of(summed), lambda row: row[0]):
            if key in loaded:
                self._whisper.update_many(str(self._file(key)), [(int(ts), int(n)) for _, ts, n in rows])

    def settle(self) -> None:
        return

    def _file(self, key: str) -> Path:
        file = self._folder / f"{key}.wsp"
        if not file.exists():
            self._whisper.create(str(file), ARCHIVES, xFilesFactor=0.0, aggregationMethod="sum")
        return file

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        counts = [0] * ((end - start) // step_s)
        for at, n in self._points(self._folder / f"{key}.wsp", start, end):
            counts[(at - start) // step_s] += n
        return counts

    def _points(self, file: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Points of the finest archive that reaches back to `start`; a range excludes its start, whisper's way."""
        if not file.exists():
            return
        now = int(time())
        found = self._whisper.fetch(str(file), max(start - 1, now - 86_400 * 499), min(end, now), now)
        if found is None:
            return
        (first, _, width), values = found
        for number, n in enumerate(values):
            at = first + number * width
            if n is not None and start <= at < end:
                yield at, int(n)

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        sums = ((file.stem, sum(n for _, n in self._points(file, since, until))) for file in self._folder.iterdir())
        return sorted(sums, key=lambda link: (-link[1], link[0]))[:most]

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        by_key: dict[str, list[tuple[int, int]]] = {}
        for key, ts in zip(keys, moments, strict=True):
            by_key.setdefault(key, []).append((ts, 1))
        for key, points in by_key.items():
            self._whisper.update_many(str(self._file(key)), points)


def main(name: str, folder: str) -> None:
    kinds: tuple[type[Engine], ...] = (Rows, Hours, Duck, ClickHouse, Whisper)
    engine = next(kind for kind in kinds if kind.__name__ == name)(folder)
    gc.freeze()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        print(json.dumps(getattr(engine, verb)(*arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
