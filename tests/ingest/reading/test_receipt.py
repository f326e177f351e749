"""Receipts: sums, what is listed, and who is a duplicate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.reading.receipt import ONE_COUNTED, Item, Receipt
from tests.ingest.http_kit import DAY, NOW, Client, law


def numbers(receipt: dict[str, Any]) -> tuple[int, int, int, int]:
    return receipt["counted"], receipt["duplicate"], receipt["late"], receipt["refused"]


def places(receipt: dict[str, Any]) -> list[tuple[int, str]]:
    return [(item["index"], item["status"]) for item in receipt["items"]]


def test_the_receipt_of_one_counted_hit_is_constant() -> None:
    assert ONE_COUNTED == b'{"counted":1,"duplicate":0,"late":0,"refused":0,"items":[]}'


def test_a_receipt_is_json_with_its_items_in_order() -> None:
    item = Item(3, "refused", "key", 'a"b', "why")
    receipt = Receipt(1, 2, 3, 4, (item,), 5)
    assert json.loads(receipt.encode()) == {
        "counted": 1,
        "duplicate": 2,
        "late": 3,
        "refused": 4,
        "items": [{"index": 3, "status": "refused", "field": "key", "value": 'a"b', "reason": "why"}],
        "items_omitted": 5,
    }
    assert list(json.loads(Receipt(0, 0, 0, 0, ()).encode())) == ["counted", "duplicate", "late", "refused", "items"]


@pytest.mark.parametrize(
    ("receipt", "status"),
    [
        (Receipt(0, 0, 0, 0, ()), 200),
        (Receipt(1, 0, 0, 0, ()), 200),
        (Receipt(1, 0, 0, 9, ()), 200),
        (Receipt(0, 1, 0, 0, ()), 200),
        (Receipt(0, 1, 0, 9, ()), 200),
        (Receipt(0, 0, 0, 1, ()), 422),
    ],
)
def test_only_a_body_without_a_good_hit_is_a_422(receipt: Receipt, status: int) -> None:
    assert receipt.status == status


def test_at_most_1000_items_are_listed() -> None:
    body = json.dumps([{"key": ""}] * 1000 + [{"key": "good"}] + [{"key": "", "count": 2}] * 234).encode()
    receipt = Client().post(body=body).json
    assert receipt["refused"] == 1000 + 468
    assert len(receipt["items"]) == 1000
    assert receipt["items_omitted"] == 234
    exactly = Client().post(body=json.dumps([{"key": ""}] * 1000).encode()).json
    assert len(exactly["items"]) == 1000
    assert "items_omitted" not in exactly


def test_a_hit_with_an_id_counts_once() -> None:
    client = Client()
    hit = {"key": "a", "id": "1", "count": 7}
    assert numbers(client.send(hit).json) == (7, 0, 0, 0)
    again = client.send(hit)
    assert again.status == 200
    assert numbers(again.json) == (0, 7, 0, 0)
    assert again.json["items"] == [
        {"index": 0, "status": "duplicate", "field": "id", "value": "1", "reason": "this id was counted before"}
    ]
    assert client.intake.total == 7


def test_a_later_hit_with_an_id_of_the_same_batch_is_a_duplicate() -> None:
    client = Client()
    hits = [{"key": "a", "id": "1"}, {"key": "b"}, {"key": "c", "id": "1", "count": 5}, {"key": "a", "id": "2"}]
    receipt = client.send(hits).json
    assert numbers(receipt) == (3, 5, 0, 0)
    assert places(receipt) == [(2, "duplicate")]


def test_a_refused_hit_does_not_use_up_its_id() -> None:
    client = Client()
    receipt = client.send([{"key": "", "id": "1"}, {"key": "a", "id": "1"}]).json
    assert numbers(receipt) == (1, 0, 0, 1)


def test_a_batch_with_an_idempotency_key_counts_once() -> None:
    client = Client()
    hits = [{"key": "a"}, {"key": "b", "count": 4, "bot": True}, {"key": ""}, {"key": "c", "ts": DAY - 5}]
    first = client.send(hits, idempotency_key="batch-1")
    assert numbers(first.json) == (6, 0, 1, 1)
    again = client.send(hits, idempotency_key="batch-1")
    assert again.status == 200
    assert numbers(again.json) == (0, 6, 0, 1)
    assert places(again.json) == [(0, "duplicate"), (1, "duplicate"), (2, "refused"), (3, "duplicate")]
    assert again.json["items"][0]["field"] == "Idempotency-Key"
    assert again.json["items"][0]["value"] == "batch-1"
    assert numbers(client.send(hits, idempotency_key="batch-2").json) == (6, 0, 1, 1)


def test_ids_inside_a_named_batch_stand_for_their_hits() -> None:
    client = Client()
    hits = [{"key": "a"}, {"key": "b", "id": "1"}]
    assert numbers(client.send(hits, idempotency_key="x").json) == (2, 0, 0, 0)
    assert numbers(client.send(hits, idempotency_key="x").json) == (0, 2, 0, 0)
    assert numbers(client.send(hits, idempotency_key="y").json) == (1, 1, 0, 0)
    assert numbers(client.send(hits).json) == (1, 1, 0, 0)


def test_names_of_batches_and_ids_of_hits_are_one_space() -> None:
    client = Client()
    client.send({"key": "a", "id": "same"})
    assert numbers(client.send([{"key": "a"}], idempotency_key="same").json) == (0, 1, 0, 0)
    receipt = client.send([{"key": "a", "id": "both"}, {"key": "b"}], idempotency_key="both").json
    assert numbers(receipt) == (1, 1, 0, 0)
    assert places(receipt) == [(0, "duplicate")]


def test_a_named_batch_without_a_good_hit_does_not_use_up_its_name() -> None:
    client = Client()
    assert client.send([{"key": ""}], idempotency_key="x").status == 422
    assert client.send([], idempotency_key="x").status == 200
    assert numbers(client.send([{"key": "a"}], idempotency_key="x").json) == (1, 0, 0, 0)


def test_a_repeated_large_batch_lists_the_first_duplicates() -> None:
    client = Client()
    hits = [{"key": "a"}] * 10 + [{"key": ""}] * 600 + [{"key": "a"}] * 900 + [{"key": ""}] * 600
    client.send(hits, idempotency_key="x")
    receipt = client.send(hits, idempotency_key="x").json
    assert numbers(receipt) == (0, 910, 0, 1200)
    expected = [(i, "refused" if 10 <= i < 610 else "duplicate") for i in range(1000)]
    assert places(receipt) == expected
    assert receipt["items_omitted"] == 1110


@law
@given(
    st.lists(
        st.tuples(st.sampled_from(["plain", "late", "refused", "id", "again", "known"]), st.integers(1, 9)), max_size=30
    ),
    st.booleans(),
    st.booleans(),
    st.integers(1, 12),
)
def test_every_hit_is_in_the_sums_once_and_every_failure_in_the_items(
    kinds: list[tuple[str, int]], named: bool, repeated: bool, limit: int
) -> None:
    client = Client(receipt_items=limit)
    client.send([{"key": "k", "id": f"known-{place}"} for place in range(30)])
    hits: list[dict[str, Any]] = []
    for place, (kind, count) in enumerate(kinds):
        extras: dict[str, dict[str, Any]] = {
            "plain": {},
            "late": {"ts": DAY - 1},
            "refused": {"ts": NOW + 999},
            "id": {"id": f"new-{place}"},
            "again": {"id": "again"},
            "known": {"id": f"known-{place}", "ts": 0},
        }
        hits.append({"key": "a", "count": count} | extras[kind])
    headers = {"idempotency_key": "name"} if named else {}
    if repeated:
        client.send(hits, **headers)
    before = client.intake.total
    receipt = client.send(hits, **headers).json

    seen, expected, sums = set(), [], {"counted": 0, "duplicate": 0, "late": 0, "refused": 0}
    for place, (kind, count) in enumerate(kinds):
        twice = kind == "known" or (kind == "again" and kind in seen)
        twice = twice or (repeated and kind in ("id", "again")) or (repeated and named and kind in ("plain", "late"))
        status = "refused" if kind == "refused" else "duplicate" if twice else "counted"
        seen.add(kind)
        sums[status] += count
        sums["late"] += count if kind == "late" and status == "counted" else 0
        if status != "counted":
            expected.append((place, status))
    assert receipt | sums == receipt
    assert places(receipt) == expected[:limit]
    assert receipt.get("items_omitted", 0) == max(0, len(expected) - limit)
    assert client.intake.total - before == sums["counted"]
