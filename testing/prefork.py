"""Processes of the program that begin with it imported: forks of one process, which has imported all of it.

Importing takes 0.5 s of processor time, nearly all of a server's start, and tests start some hundreds of them. What a
fork runs is `python -m clickcurve` from its first line on, with an environment, a folder and open files of its own.
Where the environment differs in what Python reads before that line, the process is a new one: see `alike`. All forks
end with the process that began them.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock

LONGEST_REQUEST = 1 << 17
PR_SET_PDEATHSIG = 1
# Python and the libraries of C read these before the program's first line.
READ_EARLY = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "TZ")


class Forked:
    """A forked process, with what tests use of `subprocess.Popen`. It stays a zombie until its status is asked for."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal; None while it runs."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status. Raises subprocess.TimeoutExpired while it runs after so many seconds."""
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        return status

    def _status(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            end = select.poll()
            end.register(self._end, select.POLLIN)
            if end.poll(None if timeout_s is None else timeout_s * 1_000):
                self.returncode = os.waitstatus_to_exitcode(self._forks.ask({"ended": self.pid}))
                os.close(self._end)
        return self.returncode


class Forks:
    """The process that has imported the program; it ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._early = early(environment)
        self._asking = Lock()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "testing.prefork", str(theirs.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def alike(self, environment: Mapping[str, str]) -> bool:
        """Returns whether Python would start in this environment as it did in that of the imported program."""
        return early(environment) == self._early

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[int, int, int],
        new_session: bool,
    ) -> Forked:
        """Runs the program with these arguments; files: its standard input, output and errors."""
        wanted = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder),
            "new_session": new_session,
        }
        return Forked(self, self.ask(wanted, files))

    def ask(self, request: Mapping[str, object], files: Sequence[int] = ()) -> int:
        """Sends a request and returns the number that answers it."""
        with self._asking:
            socket.send_fds(self._connection, [json.dumps(request).encode()], list(files))
            answer = self._connection.recv(32)
        if not answer:
            raise RuntimeError(f"the process that forks ended with {self._process.wait()}")
        return int(answer)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


def early(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of an environment that Python reads before a program's first line."""
    return {name: value for name, value in environment.items() if name.startswith(READ_EARLY)}


_started: list[Forks] = []


def forks(environment: Mapping[str, str]) -> Forks:
    """Returns the process that forks; the first call starts it in this environment."""
    if not _started:
        _started.append(Forks(environment))
        atexit.register(_started[0].close)
    return _started[0]


# --- the other process ------------------------------------------------------------------------------------------------
def main(connection: socket.socket) -> None:
    """Imports the program; then forks at each request, and runs the program in the fork."""
    program = import_module("server.cli.main")
    for module, _ in program.COMMANDS.values():
        import_module(f"server.cli.{module}")
    import_module("server.app.serve")
    gc.collect()
    gc.freeze()
    while (wanted := _serve(connection)) is not None:
        if wanted:
            _become(wanted)
            sys.exit(import_module("clickcurve.__main__").main())


def _serve(connection: socket.socket) -> dict[str, object] | None:
    """Serves one request. Returns what a fork is to run, in the fork; {} in the first process; None at the end."""
    message, files, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
    if not message:
        return None
    request: dict[str, object] = json.loads(message)
    if "ended" in request:
        _, status = os.waitpid(int(str(request["ended"])), 0)
        connection.send(b"%d" % status)
        return {}
    begun, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))  # however the tests end
        connection.close()
        os.close(begun)
        if request["new_session"]:
            os.setsid()
        os.close(begins)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return request
    for file in (*files, begins):
        os.close(file)
    os.read(begun, 1)  # its end: the fork has the group by which it may be killed from now on
    os.close(begun)
    connection.send(b"%d" % pid)
    return {}


def _become(wanted: Mapping[str, object]) -> None:
    """Makes this fork what a new process would be."""
    environment, arguments = wanted["environment"], wanted["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.chdir(str(wanted["folder"]))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = ["clickcurve", *arguments]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
