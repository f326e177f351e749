"""A write that has no answer: how old it is, whom the journal refuses meanwhile, and what goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalFull
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import STALL_S, DiskJournal
from ingest.journal.unanswered import GAP_S, LOOK_S, Unanswered
from ingest.owner import Owner
from storage.memory_store import MemoryStore
from tests.ingest.journal.faulty_disk import FaultyDisk

NOW = 1_709_164_800
MINUTE = NOW // 60 * 60
NOT_ANSWERED = "the disk has not answered for 2 s"


class Timer:
    """Seconds that pass when a test says so, while `looked_at` is looked at as a running process does."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float, looked_at: Unanswered) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + LOOK_S)
            looked_at.overdue_s()


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def unanswered(timer: Timer) -> Unanswered:
    return Unanswered(timer, 2.0, "the disk has not answered")


def test_the_oldest_write_counts_until_it_has_ended(timer: Timer, unanswered: Unanswered) -> None:
    unanswered.check()
    unanswered.begin(1)
    timer.passes(1.5, unanswered)
    unanswered.begin(2)
    timer.passes(0.5, unanswered)
    unanswered.check()
    timer.passes(0.75, unanswered)
    assert unanswered.overdue_s() == pytest.approx(2.75)
    with pytest.raises(JournalFull, match="the disk has not answered for 3 s"):
        unanswered.check()
    unanswered.end(1)
    unanswered.check()
    timer.passes(1.0, unanswered)
    assert unanswered.overdue_s() == pytest.approx(2.25)
    unanswered.end(2)
    unanswered.end(2)
    assert unanswered.overdue_s() == 0.0


@pytest.mark.parametrize("paused_s", [3.0, 3_600.0, 10_000_000.0])
def test_a_pause_of_the_process_is_not_one_of_the_disk(timer: Timer, unanswered: Unanswered, paused_s: float) -> None:
    unanswered.begin()
    timer.passes(1.0, unanswered)
    timer.now += paused_s
    assert unanswered.overdue_s() == 0.0
    timer.passes(0.5, unanswered)
    unanswered.check()  # until now it may have been the pause alone
    timer.passes(GAP_S, unanswered)
    with pytest.raises(JournalFull):
        unanswered.check()


def test_a_write_that_begins_after_a_long_rest_is_new(timer: Timer, unanswered: Unanswered) -> None:
    timer.now += 3_600
    unanswered.begin()
    assert unanswered.overdue_s() == 0.0
    timer.passes(2.25, unanswered)
    assert unanswered.overdue_s() == pytest.approx(2.25)


# --- an owner ---------------------------------------------------------------------------------------------------------
class HangingDisk(FaultyDisk):
    """Not in memory. Its writes wait while `answers` is not set; `hangs` says that one does."""

    def __init__(self) -> None:
        super().__init__()
        self.in_memory = False
        self.answers, self.hangs = threading.Event(), threading.Event()
        self.answers.set()

    def write(self, fd: int, buffers: Sequence[bytes], offset: int, *, durable: bool) -> int:
        if not self.answers.is_set():
            self.hangs.set()
            assert self.answers.wait(60)
        return super().write(fd, buffers, offset, durable=durable)


class Node:
    """An owner over a journal on a disk that may hang."""

    def __init__(self) -> None:
        self.disk, self.timer, self.store = HangingDisk(), Timer(), MemoryStore()
        self.journal = DiskJournal(Path("/journal"), self.disk, timer=self.timer)
        pace = Pace(lambda: NOW, 15.0, lambda: False)
        self.owner = Owner(self.journal, self.store, lambda: NOW, lambda: "token", pace, "here", True)

    async def hang(self, key: str = "first") -> asyncio.Future[None]:
        """Accepts a hit that the disk does not answer."""
        self.disk.answers.clear()
        self.disk.hangs.clear()
        done = self.owner.accept_one(key)
        await asyncio.to_thread(self.disk.hangs.wait, 60)
        return done

    def looks(self, seconds: float) -> None:
        for _ in range(int(seconds / LOOK_S)):
            self.timer.now += LOOK_S
            self.owner._commit._look()

    async def end(self) -> None:
        self.disk.answers.set()
        await self.owner.close()


async def test_while_the_disk_does_not_answer_hits_are_refused_and_those_under_way_wait() -> None:
    node = Node()
    first = await node.hang()
    node.looks(STALL_S)
    waiting = node.owner.accept_one("waiting")
    node.looks(LOOK_S)
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        await waiting
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        node.owner.accept_one("refused")
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        await node.owner.accept(Batch(people={MINUTE: {"refused": 7}}))
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        node.journal.check_timely()
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        await node.owner.erase("refused")
    assert node.journal.stalled_s == pytest.approx(STALL_S + LOOK_S)
    assert not first.done()
    assert node.owner.pending("first") == []
    node.disk.answers.set()
    await first
    await node.owner.accept_one("after")
    await node.owner.accept(Batch(people={MINUTE: {"after": 2}}))
    node.journal.check_timely()
    assert node.journal.stalled_s == 0.0
    assert node.owner.status.buffered_hits == 4
    await node.end()


async def test_a_disk_that_answers_in_time_refuses_nothing_however_long_it_goes_on() -> None:
    """Each write takes 300 ms, and what has come meanwhile shares the next one."""
    node = Node()
    for round_ in range(200):
        first = await node.hang(f"first{round_}")
        later = [node.owner.accept_one("later") for _ in range(5)]
        node.looks(LOOK_S)
        node.disk.answers.set()
        await first
        await asyncio.gather(*later)
    assert node.owner.status.buffered_hits == 1_200
    assert node.timer.now - 100 == 200 * LOOK_S
    await node.end()


async def test_a_paused_process_refuses_nothing_when_it_goes_on() -> None:
    node = Node()
    first = await node.hang()
    node.timer.now += 3_600
    node.owner._commit._look()
    later = node.owner.accept_one("later")
    node.disk.answers.set()
    await asyncio.gather(first, later)
    assert node.owner.status.buffered_hits == 2
    await node.end()


async def test_a_flush_that_the_disk_does_not_let_begin_refuses_hits_too() -> None:
    node = Node()
    await node.owner.accept_one("first")
    await node.owner.claim()
    node.disk.answers.clear()
    node.disk.hangs.clear()
    flush = asyncio.ensure_future(node.owner.flush())
    await asyncio.to_thread(node.disk.hangs.wait, 60)
    waiting = node.owner.accept_one("waiting")
    node.looks(STALL_S + LOOK_S)
    with pytest.raises(JournalFull, match=NOT_ANSWERED):
        await waiting
    node.disk.answers.set()
    await flush
    await node.owner.accept_one("after")
    assert node.owner.status.buffered_hits == 1
    await node.end()


async def test_a_flush_whose_store_hangs_waits_and_nothing_is_refused() -> None:
    node = Node()
    hold, held = threading.Event(), threading.Event()
    begin = node.store.begin

    def hanging(*args: object) -> bool:
        held.set()
        assert hold.wait(60)
        return begin(*args)  # type: ignore[arg-type]

    node.store.begin = hanging  # type: ignore[method-assign, assignment]
    await node.owner.accept_one("first")
    flush = asyncio.ensure_future(node.owner.flush())
    await asyncio.to_thread(held.wait, 60)
    node.looks(60.0)
    await node.owner.accept_one("meanwhile")
    node.journal.check_timely()
    hold.set()
    await flush
    assert node.owner.status.buffered_hits == 1
    await node.end()


def test_a_file_system_in_memory_is_told_from_a_disk(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Disk().is_memory(Path("/dev/shm"))
    assert not Disk().is_memory(Path("/proc"))
