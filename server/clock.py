"""The only file that reads the time. Everything else gets the time as an argument.

The wall clock is what the system says the time is: anybody may set it, and what sets it may be wrong. The running time
of the machine only goes on; nobody can set it. `TrustedClock` makes the time that the server goes by of the two.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

NEAR_S = 10.0  # a wall clock that is off by no more is followed at once: no step
DRIFT = 1 / 8  # of the running time: how much faster or slower the wall clock may run and is followed
LOOK_S = 1.0  # for so long a wall clock that was right is believed without a look at the running time
SETTLE_S = 600.0  # for so long a step must have held before it is followed
HELD_S = 86_400.0  # and so long before what cannot be undone follows it
AHEAD_S = 3_600.0  # by more than this what cannot be undone does not run ahead before that
UNREADY_S = 60.0  # a start that is behind is not ready for so long: time for a time service
NEVER = float("inf")
_SAME_S = 60.0  # offsets that differ by less are remembered as one

ClockState: TypeAlias = Literal["ok", "stepped", "behind"]
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Returns the wall clock: epoch seconds, with fractions."""
    return time.time()


def running() -> float:
    """Returns the seconds that the machine has been running, also suspended."""
    return time.clock_gettime(_BOOTTIME)


def boot() -> str:
    """Returns a name of this start of the machine, "" if it has none: readings of `running` compare within it."""
    try:
        # In a time namespace the running time has an offset of its own.
        namespace = Path("/proc/self/ns/time")
        own = namespace.readlink().name if namespace.is_symlink() else ""
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {own}".strip()
    except OSError:
        return ""


def monotonic() -> float:
    """Returns seconds that never step back, for measuring durations. They may stand still while it is suspended."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Sleeps, in commands and threads that ask again later. Never called on an event loop."""
    time.sleep(seconds)


class Step(msgspec.Struct):
    """A jump of the wall clock. Offsets are what the wall clock says less the running time.

    to: the offset that must hold, since the running time `since`. last: the offset when it was looked at last. began:
    the running time from which on the wall clock says another time than the trusted one.
    """

    to: float
    last: float
    since: float
    began: float = NEVER


class KnownTime(msgspec.Struct):
    """What a process leaves to the next one: `TrustedClock.known`.

    running: when it was noted, in the boot of this name. offset: the trusted clock less the running time. careful: what
    the careful clock said. past: the offsets of `TrustedClock` that are remembered. newest: of what flush the wall
    clock was before; None: it was not.
    """

    boot: str
    running: float
    offset: float
    careful: float
    past: list[tuple[float, float]]
    step: Step | None = None
    newest: float | None = None


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """What is told of a trusted clock. off_s: the wall clock less the trusted one.

    folding_held: what cannot be undone waits. is_unready: the server has begun a moment ago, and is behind.
    """

    state: ClockState
    off_s: float
    folding_held: bool
    is_unready: bool


RIGHT = ClockStatus("ok", 0.0, folding_held=False, is_unready=False)


