"""`python -m tests.hostile --minutes N [--seed S]`: random requests at every route of a server, beside hits."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="clickcurve-hostile-") as folder:
        report = Campaign(Path(folder) / "server", given.seed).run(given.minutes * 60)
    print(report)
    return min(len(report.wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
