"""What the bench asks of a peer, and peers that are libraries: in processes and an environment of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from bench.measure import Percentiles
from bench.peers import engines
from bench.peers.hits import TOP, Feed, Question
from bench.servers import Started, on_disk
from testing.server import ROOT, free_port


class Peer(ABC):
    """A store that counts hits: `programs` in a folder of its own, started in this order.

    `writes` and `reads` say by which door; `synced`: whether an answered hit is on the disk. An answer is a list of
    counts, one a step; None: the peer does not keep what is asked.
    """

    name: str
    writes: str
    reads: str
    synced: str
    sends: str  # how the whole workload is loaded
    most_links: int | None = None  # None: all; else the popular ones alone are loaded
    programs: Sequence[Started]

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.log = folder / "output.log"
        self.connected = ExitStack()  # closes the connection that the bench keeps, if there is one

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def ask(self, question: Question, key: str) -> list[int] | None: ...

    @abstractmethod
    def add(self, key: str, ts: int) -> None:
        """Adds one hit, acknowledged as well as the peer can."""

    @abstractmethod
    def rate(self, batches: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        """Returns hits a second in batches, each of these keys, in the minutes before `at`; a batch may be one hit."""

    def counted(self) -> int | None:
        """Returns all hits of all links; None: it cannot say."""
        return None

    def load(self, feed: Feed) -> float:
        """Loads the workload; returns the seconds that the peer took, without what was prepared before."""
        raise NotImplementedError

    def settle(self) -> None:
        """Brings what was loaded into the form in which it stays."""
        self.stop()
        self.start()

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        raise NotImplementedError

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Percentiles:
        """Asks one after the other for so long, keys in turn."""
        raise NotImplementedError

    def size(self) -> int:
        """Returns the bytes that its files take on the disk."""
        return sum(on_disk(file) for file in self.folder.rglob("*") if file.is_file() and file.suffix != ".log")

    def start(self) -> None:
        for program in self.programs:
            program.start()

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.connected.close()
        for program in self.programs:
            program.end(number)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    @property
    def pids(self) -> list[int]:
        return [program.pid for program in self.programs]

    def pause(self, stopped: bool) -> None:
        """Lets its processes stand still, or go on."""
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)

    def doors(self) -> dict[str, str]:
        """Returns what the page says of it beside figures."""
        said = {name: getattr(self, name) for name in ("writes", "reads", "synced", "sends")}
        return {"version": self.version(), **said}


def debian_version(package: str) -> str:
    """Returns the version of an installed Debian package."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", package]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout or "of unknown version"


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


class DuckDb(InProcess):
    engine = engines.Duck


class ClickHouse(InProcess):
    engine = engines.ClickHouse


class Whisper(InProcess):
    engine = engines.Whisper
    most_links = engines.FILES
