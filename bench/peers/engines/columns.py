"""DuckDB and ClickHouse in process: tables in columns, sorted by link and time, with hits summed where they meet."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import duckdb
import pyarrow
from chdb.session import Session

from bench.peers.engines.engine import filled


class Duck:
    """DuckDB: rows sorted at loading, so that a link's lie in one row group; later hits are rows of their own."""

    def __init__(self, folder: str) -> None:
        self._db = duckdb.connect(f"{folder}/hits.duckdb")
        self._db.execute("CREATE TABLE IF NOT EXISTS hits (key VARCHAR, ts UINTEGER, n UINTEGER)")

    def version(self) -> str:
        return version("duckdb")

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
        return filled([(int(step), int(count)) for step, count in found], (end - start) // step_s)

    def _all(self, select: str, *values: object) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self._db.execute(select, values).fetchall()
        return found

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        best = "SELECT key, sum(n) FROM hits WHERE ts >= ? AND ts < ? GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
        return [(key, int(n)) for key, n in self._db.execute(best, [since, until, most]).fetchall()]

    def add(self, key: str, ts: int) -> None:
        self._db.execute("INSERT INTO hits VALUES (?, ?, 1)", [key, ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        batch = pyarrow.table({"key": list(keys), "ts": list(moments)})
        self._db.register("batch", batch)
        self._db.execute("INSERT INTO hits SELECT key, ts, 1 FROM batch")

    def counted(self) -> int | None:
        return int(self._db.execute("SELECT coalesce(sum(n), 0) FROM hits").fetchall()[0][0])


class ClickHouse:
    """ClickHouse by chdb: a SummingMergeTree adds up equal links and times when it merges; inserts are synced."""

    def __init__(self, folder: str) -> None:
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
        return filled([(int(step), int(count)) for step, count in found], (end - start) // step_s)

    def _rows(self, select: str) -> list[list[str]]:
        return [line.split("\t") for line in str(self._db.query(select, "TabSeparated")).splitlines()]

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        within = f"ts >= {since} AND ts < {until}"
        best = f"SELECT key, sum(n) AS s FROM c.hits WHERE {within} GROUP BY key ORDER BY s DESC, key LIMIT {most}"
        return [(key, int(n)) for key, n in self._rows(best)]

    def add(self, key: str, ts: int) -> None:
        self.add_many([key], [ts])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        lines = "\n".join(f"{key}\t{ts}\t1" for key, ts in zip(keys, moments, strict=True))
        self._db.query(f"INSERT INTO c.hits FORMAT TabSeparated\n{lines}\n")

    def counted(self) -> int | None:
        return int(self._rows("SELECT sum(n) FROM c.hits")[0][0])
