"""Alerts of a real server, through kill -9; mail by SMTP; `clickcurve alerts test`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from server import clock
from server.alerts.mail import Mail, MailServer
from server.alerts.webhook import NotDelivered
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.alerts.receivers import Hooks, MailBox, served_by
from tests.server.alerts.watched import NOW, SECRET
from tests.server.commands import said
from tests.server.conftest import events, wait_until
from tests.server.process.test_dead_workers import without_parent
from tests.storage.cassandra.test_serve import total

MAIL = Mail("msg_7", ("a@example.org", "b@example.org"), "Clickcurve: ü fires", "It fires.\n.\n", NOW)


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    server = Hooks()
    with served_by(server):
        yield server


@pytest.fixture
def box() -> Iterator[MailBox]:
    server = MailBox()
    with served_by(server):
        yield server


def settings_file(folder: Path, hooks: Hooks, more: str = "") -> Path:
    file = folder / "clickcurve.toml"
    alert = {"name": "hot", "link": "launch", "when": "over 2 in 1h", "url": hooks.url, "secret": SECRET}
    lines = [more, "[[alerts]]", *(f'{name} = "{value}"' for name, value in alert.items())]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.slow
def test_an_alert_is_said_once_through_a_kill(tmp_path: Path, hooks: Hooks) -> None:
    file = settings_file(tmp_path, hooks)
    server = RunningServer(tmp_path / "data", "--config", str(file), module="tests.server.alerts.quick")
    hooks.refusing = 1
    with server, Clickcurve(server.url) as client:
        client.send({"key": "launch", "count": 3, "ref": "https://t.co/abc"})
        wait_until(lambda: bool(events(server, "alert not delivered")))
        server.kill()
        server.start()
        wait_until(lambda: bool(hooks.got))
        wait_until(lambda: client.metric("clickcurve_alert_messages_total") >= 1)
        assert client.metric("clickcurve_alerts_firing") == 1
        runs = client.metrics()['clickcurve_job_runs_total{job="alerts",journal="journal-1"}']
        wait_until(lambda: client.metrics()['clickcurve_job_runs_total{job="alerts",journal="journal-1"}'] > runs + 2)
    (one,) = hooks.got
    headers, body = one
    said_once = Webhook(SECRET).verify(body, headers)
    assert said_once["type"] == "alert.fired"
    assert said_once["data"]["cause"] == {"dimension": "ref", "value": "x.com", "at_least": 3, "at_most": 3}
    failed = events(server, "alert not delivered")[0]
    assert (failed["id"], failed["reason"]) == (headers["webhook-id"], "the answer was 503")
    assert len(events(server, "alert")) == 1


def test_a_message_that_a_dead_worker_had_to_send_is_sent_by_a_sibling(tmp_path: Path, hooks: Hooks) -> None:
    file = settings_file(tmp_path, hooks)
    flags = ("--config", str(file), "--workers", "2", "--flush-s", "1")
    server = RunningServer(tmp_path / "data", *flags, module="tests.server.alerts.quick")
    hooks.refusing = 1_000_000
    with server, Clickcurve(server.url) as client:
        client.send({"key": "launch", "count": 3})
        wait_until(lambda: bool(events(server, "alert not delivered")))
        with without_parent(server):
            holder = int(events(server, "duty taken")[-1]["held_by"].rpartition(":")[2])
            os.kill(holder, signal.SIGKILL)
            hooks.refusing = 0
            wait_until(lambda: bool(hooks.got))
    ids = {event["id"] for event in events(server, "alert not delivered")}
    assert ids == {headers["webhook-id"] for headers, _ in hooks.got}
    assert len(ids) == len(events(server, "alert")) == 1, "it was judged once"


@pytest.mark.needs("cassandra")
def test_three_servers_on_a_cluster_say_it_once_and_another_goes_on_when_the_holder_is_lost(
    tmp_path: Path, hooks: Hooks, cassandra_uri: str
) -> None:
    """With journals on disks: what the lost one has left on its own does not matter."""
    flags = ("--config", str(settings_file(tmp_path, hooks)), "--store", cassandra_uri, "--flush-s", "1")
    with ExitStack() as stack:
        servers = [RunningServer(tmp_path / f"{n}", *flags, module="tests.server.alerts.quick") for n in range(3)]
        for server in servers:
            stack.enter_context(server)
        with Clickcurve(servers[0].url) as client:
            client.send({"key": "launch", "count": 3})
        wait_until(lambda: bool(hooks.got))
        wait_until(lambda: [total(server) for server in servers] == [3, 3, 3])
        holder, *others = sorted(servers, key=lambda server: not events(server, "duty taken"))
        holder.kill()
        wait_until(lambda: any(events(server, "duty taken") for server in others))
        with Clickcurve(others[0].url) as client:
            client.http.delete("/v1/links/launch").raise_for_status()
        wait_until(lambda: json.loads(hooks.got[-1][1])["type"] == "alert.over")
        judged = [event["firing"] for server in servers for event in events(server, "alert")]
        assert len(judged) == len(set(judged)), "each change once, by one of them"
    # A server that is suspended while it sends may lose the duty then: another one sends the same message.
    by_id = {headers["webhook-id"]: json.loads(body)["type"] for headers, body in hooks.got}
    assert [*by_id.values()] == ["alert.fired", "alert.over"]


def test_a_wrong_alert_stops_the_start_in_a_sentence(tmp_path: Path, hooks: Hooks) -> None:
    file = settings_file(tmp_path, hooks)
    file.write_text(file.read_text().replace("over 2", "above 2"))
    text = said("serve", "--config", str(file), code=2)
    assert "alert 1: when 'above 2 in 1h' is not a condition" in text
    assert SECRET not in text


def test_a_test_message_goes_on_every_way(tmp_path: Path, hooks: Hooks, box: MailBox) -> None:
    file = settings_file(tmp_path, hooks, f'smtp = "{box.address}"\nmail_from = "alerts@example.org"')
    by_mail = '[[alerts]]\nname = "by mail"\nwhen = "silent for 1d"\nmail = "ann@example.org"\n'
    file.write_text(file.read_text() + by_mail)
    text = said("alerts", "test", "--config", str(file), "--json")
    assert [(one["alert"], one["way"], one["sent"]) for one in map(json.loads, text.splitlines())] == [
        ("hot", "url", True),
        ("by mail", "mail", True),
    ]
    headers, body = hooks.got[0]
    assert Webhook(SECRET).verify(body, headers)["type"] == "alert.test"
    sender, to, mail = box.got[0]
    assert (sender, to) == ("alerts@example.org", ["ann@example.org"])
    assert "This is a test: nothing happened" in mail
    hooks.refusing = 1
    assert "hot, by url: the answer was 503" in said("alerts", "test", "hot", "--config", str(file), code=1)
    assert "no alert 'cold'" in said("alerts", "test", "cold", "--config", str(file), code=2)
    assert "have no alerts" in said("alerts", "test", code=2)


def test_what_alerts_would_have_done_is_said(tmp_path: Path, hooks: Hooks, serve: Serve, data: Path) -> None:
    file = settings_file(tmp_path, hooks)
    all_links = f'[[alerts]]\nname = "all"\nwhen = "over 7 in 5m"\nurl = "{hooks.url}"\nsecret = "{SECRET}"\n'
    group = all_links.replace('"all"', '"spring"\ngroup = "spring"').replace("over 7 in 5m", "silent for 1h")
    file.write_text(file.read_text() + all_links + group)
    server = serve("--ladder", "60:5,3600:31,month", data=data)  # two hours ago may be yesterday
    minute = int(clock.now()) // 60 * 60 - 7_200
    with Clickcurve(server.url) as client:
        client.send(
            [{"key": "launch", "ts": minute, "count": 9, "groups": ["spring"]}, {"key": "launch", "ts": "2020-01"}]
        )
    asked = ("alerts", "try", "--config", str(file), "--url", server.url, "--last", "3d")
    hot, every, spring = map(json.loads, said(*asked, "--json").splitlines())
    assert (hot["alert"], hot["of"], hot["when"]) == ("hot", "link launch", "over 2 in 1h")
    assert hot["periods"] == [{"from": minute, "to": minute + 3_600, "state": "firing"}]
    assert every["periods"] == [{"from": minute, "to": minute + 300, "state": "firing"}]
    assert [period["from"] for period in spring["periods"]] == [minute + 3_600]
    text = said(*asked, "hot")
    assert text.startswith("hot: link launch, over 2 in 1h, 20") and "  firing   20" in text
    assert text.endswith("UTC\n  it would have fired 1 time\n")
    assert "no alert 'cold'" in said(*asked, "cold", code=2)
    assert not hooks.got, "nothing is sent"


def test_a_mail_is_written_as_it_should_be(box: MailBox) -> None:
    asyncio.run(MailServer(box.address, "alerts@example.org").send(MAIL))
    sender, to, text = box.got[0]
    assert (sender, to) == ("alerts@example.org", ["a@example.org", "b@example.org"])
    assert "Message-ID: <msg_7@clickcurve>" in text
    assert "Auto-Submitted: auto-generated" in text
    assert "Date: Sun, 01 Mar 2026 23:28:30 -0000" in text
    assert text.count("\r\n..\r\n") == 1, "a dot alone ends no mail"


def test_a_mail_that_was_not_taken_is_not_delivered(box: MailBox) -> None:
    with pytest.raises(NotDelivered, match="refused"):
        asyncio.run(MailServer(box.address, "x@y").send(Mail("1", ("nobody@y", "a@y"), "s", "t", NOW)))
    with pytest.raises(NotDelivered, match="the mail server"):
        asyncio.run(MailServer("smtp://127.0.0.1:1", "x@y").send(MAIL))
    with pytest.raises(NotDelivered, match="names no server"):
        asyncio.run(MailServer("", "x@y").send(MAIL))
