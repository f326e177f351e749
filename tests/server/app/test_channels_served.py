"""The dimensions `channel` and `bot_kind` in a real server: at its doors, in exports, where dimensions are named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HITS: list[dict[str, Any]] = [
    {"key": "k", "ref": "https://www.google.com/", "groups": ["g"]},
    {"key": "k", "ref": "https://t.co/x", "source": "qr"},
    {"key": "k", "utm": {"source": "newsletter"}, "ref": "https://www.google.com/"},
    {"key": "k", "ua": BROWSER},
    {"key": "k"},
    {"key": "k", "ua": "GPTBot/1.2"},
    {"key": "k", "ua": "Googlebot/2.1"},
    {"key": "k", "bot": True},
]
CHANNELS = {"search": 1, "qr": 1, "email": 1, "direct": 1, "": 1}
KINDS = {"ai_crawler": 1, "search": 1, "other_bot": 1}
LINE = '198.51.100.1 - - [17/May/2026:10:05:03 +0000] "GET /{key} HTTP/1.1" 302 0 "{ref}" "' + BROWSER + '"\n'
ALL = "ref,country,device,source,channel,bot_kind"


def values(server: RunningServer, path: str) -> dict[str, int]:
    with http_client(server.url) as client:
        answer = client.get(path).raise_for_status().json()
    assert answer["exact"] and not answer["other"] and not answer["unrecorded"], answer
    return {each["value"]: each["at_least"] for each in answer["values"]}


def test_hits_have_channels_and_bots_kinds_through_flush_export_and_import(serve: Serve, tmp_path: Path) -> None:
    server = serve("--breakdown-dimensions", ALL, data=tmp_path / "one")
    with http_client(server.url) as client:
        client.post("/v1/hits", json=HITS[0]).raise_for_status()
        client.post("/v1/hits", json=HITS[1:]).raise_for_status()
        for _ in range(2):
            assert values(server, "/v1/links/k/by/channel") == CHANNELS
            assert values(server, "/v1/links/k/by/bot_kind") == KINDS
            assert values(server, "/v1/groups/g/by/channel") == {"search": 1}
            found = client.get("/metrics/find", params={"query": "clicks.k.channel.*"}).json()
            assert {each["text"] for each in found} >= {"search", "qr", "email", "direct"}
            labels = client.get("/api/v1/labels").json()["data"]
            assert {"channel", "bot_kind"} <= set(labels)
            server.stop()
            server = serve("--breakdown-dimensions", ALL, data=tmp_path / "one")
            client.base_url = server.url
        page = client.get("/links/k").text
        assert "Channels" in page and "Kinds of bots" in page
    history = tmp_path / "history"
    history.write_text(said("export", "--store", f"sqlite:///{tmp_path}/one/clickcurve.db"))
    server.stop()
    assert "0 rows break a law" in said("verify", "--data", str(tmp_path / "one"))
    other = serve("--breakdown-dimensions", ALL, data=tmp_path / "two")
    said("import", "--url", other.url, str(history))
    assert values(other, "/v1/links/k/by/channel") == CHANNELS
    assert values(other, "/v1/links/k/by/bot_kind") == KINDS


def test_logs_have_channels_and_may_leave_them_out(serve: Serve, data: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(LINE.format(key="k?utm_medium=cpc", ref="https://www.google.com/") + LINE.format(key="k", ref="-"))
    server = serve(data=data)
    said("import", "--url", server.url, str(log))
    assert values(server, "/v1/links/k/by/channel") == {"paid_search": 1, "direct": 1}
    named = tmp_path / "other.log"
    named.write_text(LINE.format(key="n", ref="https://bsky.app/"))
    said("import", "--url", server.url, "--dimensions", "channel", "--no-visitors", str(named))
    assert values(server, "/v1/links/n/by/channel") == {"social": 1}


def test_a_store_from_before_channels_goes_on_without_them(serve: Serve, data: Path) -> None:
    server = serve(data=data)
    with http_client(server.url) as client:
        client.post("/v1/hits", json=HITS).raise_for_status()
    server.stop()
    with closing(sqlite3.connect(data / "clickcurve.db")) as db:
        changed = db.execute("DELETE FROM meta WHERE name = 'note:since:channel'")
        assert changed.rowcount == 1
        db.commit()
    server = serve(data=data)
    with http_client(server.url) as client:
        problem = client.get("/v1/links/k/by/channel")
        assert (problem.status_code, problem.json()["rule"]) == (404, "ref, country, device, source")
        assert client.get("/v1/links/k/by/ref").json()["exact"]
    server.stop()
    server = serve("--breakdown-dimensions", "ref,channel", data=data)
    with http_client(server.url) as client:
        client.post("/v1/hits", json=HITS[0]).raise_for_status()
        assert client.get("/v1/links/k/by/channel").status_code == 200
