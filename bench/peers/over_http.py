"""A peer that is asked over HTTP: wrk drives it, one kept connection asks for answers that are compared."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx

from bench.peers.hits import Question
from bench.peers.peer import Latency, Peer
from bench.wrk import Requests, drive
from testing.client import http_client
from testing.server import free_port

WRITERS, BATCH_WRITERS = 32, 4


class HttpPeer(Peer):
    """What is the same for servers over HTTP; each names its paths and bodies. batch_s: of a round, at least."""

    batch_s = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._http: httpx.Client | None = None

    @abstractmethod
    def path(self, question: Question, key: str) -> str:
        """Path and query of a question."""

    @abstractmethod
    def counts(self, question: Question, answer: Any) -> list[int]:
        """The answer's counts, one a step."""

    @abstractmethod
    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        """One hit a request."""

    @abstractmethod
    def batch_door(self) -> tuple[str, str]:
        """Path and content type of batches."""

    @abstractmethod
    def batch_body(self, keys: Sequence[str], at: int) -> str: ...

    @property
    def http(self) -> httpx.Client:
        if self._http is None:
            self._http = http_client(self.url, timeout_s=120.0)
        return self._http

    def disconnect(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def answers(self) -> bool:
        """Whether anybody answers at its address."""
        try:
            self.http.get(self.alive())
        except httpx.TransportError:
            return False
        return True

    def alive(self) -> str:
        """A path that is answered as soon as the server is ready."""
        return "/health"

    def get(self, path: str) -> Any:
        return self.http.get(path).raise_for_status().json()

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.http.post(path, content=body, headers=dict(headers or {})).raise_for_status()

    def post_each(self, path: str, bodies: Iterable[bytes]) -> float:
        """Post these one after the other; the seconds without the making of bodies."""
        took = 0.0
        for body in bodies:
            begun = perf_counter()
            self.post(path, body)
            took += perf_counter() - begun
        return took

    def ask(self, question: Question, key: str) -> list[int] | None:
        return self.counts(question, self.get(self.path(question, key)))

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Latency:
        paths = self._file("paths")
        paths.write_text("".join(f"{self.path(question, key)}\n" for key in keys))
        run = drive(self.url, Requests.paths("GET", paths), 1, max(1, round(seconds)))
        return Latency(run.p50_ms, run.p99_ms)

    def singles(self, keys: Sequence[str], seconds: float) -> float | None:
        run = drive(self.url, self.single_requests(self._file("singles"), keys), WRITERS, max(1, round(seconds)))
        self.sent = run.requests
        return run.per_s

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float | None:
        files = []
        for number, some in enumerate(keys):
            files.append(self._file(f"batch-{number}"))
            files[-1].write_text(self.batch_body(some, at))
        seconds = max(self.batch_s, 1, seconds)
        run = drive(self.url, Requests.bodies(*self.batch_door(), files), BATCH_WRITERS, round(seconds))
        return run.per_s * len(keys[0])

    def _file(self, name: str) -> Path:
        """A file of requests, outside of what is measured as the peer's."""
        return self.folder.parent / f"{self.folder.name}-{name}.txt"


def grouped(keys: Sequence[str], at: int) -> Iterable[tuple[str, list[int]]]:
    """Moments in ms of the hits of a batch, by key, no two of a key alike."""
    moments: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        moments.setdefault(key, []).append((at - index % 240) * 1_000 + 1 + index // 240 % 999)
    return moments.items()


def json_line(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
