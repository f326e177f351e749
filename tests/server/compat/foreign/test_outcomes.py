"""What other products tell of leads and sales, and the event of ours that each is."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.measures import VALUE_MAX, is_event_name
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from server.compat.foreign.event import NotCounted, Product, ReadHit, read_hit
from server.compat.foreign.outcomes import Units, folded, value_of
from server.compat.foreign.products import DUB, GOATCOUNTER, MATOMO, PLAUSIBLE, POSTHOG, SEGMENT, UMAMI
from server.settings.events import NO_UNIT, Unit
from testing.client import Clickcurve, http_client
from testing.server import RunningServer

EUR = Unit("EUR", 2)
UNITS: Units = {"sale": EUR, "lead": NO_UNIT, "sign_up": NO_UNIT, "goal_7": EUR, "video_play": NO_UNIT}
URL = "https://s.test/abc"
SECRET = "whsec"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
DUB_SALE = {
    "id": "evt_2",
    "event": "sale.created",
    "createdAt": "2026-02-03T10:00:00.000Z",
    "data": {
        "eventName": "Invoice paid",
        "click": {"id": "c1", "timestamp": "2026-02-03T09:35:57.926Z", "country": "US", "referer": "news.example"},
        "link": {"domain": "dub.sh", "key": "abc"},
        "sale": {"amount": 4990, "currency": "eur", "invoiceId": "inv_1"},
    },
}
DUB_LEAD = DUB_SALE | {"event": "lead.created", "data": DUB_SALE["data"] | {"eventName": "Sign up!"}}  # type: ignore[operator]
ORDER = {
    "type": "track",
    "event": "Order Completed",
    "messageId": "m-2",
    "properties": {"url": URL, "order_id": "o1", "total": 59.9, "revenue": 49.9, "currency": "EUR"},
}


def read(product: Product, event: dict[str, Any], units: Units = UNITS) -> ReadHit:
    return read_hit(product, event, {}, HOSTS_IGNORED, units)


@pytest.mark.parametrize(
    ("product", "event", "hit"),
    [
        (
            DUB,
            DUB_SALE,
            {
                "key": "abc",
                "id": "dub:evt_2",
                "ts": "2026-02-03T10:00:00.000Z",
                "ref": "news.example",
                "country": "US",
                "event": "sale",
                "value": 4_990,
            },
        ),
        (SEGMENT, ORDER, {"key": "abc", "id": "segment:m-2", "event": "sale", "value": 4_990}),
        (SEGMENT, ORDER | {"event": "Sign-Up", "properties": {"url": URL}}, {"event": "sign_up"}),
        (SEGMENT, ORDER | {"properties": {"key": "x/y", "url": URL, "total": "7"}}, {"key": "x/y", "value": 700}),
        (MATOMO, {"url": URL, "idgoal": "0", "ec_id": "o1", "revenue": "49.9"}, {"id": "matomo:o1", "value": 4_990}),
        (MATOMO, {"url": URL, "idgoal": 7, "revenue": 5}, {"event": "goal_7", "value": 500}),
        (MATOMO, {"url": URL, "e_c": "Video", "e_a": "Play"}, {"event": "video_play"}),
        (MATOMO, {"url": URL, "e_c": "Form", "e_a": "Sign up"}, {"event": "sign_up"}),
        (UMAMI, {"type": "event", "payload": {"url": "/abc", "name": "sale", "data": {"revenue": 1}}}, {"value": 100}),
        (POSTHOG, {"event": "sign up", "uuid": "u", "properties": {"$current_url": URL}}, {"id": "posthog:u"}),
        (PLAUSIBLE, {"n": "Sale", "u": URL, "$": {"amount": "1.005", "currency": "EUR"}}, {"value": 101}),
        (PLAUSIBLE, {"name": "sale", "url": URL, "props": {"key": "launch"}}, {"key": "launch", "event": "sale"}),
    ],
)
def test_an_event_of_the_settings_is_one_of_ours(product: Product, event: dict[str, Any], hit: dict[str, Any]) -> None:
    found = read(product, event)
    assert found.hit | hit == found.hit and not found.without_value
    assert found.hit["event"] in UNITS and ("value" in hit) == ("value" in found.hit)
    assert read(product, event, {found.hit["event"]: EUR}).hit["event"] == found.hit["event"]


@pytest.mark.parametrize(("named", "key"), [({"key": "other.test/x"}, "other.test/x"), ({}, "s.test/shop")])
def test_a_key_that_an_event_names_is_whole(named: dict[str, str], key: str) -> None:
    event = {"name": "sale", "url": "https://s.test/shop", "props": named}
    assert read_hit(PLAUSIBLE, event, {}, Hosts(in_key=True), UNITS).hit["key"] == key


def test_a_name_of_its_own_is_before_what_it_stands_for() -> None:
    assert read(DUB, DUB_LEAD).hit["event"] == "sign_up"
    assert read(DUB, DUB_LEAD, {"lead": NO_UNIT}).hit["event"] == "lead"
    assert read(SEGMENT, ORDER, {**UNITS, "order_completed": EUR}).hit["event"] == "order_completed"


@pytest.mark.parametrize(
    ("product", "event", "reason"),
    [
        (DUB, DUB_SALE | {"event": "partner.enrolled"}, "kind"),
        (SEGMENT, ORDER | {"event": "Order Refunded"}, "kind"),
        (SEGMENT, ORDER | {"type": "identify"}, "kind"),
        (SEGMENT, ORDER | {"properties": {}}, "no link"),
        (MATOMO, {"url": URL, "idgoal": "0", "revenue": "9"}, "kind"),  # a cart
        (MATOMO, {"url": URL, "idgoal": 10**30}, "kind"),
        (MATOMO, {"url": URL, "ping": "1"}, "kind"),
        (GOATCOUNTER, {"path": "sale", "event": True}, "kind"),
        (POSTHOG, {"event": "$sale", "properties": {"$current_url": URL}}, "kind"),
        (PLAUSIBLE, {"n": "engagement", "u": URL}, "kind"),
        (PLAUSIBLE, {"n": "verkäufe", "u": URL}, "kind"),
    ],
)
def test_any_other_event_is_ignored(product: Product, event: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotCounted) as not_counted:
        read(product, event)
    assert not_counted.value.reason == reason


@pytest.mark.parametrize(
    ("amount", "currency", "value", "reason"),
    [
        (49.9, "EUR", 4_990, ""),
        ("49.90", "eur", 4_990, ""),
        (0.1 + 0.2, None, 30, ""),
        (0, "", 0, ""),
        (None, "USD", None, ""),
        (49.9, "USD", None, "currency"),
        (49.9, 7, None, "currency"),
        (-1, "EUR", None, "amount"),
        (-0.5, "EUR", None, "amount"),
        ("1,000.00", "EUR", None, "amount"),
        (True, "EUR", None, "amount"),
        ([], "EUR", None, "amount"),
        (float("nan"), "EUR", None, "amount"),
        (10**30, "EUR", None, "amount"),
        (VALUE_MAX / 100, "EUR", VALUE_MAX, ""),
        (VALUE_MAX / 100 + 0.01, "EUR", None, "amount"),
    ],
)
def test_an_amount_is_a_value_in_the_unit_or_none(
    amount: object, currency: object, value: int | None, reason: str
) -> None:
    assert value_of(amount, currency, EUR, in_smallest=False) == (value, reason)


@given(st.text(max_size=60), st.none() | st.integers() | st.floats() | st.text(max_size=30))
def test_any_name_and_amount_are_read(name: str, amount: object) -> None:
    assert folded(name) == "" or is_event_name(folded(name))
    value = value_of(amount, None, EUR, in_smallest=False).value
    assert value is None or 0 <= value <= VALUE_MAX


# --- served -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("outcomes")
    settings = Path(folder, "settings.toml")
    settings.write_text(
        f'dub_secret = "{SECRET}"\n[events]\nnames = ["sale"]\n[events.sale]\nunit = "EUR"\ndecimals = 2\n'
    )
    with RunningServer(folder / "data", "--config", str(settings)) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with http_client(server.url) as client:
        yield client


def sales(http: httpx.Client, key: str) -> tuple[int, int]:
    (sale,) = http.get(f"/v1/links/{key}/events").json()["events"]
    return sale["at_least"], sale["value"]["at_least"]


def test_dubs_sale_counts_once_and_is_no_click(http: httpx.Client) -> None:
    body = json.dumps(DUB_SALE).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    for _ in range(2):
        assert http.post("/v1/from/dub", content=body, headers={"Dub-Signature": signature}).status_code == 200
    assert sales(http, "abc") == (1, 4_990)
    assert http.get("/v1/links/abc/total").json()["total"] == 0


def test_plausibles_events_are_taken_whether_they_count_or_not(server: RunningServer, http: httpx.Client) -> None:
    for name, revenue in (
        ("Sale", {"amount": 2.5, "currency": "EUR"}),
        ("Sale", {"amount": 9, "currency": "USD"}),
        ("Cart", {}),
    ):
        event = {"name": name, "url": "https://s.test/shop", "domain": "s.test", "revenue": revenue}
        answer = http.post("/api/event", json=event, headers={"User-Agent": BROWSER})
        assert (answer.status_code, answer.text) == (202, "ok")
    assert sales(http, "shop") == (2, 250), "one of another currency counts without its amount"
    with Clickcurve(server.url) as client:
        ignored = {name: n for name, n in client.metrics().items() if "ignored_events_total{" in name}
    assert ignored == {
        'clickcurve_ignored_events_total{journal="journal-1",product="plausible",reason="currency"}': 1,
        'clickcurve_ignored_events_total{journal="journal-1",product="plausible",reason="kind"}': 1,
    }
