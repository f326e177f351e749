"""One of several processes that ask the same Redis at once.

    python -m tests.limiter.hammer redis://127.0.0.1:6379 STRATEGY

prints `ready`; then for each line that it reads, a caller's name, 25 threads ask for a place of that caller's five, and
how many got one is printed.
"""

from __future__ import annotations

import sys

from clickcurve.limiter.backends.redis import RedisBackend
from tests.limiter.backends import PATIENCE_S, Place
from tests.limiter.given import T
from tests.limiter.together import together

THREADS = 25


def main(url: str, strategy: str) -> None:
    place = Place("redis", RedisBackend(url, timeout_s=PATIENCE_S, max_connections=THREADS))
    rates = "5/s" if strategy == "per_second" else "5/m"
    limiter = place.limiter({"e": {"by": "ip", "rates": rates, "strategy": strategy}})
    print("ready", flush=True)
    for line in sys.stdin:
        allowed: list[bool] = []
        caller = {"ip": line.strip()}
        together(THREADS, lambda _, told=allowed, who=caller: told.append(limiter.hit("e", who, now=T).allowed))  # type: ignore[misc]
        print(sum(allowed), flush=True)
    place.backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
