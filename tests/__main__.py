"""`make test`: the tests that need Python alone. `make test-all` adds `--all`. Other arguments are pytest's.

Two processes run side by side, or one for each core if there are more. Each begins with a share of the tests, so that a
server or a node that a module shares is started once; whichever is ready takes tests from the end of another's share.
With `--all` there are always two: a campaign of faults starves beside a third (of 40 s it read 160 times where 200 are
needed).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

PROCESSES = 2


def main(arguments: list[str]) -> int:
    # A shell that starts this in the background has it ignored, and so would every program have a Ctrl-C of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = PROCESSES if "--all" in arguments else max(PROCESSES, len(os.sched_getaffinity(0)))
    beside = ("--numprocesses", str(processes), "--dist", "worksteal")
    return subprocess.call([sys.executable, "-m", "pytest", *beside, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
