"""What attributes of hits cost beside counts: reading, single hits, a flush, memory.

Hits as `bench.visitors` draws them, or with the referrers and agents of an access log (`--log`).
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from functools import partial

from bench.command import Options
from bench.measure import Measure
from bench.micro.inside import new_flushes, read, read_group, single_routes
from bench.visitors import Visitors
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.flush import Flush

NOW = 1_767_268_800
DAY = NOW - NOW % 86_400
BATCH, BATCHES = 1_000, 60
GROUP = 32  # single hits that share a sync at 32 connections
FLUSHED_LINKS = 30_000
DIMENSIONS = ("ref", "country", "device", "source")
ALL, OF_ADDRESSES = ("ref", "country", "ua", "source"), ("ref", "ip", "ua", "source")
SALTS = {DAY: b"a salt of thirty-two bytes length"}


def reader_of(*dimensions: str, salts: dict[int, bytes] | None = None) -> ProfileReader:
    """A reader of these dimensions; with salts it counts visitors too."""
    return ProfileReader(dimensions, country_reader("builtin"), ReferrerReader(), salts=salts or {})


def attributes(options: Options) -> Iterator[Measure]:
    """Batches and single hits from body to the journal's bytes; flushes of two hits a link; bytes in the buffer."""
    divided, counting = reader_of(*DIMENSIONS), reader_of(*DIMENSIONS, salts=SALTS)
    visitors = Visitors(log=options.log)
    batches: Sequence[tuple[str, Sequence[str], ProfileReader]] = (
        ("plain", (), NO_DIMENSIONS),
        ("agents, not broken down", ("ua",), NO_DIMENSIONS),
        ("agents, by device", ("ua",), reader_of("device")),
        ("attributes, not broken down", ALL, NO_DIMENSIONS),
        ("attributes, 4 dimensions", ALL, divided),
        ("new addresses, 4 dimensions", OF_ADDRESSES, divided),
        ("new addresses, and visitors", OF_ADDRESSES, counting),
    )
    count = options.of(BATCHES)
    for name, names, reader in batches:
        make = partial(visitors.bodies, count, BATCH, names, NOW)
        yield Measure(name, make, partial(_read_all, reader), "us a hit", BATCH * count)
    for name, names, reader in (
        ("single with an agent", ("ua",), NO_DIMENSIONS),
        ("single with attributes", ALL, divided),
        ("single with attributes and visitors", OF_ADDRESSES, counting),
    ):
        groups = partial(_groups, visitors, options.of(60), names)
        yield Measure(name, groups, partial(_commit_groups, reader), "us a request of one hit", GROUP * options.of(60))
    flushes: Sequence[tuple[str, Sequence[str], ProfileReader]] = (
        ("flush of counts", ("ua",), NO_DIMENSIONS),
        ("flush with 3 dimensions", ALL, reader_of(*DIMENSIONS[:3])),
        ("flush with 4 dimensions", ALL, divided),
        ("flush with visitors too", OF_ADDRESSES, counting),
    )
    links = options.of(FLUSHED_LINKS)
    for name, names, reader in flushes:
        batches_of = link_batches(visitors, links, names, reader)
        flushes_of = new_flushes(options, lambda _, some=batches_of: some, NOW)  # type: ignore[misc]
        yield Measure(f"{name}, {links:,} links", flushes_of, Flush.write, "s", fresh=True)
    for name, names, reader in (
        ("counts alone in the buffer", ("ua",), NO_DIMENSIONS),
        ("4 dimensions in the buffer", ALL, divided),
        ("4 dimensions and visitors in the buffer", OF_ADDRESSES, counting),
    ):
        make = partial(_payloads, visitors, count, names, reader)
        yield Measure(name, make, lambda payloads: _buffered(payloads)[0], "B a hit", BATCH * count)
        with_flush = f"{name}, as it counts itself with its flush"
        yield Measure(with_flush, make, lambda payloads: _buffered(payloads)[1], "B a hit", BATCH * count)


def _read_all(reader: ProfileReader, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        encode_batch(read(body, NOW, reader))


def _groups(visitors: Visitors, groups: int, names: Sequence[str]) -> list[list[bytes]]:
    some = [json.dumps(hit).encode() for hit in visitors.hits(groups * GROUP, names, NOW)]
    return [some[start : start + GROUP] for start in range(0, len(some), GROUP)]


def _commit_groups(reader: ProfileReader, groups: Sequence[Sequence[bytes]]) -> None:
    routes, buffer = single_routes(NOW, reader), Buffer(DAY)
    for bodies in groups:
        batch = read_group(routes, bodies)
        encode_batch(batch)
        buffer.add_batch(batch, 1, visible=False)


def link_batches(visitors: Visitors, links: int, names: Sequence[str], reader: ProfileReader) -> list[Batch]:
    """Two hits of each link, in batches."""
    some = visitors.hits(2 * links, names, NOW)
    for number, hit in enumerate(some):
        hit["key"] = f"link{number % links:05d}"
    return [read(json.dumps(some[at : at + BATCH]).encode(), NOW, reader) for at in range(0, len(some), BATCH)]


def _payloads(visitors: Visitors, count: int, names: Sequence[str], reader: ProfileReader) -> list[bytes]:
    return [encode_batch(read(body, NOW, reader)) for body in visitors.bodies(count, BATCH, names, NOW)]


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
