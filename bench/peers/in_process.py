"""A peer that is a library: it runs in a process and an environment of its own, and is told what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from bench.measure import Percentiles
from bench.peers import engines
from bench.peers.hits import TOP, Feed, Question
from bench.peers.peer import Peer
from bench.servers import Started
from testing.server import ROOT

ENVIRONMENT = ROOT / ".venv" / "peers"


class InProcess(Peer):
    """One of `engines`, which says what it is called and how it is loaded."""

    writes = reads = "in process"
    engine: type[engines.Engine]

    def __init_subclass__(cls) -> None:
        cls.name, cls.synced, cls.sends = cls.engine.name, cls.engine.synced, cls.engine.sends

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        python = str(ENVIRONMENT / "bin" / "python") if self.engine.package else sys.executable
        arguments = ("-m", "bench.peers.engines", self.engine.__name__, str(folder), str(self.port))
        self.programs = [Started([python, *arguments], self.log, self._connects)]

    def _connects(self) -> bool:
        with suppress(ConnectionRefusedError):
            self._engine = self.connected.enter_context(Client(("127.0.0.1", self.port)))
            return True
        return False

    def _repeat(self, verb: str, turns: Sequence[Sequence[object]], seconds: float = 0) -> tuple[Any, list[float]]:
        """Has the engine do it as `engines.repeat` does."""
        try:
            self._engine.send((verb, turns, seconds))
            answer: tuple[Any, list[float]] = self._engine.recv()
            return answer
        except EOFError:
            raise RuntimeError(f"{self.name} ended:\n{self.log.read_text(errors='replace')[-2_000:]}") from None

    def tell(self, verb: str, *arguments: object) -> Any:
        """Has the engine do it once; returns its answer."""
        return self._repeat(verb, [arguments])[0]

    def version(self) -> str:
        return str(self.tell("version"))

    def load(self, feed: Feed) -> float:
        return sum(self._repeat("load", [(feed.files,)])[1]) / 1_000

    def settle(self) -> None:
        self.tell("settle")
        super().settle()

    def ask(self, question: Question, key: str) -> Any:
        return self.tell("counts", key, question.start, question.end, question.step_s)

    def top(self, since: int, until: int) -> Any:
        return self.tell("top", since, until, TOP)

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Percentiles:
        turns = [(key, question.start, question.end, question.step_s) for key in keys]
        return Percentiles.of(self._repeat("counts", turns, seconds)[1])

    def add(self, key: str, ts: int) -> None:
        self.tell("add", key, ts)

    def counted(self) -> Any:
        return self.tell("counted")

    def rate(self, batches: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        size = len(batches[0])
        turns: list[tuple[object, ...]] = [(keys, [at - index % 240 for index in range(size)]) for keys in batches]
        if size == 1:
            turns = [(key, at) for (key,) in batches]
        _, took_ms = self._repeat("add" if size == 1 else "add_many", turns, seconds)
        return size * len(took_ms) / sum(took_ms) * 1_000


class SqliteRows(InProcess):
    engine = engines.Rows


class SqliteHours(InProcess):
    engine = engines.Hours


class DuckDb(InProcess):
    engine = engines.Duck


class ClickHouse(InProcess):
    engine = engines.ClickHouse
