"""What a replica keeps: partitions of rows of cells, each cell with a stamp, merged as Cassandra merges them.

The larger stamp wins. At equal stamps what is deleted wins over a value, and the larger bytes over the smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MARKER = ""  # the column that an INSERT writes next to those it names: the row is there though all others are null
NEVER = -(1 << 63)

Clustering = tuple[object, ...]


class Cell(NamedTuple):
    """value None: deleted. expires: epoch seconds, None = never."""

    stamp: int
    value: object
    expires: float | None


def wins(new: Cell, old: Cell | None) -> bool:
    if old is None or new.stamp != old.stamp:
        return old is None or new.stamp > old.stamp
    if new.value is None or old.value is None:
        return new.value is None
    return _bytes(new.value) > _bytes(old.value)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes(9, "big", signed=True) if isinstance(value, int) else str(value).encode()


@dataclass(slots=True)
class Partition:
    deleted: int = NEVER  # the stamp of the latest deletion of all of it
    rows_deleted: dict[Clustering, int] = field(default_factory=dict)
    rows: dict[Clustering, dict[str, Cell]] = field(default_factory=dict)

    def write(self, clustering: Clustering, column: str, cell: Cell) -> None:
        row = self.rows.setdefault(clustering, {})
        if wins(cell, row.get(column)):
            row[column] = cell

    def delete(self, clustering: Clustering | None, stamp: int) -> None:
        if clustering is None:
            self.deleted = max(self.deleted, stamp)
        else:
            self.rows_deleted[clustering] = max(stamp, self.rows_deleted.get(clustering, NEVER))

    def absorb(self, other: Partition) -> None:
        self.delete(None, other.deleted)
        for clustering, stamp in other.rows_deleted.items():
            self.delete(clustering, stamp)
        for clustering, row in other.rows.items():
            for column, cell in row.items():
                self.write(clustering, column, cell)

    def picked(self, wanted: Callable[[Clustering], bool]) -> Partition:
        """A copy of the rows that are wanted."""
        return Partition(
            self.deleted,
            {clustering: stamp for clustering, stamp in self.rows_deleted.items() if wanted(clustering)},
            {clustering: dict(row) for clustering, row in self.rows.items() if wanted(clustering)},
        )

    def live(self, now: float) -> dict[Clustering, dict[str, object]]:
        """What a reader sees, in the order of the clustering columns."""
        found: dict[Clustering, dict[str, object]] = {}
        for clustering in sorted(self.rows, key=sortable):
            gone = max(self.deleted, self.rows_deleted.get(clustering, NEVER))
            row = {
                column: cell.value
                for column, cell in self.rows[clustering].items()
                if cell.stamp > gone and cell.value is not None and (cell.expires is None or cell.expires > now)
            }
            if row:
                found[clustering] = row
        return found


def sortable(values: Iterable[object]) -> tuple[tuple[int, str], ...]:
    """The values of a key, numbers or texts, so that they can be compared."""
    return tuple((value, "") if isinstance(value, int) else (0, str(value)) for value in values)


Partitions = dict[tuple[object, ...], Partition]


def absorb(into: Partitions, partitions: Partitions) -> None:
    for key, partition in partitions.items():
        into.setdefault(key, Partition()).absorb(partition)


def merged(several: Iterable[Partitions]) -> Partitions:
    whole: Partitions = {}
    for partitions in several:
        absorb(whole, partitions)
    return whole
