"""A machine whose true time is known: what its wall clock says is wrong by what a history puts it."""

from __future__ import annotations

import msgspec

from server.clock import KnownTime, TrustedClock

TRUE = 1_772_000_000.0  # when histories begin
RAN = 50_000.0  # for so long the machine has been running by then


class Machine:
    """true: the time that it is. off_s: what the wall clock is ahead. rate: how fast that runs."""

    def __init__(self) -> None:
        self.true, self.ran, self.boots = TRUE, RAN, 1
        self.off_s, self.rate = 0.0, 1.0

    def wall(self) -> float:
        return self.true + self.off_s

    def running(self) -> float:
        return self.ran

    def run(self, seconds: float) -> None:
        """Lets time go by, also suspended."""
        self.true += seconds
        self.ran += seconds
        self.off_s += seconds * (self.rate - 1)

    def boot(self, off_for_s: float) -> None:
        """Is off for a while, and starts anew."""
        self.true += off_for_s
        self.ran = 5.0
        self.boots += 1

    def clock(self, known: KnownTime | None = None, settle_s: float = 600.0) -> TrustedClock:
        """What a process has that starts now; known: what the one before has left, as it is in a file."""
        kept = None if known is None else msgspec.json.decode(msgspec.json.encode(known), type=KnownTime)
        return TrustedClock(self.wall, self.running, settle_s, f"boot {self.boots}", kept)

    def look(self, clock: TrustedClock, seconds: float, every_s: float = 1.0) -> None:
        """Lets time go by while a process looks at its clock."""
        left = seconds
        while left > 0:
            self.run(min(left, every_s))
            clock.look()
            left -= every_s
