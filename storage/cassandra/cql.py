"""What the Cassandra store asks of a cluster: statements with a name and a kind, and who carries them out.

The kind says how a statement is carried out, so that nobody who writes one can forget it:

- READ and WRITE may be repeated at will: writes of rows carry their stamp, all others put the same thing again;
- a CONDITION (an insert or update with IF) is sent once. When its outcome is unknown, a SERIAL_READ of the same
  partition decides, which finishes or ends whatever round is still under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from storage.first_use import FirstUse, Later


class StatementKind(Enum):
    READ = "read"  # at quorum
    WRITE = "write"  # at quorum
    CONDITION = "condition"  # agreed on by a serial quorum, then written at quorum
    SERIAL_READ = "serial read"


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    text: str  # with a question mark for each value
    kind: StatementKind
    partition: int = 0  # of a WRITE with few bytes: its first values, so many, name the partition; these go together


Values: TypeAlias = tuple[object, ...]
Rows: TypeAlias = list[tuple[Any, ...]]


class Cql(Protocol):
    """A connection to one keyspace. Plain methods may block; `ask` never does."""

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        """All rows, however many pages they take. Raises StoreUnavailable."""

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        """The statement with each of these values, many at once; results in their order.

        The first failure is raised as StoreUnavailable, after all that was sent has ended.
        """

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        """The rows in pages of at most `size`; a page is asked for when it is needed. Raises StoreUnavailable."""

    def apply_if(self, statement: Statement, values: Values) -> bool | None:
        """Carry a conditional update out: whether it was applied, None where nobody knows.

        Raises StoreUnavailable where it was certainly not begun.
        """

    def apply_each_if(self, statement: Statement, many: Sequence[Values]) -> list[bool | None]:
        """`apply_if` with each of these values, many at once; outcomes in their order.

        Raises StoreUnavailable as `apply_if` does, after all that was sent has ended.
        """

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        """All rows, without blocking the event loop. Raises StoreUnavailable."""

    def measures(self) -> dict[str, float]:
        """store_requests_total, store_retries_total, store_unknown_total."""

    def close(self) -> None: ...


class LazyConnection:
    """A connection to a cluster that may be down at the start. What may block connects on first use; `ask`, `measures` and `close` never do."""

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
