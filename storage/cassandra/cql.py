"""What the Cassandra store asks of a cluster: statements with a name and a kind, and the connection that runs them.

The kind of a statement says how it is run:

- READ and WRITE may be repeated at will: writes of rows carry their stamp, all others put the same thing again;
- a CONDITION (an insert or update with IF) is sent once. When its outcome is unknown, a SERIAL_READ of the same
  partition decides, which finishes or ends whatever round is still under way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeAlias


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
    key: int | None = None  # which value is the partition's key, of what goes several to a request, by node
    of_several: bool = False  # a READ of a list of keys, made by `several`
    of_flush: bool = False  # a flush has many of it, which must not hold up hits

    def text_in(self, keyspace: str) -> str:
        """Returns the text with the keyspace before the table, unless it names one.

        A node that does not know the versions of all others, as after a start while one is down, gives a statement
        without a keyspace one id in all keyspaces: rows of one Clickcurve were read and written in another's tables.
        """
        return _TABLE.sub(rf"\1 {keyspace}.", self.text)

    def several(self) -> Statement:
        """Returns this READ of one key as a READ of a list of keys, whose rows begin with their key."""
        text = _BY_KEY.sub(r"SELECT \2, \1 WHERE \2 IN ?", self.text, count=1)
        return replace(self, name=f"{self.name}_OF_SEVERAL", text=text, of_several=True)


_BY_KEY = re.compile(r"SELECT (.+) WHERE (\w+) = \?")
_TABLE = re.compile(r"\b(FROM|INTO|UPDATE) (?!\w+\.)")

Values: TypeAlias = tuple[object, ...]
Rows: TypeAlias = list[tuple[Any, ...]]
Work: TypeAlias = tuple[Statement, Sequence[Values]]  # a statement, and the values of each time that it is run


class Cql(Protocol):
    """A connection to one keyspace. Plain methods may block; `ask` never does."""

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        """Returns all rows, however many pages they take. Raises StoreUnavailable."""
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        """Runs the statement with each of these values, many at once; returns the results in their order.

        Raises the first failure as StoreUnavailable, after all that was sent has ended.
        """
        return self.run_all([(statement, many)])[0]

    def run_all(self, work: Sequence[Work]) -> list[list[Rows]]:
        """Runs several statements as `run_each` does each, all at once and in no order; returns their results.

        An answer that is lost is waited for once for all of them, not once for each.
        """
        return self.send_all(work)()

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        """Begins `run_all`; returns what waits for it and gives its results or raises, to be called once."""

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        """Yields the rows in pages of at most `size`; asks for a page when it is needed. Raises StoreUnavailable."""

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool | None:
        """Runs a conditional update; returns whether it was applied, None if that is unknown.

        attempt: how often it was tried before. The answer is waited for twice as long each time, up to a bound.
        Raises StoreUnavailable if it was certainly not begun.
        """
        return self.apply_each_if(statement, [values], attempt)[0]

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        """Runs a conditional update with each of these values, many at once; returns the outcomes in their order.

        Raises StoreUnavailable as `apply_if` does, after all that was sent has ended.
        """

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        """Returns all rows, without blocking the event loop. Raises StoreUnavailable, also if not connected yet."""

    def measures(self) -> dict[str, float]:
        """Returns store_requests_total, store_retries_total and store_unknown_total; {} before it is connected."""

    def close(self) -> None: ...
