"""The campaign of random requests knows every route; `python -m tests.hostile --minutes 60` is a long one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from server.app.parts import ROUTES
from testing.client import http_client
from testing.server import RunningServer
from tests.hostile.campaign import Campaign
from tests.hostile.random_requests import OTHERS, described, random_requests

SECONDS = 25
SEED = 1


def test_every_route_is_asked(tmp_path: Path) -> None:
    """The server's routes are those of ROUTES (tests/hostile/test_prefixes.py)."""
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as client:
        document = client.get("/openapi.json").json()
    assert {each.path for each in ROUTES.routes} - described(document).keys() == OTHERS.keys()
    groups = {request.group for request in islice(random_requests(document, SEED), 5_000)}
    assert {f"{method} {each.path}" for each in ROUTES.routes for method in each.methods.split()} - groups == set()


@pytest.mark.slow
def test_no_random_request_fails_or_holds_up_hits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Campaign(tmp_path / "server", SEED).run(SECONDS)
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.wrong
    assert report.requests.total() > 200
    assert len(report.requests) > 50
