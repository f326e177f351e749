"""An alert is said once, and once when it is over: also after a kill, a restart, and a receiver that was down."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from query.breakdowns.why import ChangeQueries
from server.alerts.ledger import ChangedElsewhere, Ledger
from server.alerts.report import PeriodicReport
from server.alerts.watch import GIVE_UP_S
from server.alerts.webhook import NotDelivered, signature
from server.clock import now
from server.settings.alerts import parse_alerts
from server.settings.reports import Every, Report
from storage.contract import Source
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.server.alerts.watched import NOW, SECRET, LedgerStore, Receiver, WatchedNode, unavailable
from tests.storage.stores import in_flush

OVER = {"link": "launch", "when": "over 10 in 1h"}
HOUR, DAY = 3_600, 86_400


def hot(*tables: dict[str, Any]) -> WatchedNode:
    """A node whose link has just had more hits than the alert lets pass."""
    node = WatchedNode(*(tables or (OVER,)))
    node.nodes.hit("launch", NOW - 60, 11)
    return node


def test_it_fires_once_and_is_over_once() -> None:
    node = hot()
    assert node.visit() == ["msg_1"]
    assert node.visit(20) == ["msg_1"]
    assert node.visit(HOUR) == ["msg_1", "msg_2"]
    assert node.visit(HOUR) == ["msg_1", "msg_2"]
    fired, over = (json.loads(body) for _, body in node.receiver.posts)
    assert fired == {
        "type": "alert.fired",
        "timestamp": "2026-03-01T23:28:30Z",
        "data": {
            "alert": "link launch: over 10 in 1h",
            "of": "link launch",
            "when": "over 10 in 1h",
            "firing": True,
            "from": NOW + 30 - HOUR,
            "to": NOW + 30,
            "at_least": 11,
            "at_most": 11,
        },
    }
    assert (over["type"], over["data"]["firing"], over["data"]["at_most"]) == ("alert.over", False, 0)


def test_a_restart_neither_forgets_nor_repeats() -> None:
    node = hot()
    node.visit()
    node.restart()
    assert node.visit(20) == ["msg_1"]
    node.restart()
    assert node.visit(HOUR) == ["msg_1", "msg_2"]
    assert node.store.changes == 4, "fired, said, over, said"


def test_what_was_noted_and_not_said_is_said_after_a_restart_with_the_same_id() -> None:
    node = hot()
    node.receiver.faults = ["fail"]
    assert node.visit() == []
    node.restart()
    assert node.visit(1) == ["msg_1"]


def test_a_kill_after_the_delivery_repeats_the_same_message() -> None:
    node = hot()
    node.receiver.faults = ["killed after"]
    node.visit()
    node.restart()
    assert node.visit(1) == ["msg_1", "msg_1"]
    (first, second) = node.receiver.posts
    assert first == second, "the receiver can tell by the id, and by every byte"


def test_a_message_that_failed_is_sent_again_later_and_later_with_the_same_id() -> None:
    node = hot()
    node.receiver.faults = ["fail"] * 3
    assert node.visit() == []
    assert node.visit(4) == [], "five seconds are not over"
    assert node.receiver.faults == ["fail"] * 2
    node.visit(2)
    assert node.receiver.faults == ["fail"]
    node.visit(59)
    assert node.receiver.faults == ["fail"]
    node.visit(2)
    assert node.receiver.faults == []
    assert node.visit(301) == ["msg_1"]
    assert node.watch.messages == {"failed": 3, "delivered": 1}


def test_a_receiver_that_stays_down_is_given_up_and_the_next_change_is_said() -> None:
    node = hot()
    node.receiver.faults = ["fail"] * 2
    node.visit()
    assert node.visit(GIVE_UP_S + 1) == []
    assert node.watch.messages["given up"] == 1
    assert node.visit(20) == ["msg_2"], "it is over since long"


def test_each_way_is_tried_by_itself() -> None:
    node = hot(OVER | {"url": "https://hooks.example/x", "secret": SECRET, "mail": ["a@example.org", "b@example.org"]})
    node.receiver.faults = ["fail"]  # the webhook
    assert node.visit() == []
    (mail,) = node.receiver.mails
    assert (mail.id, mail.to) == ("msg_1", ("a@example.org", "b@example.org"))
    assert mail.subject == "Clickcurve: link launch: over 10 in 1h fires"
    assert "Hits in this span: 11" in mail.text
    assert node.visit(6) == ["msg_1"]
    assert len(node.receiver.mails) == 1


def test_two_alerts_stand_side_by_side_and_all_kinds_of_subjects_are_watched() -> None:
    node = WatchedNode(
        OVER,
        {"group": "spring", "when": "over 2 in 1h"},
        {"when": "over 100 in 1h"},
        {"name": "quiet", "link": "old", "when": "silent for 48h"},
        {"name": "rise", "link": "launch", "when": "3x of before in 24h"},
    )
    node.nodes.hit("old", NOW - 3 * DAY, 5)
    node.nodes.hit("launch", NOW - 30 * HOUR, 3)
    node.nodes.hit("launch", NOW - 120, 9, groups=("spring",))
    node.visit()
    names = {json.loads(body)["data"]["alert"] for _, body in node.receiver.posts}
    assert names == {"group spring: over 2 in 1h", "quiet", "rise"}
    rise = next(json.loads(body)["data"] for _, body in node.receiver.posts if b"rise" in body)
    assert (rise["at_least"], rise["before_at_least"], rise["before_at_most"]) == (9, 3, 3)
    assert sum(node.watch.firing.values()) == 3


def test_nothing_is_decided_where_a_bucket_is_cut() -> None:
    node = WatchedNode({"link": "week", "when": "over 10 in 7d"})
    for minutes in (-40, 25):  # hits at both ends of the hour in which the span begins
        node.nodes.hit("week", NOW - 7 * DAY + minutes * 60, 6 if minutes < 0 else 11)
    node.nodes.hit("week", NOW - 3 * DAY)
    assert node.visit() == []
    node.nodes.hit("week", NOW, 10)
    assert node.visit() == ["msg_1"]
    node.nodes.now += 3 * DAY
    assert node.visit() == ["msg_1"], "eleven are certain still"


def test_of_two_nodes_that_judge_at_the_same_time_one_says_it() -> None:
    """As when one was suspended, lost the duty and woke: the other one has changed the state that it read."""
    one = hot()
    other = WatchedNode(OVER, store=one.store)
    other.nodes.hit("launch", NOW - 60, 11)

    async def both() -> None:
        alert = one.alerts[0]
        entry = await one.watch.ledger.read(alert.source)
        await other.watch.visit()
        with pytest.raises(ChangedElsewhere):
            await one.watch._judge(alert, entry)
        await asyncio.gather(*other.watch._under_way.values())

    asyncio.run(both())
    assert (one.visit(20), other.visit(20)) == ([], ["msg_1"])


@pytest.mark.parametrize("skew_s", [180, -180])
def test_clocks_that_differ_by_minutes_make_no_change_when_another_server_goes_on(skew_s: int) -> None:
    one = hot()
    other = WatchedNode(OVER, store=one.store)
    other.nodes.hit("launch", NOW - 60, 11)
    other.nodes.now += skew_s
    assert one.visit() == ["msg_1"]
    for after_s in (20, 60, 120):
        assert other.visit(after_s) == []
    assert one.visit(200) == ["msg_1"]
    assert other.visit(HOUR) == ["msg_1"], "of its own: it is over"
    assert json.loads(other.receiver.posts[0][1])["type"] == "alert.over"
    assert one.visit(HOUR) == ["msg_1"]


def test_a_clock_that_was_wrong_by_days_stops_no_alert() -> None:
    node = hot()
    node.nodes.now += 3 * DAY
    node.nodes.hit("launch", node.nodes.now - 60, 11)
    assert node.visit() == ["msg_1"]
    node.nodes.now = NOW + 2 * HOUR
    assert node.visit() == ["msg_1", "msg_2"]


def test_a_state_that_was_stored_and_not_confirmed_is_found_at_the_next_visit() -> None:
    node = hot()
    node.store.after = unavailable()
    with pytest.raises(StoreUnavailable):
        node.visit()
    node.store.after = None
    assert node.visit(20) == ["msg_1"]
    assert node.store.changes == 2, "fired, said"


def test_a_message_that_arrived_is_not_sent_again_while_that_cannot_be_noted() -> None:
    node = hot()
    node.receiver.faults = ["then the store is down"]
    assert node.visit() == ["msg_1"]
    node.store.failure = None
    assert node.visit(20) == ["msg_1"]
    assert not json.loads(node.store.noted(f"ledger:{node.alerts[0].source}") or "")[3], "nothing is due"


def test_the_state_of_version_0_2_0_goes_on() -> None:
    """It was the offset of an import."""
    node = hot()
    held = in_flush(node.store)
    source = Source(held.owner, 2, json.dumps([True, NOW - 60, "msg_0", [], [11, 11]]))
    node.store.save_own(held, 1, {}, {node.alerts[0].source: source})
    assert node.visit() == []
    assert node.visit(HOUR) == ["msg_1"]
    assert json.loads(node.receiver.posts[0][1])["type"] == "alert.over"


def test_a_store_that_is_down_makes_the_job_fail_and_loses_nothing() -> None:
    node = hot()
    node.store.failure = unavailable()
    with pytest.raises(StoreUnavailable):
        node.visit()
    node.store.failure = None
    assert node.visit(20) == ["msg_1"]


def test_an_alert_that_was_changed_is_another_one() -> None:
    node = hot()
    node.visit()
    node.restart({"link": "launch", "when": "over 5 in 1h"})
    assert node.visit(20) == ["msg_1", "msg_2"]


# --- the specification -----------------------------------------------------------------------------------------------
def test_the_specifications_own_library_verifies_the_signature() -> None:
    alert = parse_alerts([OVER | {"url": "https://hooks.example/x", "secret": SECRET}])[0]
    body = '{"link":"ü"}'.encode()
    timestamp = int(now())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(alert.secret, "msg_1", timestamp, body),
    }
    assert Webhook(SECRET).verify(body, headers) == {"link": "ü"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)


# --- the settings ----------------------------------------------------------------------------------------------------
GOOD = OVER | {"url": "https://hooks.example/x", "secret": SECRET}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([GOOD | {"wen": "x"}], "alert 1: an alert has no field wen"),
        ([GOOD, GOOD], "alert 2: two alerts have the name"),
        ([{"link": "x"}], "when is missing"),
        ([OVER], "needs a url, a mail address or both"),
        ([GOOD | {"group": "x"}], "a link or a group, not both"),
        ([GOOD | {"link": ""}], "key is empty"),
        ([{"group": "g" * 65, "when": "over 1 in 1h", "mail": "a@b"}], "group is too long"),
        ([GOOD | {"url": "ftp://x"}], "url must begin with"),
        ([GOOD | {"secret": "whsec_short"}], "it must be whsec_ and 24 to 64 bytes in base64; this makes one: echo"),
        ([OVER | {"mail": "ann"}], "alert 1: mail is 'ann': it must be mail addresses"),
        ([OVER | {"mail": [1]}], r"alert 1: mail is \[1\]: it must be a text or a list of texts"),
        ([GOOD | {"secret": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}], "secret is missing or is none"),
        ([{k: v for k, v in GOOD.items() if k != "secret"}], "secret is missing or is none"),
        ([OVER | {"mail": "nobody"}], "must be mail addresses"),
        ([OVER | {"mail": "a@b\nBcc: c@d"}], "must be mail addresses"),
        ([GOOD | {"name": "a\nb"}], "cannot be printed"),
        ([GOOD | {"when": 5}], "when must be a text"),
        ({"link": "x"}, "alerts must be tables"),
    ],
)
def test_a_wrong_table_is_refused(tables: object, said: str) -> None:
    with pytest.raises(SettingInvalid, match=said) as refused:
        parse_alerts(tables)
    assert SECRET.removeprefix("whsec_") not in str(refused.value)


# --- the weekly report -----------------------------------------------------------------------------------------------
def test_each_weeks_report_is_sent_once_and_the_first_one_a_week_after_the_start() -> None:
    node = WatchedNode(OVER)
    node.nodes.hit("launch", NOW - 10 * DAY, 5)
    node.nodes.hit("launch", NOW - DAY, 7)
    node.nodes.hit("a\nb", NOW - DAY, 2)

    def report() -> PeriodicReport:
        ledger = Ledger(node.store)
        return PeriodicReport(
            Report(Every.week, ("a@example.org",)),
            node.nodes.queries,
            None,
            ledger,
            node.receiver.send,
            lambda: float(node.nodes.now),
        )

    asyncio.run(report().visit())
    assert node.receiver.mails == []
    node.nodes.now = NOW + 7 * HOUR  # Monday, 06:28
    node.receiver.faults = ["fail"]
    with pytest.raises(NotDelivered):
        asyncio.run(report().visit())
    asyncio.run(report().visit())
    asyncio.run(report().visit())
    (mail,) = node.receiver.mails
    assert mail.subject == "Clickcurve: hits from 23 February 2026 to 01 March 2026"
    assert "(UTC): 9; the week before: 5." in mail.text
    assert "7  launch  (the week before: 5)" in mail.text
    assert "2  a\\nb  (the week before: 0)" in mail.text
    node.nodes.now += 7 * DAY
    asyncio.run(report().visit())
    assert len(node.receiver.mails) == 2
    assert "No link was hit." in node.receiver.mails[1].text


def test_the_weekly_report_says_what_changed_where_hits_are_broken_down() -> None:
    nodes = AttributeNodes(NOW, {"ref": 0})
    for days, ref, count in ((10, "news.example", 40), (3, "news.example", 50), (3, "new.example", 90)):
        nodes.accept(AttributeHit("launch", NOW - days * DAY, count, said=(("ref", ref),)))
    nodes.owners[0].flush(NOW)
    why = ChangeQueries(nodes.queries, nodes.breakdowns).why
    told = []
    for asked in (why, None):
        nodes.now, ledger, receiver = NOW, Ledger(LedgerStore()), Receiver()
        report = PeriodicReport(
            Report(Every.week, ("a@b.example",)), nodes.queries, asked, ledger, receiver.send, lambda: float(nodes.now)
        )
        asyncio.run(report.visit())
        nodes.now = NOW + 7 * HOUR
        asyncio.run(report.visit())
        told.append(receiver.mails[0].text)
    assert "What changed\nReferrers explain 90\u00a0% of it: new.example +90.\nReferrers: new.example +90" in told[0]
    assert "\nLinks: launch +100\n" in told[0]
    assert "What changed" not in told[1]
