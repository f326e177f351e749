"""What a kind of rows answers, so that nobody else looks into a stored key for what its row is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS


@dataclass(frozen=True, slots=True, eq=False)
class RowKind(ABC):
    """One kind of rows. prefix: how its stored keys begin.

    noun: what one is called where it belongs to a link. before: what stands before that link in reports.
    corrects: it says which hits were called bots. beside_counts: it belongs to a row of counts, with which it is
    written, erased and stored. has_values: it may hold values of dimensions.
    """

    prefix: str
    noun: str
    before: str = ""
    corrects: bool = False
    beside_counts: bool = False
    has_values: bool = False

    @abstractmethod
    def read(self, data: bytes) -> object:
        """Reads all of a row; raises RowCorrupt."""

    @abstractmethod
    def erasure_known(self, data: bytes) -> int:
        """Returns the stamp of the last erasure that a row knows of, 0 = none. Raises RowCorrupt."""

    @abstractmethod
    def emptied(self, data: bytes, erased_at: int) -> bytes:
        """Returns a row emptied by an erasure of that stamp. Raises RowCorrupt."""

    def bounded(self, as_set: BoundedLadder) -> BoundedLadder:
        """Returns how much of its values is kept: as_set, or of corrections all that there may be."""
        return CORRECTIONS if self.corrects else as_set
