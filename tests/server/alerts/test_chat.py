"""What Slack and Discord get: text alone, whatever a link's key says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import SettingInvalid
from server.alerts.chat import chat_body
from server.alerts.message import FIRED, AlertMessage
from server.settings.alerts import Shape, parse_alerts
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.alerts.receivers import Hooks, served_by
from tests.server.alerts.watched import NOW, SECRET
from tests.server.conftest import wait_until

HOT = {"name": "hot", "link": "launch", "when": "over 2 in 1h", "url": "https://hooks.example/x"}


def message(**table: str) -> AlertMessage:
    (alert,) = parse_alerts([HOT | table])
    return AlertMessage("msg_1", FIRED, NOW, alert, (3, 3))


def read(body: bytes) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(body)
    return content


def test_slack_gets_text_that_is_neither_markup_nor_a_mention() -> None:
    content = read(message(shape="slack", link="<!channel> & *x*", name="a <b>").body())
    assert content == {
        "text": "Clickcurve: a &lt;b&gt; fires\nlink &lt;!channel&gt; &amp; *x*, over 2 in 1h\n"
        "It fires since 2026-03-01T23:28:30Z.\nHits in this span: 3",
        "mrkdwn": False,
    }


def test_discord_gets_text_that_mentions_nobody() -> None:
    content = read(message(shape="discord", link="@everyone **x** [y](z)").body())
    assert content["allowed_mentions"] == {"parse": []}
    assert "link @everyone \\*\\*x\\*\\* \\[y\\]\\(z\\), over 2 in 1h" in content["content"]


@given(st.text(max_size=5_000))
def test_no_message_is_longer_than_the_chat_takes(text: str) -> None:
    clean = text.encode("utf-8", "ignore").decode()
    content = read(chat_body(Shape.discord, clean))["content"]
    assert (len(content) <= 2_000 and not content.removesuffix("…").endswith("\\")) or "\\" in clean
    escaped = read(chat_body(Shape.slack, clean))["text"]
    assert not any(sign in escaped for sign in "<>")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"shape": "teams"}, "shape 'teams' is not known"),
        ({"shape": "slack", "secret": SECRET}, "leave secret out"),
        ({"shape": "slack", "url": "", "mail": "a@example.org"}, "url is missing"),
        ({"shape": "standard"}, "secret is missing"),
    ],
)
def test_a_wrong_shape_is_refused(table: dict[str, str], said: str) -> None:
    with pytest.raises(SettingInvalid, match=said):
        parse_alerts([HOT | table])


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    server = Hooks()
    with served_by(server):
        yield server


def test_a_server_posts_unsigned_json_to_a_chat(tmp_path: Path, hooks: Hooks) -> None:
    config = tmp_path / "clickcurve.toml"
    lines = [f'{name} = "{value}"' for name, value in (HOT | {"url": hooks.url, "shape": "slack"}).items()]
    config.write_text("\n".join(["[[alerts]]", *lines]) + "\n")
    server = RunningServer(tmp_path / "data", "--config", str(config), module="tests.server.alerts.quick")
    with server, Clickcurve(server.url) as client:
        client.send({"key": "launch", "count": 3})
        wait_until(lambda: bool(hooks.got))
    headers, body = hooks.got[0]
    assert headers["content-type"] == "application/json"
    assert not [name for name in headers if name.startswith("webhook-")]
    assert "Clickcurve: hot fires\nlink launch, over 2 in 1h\n" in read(body)["text"]
