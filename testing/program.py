"""Other programs as processes next to a server: started, waited for, and ended by their own ids."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testing.server import ROOT, STOP_WITHIN_S, TRIES, plain_environment, spawn, wait_until


class Program:
    """A process in a group of its own, with what it prints in a file."""

    def __init__(self, command: list[str], log: Path, settings: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), output.fileno(), output.fileno())
            self._process = spawn(command, plain_environment(settings), ROOT, files, new_session=True)

    def until(self, happened: Callable[[], bool], tries: int = TRIES) -> None:
        """Wait for something, unless the process ends before."""
        wait_until(happened, self._process, lambda why: AssertionError(f"it {why}:\n{self.output()}"), tries)

    def output(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def tell(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit status."""
        self.tell(number)
        return self._process.wait(STOP_WITHIN_S)

    def kill(self) -> None:
        """kill -9 of the process and its children, if it still runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def running(command: list[str], log: Path, settings: Mapping[str, str] | None = None) -> Iterator[Program]:
    program = Program(command, log, settings)
    try:
        yield program
    finally:
        program.kill()
