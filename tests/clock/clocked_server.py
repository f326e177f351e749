"""A real server under a wall clock that a test sets, and what is seen of its clock and of its buckets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.clock.wrong_clock import WrongClock


class ClockedServer:
    """`clickcurve serve` in one data folder. `answers` asks it."""

    def __init__(self, data: Path, wall: WrongClock, *flags: str, **settings: str) -> None:
        self.data, self.wall = data, wall
        named = {f"CLICKCURVE_{name.upper()}": value for name, value in settings.items()}
        self.process = RunningServer(data, "--flush-s", "1", *flags, settings={**wall.environment, **named})

    def start(self) -> Clickcurve:
        """Starts it and waits until it answers, ready or not."""
        self.process.launch()
        self.process.wait_until(self._alive)
        return self.answers

    def _alive(self) -> bool:
        with Clickcurve(self.process.url) as asking:
            try:
                return asking.http.get("/healthz").status_code == 200
            except Exception:
                return False

    @property
    def answers(self) -> Clickcurve:
        return Clickcurve(self.process.url, fresh=True)

    def ready(self, purpose: str = "write") -> dict[str, Any]:
        found: dict[str, Any] = self.answers.http.get(f"/readyz?for={purpose}").json()
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric over all workers."""
        lines = self.answers.http.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"clickcurve_{name}"))

    def flush(self, times: int = 2) -> None:
        """Waits until every worker has flushed what it holds."""
        with self.answers as asking:
            for _ in range(times):
                asking.send([{"key": "flushed"}])
        self.process.wait_until(lambda: self.metric("buffered_hits") == 0)

    def runs(self, job: str, times: int = 2) -> None:
        """Waits until a job has run so often from now on, in each worker."""
        name = f'job_runs_total{{job="{job}"'
        since = self.metric(name)
        workers = max(1, len(self.process.workers()))
        self.process.wait_until(lambda: self.metric(name) >= since + times * workers)

    def widths(self, key: str) -> list[int]:
        """The widths of the buckets of a link that have hits."""
        with self.answers as asking:
            points = asking.http.get(f"/v1/links/{key}/curve?from=0&step=native").json()["points"]
        return sorted({point["end"] - point["start"] for point in points if point["count"]})

    def both_widths(self) -> tuple[list[int], list[int]]:
        """The widths of the buckets of the links of `send_two_links`: today's, and that of the days before."""
        return self.widths("minutes"), self.widths("hours")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """What the log has of these events since the very first start, in order."""
        lines = [line for line in self.process.output().splitlines() if line.startswith("{")]
        return [each for line in lines if (each := json.loads(line))["event"] in names]

    def command(self, *words: str) -> str:
        """Runs a command under the same clock; its output. It must succeed."""
        ended = run(*words, timeout_s=60.0, **self.wall.environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr


@contextmanager
def clocked(data: Path, wall: WrongClock, *flags: str, **settings: str) -> Iterator[ClockedServer]:
    """Runs a server; it is stopped in the end if it runs."""
    server = ClockedServer(data, wall, *flags, **settings)
    server.start()
    try:
        yield server
    finally:
        if server.process.running:
            server.process.stop()


def send_two_links(server: ClockedServer) -> tuple[list[int], list[int]]:
    """Counts hits of today and of days ago, and flushes; returns the widths of both links' buckets."""
    now = int(time.time())
    with server.answers as asking:
        asking.send([{"key": "minutes", "ts": now - 420 * n, "count": n + 1} for n in range(8)])
        asking.send([{"key": "hours", "ts": now - 9 * 3_600 * n, "count": n + 1} for n in range(8)])
        asking.send({"key": "once", "id": "one-and-the-same", "ip": "192.0.2.1", "ua": "Mozilla/5.0"})
    server.flush()
    return server.both_widths()
