"""The bound on memory for hits, as a client meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testing.client import Clickcurve, http_client
from testing.server import RunningServer


@pytest.mark.slow
def test_new_links_beyond_buffer_mib_are_answered_429_and_the_others_all_count(data: Path) -> None:
    with RunningServer(data, "--buffer-mib", "8", "--flush-s", "3600") as server:
        counted = 0
        with http_client(server.url) as client:
            while True:
                hits = [{"key": f"link-{counted + n}"} for n in range(1_000)]
                answer = client.post("/v1/hits", content=json.dumps(hits))
                if answer.status_code != 200:
                    break
                counted += answer.json()["counted"]
            assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"
            assert "of 8,388,608 bytes of memory" in answer.json()["detail"]
            assert client.get("/readyz").status_code == 503
        assert 10_000 < counted < 30_000
        with Clickcurve(server.url) as api:
            held, limit = (api.metric(f"clickcurve_buffer_{name}") for name in ("bytes", "limit_bytes"))
            assert limit == 8 << 20 < held < 9 << 20
    with RunningServer(data) as server, Clickcurve(server.url) as api:
        assert api.metric("clickcurve_buffer_bytes") == 0
        assert api.total(f"link-{counted - 1}")["total"] == 1
        assert api.total()["total"] == counted
