"""Rules for bots in a real server: at its doors, after SIGHUP, and after kill -9."""

from __future__ import annotations

import signal
from pathlib import Path

from testing.client import http_client
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
LINE = '198.51.100.1 - - [17/May/2026:10:05:03 +0000] "GET /k HTTP/1.1" 302 0 "https://{ref}/" "' + BROWSER + '"\n'


def test_exceptions_give_back_hits_at_every_door_until_others_are_read(serve: Serve, tmp_path: Path) -> None:
    config, log = tmp_path / "clickcurve.toml", tmp_path / "access.log"
    config.write_text('[breakdown]\ndimensions = ["bot", "bot_kind"]\n[bots]\npeople = ["OurApp"]\n')
    server = serve("--config", str(config), "--flush-s", "3600")
    ours, other = {"key": "k", "ua": "OurApp/1 (https://our.example/)"}, {"key": "k", "ua": "OtherApp/1 preview"}
    with http_client(server.url) as client:
        client.post("/v1/hits", json=ours).raise_for_status()
        client.post("/v1/hits", json=[ours] * 8 + [other] * 2 + [{**ours, "bot": True}]).raise_for_status()
        line = LINE.replace(BROWSER, "{ua}")
        log.write_text(line.format(ref="a.example", **ours) * 3 + line.format(ref="a.example", **other))
        said("import", "--url", server.url, str(log))
        config.write_text(config.read_text().replace("OurApp", "OtherApp"))
        server.signal(signal.SIGHUP)
        wait_until(lambda: bool(events(server, "rules for bots reloaded")))
        client.post("/v1/hits", json=[ours, other, other]).raise_for_status()
        summary = client.get("/v1/links/k").json()
        assert (summary["lifetime"], summary["bots"]) == (14, 5)
        kinds = client.get("/v1/links/k/by/bot_kind").json()
        assert (kinds["total"], {each["value"]: each["at_least"] for each in kinds["values"]}) == (
            5,
            {"preview": 3, "other_bot": 2},
        )


def test_rules_take_hits_at_every_door_until_others_are_read(serve: Serve, tmp_path: Path) -> None:
    config, log = tmp_path / "clickcurve.toml", tmp_path / "access.log"
    config.write_text('[breakdown]\ndimensions = ["ref", "bot"]\n[bots]\nrefs = ["spam.example"]\n')
    server = serve("--config", str(config), "--flush-s", "3600")
    spam, fine = ({"key": "k", "ref": ref} for ref in ("https://eu.spam.example/", "https://news.example/"))
    with http_client(server.url) as client:
        client.post("/v1/hits", json=spam).raise_for_status()
        client.post("/v1/hits", json=[spam] * 8 + [fine] * 2).raise_for_status()
        event = {
            "name": "pageview",
            "url": "https://s.example/k",
            "domain": "s.example",
            "referrer": "http://spam.example/",
        }
        client.post("/api/event", json=event, headers={"user-agent": BROWSER}).raise_for_status()
        log.write_text(LINE.format(ref="spam.example") * 3 + LINE.format(ref="news.example"))
        said("import", "--url", server.url, str(log))
        config.write_text(config.read_text().replace("spam.example", "news.example"))
        server.signal(signal.SIGHUP)
        wait_until(lambda: bool(events(server, "rules for bots reloaded")))
        assert not events(server, "settings changed")
        client.post("/v1/hits", json=[spam, fine]).raise_for_status()
    server.kill()
    with http_client(serve("--config", str(config)).url) as client:
        summary = client.get("/v1/links/k").json()
        assert (summary["lifetime"], summary["bots"]) == (4, 14)
        names = client.get("/v1/links/k/by/bot").json()["values"]
        assert {each["value"]: each["at_least"] for each in names} == {"ref:spam.example": 13, "ref:news.example": 1}
        refs = client.get("/v1/links/k/by/ref").json()["values"]
        assert {each["value"]: each["at_least"] for each in refs} == {"news.example": 3, "eu.spam.example": 1}
