"""A connection that counts what is asked of the cluster, by the names of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from storage.cassandra.cql import Cql, Rows, Statement, Values, Work
from storage.cassandra.requests import requests_of


class Counted(Cql):
    """Passes everything on. `sent` counts each statement by its name; `since` answers what came since it was asked;
    `requests` counts what goes together, if there is one node, as one."""

    def __init__(self, cql: Cql) -> None:
        self.sent: Counter[str] = Counter()
        self.requests = 0
        self._cql = cql
        self._lock = Lock()
        self._seen: Counter[str] = Counter()

    def _count(self, statement: Statement, times: int = 1, requests: int | None = None) -> None:
        with self._lock:
            self.sent[statement.name] += times
            self.requests += times if requests is None else requests

    def since(self) -> Counter[str]:
        """How often each statement was sent since this was called last."""
        with self._lock:
            new = self.sent - self._seen
            self._seen = Counter(self.sent)
        return new

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        self._count(statement)
        return self._cql.run(statement, values)

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        for statement, many in work:
            together = requests_of(statement, many, lambda key: None)  # of one node
            self._count(statement, len(many), None if together is None else len(together))
        return self._cql.send_all(work)

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        self._count(statement)
        return self._cql.pages(statement, values, size)

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool | None:
        self._count(statement)
        return self._cql.apply_if(statement, values, attempt)

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        self._count(statement, len(many))
        return self._cql.apply_each_if(statement, many, attempt)

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        self._count(statement)
        return await self._cql.ask(statement, values)

    def measures(self) -> dict[str, float]:
        return self._cql.measures()

    def close(self) -> None:
        """The connection is somebody else's."""
