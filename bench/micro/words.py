"""What words cost beside counts: `python -m bench.micro.words [--log FILE] [reading flushing memory]`, two minutes.

Processor time, medians of some rounds; hits as `bench.said` draws them, or with referrers and agents of an access log.
Read in batches of 1,000: with agents alone, with agents that are divided by device, with all words, and with visitors
too; the sum of a request's parts: decoded, judged, summed, encoded for the journal. Single hits by JSON, in groups as
they are committed, into the buffer too. Then a flush of 30,000 links into a
file, with counts alone and with breakdowns beside; and the memory of a buffered hit.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
import tracemalloc
from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.asked import add_parts
from bench.micro.flushed import begun_flush
from bench.said import Visitors
from clickcurve.buckets.ladder import DAY_S
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.hit import Hit, Moment
from ingest.hit_sums import batch_of_hits
from ingest.journal.group_commit import SingleHit
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.request_sums import RequestSums
from storage.contract import OPEN, Held, OwnerRecord
from storage.sqlite.store import SqliteStore

NOW = 1_767_268_800
DAY = NOW - NOW % 86_400
BATCH, BATCHES, ROUNDS = 1_000, 60, 5
GROUP = 32  # single hits that share a sync at 32 connections
FLUSHED_LINKS = 30_000
DIMENSIONS = ("ref", "country", "device", "source")
ALL, OF_ADDRESSES = ("ref", "country", "ua", "source"), ("ref", "ip", "ua", "source")


def read(body: bytes, reader: ProfileReader, now: int = NOW) -> Batch:
    sums = RequestSums(Moment(now, now - DAY_S, now + 300), reader=reader)
    for some in read_hits(body, Media.json):
        sums.add(some, JUDGE)
    batch = sums.batch()
    assert batch is not None
    encode_batch(batch)
    return batch


class Refusing:
    """Counts nothing: single hits are read here, and counted by the bench."""

    async def accept(self, batch: Batch) -> frozenset[str]:
        raise NotImplementedError

    def accept_one(self, hit: SingleHit) -> Future[None]:
        raise NotImplementedError


JUDGE = bot_judge()
VISITORS = Visitors()


def reading(name: str, some: list[bytes], reader: ProfileReader) -> Iterator[str]:
    for body in some:
        read(body, reader)  # the caches are warm, as those of a server are
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for body in some:
            read(body, reader)
        rounds.append((time.process_time() - begun) / (BATCH * len(some)))
    size = statistics.mean(map(len, some)) / BATCH
    yield f"{name:<34} {statistics.median(rounds) * 1e6:6.2f} us a hit of {size:.0f} bytes"


def singles(name: str, said: Sequence[str], reader: ProfileReader) -> Iterator[str]:
    some = [json.dumps(hit).encode() for hit in VISITORS.hits(60 * GROUP, said, NOW)]
    routes = HitRoutes(Refusing(), lambda: float(NOW), lambda now: NOW - DAY_S, JUDGE, reader=reader)
    rounds = []
    for _ in range(ROUNDS):
        buffer = Buffer(DAY)
        begun = time.process_time()
        for start in range(0, len(some), GROUP):
            hits = [hit for body in some[start : start + GROUP] if isinstance(hit := routes.single(body), Hit)]
            assert len(hits) == GROUP
            batch = batch_of_hits(hits)
            encode_batch(batch)
            buffer.add_batch(batch, 1, visible=False)
        rounds.append((time.process_time() - begun) / len(some))
    yield f"{name:<34} {statistics.median(rounds) * 1e6:6.2f} us a request of one hit, {GROUP} a group"


def flushing(name: str, said: Sequence[str], reader: ProfileReader) -> Iterator[str]:
    links = [f"link{n}" for n in range(FLUSHED_LINKS)]
    some = VISITORS.hits(FLUSHED_LINKS * 2, said, NOW)
    for link, hit in zip(links * 2, some, strict=True):
        hit["key"] = link
    pieces = [json.dumps(some[n : n + BATCH]).encode() for n in range(0, len(some), BATCH)]
    times = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "bench.db", None)
        held = Held(1, 1, "bench")
        store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))
        for number in range(1, ROUNDS + 1):
            buffer = Buffer(DAY)
            for body in pieces:
                buffer.add_batch(read(body, reader), number, visible=True)
            flush = begun_flush(store, held, number, buffer, NOW)
            begun = time.process_time()
            flush.write()
            times.append(time.process_time() - begun)
        store.close()
    yield f"{name:<34} {statistics.median(times[1:]):6.2f} s for {FLUSHED_LINKS:,} links with 2 hits each"


def memory(name: str, some: list[bytes], reader: ProfileReader) -> Iterator[str]:
    payloads = [encode_batch(read(body, reader)) for body in some]
    tracemalloc.start()
    buffer = Buffer(DAY)
    for payload in payloads:
        batch = decode_batch(payload)
        assert isinstance(batch, Batch)
        buffer.add_batch(batch, 1, visible=True)
        del batch
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    n = BATCH * len(some)
    with_flush = buffer.bytes_held() / n
    yield f"{name:<34} {taken / n:6.0f} bytes a hit in the buffer, which counts {with_flush:.0f} with its flush"


def reading_parts(make: Callable[..., ProfileReader]) -> Iterator[str]:
    salts = {DAY: b"a salt of thirty-two bytes length"}
    device, divided, counting = make(("device",)), make(DIMENSIONS), make(DIMENSIONS, salts=salts)
    plain, agents, worded, addressed = (
        VISITORS.bodies(BATCHES, BATCH, said, NOW) for said in ((), ("ua",), ALL, OF_ADDRESSES)
    )
    yield from reading("plain", plain, NO_DIMENSIONS)
    yield from reading("agents, not divided", agents, NO_DIMENSIONS)
    yield from reading("agents, by device", agents, device)
    yield from reading("words, not divided", worded, NO_DIMENSIONS)
    yield from reading("words, 4 dimensions", worded, divided)
    yield from reading("new addresses, 4 dimensions", addressed, divided)
    yield from reading("new addresses, and visitors", addressed, counting)
    yield from singles("single with an agent", ("ua",), NO_DIMENSIONS)
    yield from singles("single with words", ALL, divided)
    yield from singles("single with words and visitors", OF_ADDRESSES, counting)


def flushing_parts(make: Callable[..., ProfileReader]) -> Iterator[str]:
    salts = {DAY: b"a salt of thirty-two bytes length"}
    yield from flushing("flush of counts", ("ua",), NO_DIMENSIONS)
    yield from flushing("flush with 3 dimensions", ALL, make(DIMENSIONS[:3]))
    yield from flushing("flush with 4 dimensions", ALL, make(DIMENSIONS))
    yield from flushing("flush with visitors too", OF_ADDRESSES, make(DIMENSIONS, salts=salts))


def memory_parts(make: Callable[..., ProfileReader]) -> Iterator[str]:
    salts = {DAY: b"a salt of thirty-two bytes length"}
    agents, worded, addressed = (VISITORS.bodies(BATCHES, BATCH, said, NOW) for said in (("ua",), ALL, OF_ADDRESSES))
    yield from memory("counts alone", agents, NO_DIMENSIONS)
    yield from memory("4 dimensions", worded, make(DIMENSIONS))
    yield from memory("4 dimensions and visitors", addressed, make(DIMENSIONS, salts=salts))


PARTS = {"reading": reading_parts, "flushing": flushing_parts, "memory": memory_parts}

if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="python -m bench.micro.words", description=__doc__)
    add_parts(asked, PARTS)
    asked.add_argument("--log", type=Path, help="an access log, whose referrers and agents the hits have")
    arguments = asked.parse_args()
    gc.set_threshold(20_000, 20, 100)  # as the server has it
    VISITORS = Visitors(log=arguments.log)
    for part in arguments.parts or PARTS:
        for line in PARTS[part](partial(ProfileReader, country_of=country_reader("builtin"), own_hosts=frozenset())):
            print(line, flush=True)
