"""Measurements that need other programs: the limiter's beside Redis and memcached."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import time

import pytest

from bench.__main__ import main as make_bench
from bench.cassandra.attributes import attributes
from bench.cassandra.flush import flushes
from bench.cassandra.node import one_node
from bench.ingest import singles
from bench.micro.__main__ import main
from bench.workload import Workload
from testing.server import ROOT


@pytest.mark.needs("redis", "memcached")
def test_the_limiters_fast_paths_are_measured_on_servers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fast_paths_remote", "--scale", "0.01", "--rounds", "1"])
    printed = capsys.readouterr().out
    for name in ("encode_question, tiered, redis", "RedisSocket, fixed, redis", "_take_seen, token_bucket, memcached"):
        assert re.search(rf"{name} +\S+ us a decision +slow way \S+ us a decision, \S+ times", printed), printed


@pytest.mark.needs("wrk")
def test_single_requests_are_measured_with_heads_that_vary(tmp_path: Path) -> None:
    workload = Workload(50, 1_000, 400, int(time()) // 3_600 * 3_600)
    lines, bare_per_s = singles(tmp_path, workload, rounds=1, seconds=1)
    assert bare_per_s > 0
    kinds = [
        "bare ASGI 200",
        "POST /v1/hits/{key}",
        "POST /v1/hits, one JSON hit",
        "the same with ref",
        "POST /v1/limit/",
    ]
    assert [line.what for line in lines if not line.what.startswith("...")] == [
        next(line.what for line in lines if line.what.startswith(kind)) for kind in kinds
    ]
    assert [line.what for line in lines].count("... heads vary") == 3
    for line in lines[1:]:
        assert re.match(r"\d\.\d\d of bare, \d+\.\d\d of its processor time, p99 ", line.compared), line


SMALL = ("--links", "60", "--hits", "3000", "--rounds", "1", "--seconds", "1")
# A flush of 30,000 links, beside which requests are timed, needs so many.
LARGE = ("--links", "100000", "--hits", "200000", "--rounds", "1", "--seconds", "1")
OF_MAKE_BENCH: dict[tuple[str, ...], tuple[str, ...]] = {
    ("rows", *SMALL): (r"row: full: about 1,000 hits a minute for 500 days +[\d,]+ B",),
    ("workers", *SMALL): (r"two workers: batches of 1,000, JSON, c4 each +\S+ us a hit +\S+ of one worker's",),
    ("page", *SMALL): (r"page of all links, c1 +\S+ ms +\S+ kB with style and script",),
    ("reads", *LARGE): (
        r"file of 100,000 links, 200,000 hits, 400 days +\S+ MB",
        r"curve 30 d, c1, quiet +p50 \S+ p99 \S+ ms",
        r"POST /v1/hits/\{key\}, c1, during a flush +p50 \S+ p99 \S+ ms +\S+ times the p99",
    ),
    ("breakdowns", *LARGE): (
        r"by ref, life, c1, quiet +p50 \S+ p99 \S+ ms",
        r"flushes of 30,000 links with attributes +",
    ),
}


@pytest.mark.needs("wrk", "minutes")
@pytest.mark.parametrize("words", OF_MAKE_BENCH, ids=lambda words: words[0])
def test_a_part_of_make_bench_prints_its_figures(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    make_bench(words)
    printed = capsys.readouterr().out
    for figure in OF_MAKE_BENCH[words]:
        assert re.search(figure, printed), printed


@pytest.mark.needs("redis", "memcached", "minutes")
@pytest.mark.parametrize("place", ["memory", "redis", "memcached", "bytes"])
def test_the_limiter_is_measured_beside_other_libraries(place: str) -> None:
    """In a process of its own: some libraries leave their sockets open."""
    command = [sys.executable, "-m", "bench.limiter", place, "--rounds", "1", "--seconds", "0.001"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    figure = rf"{place}, fixed window, 100/d +[\d,]+ /s +1/"
    if place == "bytes":
        figure = r"memory, token bucket, 100/d used up +[\d,]+ B a key"
    assert re.search(figure, printed), printed


@pytest.mark.needs("cassandra")
def test_flushes_to_cassandra_are_measured_beside_the_bare_driver(tmp_path: Path) -> None:
    with one_node(tmp_path / "node") as node:
        bare, warm, cold = flushes([node], tmp_path / "flush", rounds=1, keys=50)
        lines = attributes(node, tmp_path / "attributes", rounds=1, links=20)
    assert bare.what.startswith("bare driver writes rows of 50 links")
    for line in (warm, cold):
        assert re.match(r"\d+\.\d\d times the bare driver, \d+ requests, rounds within", line.compared), line
    assert [line.what for line in lines] == [
        f"flush of 20 links with 3 dimensions, {memory}" for memory in ("all in memory", "none in memory")
    ]
