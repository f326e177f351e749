"""`make test`: the tests that need Python alone. `make test-all` adds `--all`. Other arguments are pytest's.

Three processes run side by side, or one for each core if there are more: of two, each waits for half of its time. Each
begins with a share of the tests, so that a server or a node that a module shares is started once; whichever is ready
takes tests from the end of another's share. With `--all` there are always two: a campaign of faults starves beside a
third (of 40 s it read 160 times where 200 are needed). What fails beside others is then named and run again alone, and
the second result is what counts: of 9,500 tests with real nodes and browsers, about one a run waited for longer than it
may on a machine that others use too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.again import run_again

PROCESSES, PROCESSES_OF_ALL = 3, 2


def main(arguments: list[str]) -> int:
    # A shell that starts this in the background has it ignored, and so would every program have a Ctrl-C of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = PROCESSES_OF_ALL if "--all" in arguments else max(PROCESSES, len(os.sched_getaffinity(0)))
    pytest = [sys.executable, "-m", "pytest", *arguments]
    beside = ("--numprocesses", str(processes), "--dist", "worksteal")
    with tempfile.TemporaryDirectory(prefix="clickcurve-tests-") as folder:
        pytest += ["-o", f"cache_dir={folder}"]
        return run_again(pytest, Path(folder), subprocess.call([*pytest, *beside]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
