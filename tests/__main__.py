"""`make test`: all tests, in two processes side by side. With arguments: pytest with these.

One process keeps one processor busy at most, and mostly waits. What asks real Cassandra nodes stays together, so that
these are started once; all else runs beside it, and what that says is printed behind it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTEST = (sys.executable, "-m", "pytest")
ON_CLUSTERS = ("tests/cassandra", "tests/chaos", "tests/simulated", "tests/storage")
END_WITHIN_S = 30.0


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.call([*PYTEST, *arguments])
    rest = [*PYTEST, "tests", *(f"--ignore={folder}" for folder in ON_CLUSTERS)]
    with tempfile.TemporaryFile("w+") as said:
        beside = subprocess.Popen(rest, stdout=said, stderr=subprocess.STDOUT)
        try:
            codes = subprocess.call([*PYTEST, *ON_CLUSTERS]), beside.wait()
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait(END_WITHIN_S)
        said.seek(0)
        print(said.read(), flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
