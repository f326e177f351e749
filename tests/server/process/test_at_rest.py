"""What a server has not imported that nobody has asked more than whether it is ready, and what then makes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testing.client import http_client
from testing.server import RunningServer

# Python names each module on standard error, once it is imported.
TELLS_IMPORTS = {"PYTHONPROFILEIMPORTTIME": "1"}
_IMPORTED = re.compile(r"^import time:[ 0-9]+\|[ 0-9]+\| +([\w.]+)$", re.MULTILINE)
# What a server needs for few things or for none, and what each takes once it is imported.
SPARED = {
    "cassandra",  # 7 MB
    "storage.cassandra.store",  # 1 MB with the schema
    "ua_parser",  # 13 MB with its patterns
    "yaml",  # which ua_parser imports
    "PIL",  # 3 MB
    "redis",  # 5 MB
    "markdown_it",  # the pages of help
}
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Mobile Safari/604.1"


def imported(server: RunningServer) -> set[str]:
    return set(_IMPORTED.findall(server.output()))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_at_rest_has_imported_only_what_it_serves_with(tmp_path: Path, workers: int) -> None:
    with RunningServer(tmp_path / "data", "--workers", str(workers), settings=TELLS_IMPORTS) as server:
        at_rest = imported(server)
        assert {"fastapi", "uvloop", "storage.sqlite.store", "server.app.application"} <= at_rest, "it tells"
        assert at_rest & SPARED == set()
        with http_client(server.url) as http:
            assert http.get("/docs").status_code == 200
            hit = {"key": "a", "ua": SAFARI, "ip": "192.0.2.1"}
            assert http.post("/v1/hits", json=hit).json()["counted"] == 1
            answer = http.get("/v1/links/a/by/device").json()
        assert [each["value"] for each in answer["values"]] == ["phone"]
        assert imported(server) & SPARED == {"ua_parser", "yaml"}, "the agent was read, and nothing else"
