"""`make test`: all tests, in three processes side by side. With arguments: pytest with these.

One process keeps one processor busy at most, and often waits: for servers, disks and Java. Three keep two busy.
The suites that ask real Cassandra nodes stay together, so that these are started once. What the first process prints is
shown as it comes, the rest when all have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack

PYTEST = (sys.executable, "-m", "pytest")
ON_CLUSTERS = ("tests/cassandra", "tests/chaos", "tests/storage")
# On two quiet cores these take about as long as all suites that are in no list.
NEXT_TO_THEM = ("tests/limiter", "tests/simulated", "tests/ingest")
END_WITHIN_S = 30.0


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.call([*PYTEST, *arguments])
    rest = ("tests", *(f"--ignore={folder}" for folder in (*ON_CLUSTERS, *NEXT_TO_THEM)))
    with ExitStack() as open_:
        outputs = [open_.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        others = [
            subprocess.Popen([*PYTEST, *suites], stdout=output, stderr=subprocess.STDOUT)
            for suites, output in zip((NEXT_TO_THEM, rest), outputs, strict=True)
        ]
        try:
            codes = [subprocess.call([*PYTEST, *ON_CLUSTERS]), *(other.wait() for other in others)]
        finally:
            for other in others:
                if other.poll() is None:
                    other.terminate()
                    other.wait(END_WITHIN_S)
        for output in outputs:
            output.seek(0)
            print(output.read(), flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
