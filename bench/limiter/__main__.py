"""Measures the limiter next to three libraries: `make bench ARGS=limiter`, or parts by their own names:

python -m bench.limiter memory redis memcached bytes --rounds 9
"""

from __future__ import annotations

from functools import partial

from bench.command import Part, run
from bench.limiter.bytes_per_key import bytes_per_key
from bench.limiter.decisions import decisions

PARTS: dict[str, Part] = {
    "memory": partial(decisions, "memory"),
    "redis": partial(decisions, "redis"),
    "memcached": partial(decisions, "memcached"),
    "bytes": bytes_per_key,
}

if __name__ == "__main__":
    run(__doc__, PARTS)
