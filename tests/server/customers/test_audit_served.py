"""The audit log of a real server: deletions by the token's id, restored backups, and limits that change."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.commands import said

LOGIN = '[limits.login]\nby = "ip"\nrates = "{}/d"\n'


def audited(data: Path) -> list[tuple[str, str, str]]:
    """(token, what, subject) of each entry."""
    entries = [json.loads(line) for line in said("audit", "--json", "--data", str(data)).splitlines()]
    return [(entry["token"], entry["what"], entry["subject"]) for entry in entries]


def test_deletions_name_the_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    admin = add_token(data / "tokens.json", "admin", (Scope.admin,))
    token_id = admin.split("_")[1]
    with RunningServer(data) as server, http_client(server.url) as http:
        http.headers["Authorization"] = f"Bearer {admin}"
        http.post("/v1/hits", json=[{"key": "acme/a"}, {"key": "b\n"}])
        for path in ("/v1/links/b%0A", "/v1/links?prefix=acme/", "/v1/links?prefix=acme/", "/v1/groups/acme"):
            assert http.delete(path).is_success
        assert http.delete("/v1/links?prefix=").status_code == 422
    assert audited(data) == [
        (token_id, "link deleted", "b\n"),
        (token_id, "links deleted", "acme/ (1 links)"),
        (token_id, "group deleted", "acme"),
    ]


def test_changed_limits_and_restored_backups_are_noted_once(tmp_path: Path) -> None:
    data, config, backup = tmp_path / "data", tmp_path / "clickcurve.toml", tmp_path / "backup.db"
    first, second = ("settings", "limits changed", "login"), ("settings", "limits changed", "none")
    config.write_text(LOGIN.format(1))
    server = RunningServer(data, "--config", str(config))
    with server:
        server.wait_until(lambda: audited(data) == [first])
        config.write_text(LOGIN.format(2))
        server.signal(signal.SIGHUP)
        server.wait_until(lambda: audited(data) == [first, first])
        server.stop()
        server.start()  # with the same limits
        said("backup", str(backup), "--data", str(data))
        server.stop()
        config.write_text("")
        server.start()
        server.wait_until(lambda: audited(data) == [first, first, second])
        server.stop()
    said("restore", str(backup), "--data", str(data))
    assert audited(data) == [first, first, ("command", "restored", str(backup))]
