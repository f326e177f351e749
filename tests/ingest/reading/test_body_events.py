"""CloudEvents batches: the data is a hit, its identity is source and id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingest.hit import is_id
from ingest.reading.body import Media
from ingest.reading.json_hit import joined_id
from tests.ingest.http_kit import MINUTE, NOW, Client, law
from tests.ingest.reading.test_body import receipt_of, sums_from

EVENTS = "application/cloudevents-batch+json"


def event(**fields: Any) -> dict[str, Any]:
    whole = {"specversion": "1.0", "type": "hit", "source": "/shortener", "id": "1", "data": {"key": "a"}} | fields
    return {name: value for name, value in whole.items() if value != "left out"}


def batch_of(*events: object) -> Any:
    return sums_from(json.dumps(events).encode(), Media.events).batch()


def refused_fields(*events: object) -> list[str | None]:
    return [
        item.field for item in receipt_of(json.dumps(events).encode(), Media.events).items if item.status == "refused"
    ]


def test_an_event_is_a_hit_with_an_id() -> None:
    (one,) = batch_of(event(data={"key": "a", "ts": NOW - 60, "count": 3, "bot": True})).identified
    assert (one.id, one.people, one.bots) == ("/shortener 1", {}, {MINUTE - 60: {"a": 3}})


def test_subject_and_time_fill_what_data_leaves_out() -> None:
    first, second, third = batch_of(
        event(id="1", subject="s", time="2026-01-01T11:00:00+00:00", data="left out"),
        event(id="2", subject="s", time="2026-01-01T11:00:00Z", data={"key": "k", "ts": NOW}),
        event(id="3", subject="s", time=None, data={"key": None, "ts": None}),
    ).identified
    assert first.people == {MINUTE - 3600: {"s": 1}}
    assert second.people == {MINUTE: {"k": 1}}
    assert third.people == {MINUTE: {"s": 1}}


def test_an_id_inside_the_data_is_not_looked_at() -> None:
    (one,) = batch_of(event(data={"key": "a", "id": "x y" * 100})).identified
    assert one.id == "/shortener 1"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"specversion": "left out"}, "specversion"),
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": 1.0}, "specversion"),
        ({"source": "left out"}, "source"),
        ({"source": ""}, "source"),
        ({"source": 7}, "source"),
        ({"id": "left out"}, "id"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"id": {"a": 1}}, "id"),
        ({"data": "x"}, "data"),
        ({"data": [{"key": "a"}]}, "data"),
        ({"data": 1}, "data"),
        ({"data": "left out", "data_base64": "e30="}, "data_base64"),
        ({"data": {}}, "key"),
        ({"data": {}, "subject": 7}, "key"),
        ({"data": {}, "subject": ""}, "key"),
        ({"data": {"key": "\ud800"}}, "key"),
        ({"time": "yesterday"}, "ts"),
        ({"time": NOW * 1000}, "ts"),
        ({"data": {"key": "a", "count": 0}}, "count"),
    ],
)
def test_an_odd_event_is_refused_alone(fields: dict[str, Any], field: str) -> None:
    odd = event(**fields)
    assert refused_fields(odd) == [field]
    assert refused_fields(event(id="8"), odd, event(id="9")) == [field]


@pytest.mark.parametrize("odd", [1, None, "x", [], [[event()]], {}])
def test_what_is_no_event_is_refused_alone(odd: object) -> None:
    assert len(refused_fields(event(id="8"), odd, event(id="9"))) == 1


def test_type_and_extensions_are_not_looked_at() -> None:
    assert refused_fields(event(type="left out"), event(id="2", datacontenttype="text/x", comexample={"a": [1]})) == []


def test_a_refused_event_sums_as_its_count() -> None:
    events = [event(specversion="2", data={"key": "a", "count": 5}), event(source="", data={"key": "a", "count": 30})]
    assert receipt_of(json.dumps(events).encode(), Media.events).refused == 35


def test_events_are_known_again_by_source_and_id() -> None:
    client = Client()
    events = [event(id="1"), event(id="2"), event(source="/other", id="1"), event(id="1", data={"key": "other"})]
    first = client.send(events, EVENTS).json
    assert (first["counted"], first["duplicate"]) == (3, 1)
    assert first["items"] == [
        {"index": 3, "status": "duplicate"} | {k: first["items"][0][k] for k in ("field", "value", "reason")}
    ]
    assert (first["items"][0]["field"], first["items"][0]["value"]) == ("id", "1")
    again = client.send(events[:3], EVENTS + "; charset=utf-8")
    assert again.status == 200
    assert (again.json["counted"], again.json["duplicate"]) == (0, 3)
    assert client.intake.total == 3


def test_a_single_event_is_a_batch_of_one_and_an_empty_batch_is_fine() -> None:
    assert receipt_of(json.dumps(event()).encode(), Media.events).counted == 1
    assert receipt_of(b"[]", Media.events).status == 200


def test_many_events_are_read_in_pieces() -> None:
    body = json.dumps([event(id=str(number)) for number in range(5000)]).encode()
    assert receipt_of(body, Media.events, 4096).counted == 5000


texts = st.text(min_size=1, max_size=80) | st.text(alphabet="a /", min_size=1, max_size=5)


@law
@given(texts, texts, texts, texts)
def test_no_two_events_share_an_id(source: str, event_id: str, other_source: str, other_id: str) -> None:
    assume((source, event_id) != (other_source, other_id))
    assert joined_id(source, event_id) != joined_id(other_source, other_id)


@law
@given(texts, texts)
def test_no_event_has_the_id_of_a_plain_hit(source: str, event_id: str) -> None:
    joined = joined_id(source, event_id)
    assert joined == joined_id(source, event_id)
    assert not is_id(joined)
    assert 3 <= len(joined) <= 128
    assert all(" " <= character <= "~" for character in joined)
