"""The instrument itself: what holds the loop is seen, and a quiet server passes on a machine that is busy."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.client import Clickcurve
from tests.hostile.loop_watch import Heartbeat, OtherThreads, Pause, Seen, WatchedServer, read_pauses


def work(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def block(seconds: float) -> None:
    select.select([], [], [], seconds)


@pytest.mark.parametrize(("hold", "is_work"), [(work, True), (block, False)])
def test_a_loop_that_is_held_by_work_or_by_a_call_that_blocks_is_seen(
    hold: Callable[[float], None], is_work: bool, tmp_path: Path
) -> None:
    async def main() -> list[Pause]:
        heartbeat = Heartbeat(tmp_path / "pauses")
        begun_s = time.monotonic()
        asyncio.get_running_loop().call_soon(hold, 0.1)
        while not (pauses := read_pauses(tmp_path / "pauses", begun_s, time.monotonic())):
            await asyncio.sleep(0)
        heartbeat.stop()
        return pauses

    longest = max(asyncio.run(main()))
    assert longest.ms > 90
    assert (longest.work_ms > 90) is is_work


def test_pauses_outside_the_time_that_is_asked_for_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "pauses"
    assert read_pauses(file, 0, 9) == []
    file.write_text("1.0 1.5 0.5 0.1\n2.0 2.5 0.5 0.25\n4.0 4.5 0.5 0.1\n")
    assert read_pauses(file, 2.2, 3.0) == [Pause(500.0, 250.0)]


SPINNING = """
import os, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
input()
"""


def test_what_another_thread_waits_for_a_processor_is_no_pause(tmp_path: Path) -> None:
    two = [subprocess.Popen([sys.executable, "-c", SPINNING], stdin=subprocess.PIPE) for _ in range(2)]
    try:
        with OtherThreads(two[0].pid) as others:
            begun_s = time.monotonic()
            while others.longest_wait_s(begun_s, time.monotonic()) < 0.02:
                assert time.monotonic() < begun_s + 60, "both share one processor"
                select.select([], [], [], 0.01)
            ended_s = time.monotonic()
    finally:
        for process in two:
            process.communicate(b"\n")
    file = tmp_path / "pauses"
    file.write_text(f"{begun_s} {ended_s} 0.025 0.001\n{begun_s} {ended_s} 0.025 0.024\n")
    waited, own_work = read_pauses(file, begun_s, ended_s, others)
    assert waited.ms < 6
    assert own_work.ms == 24.0
    assert others.longest_wait_s(ended_s + 1, ended_s + 2) == 0.0


def test_what_is_too_long_fails_and_is_told() -> None:
    Seen([10.0] * 98 + [60.0] * 2, [Pause(20.0, 9.0)]).check(hit_p99_max=20)
    pause = "longest pause of the loop 20.0 ms, 9.0 of them its own work"
    with pytest.raises(AssertionError, match=rf"100 hits, p99 60.0 ms, max 60.0 ms; {pause}"):
        Seen([10.0] * 98 + [60.0] * 2, [Pause(20.0, 9.0)]).check()
    with pytest.raises(AssertionError, match="longest pause of the loop 22"):
        Seen([10.0], [Pause(22.0, 0.0)]).check()
    with pytest.raises(AssertionError, match=r"longest of its work 9.0 ms; a piece of work takes 3.0 ms"):
        Seen([10.0], [Pause(20.0, 9.0)]).check(work_max=2)


def test_a_machine_that_takes_longer_for_a_piece_of_work_may_take_longer() -> None:
    Seen([100.0], [Pause(40.0, 15.0)], piece_ms=6.0).check(work_max=3)
    with pytest.raises(AssertionError, match=r"longest pause of the loop 43"):
        Seen([100.0], [Pause(43.0, 15.0)], piece_ms=6.0).check()


def test_a_server_with_nothing_else_to_do_passes(tmp_path: Path) -> None:
    def watched(server: WatchedServer) -> Seen:
        with server.watch() as seen, Clickcurve(server.url) as client:
            for _ in range(50):
                client.http.get("/healthz").raise_for_status()
        assert len(seen.hits_ms) > 3
        return seen

    with WatchedServer(tmp_path / "data") as server:
        tries = [watched(server) for _ in range(3)]
    min(tries, key=lambda seen: seen.longest_pause).check()  # others use the machine, too
