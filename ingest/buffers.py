"""The buffers of an owner: the one that hits are added to and, while a flush is unfinished, the one that it took."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from clickcurve.buckets.breakdowns.breakdown import PendingBreakdown
from clickcurve.buckets.errors import JournalBehind
from clickcurve.buckets.row import Pending
from ingest.buffer import Buffer, ErasedCounts, replay
from ingest.journal.group_commit import Group
from ingest.journal.journal import Journal

BUFFER_BYTES = 512 << 20  # what an owner's buffers may take; beyond it hits are answered 429


class Buffers:
    """What an owner accepted and the store may lack. `taken`: what the unfinished flush moves, None between flushes.

    `full`: they take more than `bytes_max`. They may pass that by what was under way when they did.
    """

    def __init__(self, journal: Journal, late_before: int, bytes_max: int) -> None:
        """Rebuilds them from the journal's frames: one for the unfinished flush, one for all later hits."""
        self.bytes_max = bytes_max
        self._journal = journal
        self.taken: Buffer | None = None
        record = journal.state.flush
        if record is not None:
            self.taken = replay(journal.frames(record), {}, late_before)
            self.taken.flush = record.number
        self.filling = replay(journal.frames(), {}, late_before)
        self.full = self.bytes_held() > bytes_max

    def add(self, group: Group, minute: int, accepted_us: int) -> None:
        """Counts what a group brought, its single hits in this minute."""
        buffer = self.filling
        if group.keys and buffer.add_singles(minute, group.keys, accepted_us):
            self.full = self.bytes_held() > self.bytes_max
        if group.batches:
            for batch, visible, _ in group.batches:
                buffer.add_batch(batch, accepted_us, visible)
            self.full = self.bytes_held() > self.bytes_max

    def bytes_held(self) -> int:
        held = self.filling.bytes_held()
        return held if self.taken is None else held + self.taken.bytes_held()

    def take(self, flush: int, late_before: int) -> None:
        """Hands what is buffered to this flush, and begins a new buffer."""
        self.taken, self.filling = self.filling, Buffer(late_before)
        self.taken.flush = flush

    def complete(self) -> None:
        """Lets go of what the flush has stored."""
        self.taken = None
        self.full = self.bytes_held() > self.bytes_max

    def all(self) -> list[Buffer]:
        return [self.filling] if self.taken is None else [self.taken, self.filling]

    def accepted_at(self, id_: str) -> int | None:
        """Returns the accept stamp of an id whose claim is not decided, None if it is not here."""
        return next((each.undecided[id_].accepted_us for each in self.all() if id_ in each.undecided), None)

    def pending(self, key: str) -> list[Pending]:
        """Returns what may not be in the owner's stored row of `key` (a stored key) yet."""
        owner = self._journal.state.identity.owner
        return [
            Pending(owner, partial(getattr, each, "flush"), delta)
            for each in self.all()
            if (delta := each.delta_of_row(key)).adds_anything()
        ]

    def pending_breakdowns(self, key: str) -> list[PendingBreakdown]:
        """Returns what may not be in the owner's stored breakdown of `key` (its stored key) yet."""
        owner = self._journal.state.identity.owner
        return [
            PendingBreakdown(owner, partial(getattr, each, "flush"), delta)
            for each in self.all()
            if (delta := each.delta_of_breakdown(key)).oldest() is not None
        ]

    def links(self) -> Iterator[dict[str, int]]:
        """Yields the links that were counted here and their hits, a link several times, as `Buffer.links` does."""
        return chain.from_iterable([each.links() for each in self.all()])

    def groups(self) -> Iterator[dict[str, int]]:
        return chain.from_iterable([each.groups() for each in self.all()])

    def behind(self) -> JournalBehind:
        """Returns the answer to hits while they are full."""
        held = self.bytes_held()
        return JournalBehind(
            f"what waits for the store takes {held:,} of {self.bytes_max:,} bytes of memory; try again later"
        )

    def erase(self, key: str, at_us: int) -> list[tuple[Buffer, ErasedCounts | None]]:
        """Erases what is buffered of a link; returns what `restore` needs to take this back."""
        return [(each, each.erase(key, at_us)) for each in self.all()]

    @staticmethod
    def restore(key: str, before: list[tuple[Buffer, ErasedCounts | None]]) -> None:
        for each, erased in before:
            each.restore(key, erased)

    @property
    def since_us(self) -> int | None:
        """The first accept stamp of all; None: nothing is buffered."""
        return min((each.since_us for each in self.all() if each.since_us is not None), default=None)
