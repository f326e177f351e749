"""A connection to a cluster that may be down at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from storage.cassandra.cql import Cql, Rows, Statement, Values
from storage.first_use import FirstUse, Later


class LazyConnection:
    """Implements `Cql`. What may block connects on first use; `ask`, `measures` and `close` never do."""

    def __init__(self, connect: Callable[[], Cql], later: Later | None) -> None:
        """Connects at once, as `FirstUse` does."""
        self._cql = FirstUse(connect, later)

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self._cql.open().run(statement, values)

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        return self._cql.open().run_each(statement, many)

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        return self._cql.open().pages(statement, values, size)

    def apply_if(self, statement: Statement, values: Values) -> bool | None:
        return self._cql.open().apply_if(statement, values)

    def apply_each_if(self, statement: Statement, many: Sequence[Values]) -> list[bool | None]:
        return self._cql.open().apply_each_if(statement, many)

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        return await self._cql.opened().ask(statement, values)

    def measures(self) -> dict[str, float]:
        return self._cql.opened().measures() if self._cql.is_open else {}

    def close(self) -> None:
        self._cql.close()
