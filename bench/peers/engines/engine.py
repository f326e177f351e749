"""What an engine in a process of its own does. It is told by numbers and texts only: it has another environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol


class Engine(Protocol):
    """A store that is called in process. `counts` answers as many counts as there are steps; None: not kept."""

    def version(self) -> str: ...

    def load(self, raw: str, summed: str) -> None:
        """Load the CSV files of raw hits, or of those summed by link and time."""

    def settle(self) -> None: ...

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None: ...

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None: ...

    def add(self, key: str, ts: int) -> None:
        """One hit, as durable as the engine can."""

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        """A batch of hits, as durable as the engine can."""

    def counted(self) -> int | None: ...


def lines_of(path: str) -> Iterator[list[str]]:
    """The cells of each line of a CSV file of ours."""
    with Path(path).open() as lines:
        for line in lines:
            yield line.rstrip("\n").split(",")


def filled(found: Sequence[tuple[int, int]], points: int) -> list[int]:
    """Counts given by the number of their step, with zeros between them."""
    counts = [0] * points
    for step, count in found:
        counts[step] += count
    return counts
