"""Stores that are called in process, each in a process of its own: `python -m bench.peers.engines NAME FOLDER PORT`.

That process may have another environment, so nothing of ours is imported here, and libraries only where they are used.
It is told a verb, the arguments of some turns and for how long to repeat them over a connection to the port, and
answers what the engine returned last and how long each turn took.
"""

from __future__ import annotations

import gc
import signal
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from itertools import cycle, groupby, islice
from multiprocessing.connection import Listener
from pathlib import Path
from time import perf_counter, time
from typing import Any, ClassVar

BATCH = 100_000
FILES = 2_000  # of whisper: one takes 45 kB, and loading a popular link some 20 ms
Files = Mapping[str, str]  # paths: `raw` hits, those `summed` by link and time, `links` by popularity
# (seconds a point, points): what Clickcurve keeps, with days in place of weeks, which whisper begins on Thursdays.
ARCHIVES = [(60, 1_500), (300, 888), (3_600, 840), (86_400, 500)]


class Engine(ABC):
    """A store in a folder. `package` is what its environment must have; `synced` and `sends` as of `Peer`.

    Each has `load(files)`, and `settle()`, which brings what was loaded into the form in which it stays;
    `counts(key, start, end, step_s)`, one a step, None if they are not kept; and `top(since, until, most)`, keys with
    their counts. Moments are epoch seconds.
    """

    name: ClassVar[str]
    synced: ClassVar[str]
    sends: ClassVar[str]
    package: ClassVar[str] = ""

    @abstractmethod
    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        """Adds a batch of hits, as durable as the engine can."""

    def add(self, key: str, ts: int) -> None:
        """Adds one hit, as durable as the engine can."""
        self.add_many([key], [ts])

    def version(self) -> str:
        return version(self.package)

    def counted(self) -> int | None:
        """Returns all hits; None: it cannot say."""
        return None


def _lines_of(path: str) -> Iterator[list[str]]:
    """Yields the cells of each line of a CSV file of ours."""
    with Path(path).open() as lines:
        for line in lines:
            yield line.rstrip("\n").split(",")


class _Sql(Engine):
    """A database with a row for each link and time; each kind says in its dialect what it is asked."""

    table: ClassVar[str] = "hits"
    total: ClassVar[str] = "sum(n)"
    step: ClassVar[str]  # the number of a time's step
    best: ClassVar[str] = "SELECT key, {total} AS s FROM {of} GROUP BY key ORDER BY s DESC, key LIMIT {most}"

    @abstractmethod
    def rows(self, select: str) -> Sequence[Sequence[Any]]: ...

    def link(self, key: str) -> str:
        """Returns the condition of a link's rows."""
        return f"key = '{key}'"

    def _of(self, since: int, until: int, condition: str = "") -> str:
        return f"{self.table} WHERE {condition}ts >= {since} AND ts < {until}"

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        of = self._of(start, end, f"{self.link(key)} AND ")
        if end - start == step_s:
            return [int(self.rows(f"SELECT {self.total} FROM {of}")[0][0] or 0)]
        step = self.step.format(start=start, step=step_s)
        counts = [0] * ((end - start) // step_s)
        for number, count in self.rows(f"SELECT {step}, {self.total} FROM {of} GROUP BY 1"):
            counts[int(number)] += int(count)
        return counts

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]]:
        best = self.best.format(total=self.total, of=self._of(since, until), most=most)
        return [(key, int(count)) for key, count in self.rows(best)]

    def counted(self) -> int | None:
        return int(self.rows(f"SELECT {self.total} FROM {self.table}")[0][0] or 0)


