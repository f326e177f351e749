"""A process that races others for the places of a limit on memcached: `python -m tests.limiter.racer ADDRESS RULE`.

RULE is a rule as JSON. It says `ready`, and then for each line `CALLER NOW` that it reads, how many of its threads'
hits were admitted, and how many were taken back by then.
"""

from __future__ import annotations

import json
import sys

from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from tests.limiter.backends import PATIENCE_S
from tests.limiter.together import together

THREADS = 25


def main() -> None:
    address, rule = sys.argv[1:]
    backend = MemcachedBackend([address], timeout_s=PATIENCE_S)
    limiter = Limiter(parse_rules({"e": json.loads(rule)}), backends={"memcached": backend}, clock=None)
    print("ready", flush=True)
    for line in sys.stdin:
        print(race(limiter, *line.split()), int(backend.measures()["memcached_taken_back_total"]), flush=True)


def race(limiter: Limiter, caller: str, now: str) -> int:
    """How many hits of this caller's are admitted, of one for each thread."""
    allowed: list[bool] = []
    together(THREADS, lambda _: allowed.append(limiter.hit("e", {"ip": caller}, now=float(now)).allowed))
    return sum(allowed)


if __name__ == "__main__":
    main()
