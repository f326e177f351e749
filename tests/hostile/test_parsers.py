"""Mutated inputs for every parser that reads what strangers, files or people send: only errors of ours come out.

FUZZ_S is the processor time for each parser, in seconds, and FUZZ_SEED repeats a run. Each test prints how many inputs
it tried.
"""

from __future__ import annotations

import gzip
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from tempfile import NamedTemporaryFile
from urllib.parse import quote

import pytest
import zstandard

from clickcurve.access_log import parse_log_line
from clickcurve.buckets.codec import decode, decode_header, encode
from clickcurve.buckets.errors import BodyUnreadable, ClickcurveError, HitRejected
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import key_in_path
from clickcurve.limiter.http.address import HEADERS, addresses
from clickcurve.limiter.http.json_shapes import read_commit, read_question
from clickcurve.limiter.rates import parse_rates
from clickcurve.times import parse_time
from ingest.imports.access_log import AccessLog, count_fields
from ingest.imports.chunk import ChunkReader
from ingest.journal.segment_format import (
    Malformed,
    decode_segment_header,
    encode_group,
    encode_segment_header,
    payloads_of,
    proof_of_damage,
    valid_frames,
)
from ingest.reading.body import Media
from ingest.reading.body_budget import decoded
from ingest.reading.request_sums import RequestSums
from server.settings.reading import read_settings
from storage.cassandra.uri import parse
from tests.buckets.test_golden import NAMES, golden
from tests.hostile.piece import piece_s
from tests.ingest.http_kit import MOMENT, NOW, is_bot, summed
from tests.ingest.imports.logs.kit import FORMATS
from tests.ingest.journal.test_journal_format import HEADER, SALT

