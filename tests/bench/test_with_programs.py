"""Measurements that need other programs: the limiter's beside Redis and memcached."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import pytest

from bench import servers
from bench.__main__ import PARTS
from bench.cassandra import over_http
from bench.command import run
from testing.server import ROOT, RunningServer
from tests.power import one_in


@pytest.mark.needs("redis", "memcached")
def test_the_limiters_fast_paths_are_measured_on_servers(capsys: pytest.CaptureFixture[str]) -> None:
    run(PARTS, ["micro.fast_paths_remote", "--scale", "0.01", "--rounds", "1"])
    printed = capsys.readouterr().out
    for name in ("encode_question, tiered, redis", "RedisSocket, fixed, redis", "_take_seen, token_bucket, memcached"):
        assert re.search(rf"{name}, slow way +\S+ us a decision +\S+ times", printed), printed


SMALL = ("--links", "60", "--hits", "3000", "--rounds", "1", "--seconds", "1")
# A flush of 30,000 links, beside which requests are timed, needs so many.
LARGE = ("--links", "50000", "--hits", "100000", "--rounds", "1", "--seconds", "1")
OF_MAKE_BENCH: dict[tuple[str, ...], tuple[str, ...]] = {
    ("rows", *SMALL): (r"row: full: about 1,000 hits a minute for 500 days +[\d,]+ B",),
    ("ingest", *SMALL): (
        r"POST /v1/hits/\{key\}, c32, same head, bare +[\d,.]+ /s",
        *(
            rf"{kind}.*, Clickcurve +[\d,.]+ /s +\d\.\d\d times bare; .*p99 .*; processor \S+ us \(\S+ times\)"
            for kind in (
                r"POST /v1/hits/\{key\}, c32, same head",
                r"POST /v1/hits, one JSON hit, c32, same head",
                "the same with ref",
                r"POST /v1/limit/",
                r"POST /v1/hits/\{key\}, c32, heads vary",
                r"POST /v1/hits/\{key\}, c32, heads vary, through ASGI",
            )
        ),
        r"batches of 100,000, NDJSON, c4 +[\d,.]+ /s +p50 ",
    ),
    ("workers", *SMALL): (r"batches of 1,000, JSON, c4 each, two workers +\S+ /s .* processor \S+ us \(\S+ times\)",),
    ("page", *SMALL): (r"page of all links, c1 +\S+ ms +\S+ kB with style, script and map",),
    ("reads", *LARGE): (
        r"file of 50,000 links, 100,000 hits, 400 days +\S+ MB",
        r"curve 30 d, c1, quiet +p50 \S+ ms +p99 \S+ ms",
        r"POST /v1/hits/\{key\}, c1, during a flush +p50 \S+ ms +\S+ times outside flushes; p99 \S+ ms \(\S+ times\)",
    ),
    ("breakdowns", *LARGE): (
        r"by ref, life, c1, quiet +p50 \S+ p99 \S+ ms",
        r"flush of [\d,]+ rows +\S+ s",
    ),
}


@pytest.mark.slow
@pytest.mark.needs("wrk")
@pytest.mark.parametrize("words", one_in(3, [(words,) for words in OF_MAKE_BENCH]), ids=lambda words: words[0])
def test_a_part_of_make_bench_prints_its_figures(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    run(PARTS, words)
    printed = capsys.readouterr().out
    for figure in OF_MAKE_BENCH[words]:
        assert re.search(figure, printed), printed


@pytest.mark.slow
@pytest.mark.needs("redis", "memcached")
@pytest.mark.parametrize("place", one_in(4, ["redis", "memory", "memcached", "bytes"]))
def test_the_limiter_is_measured_beside_other_libraries(place: str) -> None:
    """In a process of its own: some libraries leave their sockets open."""
    command = [
        sys.executable,
        "-m",
        "bench",
        f"limiter.{place}",
        "--rounds",
        "1",
        "--seconds",
        "0.001",
        "--scale",
        "0.01",
    ]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    figure = rf"{place}, fixed window, 100/d, limits +[\d,.]+ /s +\S+ times Clickcurve"
    if place == "bytes":
        figure = r"memory, token bucket, 100/d used up, Clickcurve +[\d,.]+ B a key"
    assert re.search(figure, printed), printed


@pytest.mark.long
@pytest.mark.needs("cassandra")
def test_flushes_to_cassandra_are_measured_beside_the_bare_driver(capsys: pytest.CaptureFixture[str]) -> None:
    run(PARTS, ["cassandra.flush", "cassandra.attributes", "--rounds", "1", "--scale", "0.002"])
    printed = capsys.readouterr().out
    assert re.search(r"rows of 60 links of \d+ B, bare driver +\S+ s", printed), printed
    for memory in ("all in memory", "none in memory"):
        ratio = r"\d+\.\d\d times bare driver; processor .*; \S+ requests"
        assert re.search(rf"rows of 60 links of \d+ B, flush, {memory} +\S+ s +{ratio}", printed), printed
        assert re.search(rf"flush of 20 links, {memory}, 3 dimensions +\S+ s", printed), printed


@pytest.mark.long
@pytest.mark.needs("cassandra", "wrk")
def test_both_journals_are_measured_side_by_side(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "CONNECTIONS", (2,))  # a second each
    monkeypatch.setattr(servers, "RunningServer", partial(RunningServer, module="tests.bench.patient"))
    run(PARTS, ["cassandra.journals", *SMALL, "--scale", "0.03"])
    printed = capsys.readouterr().out
    group = r"a group of [\d,.]+ hits; [\d,.]+ requests a group; [\d,.]+ B a group"
    for what in ("hits, c2", "in batches of 1,000, c2"):
        ratio = r"\S+ times on a disk; .*processor \S+ us"
        assert re.search(rf"{what}, one node, in the cluster +[\d,.]+ /s +{ratio} .*{group}", printed), printed
    for journal in ("on a disk", "in the cluster"):
        assert re.search(rf"60 hits/s, one node, {journal} +p50 \S+ ms .*p99 \S+ ms", printed), printed
