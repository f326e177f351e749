"""A peer that is asked over HTTP: wrk drives it, one kept connection asks for answers that are compared."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
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
LARGE = 100_000  # hits of a batch


class HttpPeer(Peer):
    """What is the same for servers over HTTP; each names its paths and bodies."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._http: httpx.Client | None = None
        self._sent_once: set[int] = set()

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
        run = drive(self.url, self.single_requests(self._file("singles"), keys), WRITERS, max(2, round(seconds)))
        self.sent = run.requests
        return run.per_s

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float | None:
        path, media = self.batch_door()
        files = [self._file(f"batch-{number}") for number in range(len(keys))]
        for file, some in zip(files, keys, strict=True):
            file.write_text(self.batch_body(some, at))
        size = len(keys[0])
        if size not in self._sent_once:  # a link's first hit costs some of them much more than the next
            self._sent_once.add(size)
            for file in files:
                self.post(path, file.read_bytes(), {"Content-Type": media})
        if size >= LARGE:
            return size * self._posted(path, media, [file.read_bytes() for file in files], seconds)
        run = drive(self.url, Requests.bodies(path, media, files), BATCH_WRITERS, max(1, round(seconds)))
        return run.per_s * size

    def _posted(self, path: str, media: str, bodies: Sequence[bytes], seconds: float) -> float:
        """Bodies a second until each that was begun is answered: few are, and wrk counts whole answers of its time."""
        turns, begun = cycle(bodies), perf_counter()

        def post_on(_: int) -> int:
            answered = 0
            with http_client(self.url, timeout_s=120.0) as http:
                while not answered or perf_counter() - begun < seconds:
                    http.post(path, content=next(turns), headers={"Content-Type": media}).raise_for_status()
                    answered += 1
            return answered

        with ThreadPoolExecutor(BATCH_WRITERS) as writers:
            answered = sum(writers.map(post_on, range(BATCH_WRITERS)))
        return answered / (perf_counter() - begun)

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
