"""Drives a server with wrk, a load generator that costs far less than what it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Percentiles

SAME, VARYING, ASGI = "same", "vary", "asgi"
SCRIPT = Path(__file__).with_name("requests.lua")


@dataclass(frozen=True, slots=True)
class Round:
    """What one run of wrk saw: whole requests, their rate, and how long they took."""

    requests: int
    per_s: float
    took: Percentiles


@dataclass(frozen=True, slots=True)
class Requests:
    """What to send, and with which heads (`requests.lua`): the same in each request, or others in each."""

    method: str
    media: str
    what: tuple[str, ...]
    heads: str = SAME

    @classmethod
    def paths(cls, method: str, file: Path, paths: Iterable[str]) -> Requests:
        """Returns one request for each path, without a body; the file will hold them."""
        file.write_text("".join(f"{path}\n" for path in paths))
        return cls(method, "-", ("paths", str(file)))

    @classmethod
    def lines(cls, path: str, media: str, file: Path, bodies: Iterable[str]) -> Requests:
        """Returns POSTs of bodies of one line each; the file will hold them."""
        file.write_text("".join(f"{body}\n" for body in bodies))
        return cls("POST", media, ("lines", path, str(file)))

    @classmethod
    def bodies(cls, path: str, media: str, file: Path, bodies: Sequence[str]) -> Requests:
        """Returns POSTs of bodies; files beside `file` will hold them."""
        files = [file.with_name(f"{file.name}-{number}") for number in range(len(bodies))]
        for each, body in zip(files, bodies, strict=True):
            each.write_text(body)
        return cls("POST", media, ("bodies", path, *map(str, files)))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.method, self.media, self.heads, *self.what)


def drive(url: str, requests: Requests, connections: int, seconds: float) -> Round:
    """Runs wrk with one thread. An answer that is not 2xx or 3xx, or a broken connection, is an error."""
    options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s", "-s", str(SCRIPT)]
    said = subprocess.run(
        ["wrk", *options, url, "--", *requests.arguments], capture_output=True, text=True, check=False
    )
    figures = next((line for line in said.stdout.splitlines() if line.startswith("FIGURES ")), None)
    if figures is None:
        raise RuntimeError(f"wrk failed:\n{said.stdout}{said.stderr}")
    count, duration_us, p50_us, p99_us, errors = map(int, figures.split()[1:])
    if errors or not count:
        raise RuntimeError(f"{errors} of {count} requests failed: {requests.arguments[:4]}\n{said.stdout}")
    return Round(count, count / duration_us * 1e6, Percentiles(p50_us / 1000, p99_us / 1000))
