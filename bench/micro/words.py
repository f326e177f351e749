"""What words cost beside counts: `python -m bench.micro.words`, a minute. Processor time, medians of some rounds.

Hits of a synthetic workload: 100,000 links by Zipf 1.2, referrers as links have them (a third none, half of the rest of
20,000 hosts by Zipf 1.1), 120 agents, a new address for each hit. Read in batches of 1,000: with agents alone, with
agents that are divided by device, with all words, and with visitors too. Then a flush of 30,000 links into a file, with
counts alone and with breakdowns beside; and the memory of a buffered hit.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.ladder import CLICKS, fold_day
from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.flush import Flush
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.request_sums import RequestSums
from ingest.words.country import country_reader
from ingest.words.profile import NO_DIMENSIONS, ProfileReader
from storage.contract import OPEN, Held, OwnerRecord
from storage.sqlite.store import SqliteStore

NOW = 1_767_268_800
MOMENT = Moment(NOW, NOW - 43_200, NOW + 300)
DAY = NOW - NOW % 86_400
LINKS, HOSTS, BATCH, BATCHES, ROUNDS = 100_000, 20_000, 1_000, 60, 5
FLUSHED_LINKS = 30_000
DIMENSIONS = ("ref", "country", "device", "source")
AGENTS = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) Gecko/20100101 Firefox/{n}.0" for n in range(20, 140)]


def weights(n: int, exponent: float) -> list[float]:
    return list(accumulate((rank + 1) ** -exponent for rank in range(n)))


LINK_WEIGHTS, HOST_WEIGHTS = weights(LINKS, 1.2), weights(HOSTS, 1.1)


def hits(rng: random.Random, n: int, words: bool, agents: bool) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    keys = rng.choices(range(LINKS), cum_weights=LINK_WEIGHTS, k=n)
    hosts = rng.choices(range(HOSTS), cum_weights=HOST_WEIGHTS, k=n)
    for key, host in zip(keys, hosts, strict=True):
        hit: dict[str, object] = {"key": f"link{key}", "ts": NOW - rng.randrange(600)}
        if agents:
            hit["ua"] = rng.choice(AGENTS)
        if words:
            hit["ip"] = f"{rng.randrange(1, 224)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
            kind = rng.random()
            if kind > 0.35:
                own = f"{key % 997}-{host % 30}.sites.example/page/{host}"
                hit["ref"] = f"{host}.hosts.example/path/{host}" if kind > 0.67 else own
            if rng.random() < 0.1:
                hit["source"] = rng.choice(["qr", "email", "print"])
        found.append(hit)
    return found


def bodies(words: bool, agents: bool) -> list[bytes]:
    rng = random.Random(7)
    return [json.dumps(hits(rng, BATCH, words, agents)).encode() for _ in range(BATCHES)]


def read(body: bytes, reader: ProfileReader) -> Batch:
    sums = RequestSums(MOMENT, reader=reader)
    for some in read_hits(body, Media.json):
        sums.add(some, JUDGE)
    batch = sums.batch()
    assert batch is not None
    encode_batch(batch)
    return batch


JUDGE = bot_judge()


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


def singles(name: str, words: bool, reader: ProfileReader) -> Iterator[str]:
    rng = random.Random(8)
    some = [json.dumps([hit]).encode() for hit in hits(rng, 2_000, words, True)]
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for body in some:
            read(body, reader)
        rounds.append((time.process_time() - begun) / len(some))
    yield f"{name:<34} {statistics.median(rounds) * 1e6:6.2f} us a request of one hit"


def flushing(name: str, reader: ProfileReader, words: bool) -> Iterator[str]:
    rng = random.Random(9)
    links = [f"link{n}" for n in range(FLUSHED_LINKS)]
    some = hits(rng, FLUSHED_LINKS * 2, words, True)
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
            store.begin(held, number - 1, number, NOW)
            flush = Flush(
                held,
                number,
                fold_day(NOW),
                rewrite=False,
                taken=buffer,
                revisit=frozenset(),
                set_aside={},
                given_up=frozenset(),
                again=lambda erasures: Buffer(DAY),
                store=store,
                ladder=CLICKS,
                capped=BREAKDOWN,
                pause=lambda: None,
                unreadable=lambda key, error: None,
            )
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


def lines() -> Iterator[str]:
    make = partial(ProfileReader, country_of=country_reader("builtin"), own_hosts=frozenset())
    salts = {DAY: b"a salt of thirty-two bytes length"}
    device, divided, counting = make(("device",)), make(DIMENSIONS), make(DIMENSIONS, salts=salts)
    plain, agents, worded = bodies(False, False), bodies(False, True), bodies(True, True)
    yield from reading("plain", plain, NO_DIMENSIONS)
    yield from reading("agents, not divided", agents, NO_DIMENSIONS)
    yield from reading("agents, by device", agents, device)
    yield from reading("words, not divided", worded, NO_DIMENSIONS)
    yield from reading("words, 4 dimensions", worded, divided)
    yield from reading("words, 4 dimensions and visitors", worded, counting)
    yield from singles("single with an agent", False, NO_DIMENSIONS)
    yield from singles("single with words and visitors", True, counting)
    yield from flushing("flush of counts", NO_DIMENSIONS, False)
    yield from flushing("flush with 4 dimensions", divided, True)
    yield from flushing("flush with visitors too", counting, True)
    yield from memory("counts alone", agents, NO_DIMENSIONS)
    yield from memory("4 dimensions", worded, divided)
    yield from memory("4 dimensions and visitors", worded, counting)


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
