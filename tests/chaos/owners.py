"""Owners as a supervisor keeps them: `clickcurve serve` processes that are started again whenever they end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from testing.cassandra.node import faketime_library
from testing.lifeline import spawn
from testing.server import PROGRAM, RunningServer
from tests.crash.wire import Unanswered, Unreachable, Wire

CLOCK_IS_WRONG = "tests.chaos.ahead"
LOOK_EVERY_S = 0.1
READY_WITHIN_S = 600.0  # a start may stand still for two minutes
CALM_WITHIN_S = 600.0
ENDED = "process ended"  # the event of each end, which no log tells

Event: TypeAlias = dict[str, Any]  # a line of a log


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
    """One node of Clickcurve. `number` is its place among the others, from 0.

    keeps_folder: its machine comes back with its disk. Else all of it is deleted whenever the process has ended.
    """

    def __init__(
        self,
        number: int,
        data: Path,
        store: str,
        chance: random.Random,
        settings: Mapping[str, str],
        ahead_s: int = 0,
        module: str = PROGRAM,
        keeps_folder: bool = True,
    ) -> None:
        self.number = number
        self.ahead_s = ahead_s
        self.keeps_folder = keeps_folder
        self.server = Bound(
            data,
            "--store",
            store,
            settings={**settings, **wrong_clock(ahead_s)},
            module=CLOCK_IS_WRONG if ahead_s else module,
        )
        self.up = asyncio.Event()
        self.returns = asyncio.Event()  # it need not stay away any longer
        self.suspended = False
        self.kills = 0
        self.pauses = 0
        self.starts_and_ends: list[tuple[float, int]] = []  # when a process began to run (+1), and when it ended (-1)
        self.flushes = 0  # that its log has told of, since its very first start
        self._chance = chance
        self._stopping = False
        self._away_s = 0.0
        self._log_read = 0
        self._line = b""
        self._unread: list[Event] = []

    # --- the supervisor ---------------------------------------------------------------------------------------------
    async def supervise(self) -> None:
        """Start it, again and again, until `stop`. AssertionError if it ends though nobody killed it."""
        while not self._stopping:
            self.starts_and_ends.append((time.monotonic(), +1))
            self.server.launch()
            await self._follow()
            self._end()
            if not self.keeps_folder and self.server.data.exists():
                await asyncio.to_thread(shutil.rmtree, self.server.data)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.returns.wait(), self._away_s)

    def _end(self) -> None:
        """Note that no process runs any more, once for each."""
        self.up.clear()
        self.suspended = False
        if self.starts_and_ends[-1][1] > 0:
            self._unread += [*self._logged_since(), {"event": ENDED}]
            self.starts_and_ends.append((time.monotonic(), -1))

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

    def kill(self, away_s: float = 0.0) -> None:
        """kill -9; the supervisor starts it again, after so long or when it `returns`."""
        if self.server.running:
            self._away_s = away_s + 0.1 + 0.4 * self._chance.random()
            self.returns.clear()
            self.server.kill()
            self.kills += 1
            self._end()

    def suspend(self) -> None:
        """Let all its processes stand still."""
        if self.server.running:
            os.killpg(self.server.pid, signal.SIGSTOP)
            self.suspended = True
            self.pauses += 1

    def resume(self) -> None:
        """Let them go on, if nobody has killed them meanwhile."""
        if self.suspended:
            os.killpg(self.server.pid, signal.SIGCONT)
            self.suspended = False

    async def stop(self) -> None:
        """End it cleanly: all it has accepted is in the store afterwards."""
        self._stopping = True
        status = await asyncio.to_thread(self.server.stop)
        assert status == 0, f"ended with {status}: {self._last_words()}"

    # --- what it tells of itself --------------------------------------------------------------------------------------
    def news(self) -> list[Event]:
        """The lines of its log since the last call, and each end of its process after what that has logged."""
        news = [*self._unread, *self._logged_since()]
        self._unread.clear()
        return news

    def _logged_since(self) -> list[Event]:
        if not self.server.log.exists():
            return []
        with self.server.log.open("rb") as log:
            log.seek(self._log_read)
            told = log.read()
        self._log_read += len(told)
        whole, _, self._line = (self._line + told).rpartition(b"\n")
        news = [*logged(whole.decode())]
        self.flushes += sum(line.get("event") == "flush" for line in news)
        return news

    def events(self, name: str) -> list[Event]:
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


def logged(output: str) -> Iterator[Event]:
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


def most_at_once(owners: Iterable[Owner]) -> int:
    """How many processes ran at one time at most, those that stood still included."""
    changes = sorted(change for owner in owners for change in owner.starts_and_ends)
    return max(accumulate(change for _, change in changes), default=0)
