"""What the bench asks of a peer, and what it says of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from bench.peers.hits import Feed, Question


class Missing(Exception):
    """A program or package that a peer needs is not there; the message says which, and what to install."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of one round of questions."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, took_ms: Sequence[float]) -> Latency:
        if len(took_ms) < 2:
            return cls(took_ms[0], took_ms[0])
        cuts = quantiles(took_ms, n=100, method="inclusive")
        return cls(cuts[49], cuts[98])


class Peer(ABC):
    """A store that counts hits, in a folder of its own.

    `writes` and `reads` say by which door; `synced`: whether an answered hit is on the disk. An answer is a list of
    counts, one a step; None: the peer does not keep what is asked. Rates are hits a second; None: no such door.
    """

    name: str
    writes: str
    reads: str
    synced: str
    sends: str  # how the whole workload is loaded
    most_links: int | None = None  # None: all; else the popular ones alone are loaded
    keeps = True  # whether it has a history that can be loaded and asked for

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @abstractmethod
    def check(cls) -> None:
        """Raises Missing where it cannot run."""

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """kill -9, and wait until it is gone."""

    @abstractmethod
    def pids(self) -> list[int]: ...

    @abstractmethod
    def load(self, feed: Feed) -> float:
        """Load the workload; the seconds that the peer took, without what was prepared before."""

    @abstractmethod
    def settle(self) -> None:
        """Bring what was loaded into the form in which it stays."""

    def size(self) -> int:
        """Bytes that its files take on the disk."""
        return sum(on_disk(file) for file in self.folder.rglob("*") if file.is_file() and file.suffix != ".log")

    @abstractmethod
    def ask(self, question: Question, key: str) -> list[int] | None: ...

    @abstractmethod
    def top(self, since: int, until: int) -> list[tuple[str, int]]: ...

    @abstractmethod
    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Latency:
        """Ask one after the other for so long, keys in turn."""

    @abstractmethod
    def add(self, key: str, ts: int) -> None:
        """One hit, acknowledged as well as the peer can."""

    def singles(self, keys: Sequence[str], seconds: float) -> float | None:
        """Hits a second, one in a request."""
        return None

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float | None:
        """Hits a second in batches, each of these keys, in the minutes before `at`."""
        return None

    def counted(self) -> int | None:
        """All hits of all links; None: it cannot say."""
        return None


def on_disk(file: Path) -> int:
    """Bytes of the blocks of a file: some are as long as they may become, with nothing in them."""
    return file.stat().st_blocks * 512


def rss_mb(pids: Sequence[int]) -> float:
    """Resident memory of these processes."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * 4_096 / 1e6