class _Sqlite(_Sql):
    schema: ClassVar[str]
    synced = "each commit after a sync (WAL, synchronous=FULL)"
    step = "(ts - {start}) / {step}"
    best = """
        SELECT key, s FROM (SELECT link, {total} AS s FROM {of} GROUP BY link) JOIN links ON links.id = link
        ORDER BY s DESC, key LIMIT {most}"""

    def __init__(self, folder: str) -> None:
        self._db = sqlite3.connect(f"{folder}/hits.db", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;"
            f"CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE); {self.schema}"
        )
        self._links: dict[str, int] = dict(self._db.execute("SELECT key, id FROM links"))

    def version(self) -> str:
        return sqlite3.sqlite_version

    def settle(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rows(self, select: str) -> Sequence[Sequence[Any]]:
        return self._db.execute(select).fetchall()

    def link(self, key: str) -> str:
        return f"link = {self._links.get(key, 0)}"

    def load(self, files: Files) -> None:
        lines = _lines_of(files["raw"])
        while some := list(islice(lines, BATCH)):
            self.add_many([key for key, _ in some], [int(ts) for _, ts in some])

    def _insert(self, statement: str, keys: Iterable[str], *columns: Iterable[int]) -> None:
        """Inserts in one transaction; links are numbered as they come."""
        self._db.execute("BEGIN")
        self._db.executemany(statement, list(zip(map(self._number, keys), *columns, strict=True)))
        self._db.execute("COMMIT")

    def _number(self, key: str) -> int:
        number = self._links.get(key)
        if number is None:
            number = self._links[key] = len(self._links) + 1
            self._db.execute("INSERT INTO links VALUES (?, ?)", (number, key))
        return number


class Rows(_Sqlite):
    """A row for each hit; the index holds all that is asked."""

    name = "SQLite, a row a hit"
    sends = "each hit by itself, the index made afterwards"
    total = "count(*)"
    schema = """
        CREATE TABLE IF NOT EXISTS hits (link INTEGER NOT NULL, ts INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS by_link ON hits (link, ts);"""

    def load(self, files: Files) -> None:
        self._db.executescript("DROP INDEX by_link")
        super().load(files)
        self._db.executescript(self.schema)

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        self._insert("INSERT INTO hits VALUES (?, ?)", keys, moments)


class Duck(_Sql):
    """DuckDB: rows sorted at loading, so that a link's lie in one row group; later hits are rows of their own."""

    name, package = "DuckDB", "duckdb"
    synced = "each commit after a sync"
    sends = "each hit by itself, one CSV file, summed and sorted by the database"
    step = "(ts - {start}) // {step}"

    def __init__(self, folder: str) -> None:
        import duckdb

        self._db = duckdb.connect(f"{folder}/hits.duckdb")
        self._db.execute("CREATE TABLE IF NOT EXISTS hits (key VARCHAR, ts UINTEGER, n UINTEGER)")

    def load(self, files: Files) -> None:
        lines = f"read_csv('{files['raw']}', columns = {{'key': 'VARCHAR', 'ts': 'UINTEGER'}}, header = false)"
        self._db.execute(f"INSERT INTO hits SELECT key, ts, count(*) FROM {lines} GROUP BY ALL ORDER BY key, ts")

    def settle(self) -> None:
        self._db.execute("CHECKPOINT")

    def rows(self, select: str) -> Sequence[Sequence[Any]]:
        found: Sequence[Sequence[Any]] = self._db.execute(select).fetchall()
        return found

    def add(self, key: str, ts: int) -> None:
        self._db.execute("INSERT INTO hits VALUES (?, ?, 1)", [key, ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        import pyarrow

        batch = pyarrow.table({"key": list(keys), "ts": list(moments)})
        self._db.register("batch", batch)
        self._db.execute("INSERT INTO hits SELECT key, ts, 1 FROM batch")


class ClickHouse(_Sql):
    """ClickHouse by chdb: a SummingMergeTree adds up equal links and times when it merges; inserts are synced."""

    name, package = "ClickHouse (chdb)", "chdb"
    synced = "each insert after a sync (fsync_after_insert)"
    sends = "each hit by itself, one CSV file"
    table = "c.hits"
    step = "intDiv(ts - {start}, {step})"

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
        return f"{version('chdb')} (ClickHouse {self.rows('SELECT version()')[0][0]})"

    def load(self, files: Files) -> None:
        self._db.query(
            f"INSERT INTO c.hits SELECT key, ts, 1 FROM file('{files['raw']}', 'CSV', 'key String, ts UInt32') "
            "SETTINGS max_insert_block_size = 2000000"
        )

    def settle(self) -> None:
        self._db.query("OPTIMIZE TABLE c.hits FINAL")

    def rows(self, select: str) -> Sequence[Sequence[Any]]:
        return [line.split("\t") for line in str(self._db.query(select, "TabSeparated")).splitlines()]

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        lines = "\n".join(f"{key}\t{ts}\t1" for key, ts in zip(keys, moments, strict=True))
        self._db.query(f"INSERT INTO c.hits FORMAT TabSeparated\n{lines}\n")


class Whisper(Engine):
    """Files as Graphite has them, written by its library; the popular links alone, for a file takes 45 kB."""

    name, package = "Graphite (whisper)", "whisper"
    synced = "no: the system writes its files later"
    sends = "2,000 popular links alone, summed by bucket, whisper's update_many"

    def __init__(self, folder: str) -> None:
        import whisper

        self._whisper = whisper
        self._folder = Path(folder) / "whisper"
        self._folder.mkdir(exist_ok=True)

    def load(self, files: Files) -> None:
        loaded = set(Path(files["links"]).read_text().split()[:FILES])
        for key, rows in groupby(_lines_of(files["summed"]), lambda row: row[0]):
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


def repeat(do: Callable[..., Any], turns: Iterable[Sequence[Any]], seconds: float) -> tuple[Any, list[float]]:
    """Does it with the arguments of each turn again and again, for so long, once at least.

    Returns the last answer, and how many milliseconds each turn took.
    """
    took_ms: list[float] = []
    first = begun = perf_counter()
    for arguments in cycle(turns):
        answer = do(*arguments)
        done = perf_counter()
        took_ms.append((done - begun) * 1_000)
        if done - first > seconds:
            break
        begun = done
    return answer, took_ms


def main(name: str, folder: str, port: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    engine = globals()[name](folder)
    gc.freeze()
    with suppress(EOFError), Listener(("127.0.0.1", int(port))) as listener, listener.accept() as asked:
        while True:
            verb, turns, seconds = asked.recv()
            asked.send(repeat(getattr(engine, verb), turns, seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
