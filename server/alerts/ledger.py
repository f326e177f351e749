"""Which alerts fire, and what is still to be said: kept in the journal and the store, as the offset of an import is.

An alert's states are the steps of a source: step n moves its offset from n - 1 to n, with the state as its tail. So a
step is durable before anything is said, a restart goes on where it was, a backup has it, and of several nodes of one
cluster only that says something which keeps the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from ingest.batch import Batch, SourceStep
from server.alerts.cause import AlertCause
from storage.contract import Source


class Steps(Protocol):
    """What a ledger needs of the owner."""

    async def accept(self, batch: Batch) -> frozenset[str]: ...
    async def source(self, source: str) -> Source: ...


class Noted(msgspec.Struct, array_like=True, frozen=True):
    """What a tail holds. due: the ways on which the last change is still to be said. counted: bounds of the totals.

    cause: the value that brought most of the hits. It is kept so that a message is the same when it is sent again, and
    forgotten when nothing is due any more.
    """

    firing: bool = False
    at: int = 0
    id: str = ""
    due: tuple[str, ...] = ()
    counted: tuple[int, ...] = ()
    cause: AlertCause | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A state, and the step that it is."""

    step: int
    noted: Noted


class Ledger:
    """Reads and writes the states of alerts."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def read(self, source: str) -> LedgerEntry:
        """Returns the state of an alert; raises StoreUnavailable, and ImportElsewhere if another node keeps it."""
        kept = await self._steps.source(source)
        return LedgerEntry(kept.position, msgspec.json.decode(kept.tail, type=Noted) if kept.tail else Noted())

    async def write(self, source: str, before: LedgerEntry, noted: Noted) -> LedgerEntry:
        """Makes a state durable and returns it; raises ImportOutOfStep if it is not the one that was read."""
        tail = msgspec.json.encode(noted).decode()
        await self._steps.accept(Batch(source=SourceStep(source, before.step, before.step + 1, tail)))
        return LedgerEntry(before.step + 1, noted)

    async def note_sent(self, source: str, before: LedgerEntry, way: str) -> LedgerEntry:
        """Notes that the last change was sent by this way."""
        due = tuple(each for each in before.noted.due if each != way)
        return await self.write(source, before, replace_due(before.noted, due))


def replace_due(noted: Noted, due: tuple[str, ...]) -> Noted:
    return msgspec.structs.replace(noted, due=due, cause=noted.cause if due else None)
