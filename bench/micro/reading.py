"""Hits from bodies in memory into the buffer, without HTTP, journal or sync; and the reader of access logs."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import accumulate

from bench.measure import Measure, call_each, ready
from bench.micro.inside import read
from bench.options import Options
from bench.workload import Workload, batch
from ingest.batch import encode_batch
from ingest.buffer import Buffer
from ingest.imports.access_log import AccessLog
from ingest.reading.body import Media

NOW = 1_767_268_800
KEYS = 100_000
PIECE_BYTES = 1 << 20
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0"

# What a hit says beside its key: some of the last ten minutes, or of a whole day in no order.
KINDS: dict[str, Callable[[random.Random, int], str]] = {
    "plain": lambda _, place: f',"ts":{NOW - 600 + place}',
    "timeless": lambda _, place: "",
    "scattered": lambda rng, _: f',"ts":{NOW - rng.randrange(43_200)}',
    "with an agent": lambda rng, place: f',"ts":{NOW - 600 + place},"ua":"{AGENT.format(rng.randrange(60, 140))}"',
    "with an id": lambda rng, place: f',"ts":{NOW - 600 + place},"id":"{rng.getrandbits(64):x}"',
    "ISO time": lambda _, place: f',"ts":"2026-01-01T11:{50 + place // 60:02}:{place % 60:02}Z"',
    "nested": lambda _, place: f',"geo":{{"country":"DE"}},"labels":["a","b"],"ts":{NOW - 600 + place}',
}


def parse(options: Options) -> Iterator[Measure]:
    """A hit of each kind in bodies of two sizes and forms; then the stages of a plain hit, as `bench ingest` sends."""
    for hits in map(options.of, (1_000, 100_000)):
        for kind in KINDS:
            for form, media in (("array", Media.json), ("lines", Media.lines)):
                call = partial(read, now=NOW, media=media)
                yield Measure(f"{kind}, {form} of {hits:,}", partial(body, kind, media, hits), call, "ns a hit", hits)
    for hits in map(options.of, (1_000, 100_000)):
        bodies = _bodies(options, hits)
        batches, buffer = [read(each, NOW) for each in bodies], Buffer(NOW - 43_200)
        stages = {
            "reading": [partial(read, each, NOW) for each in bodies],
            "journal's bytes": [partial(encode_batch, each) for each in batches],
            "buffer": [partial(buffer.add_batch, each, 1, False) for each in batches],
        }
        for stage, calls in stages.items():
            yield Measure(f"batches of {hits:,}, {stage}", ready(calls), call_each, "ns a hit", hits * len(bodies))
        size = sum(len(encode_batch(each)) for each in batches)
        yield Measure(f"batches of {hits:,}, in the journal", ready(size), float, "B a hit", hits * len(bodies))


def body(kind: str, media: Media, hits: int) -> bytes:
    """Hits of links as popular as links are (Zipf 1.1)."""
    rng, (names, weights) = random.Random(hits), _links()
    keys = rng.choices(names, cum_weights=weights, k=hits)
    made = [f'{{"key":"{key}"{KINDS[kind](rng, place * 600 // hits)}}}' for place, key in enumerate(keys)]
    return (f"[{','.join(made)}]" if media is Media.json else "\n".join(made)).encode()


@cache
def _links() -> tuple[list[str], list[float]]:
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789", k=6)) for _ in range(KEYS)]
    return names, list(accumulate(1 / rank**1.1 for rank in range(1, KEYS + 1)))


def _bodies(options: Options, hits: int) -> list[bytes]:
    workload = Workload(KEYS, 10_000_000, 400, NOW)
    numbers = range(max(4, options.of(20_000) // hits))
    return [f"[{','.join(batch(workload.draw(hits, seed=10 + number), NOW - 60))}]".encode() for number in numbers]


def import_log(options: Options) -> Iterator[Measure]:
    """Lines of an access log, with two sets of statuses, beside what it takes to unpack it."""
    data = _made_log(options.of(200_000))
    if options.log is not None:
        raw = options.log.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    pieces, lines, packed = _pieces(data), data.count(b"\n"), zlib.compress(data, 6)

    def read_log(fields: tuple[str, ...], statuses: tuple[int, ...]) -> None:
        log = AccessLog(lambda agent: "bot" in agent, statuses)
        log.use(fields)
        for piece in pieces:
            log.read(piece)

    for name, statuses in (("302 and its like", (301, 302, 303, 307, 308)), ("2xx and 3xx", tuple(range(200, 400)))):
        for what, fields in (("counts", ()), ("with attributes", ("ip", "ref", "ua", "source"))):
            yield Measure(f"access log, {name}, {what}", ready(statuses), partial(read_log, fields), "us a line", lines)

    def read_alone(statuses: tuple[int, ...]) -> None:
        log = AccessLog(lambda agent: "bot" in agent, statuses)
        for line in data.decode("utf-8", "surrogateescape").splitlines():
            log.parse(line)

    yield Measure("access log, each line alone", ready(tuple(range(200, 400))), read_alone, "us a line", lines)
    yield Measure("unpacking it", ready(packed), zlib.decompress, "us a line", lines)


def _made_log(lines: int, links: int = 2_000, agents: int = 300) -> bytes:
    """A combined log; 40 lines a second, one request in ten is a 404, a query on every fourth."""
    draw = random.Random(3)
    keys = draw.choices([f"k{n:05x}" for n in range(links)], [1 / (rank + 1) for rank in range(links)], k=lines)
    made = []
    for n, key in enumerate(keys):
        second = n // 40
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        query = f"?utm_source=s{draw.randrange(10**6)}" if n % 4 == 0 else ""
        request = f'"GET /{key}{query} HTTP/1.1" {404 if n % 10 == 0 else 302} 512'
        said = f'"https://example.org/page/{n % 97}" "{AGENT.format(n % agents)}"'
        made.append(f"203.0.113.{n % 250} - - [17/May/2015:{clock} +0000] {request} {said}\n")
    return "".join(made).encode()


def _pieces(data: bytes) -> list[bytes]:
    found, start = [], 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + PIECE_BYTES) + 1 or len(data)
        found.append(data[start:end])
        start = end
    return found
