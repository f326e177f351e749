"""A peer that is a library: it runs in a process and an environment of its own, and is told what to do by a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.peers import engines
from bench.peers.hits import TOP, Feed, Question
from bench.peers.peer import Latency, Missing, Peer
from testing.server import ROOT

ENVIRONMENT = ROOT / ".venv" / "peers"
LOCK = "bench/peers/requirements.lock"


class InProcess(Peer):
    """One of `engines`, which says what it is called and how it is loaded."""

    writes = reads = "in process"
    engine: type[engines.Engine]

    def __init_subclass__(cls) -> None:
        cls.name, cls.synced, cls.sends = cls.engine.name, cls.engine.synced, cls.engine.sends

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def check(cls) -> None:
        package = cls.engine.package
        if package and not list(ENVIRONMENT.glob(f"lib/python3*/site-packages/{package}*")):
            raise Missing(f"{package} is missing: make bench-peers installs it from {LOCK}.")

    def version(self) -> str:
        return str(self._told("version"))

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        python = str(ENVIRONMENT / "bin" / "python") if self.engine.package else sys.executable
        log = (self.folder / "output.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [python, "-m", "bench.peers.engines", self.engine.__name__, str(self.folder)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answer()

    def _told(self, verb: str, *arguments: object) -> Any:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError(f"{self.name} does not run")
        self._process.stdin.write(json.dumps((verb, arguments)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = (self.folder / "output.log").read_text(errors="replace")
            raise RuntimeError(f"{self.name} ended:\n{said[-2000:]}")
        return json.loads(line)

    def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._gone()

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._gone()

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait(120)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self._process = None

    def pids(self) -> list[int]:
        return [self._process.pid] if self._process is not None else []

    def load(self, feed: Feed) -> float:
        return float(self._told("loaded_s", str(feed.raw), str(feed.summed)))

    def settle(self) -> None:
        self._told("settle")
        self.stop()
        self.start()

    def ask(self, question: Question, key: str) -> list[int] | None:
        found: list[int] | None = self._told("counts", key, question.start, question.end, question.step_s)
        return found

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        return [(key, count) for key, count in self._told("top", since, until, TOP)]

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Latency:
        asked = (question.start, question.end, question.step_s)
        return Latency.of(self._told("latency", list(keys), seconds, *asked))

    def add(self, key: str, ts: int) -> None:
        self._told("add", key, ts)

    def singles(self, keys: Sequence[str], seconds: float) -> float | None:
        return float(self._told("singles", list(keys), seconds))

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float | None:
        return float(self._told("batches", [list(some) for some in keys], at, seconds))

    def counted(self) -> int | None:
        found: int | None = self._told("counted")
        return found


class SqliteRows(InProcess):
    engine = engines.Rows


class SqliteHours(InProcess):
    engine = engines.Hours


class DuckDb(InProcess):
    engine = engines.Duck


class ClickHouse(InProcess):
    engine = engines.ClickHouse
