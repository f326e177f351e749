"""One real Cassandra node as a process: started, killed, suspended and ended by its own process id."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import NoReturn, Self

from testing.cassandra import jvm, question
from testing.cassandra.jars import Missing
from testing.lifeline import spawn
from testing.server import wait_until

TEMPLATE = Path(__file__).parent / "cassandra.yaml"
DATA_CENTRE = "datacenter1"  # as Cassandra calls its only one unless it is named
READY_LINE = b"Starting listening for CQL clients on"
TRY_EVERY_S = 0.1
TRIES = 6000  # ten minutes at least
END_WITHIN_S = 300.0
LAST_LINES = 80
# How the commit log is synced: before each answer, before the answers of a few milliseconds, or some time after them.
COMMITLOG_SYNC = {
    "batch": "commitlog_sync: batch",
    "group": "commitlog_sync: group\ncommitlog_sync_group_window: 5ms",
    "periodic": "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms",
}


class NodeFailed(AssertionError):
    """The node ended or never answered. The message holds the last lines of its log."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node runs and how. All nodes of a ring have the same ports, but for JMX, which is on 127.0.0.1 for all.

    `announced` is the address that drivers are told to use, for a proxy that stands there; None = the node's own.
    `clock_skew_s` is what its clock is ahead of this machine's. `settings` replace those of cassandra.yaml, by name;
    each is the text after the colon.
    """

    folder: Path
    address: str
    native_port: int
    storage_port: int
    jmx_port: int
    token: int = -(2**63)
    seed: str = "127.0.0.1"
    heap_mb: int = 512
    commitlog_sync: str = "batch"
    announced: str | None = None
    clock_skew_s: int = 0
    data_centre: str = DATA_CENTRE
    settings: Mapping[str, str] = field(default_factory=dict)


class Node:
    """A Cassandra daemon. Its data, log and configuration are below `place.folder` and outlive the process."""

    def __init__(self, place: Place, keep_classes: Path | None = None) -> None:
        self.place = place
        self._keep_classes = keep_classes
        self.address = place.address
        self.port = place.native_port
        self._printed = place.folder / "printed.log"
        self._log = place.folder / "logs" / "system.log"
        self._log_begins = 0  # of the last start
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"node {self.address} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the process and return at once: follow it with wait_ready. Raises Missing."""
        assert not self.running, f"node {self.address} is running already"
        (self.place.folder / "tmp").mkdir(parents=True, exist_ok=True)
        (self.place.folder / "cassandra.yaml").write_text(configuration(self.place))
        (self.place.folder / jvm.LOCATION).write_text(f"dc={self.place.data_centre}\nrack=rack1\n")
        self._log_begins = self._log.stat().st_size if self._log.exists() else 0
        command = jvm.daemon(self.place.folder, self.place.jmx_port, self.place.heap_mb, self._keep_classes)
        self._process = spawn(command, self._printed, _environment(self.place.clock_skew_s))
        return self

    def wait_ready(self) -> Self:
        """Wait until it serves queries. Raises NodeFailed if it ends first or takes for ever."""
        self.until(self._serves)
        return self

    def until(self, happened: Callable[[], bool], tries: int = TRIES) -> None:
        """Wait for something; waiting for the process to end paces the tries and shows its death. Raises NodeFailed."""
        assert self._process is not None, f"node {self.address} is not running"
        wait_until(happened, self._process, self._failed, tries, TRY_EVERY_S)

    def until_it_ends(self) -> NoReturn:
        """Wait for as long as it runs. Raises NodeFailed when it has ended."""
        assert self._process is not None, f"node {self.address} is not running"
        raise self._failed(f"ended with {self._process.wait()}")

    def _failed(self, why: str) -> NodeFailed:
        return NodeFailed(f"node {self.address} {why}:\n{self.log_tail()}")

    def _serves(self) -> bool:
        """Both, since it listens a little before it answers, and a query alone might be answered by somebody else."""
        return READY_LINE in self._log_of_this_start() and self.answers()

    def _log_of_this_start(self) -> bytes:
        if not self._log.exists():
            return b""
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read()

    def ask(self, query: str, consistency: str = "ONE", timeout_s: float = 300.0) -> list[question.Row]:
        """The rows that this node itself answers with. Raises question.Refused and OSError."""
        return question.ask(self.address, self.port, query, consistency, timeout_s)

    def answers(self, timeout_s: float = 5.0) -> bool:
        """Whether it answers a query now."""
        try:
            return len(self.ask("SELECT release_version FROM system.local", timeout_s=timeout_s)) == 1
        except (OSError, question.Refused):
            return False

    def kill(self) -> None:
        """kill -9; returns when the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Tell it to end and wait for that, as its ports are free only then; kill it if it does not end in time."""
        if not self.running or self._process is None:
            return
        self._process.terminate()
        self.resume()  # a suspended process would not hear of it
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def suspend(self) -> None:
        """Stop it without ending it; returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a suspended node go on."""
        os.kill(self.pid, signal.SIGCONT)

    def heal(self) -> None:
        """Whatever was done to it: afterwards it runs and answers."""
        if self.running:
            self.resume()
        else:
            self.start()
        self.wait_ready()

    def nodetool(self, *arguments: str) -> str:
        """What nodetool prints. It costs two seconds. Raises AssertionError with its output if it fails."""
        (self.place.folder / "nodetool").mkdir(exist_ok=True)
        command = jvm.nodetool(self.place.folder, self.place.jmx_port, arguments)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"nodetool {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def log_tail(self) -> str:
        """The last lines of its log, and what it printed."""
        lines = self._log_of_this_start().decode(errors="replace").splitlines()[-LAST_LINES:]
        printed = self._printed.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([*lines, "printed:", *printed])


def configuration(place: Place) -> str:
    """The text of its cassandra.yaml."""
    names = {
        "token": place.token,
        "address": place.address,
        "announced": place.announced or place.address,
        "storage_port": place.storage_port,
        "native_port": place.native_port,
        "seed": place.seed,
        "commitlog_sync": COMMITLOG_SYNC[place.commitlog_sync],
    }
    text = Template(TEMPLATE.read_text()).substitute(names)
    for name, value in place.settings.items():
        text = re.sub(rf"(?m)^{name}:.*\n", "", text) + f"{name}: {value}\n"
    return text


def _environment(clock_skew_s: int) -> dict[str, str]:
    # Few arenas: glibc would keep a heap for each of Cassandra's many threads.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    if clock_skew_s:
        # Java waits by the monotonic clock, which must stay true. With libfaketime's "fix" of it no wait of Java lasts:
        # all threads spin, and a start takes 45 s instead of 3.
        true = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
        environment |= {**true, "FAKETIME": f"{clock_skew_s:+d}s", "LD_PRELOAD": faketime_library()}
    return environment


@cache
def faketime_library() -> str:
    """What the faketime program preloads into programs with threads. Raises Missing.

    It fails if a process with its number was killed while its clock was wrong: what that shared in memory is still
    there. A next try has another number.
    """
    program = shutil.which("faketime")
    if program is None:
        raise Missing("A node with a wrong clock needs libfaketime: install it (Debian: faketime).")
    command = [program, "-m", "-f", "+0s", "printenv", "LD_PRELOAD"]
    tries = (subprocess.run(command, capture_output=True, text=True, timeout=600, check=False) for _ in range(5))
    shown = next((each for each in tries if each.returncode == 0), None)
    assert shown is not None, f"{' '.join(command)} fails"
    return shown.stdout.strip()
