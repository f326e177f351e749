"""Drives a server with wrk, a load generator that costs far less than what it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAME, VARYING, ASGI = "same", "vary", "asgi"
SCRIPT = Path(__file__).with_name("requests.lua")


@dataclass(frozen=True, slots=True)
class Round:
    """What one run of wrk saw: whole requests, per second, and latency percentiles."""

    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Requests:
    """What to send, and with which heads (`requests.lua`): the same in each request, or others in each."""

    method: str
    media: str
    what: tuple[str, ...]
    heads: str = SAME

    @classmethod
    def paths(cls, method: str, file: Path) -> Requests:
        """One request for each path in the file, without a body."""
        return cls(method, "-", ("paths", str(file)))

    @classmethod
    def lines(cls, path: str, media: str, file: Path) -> Requests:
        """POSTs to `path`, one for each line of the file as its body."""
        return cls("POST", media, ("lines", path, str(file)))

    @classmethod
    def bodies(cls, path: str, media: str, files: Sequence[Path]) -> Requests:
        """POSTs to `path`, one for each file as its body."""
        return cls("POST", media, ("bodies", path, *map(str, files)))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.method, self.media, self.heads, *self.what)


def drive(url: str, requests: Requests, connections: int, seconds: int) -> Round:
    """Run wrk with one thread. A single answer that is not 2xx or 3xx, or a broken connection, is an error."""
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(SCRIPT)]
    said = subprocess.run(
        ["wrk", *options, url, "--", *requests.arguments], capture_output=True, text=True, check=False
    )
    figures = next((line for line in said.stdout.splitlines() if line.startswith("FIGURES ")), None)
    if figures is None:
        raise RuntimeError(f"wrk failed:\n{said.stdout}{said.stderr}")
    count, duration_us, p50_us, p99_us, errors = map(int, figures.split()[1:])
    if errors or not count:
        raise RuntimeError(f"{errors} of {count} requests failed: {requests.arguments[:4]}\n{said.stdout}")
    return Round(count, count / duration_us * 1e6, p50_us / 1000, p99_us / 1000)