class TrustedClock:
    """The time that the server goes by. Give it the wall clock and the running time, as functions, both in seconds.

    `now` follows the wall clock while that runs on steadily, and through steps of up to NEAR_S. After any other step it
    runs on by itself, until the wall clock has come back, or has held its new time for settle_s.

    `careful` is for what cannot be undone. It is `now`, but never more than AHEAD_S above the least that `now` has said
    in the last HELD_S of running time, each reading moved on to the present; a step that is not followed stops that
    time. So after a step ahead by more it goes on by itself for so long, and a clock that runs fast pulls it along.

    known: what the process before has noted. In the same boot of the machine the time is known from it, whatever the
    wall clock says. After another boot the wall clock is believed if it is not before what is known. A start that finds
    the wall clock before that is behind: `now` goes on from what is known, until the wall clock has passed it, or has
    held its own time for HELD_S. After another boot, until the wall clock has run steadily for settle_s, a time that is
    nearer to what is known is believed at once: a time service mends a clock soon after a start.

    Any thread may read it. Most calls read the wall clock alone; once in LOOK_S one reads both.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        running: Callable[[], float],
        settle_s: float = SETTLE_S,
        boot: str = "",
        known: KnownTime | None = None,
    ) -> None:
        self._wall, self._running = wall, running
        self._settle_s, self._boot = settle_s, boot
        self._lock = Lock()
        self._from = self._until = NEVER  # readings of the wall clock between them are believed at once
        self._began = self._looked = self._steady_since = at = running()
        self._offset = wall() - at
        self._step: Step | None = None
        self._newest = -NEVER  # when the newest flush began that the start knew of
        self._began_behind = self._is_guess = self._held = False
        self.steps = self.settled = 0  # how many there were, and how many ended
        self.followed = False  # whether the last one ended with the new time
        self._past: deque[tuple[float, float]] = deque()  # rising offsets, and when each was seen last
        self._least = self._offset
        self._knows = known is not None
        self._is_exact = known is not None and bool(boot) and known.boot == boot
        if known is not None:
            moved = 0.0 if self._is_exact else known.running - at
            self._past.extend((offset + moved, last - moved) for offset, last in known.past)
            if self._is_exact:
                self._offset, self._step = known.offset, known.step
            self._begin_from(max(known.careful, -NEVER if known.newest is None else known.newest))
        self.look()

    # --- reading ----------------------------------------------------------------------------------------------------
    def now(self) -> float:
        """Returns epoch seconds, with fractions."""
        wall = self._wall()
        return wall if self._from <= wall < self._until else self.look()

    def careful(self) -> float:
        """Returns epoch seconds for what cannot be undone: never above `now`."""
        at = self.now()
        return min(at, self._running() + self._least + AHEAD_S) if self._held else at

    def status(self) -> ClockStatus:
        """Returns what is to be told of it."""
        with self._lock:
            wall, running = self._wall(), self._running()
            at = self._look(wall, running)
            step = self._step
            if step is None:
                return ClockStatus("ok", 0.0, self._held, False)
            is_behind = self._is_behind(wall)
            is_new = is_behind and running - self._began < UNREADY_S
            return ClockStatus("behind" if is_behind else "stepped", wall - at, self._held, is_new)

    def known(self) -> KnownTime:
        """Returns what the next process needs to go on."""
        careful = self.careful()
        with self._lock:
            step = None if self._step is None else replace(self._step)
            newest = self._newest if self._began_behind else None
            return KnownTime(self._boot, self._looked, self._offset, careful, [*self._past], step, newest)

    # --- following the wall clock -----------------------------------------------------------------------------------
    def look(self) -> float:
        """Looks at both clocks, and returns `now`. Call it every second or so."""
        with self._lock:
            return self._look(self._wall(), self._running())

    def _look(self, wall: float, running: float) -> float:
        offset, elapsed_s = wall - running, max(0.0, running - self._looked)
        self._looked = running
        off_s = offset - self._offset
        if abs(off_s) <= NEAR_S:
            self._offset += max(-elapsed_s * DRIFT, min(elapsed_s * DRIFT, off_s))
            self._end_step(running, followed=False)
            self._is_guess = self._is_guess and running - self._steady_since < self._settle_s
            self._from, self._until = wall, wall + LOOK_S
            at = wall
        else:
            self._from = self._until = NEVER
            self._follow_step(wall, running)
            at = running + self._offset
        self._remember(running, at - running)
        return at

    def _follow_step(self, wall: float, running: float) -> None:
        """Notes that the wall clock is off, and takes its time once that has held for long enough."""
        step, offset = self._step, wall - running
        if step is None or abs(offset - step.last) > NEAR_S:
            self.steps += 1
            step = self._step = Step(offset, offset, running, running if step is None else step.began)
        step.last = offset
        held_s = running - step.since
        if abs(offset - step.to) > NEAR_S + held_s * DRIFT:
            step.to, step.since, held_s = offset, running, 0.0
        has_held = held_s >= (HELD_S if self._is_behind(wall) else self._settle_s)
        if has_held or self._comes_nearer(wall, offset):
            self._offset, self._is_guess = offset, self._is_guess and not has_held
            self._end_step(running, followed=True)
            if held_s >= HELD_S:  # it has held for long enough for all
                self._past.clear()

    def _is_behind(self, wall: float) -> bool:
        return self._began_behind and wall < self._newest

    def _comes_nearer(self, wall: float, offset: float) -> bool:
        """Returns whether the time is a guess, and the wall clock comes nearer to the newest flush that is known."""
        return self._is_guess and wall >= self._newest and (self._began_behind or offset < self._offset)

    def _end_step(self, running: float, *, followed: bool) -> None:
        if self._step is not None:
            self.settled, self.followed, self._steady_since = self.settled + 1, followed, running
            if not followed:  # what the wall clock denied did not hold meanwhile
                denied_s = max(0.0, running - self._step.began)
                self._past = deque((least, seen + denied_s) for least, seen in self._past)
        self._step, self._began_behind = None, False

    def _remember(self, running: float, offset: float) -> None:
        """Keeps the least offsets of the last HELD_S: the first one is the least of all."""
        past = self._past
        while past and past[-1][0] >= offset:
            past.pop()
        if past and offset - past[-1][0] < _SAME_S:
            past[-1] = (past[-1][0], running)
        else:
            past.append((offset, running))
        # In a step nothing is forgotten: what the wall clock denies would be believed without having held.
        while len(past) > 1 and past[0][1] < running - HELD_S and self._step is None:
            past.popleft()
        self._least = past[0][0]
        self._held = offset - self._least > AHEAD_S

    # --- what else is known -----------------------------------------------------------------------------------------
    def learn_flush(self, at: float) -> None:
        """Learns at a start when the own owner's newest flush began, by the careful clock of its process."""
        with self._lock:
            if not self._knows:
                running = self._running()
                self._past = deque([(at - running, running)])
            self._knows = True
            self._begin_from(at)
            self._look(self._wall(), self._running())

    def _begin_from(self, newest: float) -> None:
        """Begins, as a start does, where the store has a flush of that time."""
        wall, running = self._wall(), self._running()
        self._newest, self._began_behind = newest, wall < newest
        if not self._is_exact:  # the machine was off for a time that nobody knows
            self._is_guess = not newest <= wall <= newest + AHEAD_S
            self._offset, self._step = max(wall, newest) - running, None

    def learn_others(self, flushes: Iterable[float]) -> bool:
        """Learns when other machines have flushed, by their careful clocks; returns whether one confirms this clock."""
        at = self.now()
        with self._lock:
            confirmed = self._held and any(abs(at - flush) <= AHEAD_S for flush in flushes)
            if confirmed:
                running = self._running()
                self._past.clear()
                self._remember(running, at - running)
            return confirmed

    def accept(self) -> float:
        """Takes the wall clock's time at once, also for what cannot be undone; returns by how much `now` moves."""
        with self._lock:
            wall, running = self._wall(), self._running()
            moved = wall - self._look(wall, running)
            self._offset, self._is_guess = wall - running, False
            self._end_step(running, followed=True)
            self._past.clear()
            self._look(wall, running)
            return moved
