"""A peer that is asked over HTTP: wrk drives it, one kept connection asks for answers that are compared."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.measure import Percentiles
from bench.peers.hits import Question
from bench.peers.peer import Peer
from bench.servers import Started, answers
from bench.wrk import Requests, drive
from testing.client import http_client

WRITERS, BATCH_WRITERS = 32, 4
LARGE = 100_000  # hits of a batch


class HttpPeer(Peer):
    """What is the same for servers over HTTP; each names its paths and bodies."""

    writes = reads = "HTTP"
    batch_door: tuple[str, str]  # path and content type of batches
    alive = "/health"  # answered as soon as the server is ready
    sent = 0  # single hits of the last turn that were answered

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{self.port}"

    def runs(self, *command: str, **settings: str) -> None:
        """Says what its program is, with these environment variables."""
        self.programs = [Started(command, self.log, lambda: answers(self.url + self.alive), settings)]

    @abstractmethod
    def path(self, question: Question, key: str) -> str:
        """Returns path and query of a question."""

    @abstractmethod
    def counts(self, question: Question, answer: Any) -> list[int]:
        """Returns the answer's counts, one a step."""

    @abstractmethod
    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        """Returns requests of one hit each."""

    @abstractmethod
    def batch_body(self, keys: Sequence[str], at: int) -> str: ...

    def start(self) -> None:
        super().start()
        self.http = self.connected.enter_context(http_client(self.url, timeout_s=120.0))

    def get(self, path: str) -> Any:
        return self.http.get(path).raise_for_status().json()

    def post(self, path: str, body: str | bytes, media: str | None = None) -> None:
        headers = {"Content-Type": media} if media else None
        self.http.post(path, content=body, headers=headers).raise_for_status()

    def post_each(self, path: str, bodies: Iterable[str]) -> float:
        """Posts these one after the other; returns the seconds without the making of bodies."""
        took = 0.0
        for body in bodies:
            begun = perf_counter()
            self.post(path, body)
            took += perf_counter() - begun
        return took

    def ask(self, question: Question, key: str) -> list[int] | None:
        return self.counts(question, self.get(self.path(question, key)))

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Percentiles:
        paths = (self.path(question, key) for key in keys)
        return drive(self.url, Requests.paths("GET", self._file("paths"), paths), 1, seconds).took

    def singles(self, keys: Sequence[str], seconds: float) -> float:
        run = drive(self.url, self.single_requests(self._file("singles"), keys), WRITERS, max(2, seconds))
        self.sent = run.requests
        return run.per_s

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        path, media = self.batch_door
        bodies = [self.batch_body(some, at) for some in keys]
        size = len(keys[0])
        for body in bodies:  # a link's first hit costs some of them much more than the next
            self.post(path, body, media)
        if size >= LARGE:
            return size * self._posted(path, media, [body.encode() for body in bodies], seconds)
        requests = Requests.bodies(path, media, self._file("batch"), bodies)
        return drive(self.url, requests, BATCH_WRITERS, seconds).per_s * size

    def _posted(self, path: str, media: str, bodies: Sequence[bytes], seconds: float) -> float:
        """Returns bodies a second until each that was begun is answered: wrk counts whole answers, which are few."""
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
        """Returns a file of requests, outside of what is measured as the peer's."""
        return self.folder.parent / f"{self.folder.name}-{name}.txt"


def grouped(keys: Sequence[str], at: int) -> Iterable[tuple[str, list[int]]]:
    """Returns the moments in ms of the hits of a batch, by key, no two of a key alike."""
    moments: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        moments.setdefault(key, []).append((at - index % 240) * 1_000 + 1 + index // 240 % 999)
    return moments.items()


def json_line(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
