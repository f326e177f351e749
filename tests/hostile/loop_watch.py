"""Measures what one request costs others: the longest pause of a server's event loop, and hits sent meanwhile.

    with WatchedServer(tmp_path / "data") as server, server.watch() as seen:
        httpx.get(f"{server.url}/v1/heavy")
    seen.check()

Tests share the machine with others, so the time for which a thread was ready to run and got no processor is left out
of all figures (the kernel counts it: `/proc/PID/task/TID/schedstat`). What is left is the server's own: its work, a
lock of the interpreter that another thread of it holds, a call that blocks. How much of a pause was work of the event
loop's own thread stands beside it. A thread that holds the interpreter may wait for a processor, too: of a hit, and of
a pause that is longer than the loop's own work, as much is left out as another thread waited meanwhile
(`OtherThreads`). Bounds are multiples of a piece of work that is done before and after (`tests/hostile/piece.py`): the
longer of both counts.

Run as a module, this is the program, with a timer on its event loop that writes each pause to the file PAUSES_FILE.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from ingest.reading.receipt import ONE_COUNTED
from testing.server import PROGRAM, RunningServer
from tests.hostile.piece import piece_s

PAUSES_FILE = "LOOP_WATCH_PAUSES"
BEAT_S = 0.005  # how often the event loop is asked to run the timer
NOTED_S = 0.005  # shorter pauses are not written
LOOK_S = 0.002
LOOKS_KEPT = 60_000  # of two minutes, if the machine is quiet
HIT_EVERY_S = 0.02
HITS_AFTER = 3  # the block that is watched: time for the event loop to note its last pause
# In pieces of 3 ms on a quiet core: 21 and 51 ms.
PAUSE_MAX = 7
HIT_P99_MAX = 17
HIT = b"POST /v1/hits/beside HTTP/1.1\r\nHost: localhost\r\n\r\n"


class QueueTime:
    """How long a thread has waited for a processor, in seconds since it began."""

    def __init__(self, pid: int, thread: int) -> None:
        self._file = os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY)

    def read_s(self) -> float:
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e9

    def close(self) -> None:
        os.close(self._file)


class Heartbeat:
    """A timer on the running event loop; it appends each pause to a file as `begun_s ended_s pause_s work_s`.

    begun_s, ended_s: in monotonic time; work_s: the processor time of the event loop's thread.
    """

    def __init__(self, file: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue_time = QueueTime(os.getpid(), threading.get_native_id())
        self._file = file.open("a", buffering=1)
        self._beat_s, self._queued_s, self._worked_s = time.monotonic(), self._queue_time.read_s(), time.thread_time()
        self._next = self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        now_s, queued_s, worked_s = time.monotonic(), self._queue_time.read_s(), time.thread_time()
        pause_s = now_s - self._beat_s - BEAT_S - (queued_s - self._queued_s)
        if pause_s >= NOTED_S:
            self._file.write(f"{self._beat_s} {now_s} {pause_s} {worked_s - self._worked_s}\n")
        self._beat_s, self._queued_s, self._worked_s = now_s, queued_s, worked_s
        self._next = self._loop.call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        """Ends the timer and closes its files."""
        self._next.cancel()
        self._queue_time.close()
        self._file.close()


class Pause(NamedTuple):
    """How long an event loop stood still, and how much of that was work of its own thread, in milliseconds."""

    ms: float
    work_ms: float

    def __str__(self) -> str:
        return f"{self.ms:.1f} ms, {self.work_ms:.1f} of them its own work"


class OtherThreads:
    """How long the threads of a process, but its first, waited for a processor: looked at every LOOK_S from outside."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}/task")
        self._first = str(pid)
        self._looks: deque[tuple[float, dict[str, float]]] = deque(maxlen=LOOKS_KEPT)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join()

    def longest_wait_s(self, begun_s: float, ended_s: float) -> float:
        """Returns how long one of them waited at least within this span of monotonic time."""
        looks = [waits for at_s, waits in list(self._looks) if begun_s <= at_s <= ended_s]
        if len(looks) < 2:
            return 0.0
        first, last = looks[0], looks[-1]
        return max((waited - first.get(thread, 0.0) for thread, waited in last.items()), default=0.0)

    def _look_on(self) -> None:
        while not self._done.wait(LOOK_S):
            others = {thread.name for thread in self._folder.iterdir()} - {self._first}
            self._looks.append((time.monotonic(), {thread: self._waited_s(thread) for thread in others}))

    def _waited_s(self, thread: str) -> float:
        try:
            return int((self._folder / thread / "schedstat").read_text().split()[1]) / 1e9
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return 0.0


