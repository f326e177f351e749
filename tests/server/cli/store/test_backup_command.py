"""How long a backup waits for a flush that is under way."""

from __future__ import annotations

from server.cli.store.backup import LONGEST_S, LOOK_S, QUIET_S, FlushWait
from storage.sqlite.backup import Included


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        assert seconds == LOOK_S
        self.now += seconds


def waited(flush_s: float, written: bool) -> float:
    """How long it waits while flush after flush is found, each lasting so long."""
    clock = Clock()
    wait = FlushWait(clock, clock.pause)
    while wait.look_again([Included(1, 0, int(clock.now / flush_s) + 1)], written) and clock.now < 2 * LONGEST_S:
        pass
    return round(clock.now)


def test_a_backup_waits_as_long_as_flushes_go_on_and_no_longer() -> None:
    assert waited(300, written=True) == 2 * LONGEST_S, "until this test ends it"
    assert waited(300, written=False) == QUIET_S, "the server died in the middle of a flush"
    assert waited(10_000, written=True) == LONGEST_S, "others write, and this flush has no process"
