"""A program that reports hits, for tests that kill it: `reporter.py URL SPOOL HITS KEYS SAY`.

It says how many hits it has reported, one line each SAY hits, and then waits to be killed.
"""

from __future__ import annotations

import sys
import threading

from clickcurve.client import Client


def main(url: str, spool: str, hits: int, keys: int, say: int) -> None:
    clicks = Client(url, spool=spool, gather_s=0.02)
    never = threading.Event()
    for number in range(1, hits + 1):
        clicks.hit(f"key-{number % keys}", ua="Mozilla/5.0", ip="203.0.113.7", visitor="ann")
        if number % say == 0:
            print(number, flush=True)
            never.wait(0.001)
    never.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
