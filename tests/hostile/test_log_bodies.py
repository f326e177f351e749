"""Bodies of log lines: what the worst of them cost, in one piece of work and in memory, and how that grows."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Callable

import pytest

from clickcurve.buckets.errors import BodyTooLarge
from ingest.agents.bots import bot_judge
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.imports.access_log import REDIRECTS, AccessLog
from ingest.imports.log_body import BODY_TEXTS_KEPT, LogBody
from ingest.reading.request_sums import RequestSums
from server.compat.log_lines import log_options
from tests.hostile.growth import MOST_GROWTH, measured
from tests.hostile.piece import piece_s
from tests.ingest.http_kit import MOMENT
from tests.server.compat.test_log_lines import LogDoor, line

MIB = 1 << 20
PIECES = 12  # of work (tests/hostile/piece.py) that one step takes at most
FORMAT = "$a-$b-$c-$d-" * 60 + "$time_iso8601 $status $request"
Body = Callable[[int], bytes]  # of so many bytes, about


def lines(make: Callable[[int], str], each: int) -> Body:
    return lambda size: "".join(f"{make(n)}\n" for n in range(size // each)).encode()


def repeated(text: bytes) -> Body:
    return lambda size: text * (size // len(text))


BODIES: dict[str, tuple[Body, str]] = {
    "blank lines": (repeated(b"\n"), ""),
    "no lines of a log": (repeated(b"x\n"), ""),
    "one line without an end": (repeated(b"x"), ""),
    "long lines without sense": (repeated(b"x" * 65_000 + b"\n"), ""),
    "long lines of quotes": (repeated(b'"' * 65_000 + b"\n"), ""),
    "long lines of brackets": (repeated(b"[ " * 32_000 + b"\n"), ""),
    "open quotes": (repeated(b'"\\\n'), ""),
    "open JSON": (repeated(b'{"a":\n'), ""),
    "brackets": (repeated(b'{"a":' + b"[" * 500 + b"\n"), ""),
    "columns": (repeated(b"#Fields: date time sc-status cs-uri-stem\n"), ""),
    "columns of each line": (
        lines(lambda n: f"#Fields: date time sc-status{' x' * (n % 300)} cs-uri-stem\n1", 400),
        "",
    ),
    "agents, links and referrers that are all new": (
        lines(lambda n: line(f"/{n}", agent=f"Mozilla/5.0 ({n}) x{n * 7}").replace("news", f"n{n}"), 150),
        "",
    ),
    "campaigns": (lines(lambda n: line(f"/a?utm_source={n}&utm_campaign=c{n}"), 150), ""),
    "hits of next year": (lines(lambda n: line(f"/{n}", when="01/Jan/2027:12:00:03 +0000"), 200), ""),
    "a format of many fields": (repeated(b"-a" * 400 + b"\n"), FORMAT),
    "syslog's words": (repeated(b"<13>Jan  1 " * 60 + b"\n"), ""),
}


def reader() -> ProfileReader:
    return ProfileReader(("ref", "source"), lambda address: "", ReferrerReader(()))


def steps_of(body: bytes, written: str) -> list[float]:
    """Reads a body, at most until it is refused; returns the processor time of each step."""
    profiles = reader()
    options, columns = log_options(written, "", [], "UTC", "decoded")
    log = AccessLog(bot_judge(), REDIRECTS, None, options=options, texts_kept=BODY_TEXTS_KEPT)
    log.use(profiles.useful_fields())
    steps, took = LogBody(log, RequestSums(MOMENT, reader=profiles), bot_judge(), columns).steps(body), []
    begun_s = time.thread_time()
    try:
        for _ in steps:
            took.append(time.thread_time() - begun_s)
            begun_s = time.thread_time()
    except BodyTooLarge:
        took.append(time.thread_time() - begun_s)
    return took


@pytest.mark.parametrize("name", BODIES)
def test_no_step_of_a_body_holds_others_up(name: str) -> None:
    make, written = BODIES[name]
    body = make(MIB // 4)
    longest = min(max(steps_of(body, written)) for _ in range(3))  # the least: a neighbour may interrupt one
    print(f"{name}: {longest * 1000:.1f} ms at most in one piece")
    assert longest < PIECES * piece_s()


@pytest.mark.parametrize("name", BODIES)
def test_a_body_takes_time_in_proportion(name: str) -> None:
    make, written = BODIES[name]
    growth = measured(lambda body: steps_of(body, written), make, 70_000)
    print(f"{name}: {growth}")
    assert growth.factor < MOST_GROWTH, f"{name}: {growth}"


@pytest.mark.parametrize("text", [b"\n", b"x\n", b"x", b'{"a":\n'])
def test_a_small_packed_body_takes_little_memory(text: bytes) -> None:
    body = text * (120_000 // len(text))
    packed, door = gzip.compress(body), LogDoor()
    assert len(packed) < len(body) // 50
    door.post(line().encode())  # loads what a process has once
    tracemalloc.start()
    try:
        answer = door.post(packed, headers={"Content-Encoding": "gzip"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code in (200, 413, 422)
    assert peak < 2 * len(body) + 4 * MIB


def test_a_body_that_unpacks_to_too_much_is_refused() -> None:
    door = LogDoor()
    answer = door.post(gzip.compress(b"\n" * (65 * MIB), 1), headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, door.room.used) == (413, 0)
