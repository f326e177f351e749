"""`clickcurve import --follow`: what it says while it runs, and how it ends with a receipt that is complete."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from ingest.imports.importer import Importer, ImportSummary
from server.cli.output import note, on_screen, progress

SCREEN_EVERY_S = 1.0
NOTE_EVERY_S = 60.0


class Interrupted(Exception):
    """A person, or the system, has asked the follower to end."""


class Interruption:
    """A wish to end: at the first signal after the chunk that is under way, so that it is reported; then at once."""

    def __init__(self) -> None:
        self._ends = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Waits so long; raises Interrupted as soon as the end is asked for."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ends.wait(), seconds)
        self.between()

    def between(self, raw_at: int = 0) -> None:
        """Raises Interrupted if the end was asked for; called when a chunk has counted."""
        if self._ends.is_set():
            raise Interrupted

    def signalled(self, running: asyncio.Future[Any]) -> bool:
        """Takes a signal; returns whether it is the first one. The second one cancels what is running."""
        is_first = not self._ends.is_set()
        if not is_first:
            running.cancel()
        self._ends.set()
        return is_first


class Follower:
    """Follows one log until a signal."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.summary = ImportSummary()
        self.interruption = Interruption()

    async def run(self, importer: Importer) -> None:
        """Follows until it is interrupted; raises what the importer gives up with."""
        note(f"{self.file}: following it; Ctrl-C ends this and prints what was counted")
        following = asyncio.ensure_future(importer.follow(self.file, self.summary))
        telling = asyncio.ensure_future(self._tell())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.interruption.signalled, following)
        try:
            await following
        except (Interrupted, asyncio.CancelledError):
            pass  # the receipt says how far it came
        finally:
            telling.cancel()
            if on_screen():
                progress("")

    async def _tell(self) -> None:
        """Shows the sums so far: on a terminal in a line that keeps up, else in a line a minute, if there is news."""
        last = ""
        while True:
            await asyncio.sleep(SCREEN_EVERY_S if on_screen() else NOTE_EVERY_S)
            sentence = follow_line(self.file, self.summary)
            if on_screen():
                progress(sentence)
            elif sentence != last:
                note(sentence)
            last = sentence


def follow_line(file: Path, summary: ImportSummary) -> str:
    """Returns what a follower has done so far, and what it waits for."""
    waits = "waiting for more"
    if not file.exists():
        waits = "waiting until it is there"
    elif not os.access(file, os.R_OK):
        waits = "waiting until it may be read"
    return f"{file}: {summary.lines:,} lines read, {summary.counted:,} hits counted; {waits}"
