"""From bodies in memory into the buffer and the store, without HTTP, journal or sync: plain hits, and with attributes.

Hits with attributes as `bench.workload` draws them.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from unittest.mock import Mock

from bench.command import Options
from bench.inside import JUDGE, Owned, read, reader_of
from bench.measure import Beside, Figures, Measure, ready
from bench.workload import ATTRIBUTES, DIMENSIONS, Visitors, Workload, batch
from ingest.attributes.dimensions import CHANNEL
from ingest.attributes.profile import ProfileReader
from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.hit import Hit
from ingest.hit_sums import batch_of_hits
from ingest.reading.hit_endpoint import HitRoutes

T = TypeVar("T")
NOW = 1_767_268_800
DAY = NOW - NOW % 86_400
BATCH, BATCHES = 1_000, 60
GROUP = 32  # single hits that share a sync at 32 connections
FLUSHED_LINKS = 30_000
OF_ADDRESSES = ("ref", "ip", "ua", "source")
SALTS = {DAY: b"a salt of thirty-two bytes length"}
# What hits say, and the dimensions by which they are broken down; by salts visitors are counted too.
KINDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "plain": ((), ()),
    "agents, not broken down": (("ua",), ()),
    "agents, by device": (("ua",), ("device",)),
    "attributes, not broken down": (ATTRIBUTES, ()),
    "attributes, 3 dimensions": (ATTRIBUTES, DIMENSIONS[:3]),
    "attributes, 4 dimensions": (ATTRIBUTES, DIMENSIONS),
    "attributes, 4 dimensions and channel": (ATTRIBUTES, (*DIMENSIONS, CHANNEL)),
    "new addresses, 4 dimensions": (OF_ADDRESSES, DIMENSIONS),
    "new addresses, and visitors": (OF_ADDRESSES, DIMENSIONS),
}
# Those that are also sent one by one, flushed, and weighed in the buffer. The first has counts alone to flush.
FURTHER = (
    "agents, not broken down",
    "attributes, 3 dimensions",
    "attributes, 4 dimensions",
    "new addresses, and visitors",
)


def parse(options: Options) -> Iterator[Measure]:
    """The stages of a plain hit, in batches as `make bench ARGS=ingest` sends them."""
    for hits in map(options.of, (1_000, 100_000)):
        bodies = plain_bodies(hits, max(4, options.of(20_000) // hits))
        batches, buffer = [read(body, NOW) for body in bodies], Buffer(DAY)
        stages: dict[str, tuple[list[Any], Callable[[Any], object]]] = {
            "reading": (bodies, lambda body: read(body, NOW)),
            "journal's bytes": (batches, encode_batch),
            "buffer": (batches, partial(buffer.add_batch, accepted_us=1, visible=False)),
        }
        for stage, (some, call) in stages.items():
            what = f"batches of {hits:,}, {stage}"
            yield Measure(what, ready(some), partial(_each, call), "ns a hit", hits * len(bodies))


def plain_bodies(hits: int, count: int) -> list[bytes]:
    """Returns batches of hits with a key and a time, keys by popularity."""
    workload = Workload(100_000, 10_000_000, 400, NOW)
    drawn = (workload.draw(hits, seed=10 + number) for number in range(count))
    return [f"[{','.join(batch(keys, NOW - 60))}]".encode() for keys in drawn]


def _each(call: Callable[[T], object], some: Sequence[T]) -> None:
    for each in some:
        call(each)


def attributes(options: Options) -> Iterator[Measure | Beside]:
    """Batches and single hits from body to the journal's bytes; flushes of two hits a link; bytes in the buffer."""
    visitors, count, groups, links = Visitors(), options.of(BATCHES), options.of(60), options.of(FLUSHED_LINKS)
    for name, (names, dimensions) in KINDS.items():
        reader = reader_of(*dimensions, salts=SALTS if name.endswith("visitors") else None)
        bodies = visitors.bodies(count, BATCH, names, NOW)
        yield Measure(name, ready(bodies), partial(_read_all, reader), "us a hit", BATCH * count)
        if name in FURTHER:
            make, commit = partial(_groups, visitors, groups, names), partial(_commit_groups, reader)
            yield Measure(f"single: {name}", make, commit, "us a request of one hit", GROUP * groups)
            file = Owned.of_file(options.folder / name, NOW)
            options.closing.callback(file.close)
            take = partial(file.take, *link_batches(visitors, links, names, reader))
            flush = lambda _, file=file: file.flush()  # noqa: E731
            yield Measure(f"flush of {links:,} links: {name}", take, flush, "s", fresh=True)
            payloads = [encode_batch(read(body, NOW, reader)) for body in bodies]
            yield Beside(f"in the buffer: {name}", {"": partial(_buffered, payloads, BATCH * count)}, rounds=1)


def _read_all(reader: ProfileReader, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        encode_batch(read(body, NOW, reader))


def _groups(visitors: Visitors, groups: int, names: Sequence[str]) -> list[list[bytes]]:
    return [[json.dumps(hit).encode() for hit in visitors.hits(GROUP, names, NOW)] for _ in range(groups)]


def _commit_groups(reader: ProfileReader, groups: Sequence[Sequence[bytes]]) -> None:
    # The buffer is a mock, for routes only read here.
    routes = HitRoutes(Mock(), lambda: float(NOW), lambda at: at - 86_400, JUDGE, reader=reader)
    buffer = Buffer(DAY)
    for bodies in groups:
        hits = [hit for body in bodies if isinstance(hit := routes.single(body), Hit)]
        if len(hits) != len(bodies):
            raise RuntimeError("a single hit was refused")
        batch = batch_of_hits(hits)
        encode_batch(batch)
        buffer.add_batch(batch, 1, visible=False)


def link_batches(visitors: Visitors, links: int, names: Sequence[str], reader: ProfileReader) -> list[Batch]:
    """Two hits of each link, in batches."""
    some = visitors.hits(2 * links, names, NOW)
    for number, hit in enumerate(some):
        hit["key"] = f"link{number % links:05d}"
    return [read(json.dumps(some[at : at + BATCH]).encode(), NOW, reader) for at in range(0, len(some), BATCH)]


def _buffered(payloads: Sequence[bytes], hits: int) -> Figures:
    """Returns what a buffer of these takes by `tracemalloc`, and what it says of itself."""
    tracemalloc.start()
    buffer = Buffer(DAY)
    for payload in payloads:
        batch = decode_batch(payload)
        if not isinstance(batch, Batch):
            raise RuntimeError("a payload is no batch")
        buffer.add_batch(batch, 1, visible=True)
        del batch
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"{} B a hit": taken / hits, "counts itself as {} B with its flush": buffer.bytes_held() / hits}
