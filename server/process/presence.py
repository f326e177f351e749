"""Shows the cluster every other second that this process lives, and learns which others do not.

A round counts only if it both showed the own beat and read those of all: `ingest/journal/taking.py` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from clickcurve.buckets.errors import StoreUnavailable
from ingest.journal.taking import ROUND_S, Rounds, process_of
from server import clock
from server.logs import log
from storage.contract import OPEN, Store
from storage.journals import JournalRecord

MISSED_MOST = 2  # rounds in a row; one alone may be a node that has just died


class Presence:
    """process: its name in the cluster. records: of all owners whose journals lie there, as of the last round."""

    def __init__(self, store: Store, process: str) -> None:
        self.process = process
        self.records: list[JournalRecord] = []
        self.rounds = Rounds()
        self.counted = self.missed = self.missed_in_a_row = 0
        self.round_ended: Callable[[], object] = lambda: None
        self._store = store
        self._beat = 0
        self._round_over = asyncio.Event()  # a new one for each round
        self._going: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "beats")  # of its own: a beat waits for no other call

    @property
    def is_heard(self) -> bool:
        """Whether the cluster answers."""
        return self.missed_in_a_row < MISSED_MOST

    async def begin(self) -> None:
        """Takes the first round; once one counts, the others follow by themselves. Call it again until then.

        Raises SettingInvalid or StoreMismatch if journals must not lie in the store.
        """
        await self._round()
        if self.counted and self._going is None:
            self._going = asyncio.create_task(self._go_on())

    async def next_round(self) -> None:
        """Waits until the next round has ended."""
        await self._round_over.wait()

    async def _go_on(self) -> None:
        began = clock.monotonic()
        while True:
            # A round of a busy cluster may take a second. With a pause of 2 s after each, 15 of them took up to 65 s.
            await asyncio.sleep(max(0.0, began + ROUND_S - clock.monotonic()))
            began = clock.monotonic()
            try:
                await self._round()
                self.round_ended()
            except Exception:  # without beats the process would be taken for dead
                self._missed()
                log.exception("round failed")
            self._round_over.set()
            self._round_over = asyncio.Event()

    async def _round(self) -> None:
        self._beat += 1
        try:
            beats, records = await asyncio.get_running_loop().run_in_executor(self._thread, self._look, self._beat)
        except StoreUnavailable:
            self._missed()
            return
        self.records = records
        holders = [each.record.holder for each in records if each.record.state == OPEN]
        self.rounds.counted(beats, {process_of(holder) for holder in holders} - {self.process})
        self.counted += 1
        self.missed_in_a_row = 0

    def _missed(self) -> None:
        self.missed += 1
        self.missed_in_a_row += 1

    def _look(self, beat: int) -> tuple[dict[str, int], list[JournalRecord]]:
        journals = self._store.journals()
        journals.beat(self.process, beat)
        return journals.beats(), journals.records()

    async def end(self) -> None:
        """Shows no beat any more."""
        if self._going is not None:
            self._going.cancel()
            with suppress(asyncio.CancelledError):
                await self._going
        self._thread.shutdown(wait=False)
