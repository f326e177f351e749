"""From bodies in memory into the buffer and the store, without HTTP, journal or sync: plain hits, and with attributes.

Hits with attributes as `bench.visitors` draws them.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any
from unittest.mock import Mock

from bench.command import Options
from bench.measure import Measure, call_each, ready
from bench.micro.inside import JUDGE, OwnedFile, read
from bench.visitors import Visitors
from bench.workload import Workload, batch
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.hit import Hit
from ingest.hit_sums import batch_of_hits
from ingest.reading.hit_endpoint import HitRoutes

NOW = 1_767_268_800
DAY = NOW - NOW % 86_400
BATCH, BATCHES = 1_000, 60
GROUP = 32  # single hits that share a sync at 32 connections
FLUSHED_LINKS = 30_000
DIMENSIONS = ("ref", "country", "device", "source")
ALL, OF_ADDRESSES = ("ref", "country", "ua", "source"), ("ref", "ip", "ua", "source")
NOBODY = Mock()  # takes hits that routes have read: they are counted here
SALTS = {DAY: b"a salt of thirty-two bytes length"}


def parse(options: Options) -> Iterator[Measure]:
    """The stages of a plain hit, in batches as `make bench ARGS=ingest` sends them."""
    for hits in map(options.of, (1_000, 100_000)):
        bodies = plain_bodies(hits, max(4, options.of(20_000) // hits))
        batches, buffer = [read(body, NOW) for body in bodies], Buffer(DAY)
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


def reader_of(*dimensions: str, salts: dict[int, bytes] | None = None) -> ProfileReader:
    """A reader of these dimensions; with salts it counts visitors too."""
    return ProfileReader(dimensions, country_reader("builtin"), ReferrerReader(), salts=salts or {})


def attributes(options: Options) -> Iterator[Measure]:
    """Batches and single hits from body to the journal's bytes; flushes of two hits a link; bytes in the buffer."""
    agents, divided = (("ua",), NO_DIMENSIONS), (ALL, reader_of(*DIMENSIONS))
    counting = (OF_ADDRESSES, reader_of(*DIMENSIONS, salts=SALTS))
    visitors, count, groups, links = Visitors(), options.of(BATCHES), options.of(60), options.of(FLUSHED_LINKS)
    kinds: dict[str, tuple[Sequence[str], ProfileReader]] = {
        "plain": ((), NO_DIMENSIONS),
        "agents, not broken down": agents,
        "agents, by device": (("ua",), reader_of("device")),
        "attributes, not broken down": (ALL, NO_DIMENSIONS),
        "attributes, 4 dimensions": divided,
        "new addresses, 4 dimensions": (OF_ADDRESSES, divided[1]),
        "new addresses, and visitors": counting,
    }
    make: Callable[[], Any]
    for name, (names, reader) in kinds.items():
        make = partial(visitors.bodies, count, BATCH, names, NOW)
        yield Measure(name, make, partial(_read_all, reader), "us a hit", BATCH * count)
    kinds = {"an agent": agents, "attributes": divided, "attributes and visitors": counting}
    for name, (names, reader) in kinds.items():
        make = partial(_groups, visitors, groups, names)
        commit = partial(_commit_groups, reader)
        yield Measure(f"single with {name}", make, commit, "us a request of one hit", GROUP * groups)
    three = (ALL, reader_of(*DIMENSIONS[:3]))
    kinds = {
        "of counts": agents,
        "with 3 dimensions": three,
        "with 4 dimensions": divided,
        "with visitors too": counting,
    }
    for name, kind in kinds.items():
        file = OwnedFile(options.folder / name, NOW)
        options.closing.callback(file.close)
        take = partial(file.take, *link_batches(visitors, links, *kind))
        yield Measure(f"flush {name}, {links:,} links", take, file.flush, "s", fresh=True)
    kinds = {"counts alone": agents, "4 dimensions": divided, "4 dimensions and visitors": counting}
    for name, (names, reader) in kinds.items():
        bodies = visitors.bodies(count, BATCH, names, NOW)
        make = partial(_buffered, [encode_batch(read(body, NOW, reader)) for body in bodies])
        for figure, what in enumerate(("in the buffer", "in the buffer, as it counts itself with its flush")):
            yield Measure(f"{name} {what}", make, itemgetter(figure), "B a hit", BATCH * count)


def _read_all(reader: ProfileReader, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        encode_batch(read(body, NOW, reader))


def _groups(visitors: Visitors, groups: int, names: Sequence[str]) -> list[list[bytes]]:
    return [[json.dumps(hit).encode() for hit in visitors.hits(GROUP, names, NOW)] for _ in range(groups)]


def _commit_groups(reader: ProfileReader, groups: Sequence[Sequence[bytes]]) -> None:
    routes = HitRoutes(NOBODY, lambda: float(NOW), lambda at: at - 86_400, JUDGE, reader=reader)
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


def _buffered(payloads: Sequence[bytes]) -> tuple[int, int]:
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
    return taken, buffer.bytes_held()
