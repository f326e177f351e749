"""A receiver that never ends its answer costs a bounded time and memory, and silences no other alert."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import repeat
from threading import Event
from typing import Any

import pytest

from server.alerts import mail, webhook
from server.alerts.mail import Mail, MailServer
from server.alerts.webhook import NotDelivered, Webhooks, webhook_client
from server.clock import now
from tests.server.alerts.receivers import Hooks, HostileReceiver, served_by
from tests.server.alerts.watched import NOW, Receiver, WatchedNode

MIB = 1 << 20
ALERTS = ({"name": "stuck", "link": "a", "when": "over 1 in 1h"}, {"name": "fine", "link": "b", "when": "over 1 in 1h"})


def post(url: str) -> None:
    asyncio.run(Webhooks(webhook_client, now).send(url, b"k" * 24, "msg_1", b"{}"))


def drops() -> Iterator[bytes]:
    """One byte after the other, each in time for a limit that holds for single reads."""
    never = Event()
    while True:
        never.wait(0.02)
        yield b"2"


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "EXCHANGE_S", 0.3)
    server = HostileReceiver(drops)
    with served_by(server), pytest.raises(NotDelivered, match=r"no answer within 0\.3 s"):
        post(f"http://127.0.0.1:{server.port}/")


def test_the_body_of_an_answer_is_not_read() -> None:
    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from repeat(bytes(MIB), 500)

    server = HostileReceiver(endless)
    with served_by(server):
        post(f"http://127.0.0.1:{server.port}/")
    assert server.sent_bytes < 20 * MIB, "what fits the kernel's buffers"


def test_no_compressed_answer_is_asked_for() -> None:
    hooks = Hooks()
    with served_by(hooks):
        post(hooks.url)
    headers, _ = hooks.got[0]
    assert headers["accept-encoding"] == "identity"


def test_a_mail_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "EXCHANGE_S", 0.3)
    server = HostileReceiver(drops)
    with served_by(server), pytest.raises(NotDelivered, match=r"not done within 0\.3 s"):
        asyncio.run(MailServer(f"smtp://127.0.0.1:{server.port}", "x@y").send(Mail("1", ("a@y",), "s", "t", NOW)))


class StuckFor(Receiver):
    """Never ends to take what the alert `stuck` says."""

    async def send(self, *given: Any) -> None:
        if b'"stuck"' in given[-1]:
            await asyncio.Event().wait()
        await super().send(*given)


def test_an_alert_is_said_while_another_ones_receiver_hangs() -> None:
    node = WatchedNode(*ALERTS)
    node.receiver = StuckFor()
    node.restart()
    node.nodes.hit("a", NOW - 60, 5)

    firing: dict[str, bool] = {}

    async def story() -> list[str]:
        await node.watch.visit()
        node.nodes.hit("b", NOW - 60, 5)
        await node.watch.visit()
        while not node.receiver.posts:
            await asyncio.sleep(0)
        firing.update(node.watch.firing)
        await node.watch.close()
        return [message_id for message_id, _ in node.receiver.posts]

    assert asyncio.run(asyncio.wait_for(story(), 600)) == ["msg_2"]
    assert firing == {"stuck": True, "fine": True}
