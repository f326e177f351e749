"""Hits from bodies in memory into the buffer, without HTTP, journal or sync."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.command import Options
from bench.measure import Measure, call_each, ready
from bench.micro.inside import read
from bench.workload import Workload, batch
from ingest.batch import encode_batch
from ingest.buffer import Buffer

NOW = 1_767_268_800


def parse(options: Options) -> Iterator[Measure]:
    """The stages of a plain hit, in batches as `make bench ARGS=ingest` sends them."""
    for hits in map(options.of, (1_000, 100_000)):
        bodies = plain_bodies(hits, max(4, options.of(20_000) // hits))
        batches, buffer = [read(body, NOW) for body in bodies], Buffer(NOW - 43_200)
        stages = {
            "reading": [partial(read, body, NOW) for body in bodies],
            "journal's bytes": [partial(encode_batch, each) for each in batches],
            "buffer": [partial(buffer.add_batch, each, 1, False) for each in batches],
        }
        for stage, calls in stages.items():
            yield Measure(f"batches of {hits:,}, {stage}", ready(calls), call_each, "ns a hit", hits * len(bodies))
        size = sum(len(encode_batch(each)) for each in batches)
        yield Measure(f"batches of {hits:,}, in the journal", ready(size), float, "B a hit", hits * len(bodies))


def plain_bodies(hits: int, count: int) -> list[bytes]:
    """Returns batches of hits with a key and a time, keys by popularity."""
    workload = Workload(100_000, 10_000_000, 400, NOW)
    drawn = (workload.draw(hits, seed=10 + number) for number in range(count))
    return [f"[{','.join(batch(keys, NOW - 60))}]".encode() for keys in drawn]
