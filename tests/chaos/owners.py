"""Owners as a supervisor keeps them: `clickcurve serve` processes that are started again whenever they end."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testing.cassandra.node import faketime_library
from testing.lifeline import spawn
from testing.server import PROGRAM, RunningServer
from tests.crash.wire import Unanswered, Unreachable, Wire

CLOCK_IS_WRONG = "tests.chaos.ahead"
LOOK_EVERY_S = 0.1
READY_WITHIN_S = 120.0
CALM_WITHIN_S = 120.0


def wrong_clock(ahead_s: int) -> dict[str, str]:
    """The environment of a program whose clock is ahead of this machine's. What it waits by stays true."""
    if not ahead_s:
        return {}
    true = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    return {**true, "FAKETIME": f"{ahead_s:+d}s", "LD_PRELOAD": faketime_library()}


class Bound(RunningServer):
    """A server that does not outlive this process."""

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return spawn(command, self.log, environment)


class Owner:
    """One node of Clickcurve. `number` is its place among the others, from 0."""

    def __init__(
        self,
        number: int,
        data: Path,
        store: str,
        chance: random.Random,
        settings: Mapping[str, str],
        ahead_s: int = 0,
        module: str = PROGRAM,
    ) -> None:
        self.number = number
        self.ahead_s = ahead_s
        self.server = Bound(
            data,
            "--store",
            store,
            settings={**settings, **wrong_clock(ahead_s)},
            module=CLOCK_IS_WRONG if ahead_s else module,
        )
        self.up = asyncio.Event()
        self.kills = 0
        self.pauses = 0
        self._chance = chance
        self._stopping = False
        self.flushes = 0  # that its log has told of, since its very first start
        self._certain_flushes = 0
        self._orphaned_journals = 0
        self._log_read = 0
        self._line = b""

    # --- the supervisor ---------------------------------------------------------------------------------------------
    async def supervise(self) -> None:
        """Start it, again and again, until `stop`. AssertionError if it ends though nobody killed it."""
        while not self._stopping:
            self.server.launch()
            await self._follow()
            self.up.clear()
            await asyncio.sleep(0.1 + 0.4 * self._chance.random())

    async def _follow(self) -> None:
        """From its start to its end."""
        wire = Wire(self.server.port)
        late = time.monotonic() + READY_WITHIN_S
        while self._lives():
            if not self.up.is_set() and await is_ready(wire):
                self.up.set()
            assert self.up.is_set() or time.monotonic() < late, f"never ready: {self._last_words()}"
            await asyncio.sleep(LOOK_EVERY_S)
        wire.close()

    def _lives(self) -> bool:
        if self.server.ended and not self._stopping:
            raise AssertionError(f"ended with {self.server.wait()}: {self._last_words()}")
        return self.server.running

    def _last_words(self) -> str:
        return f"owner {self.number}:\n{self.server.output()[-4000:]}"

    def kill(self) -> None:
        """kill -9; the supervisor starts it again."""
        if self.server.running:
            self.up.clear()
            self.server.kill()
            self.kills += 1

    async def pause(self, seconds: float) -> None:
        """Suspend the process for a while, if nobody kills it meanwhile."""
        if not self.server.running:
            return
        pid = self.server.pid
        self.server.signal(signal.SIGSTOP)
        self.pauses += 1
        await asyncio.sleep(seconds)
        if self.server.running and self.server.pid == pid:
            self.server.signal(signal.SIGCONT)

    async def stop(self) -> None:
        """End it cleanly: all it has accepted is in the store afterwards."""
        self._stopping = True
        status = await asyncio.to_thread(self.server.stop)
        assert status == 0, f"ended with {status}: {self._last_words()}"

    # --- what it tells of itself --------------------------------------------------------------------------------------
    def certain_flushes(self) -> int:
        """How many flushes its log has told of by now, but for those while a former journal of its has hits.

        A journal gives way at a start where the store cannot judge it. From then on two journals flush, and the flushes
        of one say nothing of the hits of the other: the count waits until the former one is empty.
        """
        self._line += self._news()
        told, _, self._line = self._line.rpartition(b"\n")
        for line in logged(told.decode()):
            event = line.get("event")
            if event == "journal gives way":
                self._orphaned_journals += 1
            elif event == "orphaned journal emptied":
                self._orphaned_journals -= 1
            elif event == "flush":
                self.flushes += 1
                self._certain_flushes += not self._orphaned_journals
        return self._certain_flushes

    def _news(self) -> bytes:
        if not self.server.log.exists():
            return b""
        with self.server.log.open("rb") as log:
            log.seek(self._log_read)
            news = log.read()
        self._log_read += len(news)
        return news

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of its log that tell of this event."""
        return [line for line in logged(self.server.output().rpartition("\n")[0]) if line.get("event") == name]

    def troubles(self) -> list[str]:
        """What an owner must never say in a campaign: that it was overtaken, or that it met an error of its own."""
        output = self.server.output()
        errors = [line for line in logged(output) if "traceback" in line or line.get("level") == "error"]
        bare = [line for line in output.splitlines() if line.startswith("Traceback")]
        return [f"owner {self.number} said: {str(line)[:2000]}" for line in (*errors, *bare)]

    async def calm(self) -> None:
        """Wait until all it has accepted is in the store."""
        wire = Wire(self.server.port)
        late = time.monotonic() + CALM_WITHIN_S
        while not await is_empty(wire):
            assert time.monotonic() < late, f"never flushes: {self._last_words()}"
            await asyncio.sleep(LOOK_EVERY_S)
        wire.close()


def logged(output: str) -> Iterator[dict[str, Any]]:
    """The lines of a log; one that a kill has cut short is none."""
    for line in output.splitlines():
        with suppress(json.JSONDecodeError):
            if line.startswith("{"):
                yield json.loads(line)


async def is_empty(wire: Wire) -> bool:
    """Whether a server has nothing that is not in the store."""
    try:
        _, body = await wire.get("/metrics")
    except (Unanswered, Unreachable):
        return False
    waiting = [line for line in body.decode().splitlines() if line.startswith("clickcurve_buffered_entries{")]
    return bool(waiting) and all(float(line.rpartition(" ")[2]) == 0 for line in waiting)


async def is_ready(wire: Wire) -> bool:
    try:
        status, _ = await wire.get("/readyz")
    except (Unanswered, Unreachable):
        return False
    return status == 200


def certain_flushes_of(owners: Sequence[Owner]) -> list[int]:
    return [owner.certain_flushes() for owner in owners]
