"""A server of somebody else's as a process of the bench: started on free ports, ended by its own process id."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.peers.peer import Missing

TRIES, TRY_EVERY_S = 1_500, 0.02


class Started:
    """One process with its log, ready when `ready` says so."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._folder, self._ready = [*command], folder, ready
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self._command[0]} does not run")
        return self._process.pid

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "output.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._environment
            )
        for _ in range(TRIES):
            if self._ready():
                return
            try:
                status = self._process.wait(TRY_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"{self._command[0]} ended with {status}:\n{log.read_text(errors='replace')[-2000:]}")
        self.kill()
        raise RuntimeError(f"{self._command[0]} was never ready")

    def stop(self) -> None:
        """End it with SIGTERM; one that breaks down then is an error: its data may be gone."""
        status = self._end(signal.SIGTERM)
        if status not in (None, 0, -signal.SIGTERM):
            said = (self._folder / "output.log").read_text(errors="replace")
            raise RuntimeError(f"{self._command[0]} ended with {status}:\n{said[-4000:]}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> int | None:
        if self._process is None:
            return None
        os.kill(self._process.pid, number)
        status = self._process.wait(120)
        self._process = None
        return status


def program(name: str, package: str) -> str:
    """The path of a program. Raises Missing."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if found is None:
        raise Missing(f"{name} is missing: install the Debian package {package}, or run make bench-peers.")
    return found


def debian_version(package: str) -> str:
    """The version of an installed Debian package."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
    )
    return shown.stdout or "of unknown version"


def pause(pids: Sequence[int], stopped: bool) -> None:
    """Let these processes stand still, or go on."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)
