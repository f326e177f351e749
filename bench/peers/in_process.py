"""A peer that is a library: it runs in a process and an environment of its own, and is told what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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


def _told(verb: str) -> Callable[..., Any]:
    """Returns the method that has the engine do what its method of this name does."""
    return lambda peer, *arguments: peer.tell(verb, *arguments)


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

    def tell(self, verb: str, *arguments: object) -> Any:
        """Has the engine do it; returns its answer."""
        try:
            self._engine.send((verb, arguments))
            return self._engine.recv()
        except EOFError:
            raise RuntimeError(f"{self.name} ended:\n{self.log.read_text(errors='replace')[-2_000:]}") from None

    def load(self, feed: Feed) -> float:
        return float(self.tell("loaded_s", feed.files))

    def settle(self) -> None:
        self.tell("settle")
        super().settle()

    def ask(self, question: Question, key: str) -> Any:
        return self.tell("counts", key, question.start, question.end, question.step_s)

    def top(self, since: int, until: int) -> Any:
        return self.tell("top", since, until, TOP)

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Percentiles:
        return Percentiles.of(self.tell("latency", keys, seconds, question.start, question.end, question.step_s))

    version, add, counted = _told("version"), _told("add"), _told("counted")
    singles, batches = _told("singles"), _told("batches")


class SqliteRows(InProcess):
    engine = engines.Rows


class SqliteHours(InProcess):
    engine = engines.Hours


class DuckDb(InProcess):
    engine = engines.Duck


class ClickHouse(InProcess):
    engine = engines.ClickHouse
