"""Programs that end when this process ends, however it ends: a killed test run leaves no node running.

The kernel kills such a program when the thread that started it is gone (PR_SET_PDEATHSIG). So one thread that lives as
long as the process starts all of them, and a test may start and restart nodes from threads of its own. The signal is
asked for by a small Python program that then becomes the one that is wanted: a `preexec_fn` would run Python in the
copy of a process with many threads.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import getpid
from pathlib import Path

_STARTER = ThreadPoolExecutor(1, thread_name_prefix="starts-programs")
_BECOME = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):  # else the tests died before the kernel was asked
    os.execv(sys.argv[2], sys.argv[2:])
"""


def spawn(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `command` (first a program's full path) in a group of its own, with what it prints appended to `log`."""
    return _STARTER.submit(_spawn, command, log, environment).result()


def _spawn(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BECOME, str(getpid()), *command],
            cwd=log.parent,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