FUZZ_S = float(os.environ.get("FUZZ_S", "0.5"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
LONGEST = 4096  # bytes of an input
SLOWEST = 600  # pieces of work for one input (tests/hostile/piece.py), 2 s: thousands of times what it should take
PIECES = [
    b"",
    b"\0",
    b"\xff",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b" ",
    b"%",
    b"-",
    b";",
    b"=",
    b"/",
]
PIECES += [
    b"0" * 30,
    b"9" * 19,
    b"1e400",
    b"null",
    b"NaN",
    b"\\ud800",
    b"\xe2\x80\xae",
    b"::1",
    b"2026-01-01",
    b"[" * 600,
]

HIT = b'{"key":"a","ts":%d,"count":2,"id":"x","ua":"curl/8","bot":true}' % NOW
EVENT = b'{"specversion":"1.0","id":"1","source":"s","subject":"k","time":"2026-01-01T12:00:00Z","data":{"key":"a"}}'
HISTORY = b'{"key":"a","total":9,"bots":1,"first_hit":60,"last_hit":120,"opening":2,"buckets":[[60,120,7,1]]}'
LINE = (
    b'203.0.113.7 - ann [25/Feb/2026:06:14:00 +0000] "GET /links?x=1 HTTP/1.1" 302 12 "https://a.example/" "curl/8"\n'
)
LOG_JSON = b'{"ts":1760000000.5,"status":302,"request":{"method":"GET","uri":"/k","headers":{"User-Agent":["x"]}}}\n'
GROUP = encode_segment_header(HEADER)
SEGMENT = GROUP + b"".join(encode_group([b"payload", b"x" * 40], NOW, len(GROUP), 0, SALT))
TOML = b'port = "80"\nworkers = 1\nstore = "memory://"\n'
TOML += b'[limits.login]\nby = ["user", "ip"]\nrates = "2/s, 5/m"\nstrategy = "tiered"\n'
LOG = AccessLog(is_bot)


def read_hits_of(media: Media) -> Callable[[bytes], object]:
    return lambda data: summed(data, media, RequestSums(MOMENT), 300).receipt().encode()


def read_import(data: bytes) -> None:
    for is_array in (False, True):
        sums = RequestSums(MOMENT)
        for _ in ChunkReader(CLICKS).read_body(data, sums, is_array):
            pass
        sums.receipt().encode()


def read_log(data: bytes) -> None:
    sums = LOG.read(data)
    assert sums.lines == sums.people_hits + sums.bot_hits + sums.skipped.total() + sums.bad
    count_fields(data)
    parse_log_line(text(data))


def unpack(coding: str) -> Callable[[bytes], object]:
    return lambda data: sum(map(len, decoded(data, coding, 1 << 20)))


def read_row(data: bytes) -> None:
    decode_header(data)
    encode(decode(data))


def read_segment(data: bytes) -> None:
    view = memoryview(data)
    header, start = decode_segment_header(view)
    for found in valid_frames(view, start, len(data), header.salt):
        for payload in payloads_of(view, found):
            len(payload)
    proof_of_damage(view, min(start, len(data)), header.salt)


def read_toml(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        read_settings({"config": file.name}, {})


def read_address(data: bytes) -> None:
    for header in HEADERS:
        scope = {"client": ("127.0.0.1", 1), "headers": [(header.encode(), data)] * 2}
        addresses("127.0.0.1/32", header=header).client(scope)


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


PARSERS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "hits in JSON": (read_hits_of(Media.json), [HIT, b"[" + HIT + b"," + HIT + b"]"]),
    "hits in lines": (read_hits_of(Media.lines), [HIT + b"\n" + HIT]),
    "CloudEvents": (read_hits_of(Media.events), [b"[" + EVENT + b"," + EVENT + b"]"]),
    "imports": (read_import, [HIT + b"\n" + HISTORY, b"[" + HIT + b"," + HISTORY + b"]"]),
    "access logs": (read_log, [LINE * 2, LOG_JSON, *(given.lines.encode() for given in FORMATS.values())]),
    "times": (
        lambda data: parse_time("from", text(data)),
        [b"2026-01-01T12:00:00.5+02:00", b"20251001", b"1760000000"],
    ),
    "keys in paths": (lambda data: key_in_path(data, HitRejected), [b"a%2Fb", quote("ä😀").encode()]),
    "gzip": (unpack("gzip"), [gzip.compress(HIT * 20), gzip.compress(HIT) * 2]),
    "zstd": (unpack("zstd"), [zstandard.ZstdCompressor().compress(HIT * 20)]),
    "rows": (read_row, [golden(name)[1] for name in NAMES]),
    "networks of proxies": (lambda data: addresses(text(data)), [b"10.0.0.0/8, ::1"]),
    "journal segments": (read_segment, [SEGMENT, GROUP]),
    "rates": (lambda data: parse_rates(text(data)), [b"2/s, 5/m, 10/h, 100/d", b"10/30s"]),
    "settings and rules in TOML": (read_toml, [TOML]),
    "addresses of Cassandra": (
        lambda data: parse(text(data)),
        [b"cassandra://h1,h2:9042/space?dc=a&tls=1&timeout_s=3", b"cassandra://[::1]/k"],
    ),
    "forwarded addresses": (
        read_address,
        [b"203.0.113.9, 10.0.0.1", b'for="[2001:db8::1]:80";proto=http, for=1.2.3.4'],
    ),
    "questions to the limiter": (
        read_question,
        [b'{"ip":"1.2.3.4","user":"ann","cost":2,"peek":true,"explain":false}'],
    ),
    "commits to the limiter": (read_commit, [b'{"cost":3}']),
}


NEVER_REFUSE = ("access logs", "hits in lines", "forwarded addresses")  # they judge line by line, or pass over it


def mutated(source: random.Random, seeds: list[bytes]) -> bytes:
    """One to four cuts, flips, repeats, insertions or joins of a seed."""
    data = bytearray(source.choice(seeds))
    for _ in range(source.randint(1, 4)):
        at, end = sorted(source.randrange(len(data) + 1) for _ in range(2))
        match source.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << source.randrange(8)
            case 1:
                del data[at:end]
            case 2:
                del data[at:]
            case 3:
                data[at:at] = source.choice(PIECES)
            case 4:
                data[at:end] = bytes(end - at)
            case 5:
                data[at:at] = data[at:end] * source.randint(1, 4)
            case _:
                data += source.choice(seeds)[at:]
    return bytes(data[:LONGEST])


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_lets_only_errors_of_ours_out_and_never_takes_long(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser, seeds = PARSERS[name]
    for seed in seeds:
        with suppress(BodyUnreadable):  # an array is not lines
            parser(seed)
    source = random.Random(f"{SEED} {name}")
    tried = refused = 0
    slowest_s = SLOWEST * piece_s()
    end = time.thread_time() + FUZZ_S
    while time.thread_time() < end:
        data = mutated(source, seeds)
        begun = time.thread_time()
        try:
            parser(data)
        except (ClickcurveError, Malformed):
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}, seed {SEED}: {error!r} for {data!r}") from error
        assert time.thread_time() - begun < slowest_s, data
        tried += 1
    with capsys.disabled():
        print(f"\n{name}: {tried:,} inputs, {refused:,} refused (FUZZ_SEED={SEED}, FUZZ_S={FUZZ_S:g})")
    assert tried > 10
    assert refused == 0 if name in NEVER_REFUSE else 0 < refused < tried
