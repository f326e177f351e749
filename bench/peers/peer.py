"""What the bench asks of a peer, and what it says of each."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.measure import Percentiles
from bench.peers.hits import Feed, Question
from bench.servers import Started, on_disk
from testing.server import free_port


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
    keeps = True  # whether it has a history that can be loaded and asked for; without, it has the first five methods
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