def read_pauses(file: Path, begun_s: float, ended_s: float, others: OtherThreads | None = None) -> list[Pause]:
    """Returns the pauses within this span of monotonic time, without what other threads waited for a processor."""
    lines = [map(float, line.split()) for line in file.read_text().splitlines()] if file.exists() else []
    pauses = []
    for pause_begun_s, pause_ended_s, pause_s, work_s in lines:
        if pause_ended_s >= begun_s and pause_begun_s <= ended_s:
            waited_s = 0.0 if others is None else others.longest_wait_s(pause_begun_s, pause_ended_s)
            pauses.append(Pause(max(pause_s - waited_s, min(pause_s, work_s)) * 1000, work_s * 1000))
    return pauses


@dataclass
class Seen:
    """What was seen during one `watch`: milliseconds of each hit and of a piece of work, pauses from NOTED_S on."""

    hits_ms: list[float] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    piece_ms: float = 3.0
    others: OtherThreads | None = None

    @property
    def hit_p99_ms(self) -> float:
        ordered = sorted(self.hits_ms)
        return ordered[int(0.99 * (len(ordered) - 1))]

    @property
    def longest_pause(self) -> Pause:
        return max(self.pauses, default=Pause(0.0, 0.0))

    def __str__(self) -> str:
        return (
            f"{len(self.hits_ms)} hits, p99 {self.hit_p99_ms:.1f} ms, max {max(self.hits_ms):.1f} ms; "
            f"longest pause of the loop {self.longest_pause}; longest of its work {self.longest_work_ms:.1f} ms; "
            f"a piece of work takes {self.piece_ms:.1f} ms"
        )

    @property
    def longest_work_ms(self) -> float:
        return max((pause.work_ms for pause in self.pauses), default=0.0)

    def check(
        self,
        pause_max: float = PAUSE_MAX,
        hit_p99_max: float = HIT_P99_MAX,
        work_max: float = math.inf,
    ) -> None:
        """Raises AssertionError if the loop stood still, worked without a turn of others, or let a hit wait too long.

        All bounds are pieces of work.
        """
        assert self.longest_pause.ms <= pause_max * self.piece_ms, str(self)
        assert self.hit_p99_ms <= hit_p99_max * self.piece_ms, str(self)
        assert self.longest_work_ms <= work_max * self.piece_ms, str(self)


class WatchedServer(RunningServer):
    """A server of one worker whose event loop is watched."""

    def __init__(self, data: Path, *flags: str, settings: Mapping[str, str] | None = None) -> None:
        self._pauses = data.parent / f"{data.name}-pauses"
        settings = {**(settings or {}), PAUSES_FILE: str(self._pauses)}
        super().__init__(data, *flags, settings=settings, module="tests.hostile.loop_watch")

    @contextmanager
    def watch(self, headers: str = "") -> Iterator[Seen]:
        """Sends a hit every 20 ms over one connection until the block ends; `headers` are further header lines."""
        seen, done, failures = Seen(), threading.Event(), []
        head = HIT[:-2] + headers.encode() + b"\r\n"

        def send() -> None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=600) as wire:
                    self._send_hits(wire, head, done, seen)
            except (OSError, AssertionError) as error:
                failures.append(error)

        sender = threading.Thread(target=send)
        before_s = piece_s()
        begun_s = time.monotonic()
        with OtherThreads(self.pid) as seen.others:
            sender.start()
            try:
                yield seen
            finally:
                done.set()
                sender.join()
        seen.pauses = read_pauses(self._pauses, begun_s, time.monotonic(), seen.others)
        seen.piece_ms = max(before_s, piece_s()) * 1000
        assert not failures, failures

    def _send_hits(self, wire: socket.socket, head: bytes, done: threading.Event, seen: Seen) -> None:
        queue_times = QueueTime(os.getpid(), threading.get_native_id()), QueueTime(self.pid, self.pid)
        rest = HITS_AFTER
        while rest:
            rest -= done.is_set()
            begun_s, queued_s = time.monotonic(), sum(each.read_s() for each in queue_times)
            wire.sendall(head)
            answer = b""
            while not answer.endswith(ONE_COUNTED):
                piece = wire.recv(1 << 16)
                assert piece, answer
                answer += piece
            queued_s = sum(each.read_s() for each in queue_times) - queued_s
            ended_s = time.monotonic()
            if seen.others is not None:
                queued_s += seen.others.longest_wait_s(begun_s, ended_s)
            seen.hits_ms.append(max(0.0, ended_s - begun_s - queued_s) * 1000)
            closed, _, _ = select.select([wire], [], [], HIT_EVERY_S)
            assert not closed, "the server closed the connection"
        for each in queue_times:
            each.close()


def _watch_program() -> None:
    import uvicorn

    from clickcurve.__main__ import main

    begin = uvicorn.Server.startup

    async def begin_watched(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        self.heartbeat = Heartbeat(file)  # type: ignore[attr-defined]
        await begin(self, sockets)

    file = Path(os.environ.pop(PAUSES_FILE))
    uvicorn.Server.startup = begin_watched  # type: ignore[method-assign]
    sys.argv[0] = PROGRAM
    main()


if __name__ == "__main__":
    _watch_program()
