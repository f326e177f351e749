"""`make test`: all tests, in two processes side by side. With arguments: pytest with these.

One process keeps one processor busy at most, and mostly waits. The suites that ask real Cassandra nodes stay together,
so that these are started once, with that of the limiter, so that both take about as long. All others run next to them,
and what those print is shown at the end. A third process
would starve the campaign of faults: of 40 s it read 160 times where 200 are needed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile

PYTEST = (sys.executable, "-m", "pytest")
FIRST = ("tests/cassandra", "tests/chaos", "tests/simulated", "tests/storage", "tests/limiter")
END_WITHIN_S = 30.0


def main(arguments: list[str]) -> int:
    # A shell that starts this in the background has it ignored, and so would every program have a Ctrl-C of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments:
        return subprocess.call([*PYTEST, *arguments])
    rest = [*PYTEST, "tests", *(f"--ignore={folder}" for folder in FIRST)]
    with tempfile.TemporaryFile("w+") as output:
        beside = subprocess.Popen(rest, stdout=output, stderr=subprocess.STDOUT)
        try:
            codes = subprocess.call([*PYTEST, *FIRST]), beside.wait()
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait(END_WITHIN_S)
        output.seek(0)
        print(output.read(), flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
