"""What one request adds, checked and summed, on its way to the owner."""

from __future__ import annotations

from dataclasses import dataclass

# minute start -> key -> count
Counts = dict[int, dict[str, int]]


@dataclass(slots=True)
class Identified:
    """What one id stands for: one hit, or a whole batch under an Idempotency-Key."""

    id: str
    people: Counts
    bots: Counts


@dataclass(frozen=True, slots=True)
class SourceStep:
    """A piece of an import: bytes [start, end) of that source. `tail` is a fingerprint of the bytes before `end`."""

    source: str
    start: int
    end: int
    tail: str


@dataclass(slots=True)
class Batch:
    """Hits to be counted together: all of them lie in one flush.

    people and bots hold the hits without an id, floored to minute starts; openings are imported totals without dates.
    """

    people: Counts
    bots: Counts
    identified: list[Identified]
    openings: dict[str, int]
    source: SourceStep | None
