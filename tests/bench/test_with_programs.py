"""Measurements that need other programs: the limiter's beside Redis and memcached."""

from __future__ import annotations

import re
from pathlib import Path
from time import time

import pytest

from bench.ingest import singles
from bench.micro.__main__ import main
from bench.workload import Workload


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
