"""Which alerts fire, and what is still to be sent: kept in the store, where the next process that judges finds it.

Each alert has one note. A change of it names the text that it replaces, so of two processes that judge at the same time
one changes it, and only this one sends. A change is stored before anything is sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from server.alerts.cause import AlertCause
from storage.contract import Store
from storage.notes import NoteSpace, take_new

LEDGER = "ledger:"  # then the name of an alert or of a report: its state, and what is still to be sent
LEDGER_NOTES = NoteSpace("alerts", (LEDGER,), take_new(LEDGER))  # what has been sent is not sent again


class ChangedElsewhere(ClickcurveError, title="changed elsewhere"):
    """Another process has changed the state that this one has read; it sends what there is to send."""


class Noted(msgspec.Struct, array_like=True, frozen=True):
    """A state. due: the ways on which the last change is still to be sent. counted: bounds of the totals.

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
    """A state, and the text that is stored of it; None: none is."""

    text: str | None
    noted: Noted


class Ledger:
    """Reads and writes the states of alerts. All methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, name: str) -> LedgerEntry:
        """Returns the state of an alert."""
        return await asyncio.to_thread(self._read, name)

    def _read(self, name: str) -> LedgerEntry:
        text = self._store.noted(LEDGER + name)
        if text is None and (former := self._store.source(name)) is not None and former.tail:
            return LedgerEntry(None, _decode(former.tail))  # version 0.2.0 kept it as the offset of an import
        return LedgerEntry(text, Noted() if text is None else _decode(text))

    async def write(self, name: str, before: LedgerEntry, noted: Noted) -> LedgerEntry:
        """Makes a state durable and returns it; raises ChangedElsewhere if `before` is no longer the state.

        noted: must never have been the state before.
        """
        text = msgspec.json.encode(noted).decode()
        kept = await asyncio.to_thread(self._replace, LEDGER + name, before.text, text)
        if kept != text:
            raise ChangedElsewhere(f"another process has changed the state of {name}")
        return LedgerEntry(text, noted)

    def _replace(self, name: str, before: str | None, after: str) -> str | None:
        if before is None:
            return self._store.note(name, after)
        return self._store.change_note(name, before, after)

    async def note_sent(self, name: str, before: LedgerEntry, way: str) -> LedgerEntry:
        """Notes that the last change was sent by this way."""
        due = tuple(each for each in before.noted.due if each != way)
        noted = msgspec.structs.replace(before.noted, due=due, cause=before.noted.cause if due else None)
        return await self.write(name, before, noted)


_decode = msgspec.json.Decoder(Noted).decode
