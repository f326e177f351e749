"""How many writes a hit costs: an hour of 2,000 hits a second in a clock moved by hand, counted statement by statement.

An owner flushes to the product's store over a connection that counts and keeps only the owners table: rows stay in the
store's row cache, so what is read again is what that did not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.command import Options
from bench.inside import Owned
from bench.measure import Line
from bench.workload import Workload
from clickcurve.buckets.ladder import HOUR_S
from ingest.batch import Batch
from storage.cassandra.cql import Rows, Statement, StatementKind, Values, Work
from storage.cassandra.statements import BEGIN, CREATE_OWNER, NOW_MS, OWNER, SAVE, STATEMENTS
from storage.cassandra.store import CassandraStore
from testing.cassandra.counted import Counted

LINKS, HITS_PER_S = 100_000, 2_000
SKEW = 1.0
NOON = 1_790_000_000 // 86_400 * 86_400 + 43_200


def writes(options: Options) -> Iterator[Line]:
    """Statements a hit, with a flush every 15 seconds and every 60."""
    links, hits_per_s = options.of(LINKS), options.of(HITS_PER_S)
    workload = Workload(links, hits_per_s * HOUR_S, 1, NOON, SKEW)
    for flush_s in (15, 60):
        counted = Counted(_Owners())  # type: ignore[arg-type]
        store = CassandraStore(counted)
        owned = Owned(options.folder / str(flush_s), store, NOON, alone=False)
        for number in range(HOUR_S // flush_s):
            drawn = Counter(workload.draw(hits_per_s * flush_s, seed=number))
            owned.take(Batch({owned.now // 60 * 60: dict(drawn)}))
            owned.flush()
            owned.now += flush_s
        owned.run(owned.owner.close())
        hits, sent = hits_per_s * HOUR_S, counted.sent
        kinds = (StatementKind.WRITE, StatementKind.CONDITION)
        written = sum(sent[name] for name, each in STATEMENTS.items() if each.kind in kinds)
        rows, hints = sent[SAVE.name], sent["ADD_DUE"] + sent["ADD_TOUCHED"]
        what = f"an hour of {hits_per_s:,} hits/s on {links:,} links, Zipf {SKEW}, a flush every {flush_s} s"
        of = f"{rows:,} rows, {hints:,} hints, {written - rows - hints:,} others for {hits:,} hits"
        yield Line(f"{what}: writes a hit", f"{written / hits:.3f}", f"1 for one write per hit; {of}")
        cache_mb = store.measures()["row_cache_bytes"] / 1e6
        read = (sum(sent.values()) - written) / hits
        yield Line(f"... reads a hit, from an empty cache of {cache_mb:.0f} MB", f"{read:.3f}")


class _Owners:
    """A connection to nothing: it carries out the updates of the owners table and finds no row anywhere."""

    def __init__(self) -> None:
        self._owner: tuple[Any, ...] | None = None

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        if statement is OWNER:
            return [[self._owner] if self._owner else [] for _ in many]
        return [[(0,)] if statement is NOW_MS else [] for _ in many]

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        found = [self.run_each(statement, many) for statement, many in work]
        return lambda: found

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool:
        if statement is CREATE_OWNER:
            self._owner = values
        elif statement is BEGIN and self._owner is not None:
            self._owner = (*self._owner[:6], values[0], values[1])
        return True

    def measures(self) -> dict[str, float]:
        return {}
